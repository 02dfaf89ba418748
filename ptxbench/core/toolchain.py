"""Where NVIDIA's assembler and disassembler are: PyPI wheels, or a CUDA toolkit on PATH.

Where only the wheel of the library nvJitLink is installed, which takes a third of the space, that is "ptxas":
it assembles as the driver's JIT does. The two differ in how a kernel calls a routine.
"""

from __future__ import annotations

import errno
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

from ptxbench.core import nvjitlink
from ptxbench.core.errors import EndlessSourceError, RefusedModuleError, ToolError

_LIBRARY = "libnvJitLink.so"
# Wheels that have a tool, the first that is installed, and how the name of its file begins.
_WHEELS = {
    "ptxas": {"nvidia-cuda-nvcc": "ptxas", "nvidia-nvjitlink": _LIBRARY},
    "nvcc": {"nvidia-cuda-nvcc": "nvcc"},
    "nvdisasm": {"nvidia-cuda-nvdisasm": "nvdisasm"},
}
PTXAS_WHEEL = '"nvidia-cuda-nvcc>=13.0,<13.1"'
_CURES = {
    "ptxas": '"nvidia-nvjitlink>=13.0,<13.1" nvidia-cuda-nvdisasm',
    "nvcc": PTXAS_WHEEL,
    "nvdisasm": "nvidia-cuda-nvdisasm",
}
# Headers of C++ that cuda_fp16.h, cuda_bf16.h and others include.
_HEADERS_WHEEL = '"nvidia-cuda-cccl>=13.0,<13.1"'
_MISSING_HEADER = re.compile(r"error: (nv|cuda|cub|thrust)/\S+: No such file")
# Signals that end a tool for no fault of what it was given; SIGKILL: no memory was left, SIGXFSZ: a limit on
# file sizes.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGXFSZ)
_RAISE_LIMIT = "raise the limit on file sizes (`ulimit -f`)"
# The headers of a large library of templates take a second and 20 MiB.
_PREPROCESSOR_CPU_S = 3
_PREPROCESSED_BYTES = 64 << 20
_Done: TypeAlias = "subprocess.CompletedProcess[str]"
_LIMIT_PASSED = re.compile(r"(CPU time|File size) limit exceeded")


@cache
def tool_path(tool: str) -> Path:
    """Find a tool, the pinned wheel before PATH so that SASS is the same everywhere.

    Args:
        tool: "ptxas", "nvcc" or "nvdisasm".

    Raises:
        ToolError: Neither the wheel nor PATH has it.
    """
    from importlib.metadata import PackageNotFoundError, files

    for wheel, begin in _WHEELS[tool].items():
        with suppress(PackageNotFoundError):
            for file in files(wheel) or ():
                path = Path(str(file.locate()))
                if path.name.removesuffix(".13") == begin and path.is_file():
                    return path
    on_path = shutil.which(tool)
    if on_path is None:
        wheels = " or ".join(_WHEELS[tool])
        raise ToolError(
            f"{tool} not found: neither the wheel {wheels} nor a CUDA toolkit on PATH has "
            f"it; run 'pip install {_CURES[tool]}'"
        )
    return Path(on_path)


@contextmanager
def tool_folder() -> Iterator[Path]:
    """Make a temporary folder for what a tool reads and writes.

    Raises:
        ToolError: It, or a file in it, cannot be written or read.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="ptxbench-") as folder:
            yield Path(folder)
    except OSError as error:
        cure = "make room there, or name another folder by TMPDIR"
        if error.errno == errno.EFBIG:
            cure = _RAISE_LIMIT
        raise ToolError(
            f"cannot write a temporary file in {tempfile.gettempdir()}: {error.strerror or error}; {cure}"
        ) from error


@cache
def tool_version(tool: str) -> str:
    """Return the version of a tool, such as "13.0.88"."""
    if _is_library(tool_path(tool)):
        from importlib.metadata import version

        return version("nvidia-nvjitlink")
    text = run_tool(tool, ["--version"])
    match = re.search(r"V(\d+\.\d+\.\d+)", text)
    return match.group(1) if match else "unknown"


def assembler_name() -> str:
    """Return which assembler it is, with its version: "nvJitLink 13.0.88" or "ptxas 13.0.88"."""
    name = "nvJitLink" if _is_library(tool_path("ptxas")) else "ptxas"
    return f"{name} {tool_version('ptxas')}"


def tool_command(tool: str) -> list[str]:
    """Return the words that start a tool, before its arguments.

    Raises:
        ToolError: As `tool_path`.
    """
    path = tool_path(tool)
    # Neither the user's environment nor installed packages: the script needs Python alone.
    return [*([sys.executable, "-I", "-S", nvjitlink.__file__] if _is_library(path) else ()), str(path)]


def _is_library(path: Path) -> bool:
    return path.name.startswith(_LIBRARY)


def run_tool(tool: str, arguments: list[str], folder: Path | None = None) -> str:
    """Run a tool and return its standard output.

    Args:
        tool: "ptxas", "nvcc" or "nvdisasm".
        arguments: Its command line.
        folder: Working folder; files named relative to it keep random paths out of complaints.

    Raises:
        ToolError: It is missing, cannot be started or was stopped from outside.
        RefusedModuleError: It exits with an error; the text is its first complaint.
    """
    return _checked(tool, _run(tool, [], arguments, folder)).stdout


def preprocess(arguments: list[str], written: str, folder: Path) -> bytes:
    """Return what nvcc makes of a source before it compiles it.

    Args:
        arguments: Its command line.
        written: File in the folder that it writes.
        folder: Working folder.

    Raises:
        ToolError: As `run_tool`.
        EndlessSourceError: The macros or includes of the source do not come to an end.
        RefusedModuleError: As `run_tool`.
    """
    # The system ends what nvcc starts, too; a limit that is lower already stays.
    limits = f'ulimit -S -t {_PREPROCESSOR_CPU_S}; ulimit -S -f {_PREPROCESSED_BYTES // 512}; exec "$@"'
    bounded = ["env", "LC_ALL=C", "sh", "-c", limits, "sh"]
    done = _run("nvcc", bounded, ["-E", *arguments, "-o", written], folder)
    if done.returncode != 0 and _LIMIT_PASSED.search(done.stderr):
        raise EndlessSourceError(
            f"the macros or includes of {arguments[-1]} do not come to an end: the preprocessor took over "
            f"{_PREPROCESSOR_CPU_S} s or wrote over {_PREPROCESSED_BYTES >> 20} MiB"
        )
    _checked("nvcc", done)
    return (folder / written).read_bytes()


def nvcc_commands(arguments: list[str], folder: Path) -> str:
    """Return the commands by which nvcc would compile, with all flags that it has from anywhere.

    Raises:
        ToolError: As `run_tool`.
        RefusedModuleError: As `run_tool`.
    """
    # Kept files have names of their own: those that are not have random ones.
    return _checked("nvcc", _run("nvcc", [], ["--dryrun", "--keep", *arguments], folder)).stderr


def _run(tool: str, runner: list[str], arguments: list[str], folder: Path | None) -> _Done:
    """Run a tool to its end, by the command `runner` where there is one."""
    try:
        done = subprocess.run(
            [*runner, *tool_command(tool), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=folder,
        )
    except OSError as error:
        raise ToolError(f"{tool} could not be started: {error}") from error
    if -done.returncode in _STOPS:
        stopped = f"{tool} was stopped by {signal.Signals(-done.returncode).name}"
        if -done.returncode == signal.SIGXFSZ:
            stopped += (
                f", which happens where a file in {folder or tempfile.gettempdir()} grows too large;"
                f" {_RAISE_LIMIT}"
            )
        raise ToolError(stopped)
    return done


def _checked(tool: str, done: _Done) -> _Done:
    """Return what a tool did where it did it."""
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        complaint = next((line for line in lines if "error" in line or "fatal" in line), lines[0])
        if _MISSING_HEADER.search(complaint):
            complaint += f"; it is in the wheel {_HEADERS_WHEEL}, or in a toolkit whose include is in CPATH"
        raise RefusedModuleError(f"{tool} failed: {complaint}")
    return done
