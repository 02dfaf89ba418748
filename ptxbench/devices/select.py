"""Choose a GPU by what the user wrote: an index, a UUID, `simulated[:profile]` or `replay:RUN`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.devices.base import Gpu
from ptxbench.devices.driver_presence import driver_traces
from ptxbench.devices.settings import SettableGpu
from ptxbench.storage.settings_journal import has_notes


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
    which = int(spec) if spec.isdecimal() else spec
    restore_settings(which)
    from ptxbench.devices.cuda import CudaGpu

    return CudaGpu(which)


@contextmanager
def open_settable(gpu: Gpu) -> Iterator[SettableGpu]:
    """Open the settings of an open GPU for the time of the block.

    Raises:
        GpuError: NVML does not answer.
        InputError: It is a recorded GPU.
    """
    from ptxbench.devices.simulated.gpu import SimulatedGpu

    if isinstance(gpu, SimulatedGpu):
        yield gpu.settable
        return
    if gpu.info.kind is not GpuKind.REAL:
        raise InputError(f"{gpu.info.name} is no GPU that could be set")
    from ptxbench.sensors.nvml import SettableDevice

    device = SettableDevice(gpu.info.index)
    try:
        yield device
    finally:
        device.close()


def restore_settings(which: int | str) -> None:
    """Put back the settings that a killed process left on a GPU, if any did."""
    if not has_notes():
        return
    from ptxbench.devices.settings import restore_leftover
    from ptxbench.sensors.nvml import SettableDevice

    device = SettableDevice(which)
    try:
        restore_leftover(device, logging.getLogger(__name__).warning)
    finally:
        device.close()


def open_gpu_or_simulated(spec: str | None, notice: Callable[[str], None]) -> Gpu:
    """Open the GPU that `spec` names; without one the first GPU that CUDA sees.

    The simulated GPU stands in only where there is no NVIDIA driver at all. A driver that does not work, or
    that shows no GPU, is an error: numbers of a simulation must not pass for those of the GPU.

    Args:
        spec: As for `open_gpu`, or None.
        notice: Called with why numbers will be simulated.

    Raises:
        GpuError: There is no such GPU, or the driver does not work.
        InputError: The profile or the run is unknown.
    """
    if spec is not None:
        return open_gpu(spec)
    if not driver_traces():
        notice("this machine has no NVIDIA driver, so the GPU is SIMULATED: its numbers are no measurements")
        return open_gpu("simulated")
    return open_first()


def open_first() -> Gpu:
    """Open the first GPU that CUDA sees.

    Raises:
        GpuError: There is none, or the driver does not work.
    """
    from ptxbench.devices.cuda import first_visible_uuid
    from ptxbench.sensors.nvml import list_devices

    list_devices()  # NVML names the cause of a broken driver, CUDA only its code
    return open_gpu(first_visible_uuid())


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
