"""What a machine has, and lacks, of what it takes to measure: driver, packages, tools, permissions."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ptxbench.core.errors import GpuError, ToolError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.toolchain import assembler_name, tool_path, tool_version
from ptxbench.devices.base import Gpu
from ptxbench.devices.driver_presence import driver_traces
from ptxbench.devices.pollers import poller_verdicts
from ptxbench.sensors.base import HOPPER
from ptxbench.sensors.sources import nvml_sources
from ptxbench.storage.doctor_file import State, Verdict

_PACKAGES = {"pynvml": "nvidia-ml-py", "cuda.bindings": "cuda-bindings"}
_PARAMETERS = Path("/proc/driver/nvidia/params")
# The device files that CUDA and NVML open.
_NEEDED = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm")
# By nvmlReturn_t.
_REASONS = {
    3: "not supported on this GPU or driver, ",
    4: "no permission, ",
    13: "this driver does not have the query, ",
}


def machine_verdicts(
    devices: Path = Path("/dev"),
    load: Callable[[str], object] = ctypes.CDLL,
    processes: Path = Path("/proc"),
) -> tuple[Verdict, ...]:
    """Return a line for the driver, the packages, the device files, what polls the GPUs, and the tools.

    Args:
        devices: Folder of the device files.
        load: Loads a shared library by name, or raises OSError.
        processes: Folder with the command lines of all processes.
    """
    found = (_driver(devices, load), *_packages(), *_permissions(devices))
    return (*found, *poller_verdicts(processes), *tool_verdicts())


def tool_verdicts() -> tuple[Verdict, ...]:
    """Return a line about the assembler and the disassembler."""
    try:
        names = {"ptxas": assembler_name(), "nvdisasm": f"nvdisasm {tool_version('nvdisasm')}"}
        found = [f"{name} ({tool_path(tool).parent})" for tool, name in names.items()]
    except ToolError as error:
        return (Verdict("tools", State.MISSING, str(error)),)
    return (Verdict("tools", State.OK, ", ".join(found)),)


def device_verdicts(device: Any) -> Iterator[Verdict]:
    """Yield a line for each thing of one GPU that measuring depends on.

    Args:
        device: An open `NvmlDevice`.

    Raises:
        GpuError: The GPU is lost.
    """
    from ptxbench.sensors.nvml import silent_sources

    yield Verdict("driver", State.OK, f"version {device.driver}, CUDA {device.cuda}")
    others = device.other_processes()
    if others > 0:
        text = f"{others} other processes use the GPU (in a container it may be this one): end them first"
        yield Verdict("processes", State.NOTE, text)
    if device.clocks_locked:
        yield Verdict("clocks", State.NOTE, "application clocks are set; rows are of that clock alone")
    if device.is_persistent is False:
        text = "the driver unloads when no program is open: the first readings after that are of a board that"
        yield Verdict("persistence", State.NOTE, f"off: {text} wakes; keep it on (nvidia-smi -pm 1)")
    if device.has_ecc is False:
        text = "off: bytes of memory cost less than with it; compare boards of one setting"
        yield Verdict("ECC", State.NOTE, text)
    for name, code in silent_sources(device).items():
        yield Verdict(name, State.NOTE, f"does not answer: {_REASONS.get(code, '')}NVML code {code}")


def board_verdicts(gpu: Gpu) -> tuple[Verdict, ...]:
    """Return the lines of `device_verdicts`, or of a simulated GPU those of the sources that it lacks.

    Raises:
        GpuError: The GPU is lost.
    """
    if gpu.info.kind is not GpuKind.REAL:
        known = {sensor.source for sensor in gpu.sensors}
        lacking = [name for name in nvml_sources() if name not in known]
        return tuple(Verdict(name, State.NOTE, "does not answer: the profile has none") for name in lacking)
    from ptxbench.sensors.nvml import NvmlDevice

    device = NvmlDevice(gpu.info.index)
    try:
        return tuple(device_verdicts(device))
    finally:
        device.close()


def fault_verdicts(boards: Iterable[Any]) -> Iterator[Verdict]:
    """Yield a line for each board that cannot be measured.

    Args:
        boards: Entries of `ptxbench.sensors.nvml.list_devices`.
    """
    for board in boards:
        if board.fault:
            # A cluster forbids the boards of other jobs, and an owner splits a board by intention.
            is_lost = not board.uuid and not board.is_forbidden
            yield Verdict(board.title, State.BAD if is_lost else State.NOTE, f"left out: {board.fault}")


def dcgm_verdict(capability: int) -> Verdict:
    """Return the line about DCGM's profiling metrics, which other tools show beside power.

    NVIDIA's documentation has 100 ms as the shortest interval. For Hopper a developer of DCGM says that
    values at 1 ms are invalid and that 100 ms is a hard limit (NVIDIA/DCGM issue 310).

    Args:
        capability: Compute capability times ten.
    """
    here = "dcgmi is here; " if shutil.which("dcgmi") else ""
    if capability == HOPPER:
        text = (
            "profiling metrics (fields 1001 to 1014) below 100 ms: on Hopper 100 ms is a hard limit, and what"
            " `dcgmi dmon -d 1` prints is invalid (NVIDIA/DCGM issue 310)"
        )
        return Verdict("DCGM", State.DO_NOT_USE, here + text)
    text = "its profiling metrics are documented for intervals of 100 ms and longer"
    return Verdict("DCGM", State.NOTE, here + text)


def _driver(devices: Path, load: Callable[[str], object]) -> Verdict:
    traces = driver_traces(devices, load)
    if not traces:
        text = (
            "no NVIDIA driver: no libcuda.so.1, no libnvidia-ml.so.1 and no /dev/nvidia*; install it, or try"
            " `ptxbench table --gpu simulated`"
        )
        return Verdict("driver", State.MISSING, text)
    libraries = [trace for trace in traces if trace.endswith(".so.1")]
    missing = {"libcuda.so.1", "libnvidia-ml.so.1"} - set(libraries)
    if missing:
        text = f"{' and '.join(sorted(missing))} cannot be found (in a container: start it with the GPU)"
        return Verdict("driver", State.MISSING, text)
    return Verdict("driver", State.OK, f"found {', '.join(libraries)}")


def _packages() -> Iterator[Verdict]:
    missing = [package for module, package in _PACKAGES.items() if not _is_installed(module)]
    if missing:
        text = f"run 'pip install {' '.join(missing)}'"
        yield Verdict("packages", State.MISSING, f"{' and '.join(missing)} not installed: {text}")
        return
    try:
        import_module("ptxbench.sensors.nvml")
    except GpuError as error:  # another package that is imported as pynvml
        yield Verdict("packages", State.MISSING, str(error))
    else:
        yield Verdict("packages", State.OK, f"{' and '.join(_PACKAGES.values())} are installed")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _permissions(devices: Path) -> Iterator[Verdict]:
    files = sorted(path for path in devices.glob("nvidia*") if _NEEDED.fullmatch(path.name))
    closed = [path.name for path in files if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        text = f"{', '.join(closed)} cannot be opened: run as a user who may open /dev/nvidia*"
        yield Verdict("permissions", State.BAD, text)
    elif files:
        yield Verdict("permissions", State.OK, f"{len(files)} device files can be opened")
    is_root = os.geteuid() == 0
    text = "root" if is_root else "not root: `ptxbench clocks` may be refused; measuring does not need it"
    yield Verdict("user", State.OK if is_root else State.NOTE, text)
    if not is_root and _counters_are_closed():
        yield Verdict("ncu", State.NOTE, "performance counters are for root alone (RmProfilingAdminOnly: 1)")


def _counters_are_closed(parameters: Path = _PARAMETERS) -> bool:
    try:
        return "RmProfilingAdminOnly: 1" in parameters.read_text(encoding="utf-8")
    except OSError:
        return False
