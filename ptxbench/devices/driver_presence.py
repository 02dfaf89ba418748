"""Whether this machine has an NVIDIA driver at all, working or not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

# The driver's libraries of CUDA and NVML; a CUDA toolkit alone has neither under this name.
_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
_MISSING = "no such file"


def driver_traces(
    devices: Path = Path("/dev"), load: Callable[[str], object] = ctypes.CDLL
) -> tuple[str, ...]:
    """Return what this machine has of an NVIDIA driver: its libraries and its device files.

    A library that is there and cannot be loaded counts: the driver is broken, not absent.

    Args:
        devices: Folder of the device files.
        load: Loads a shared library by name, or raises OSError.
    """
    libraries = (name for name in _LIBRARIES if _is_there(name, load))
    return (*libraries, *sorted(str(path) for path in devices.glob("nvidia*")))


def _is_there(library: str, load: Callable[[str], object]) -> bool:
    try:
        load(library)
    except OSError as error:
        return _MISSING not in str(error).lower()
    return True
