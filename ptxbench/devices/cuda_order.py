"""Which GPUs CUDA sees, in the order in which it counts them.

A process that has started CUDA cannot fork children that use it. So another process starts it and tells: this
file as a script, which needs the driver alone.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any
from uuid import UUID

_LIBRARY = "libcuda.so.1"
_NO_DEVICE = 100
# CUDA starts some boards one after the other.
_PATIENCE_S = 120
# What watches a program is not to watch the script too.
_WATCHERS = ("CUDA_INJECTION64_PATH", "LD_PRELOAD")


def cuda_order(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that CUDA sees in an environment; a MIG instance has one of its own.

    Args:
        environment: The environment. None: this process's, or what CUDA saw when the process started it.

    Raises:
        OSError: CUDA does not answer; the text says why.
    """
    if environment is None:
        try:
            return tuple(_uuids(ctypes.CDLL(_LIBRARY, mode=os.RTLD_NOLOAD | os.RTLD_NOW)))
        except OSError:
            environment = os.environ  # this process has not started CUDA
    quiet = {name: value for name, value in environment.items() if name not in _WATCHERS}
    try:
        done = subprocess.run(
            # Isolated: beside this file are modules that are called as some of Python's own.
            [sys.executable, "-I", __file__],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=quiet,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.SubprocessError as error:
        raise OSError(f"CUDA did not start within {_PATIENCE_S} s") from error
    if done.returncode:
        raise OSError(done.stderr.strip().rpartition("\n")[2])
    return tuple(done.stdout.split())


def _uuids(cuda: Any) -> list[str]:
    count, device, digits = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
    # Version 2 gives a MIG instance's own UUID, not that of its board.
    query = "cuDeviceGetUuid_v2" if hasattr(cuda, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
    _call(cuda, "cuDeviceGetCount", ctypes.byref(count))
    found = []
    for ordinal in range(count.value):
        _call(cuda, "cuDeviceGet", ctypes.byref(device), ordinal)
        _call(cuda, query, digits, device)
        found.append(f"GPU-{UUID(bytes=bytes(digits))}")
    return found


def _call(cuda: Any, function: str, *arguments: Any) -> None:
    code = getattr(cuda, function)(*arguments)
    if code:
        raise OSError(f"{function} ends with CUresult {code}")


def _main() -> None:
    """Start CUDA in this process and print the UUIDs of its GPUs."""
    try:
        cuda = ctypes.CDLL(_LIBRARY)
        code = cuda.cuInit(0)
        if code not in (0, _NO_DEVICE):
            raise OSError(f"cuInit ends with CUresult {code}")
        print(*([] if code else _uuids(cuda)))
    except OSError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    _main()
