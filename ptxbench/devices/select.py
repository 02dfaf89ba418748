"""Choose a GPU by what the user wrote: an index, a UUID, `simulated[:profile]` or `replay:RUN`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.devices.base import Gpu


def open_gpu(spec: str) -> Gpu:
    """Open the GPU that `spec` names.

    Args:
        spec: An NVML index, a UUID, "simulated", "simulated:PROFILE" or "replay:RUN".

    Raises:
        GpuError: There is no such GPU, or no driver.
        InputError: The profile or the run is unknown.
    """
    kind, _, rest = spec.partition(":")
    if kind == "simulated":
        from ptxbench.devices.simulated import SimulatedGpu, find_profile

        return SimulatedGpu(find_profile(rest)) if rest else SimulatedGpu()
    if kind == "replay":
        from ptxbench.devices.replay import ReplayGpu
        from ptxbench.storage.run_folder import RunFolder

        return ReplayGpu(RunFolder.open(Path(rest)))
    if not spec.isdecimal() and not spec.startswith("GPU-"):
        raise InputError(f"--gpu {spec!r} is no index, UUID, simulated[:PROFILE] or replay:RUN")
    from ptxbench.devices.cuda import CudaGpu

    return CudaGpu(int(spec) if spec.isdecimal() else spec)


def open_gpu_or_simulated(spec: str | None, notice: Callable[[str], None]) -> Gpu:
    """Open the GPU that `spec` names; without one the first real GPU, or else the simulated one.

    Args:
        spec: As for `open_gpu`, or None.
        notice: Told in plain words that numbers will be simulated, and why.

    Raises:
        GpuError: There is no such GPU, or no driver.
        InputError: The profile or the run is unknown.
    """
    if spec is not None:
        return open_gpu(spec)
    try:
        return open_gpu("0")
    except GpuError as error:
        notice(f"no real GPU, so a SIMULATED one is used; its numbers are no measurements ({error})")
        return open_gpu("simulated")


def list_gpus() -> tuple[GpuInfo, ...]:
    """Return every real GPU of this machine.

    Raises:
        GpuError: No driver, no permission, or the cuda extra is not installed.
    """
    from ptxbench.devices.cuda import CudaGpu
    from ptxbench.sensors.nvml import list_devices

    infos = []
    for entry in list_devices():
        gpu = CudaGpu(entry.index)
        infos.append(gpu.info)
        gpu.close()
    return tuple(infos)
