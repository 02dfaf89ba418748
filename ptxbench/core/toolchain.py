"""Where NVIDIA's ptxas and nvdisasm are: the PyPI wheels, or a CUDA toolkit on PATH."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from ptxbench.core.errors import RefusedModuleError, ToolError

_WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}
# Signals that end a tool for no fault of what it was given (SIGKILL: the kernel ran out of memory).
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@cache
def tool_path(tool: str) -> Path:
    """Find an executable, the pinned wheel before PATH so that SASS is the same everywhere.

    Args:
        tool: "ptxas" or "nvdisasm".

    Raises:
        ToolError: Neither the wheel nor PATH has it.
    """
    wheel = _WHEELS[tool]
    try:
        for file in files(wheel) or ():
            if file.name == tool and Path(str(file.locate())).is_file():
                return Path(str(file.locate()))
    except PackageNotFoundError:
        pass
    on_path = shutil.which(tool)
    if on_path is None:
        raise ToolError(
            f"{tool} not found: neither the wheel {wheel} nor a CUDA toolkit on PATH has it; "
            "run 'pip install ptxbench[toolchain]'"
        )
    return Path(on_path)


@cache
def tool_version(tool: str) -> str:
    """Return the version of a tool, such as "13.0.88"."""
    text = run_tool(tool, ["--version"])
    match = re.search(r"V(\d+\.\d+\.\d+)", text)
    return match.group(1) if match else "unknown"


def run_tool(tool: str, arguments: list[str], folder: str | None = None) -> str:
    """Run a tool and return its standard output.

    Args:
        tool: "ptxas" or "nvdisasm".
        arguments: Its command line.
        folder: Working folder; files named relative to it keep random paths out of complaints.

    Raises:
        ToolError: It is missing, cannot be started or was stopped from outside.
        RefusedModuleError: It exits with an error; the text is its first complaint.
    """
    try:
        done = subprocess.run(
            [str(tool_path(tool)), *arguments], capture_output=True, text=True, check=False, cwd=folder
        )
    except OSError as error:
        raise ToolError(f"{tool} could not be started: {error}") from error
    if -done.returncode in _STOPS:
        raise ToolError(f"{tool} was stopped by {signal.Signals(-done.returncode).name}")
    if done.returncode != 0:
        complaint = (done.stderr or done.stdout).strip().splitlines()
        raise RefusedModuleError(
            f"{tool} failed: {complaint[0] if complaint else f'exit code {done.returncode}'}"
        )
    return done.stdout
