"""Choose GPUs by what the user wrote: an index, a UUID, `simulated[:PROFILE[@BOARD]]`, `replay:RUN`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.core.errors import ArgumentError, GpuError, InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.devices.base import Gpu
from ptxbench.devices.driver_presence import driver_traces, wants_gpus
from ptxbench.devices.settings import SettableGpu
from ptxbench.storage.settings_journal import has_notes

if TYPE_CHECKING:
    from ptxbench.devices.visible import Machine
    from ptxbench.sensors.nvml import DeviceEntry

# What names every GPU that this process may use.
ALL = "all"


def open_gpu(spec: str) -> Gpu:
    """Open the GPU that `spec` names.

    Args:
        spec: An NVML index, a UUID, "simulated", "simulated:PROFILE", "simulated:PROFILE@BOARD" or
            "replay:RUN"; PROFILE comes with ptxbench, or is a file that ends with ".toml".

    Raises:
        GpuError: There is no such GPU, or no driver.
        InputError: The profile or the run is unknown, or its file is not legal.
    """
    kind, _, rest = spec.partition(":")
    if kind == "simulated":
        from ptxbench.devices.simulated import SimulatedGpu, find_board

        return SimulatedGpu(*find_board(rest)) if rest else SimulatedGpu()
    if kind == "replay":
        from ptxbench.devices.replay import ReplayGpu
        from ptxbench.storage.run_folder import RunFolder

        return ReplayGpu(RunFolder.open(Path(rest)))
    if not spec.isdecimal() and not spec.startswith("GPU-"):
        raise ArgumentError("gpu", f"{spec!r} is no index, UUID, simulated[:PROFILE] or replay:RUN")
    which = int(spec) if spec.isdecimal() else spec
    restore_settings(which)
    from ptxbench.devices.cuda import CudaGpu
    from ptxbench.devices.visible import Machine

    machine = Machine()
    machine.say_left_out([which])
    with machine.showing_what_works():
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


@dataclass(frozen=True)
class NamedGpu:
    """One of several GPUs.

    Attributes:
        spec: What `open_gpu` takes: a UUID, or the name of a simulated board.
        board: Hash of its UUID, which names it in files.
    """

    spec: str
    board: str


def names_several(spec: str | None) -> bool:
    """Return whether --gpu names more than one GPU."""
    return spec is not None and not spec.startswith("replay:") and (spec == ALL or "," in spec)


def named_gpus(spec: str) -> tuple[NamedGpu, ...]:
    """Return the GPUs that a list names, in its order; a real one by its UUID.

    Args:
        spec: "all" (what CUDA_VISIBLE_DEVICES shows and what works), or indices as NVML counts, UUIDs and
            simulated boards, by commas.

    Raises:
        GpuError: There is no such GPU, it is hidden or does not work, or there is no driver.
        InputError: A profile is unknown, a word is none of these, or a GPU is named twice.
    """
    words = [word.strip() for word in spec.split(",")]
    for word in words:
        if spec != ALL and not word.isdecimal() and not word.startswith("GPU-") and not _is_simulated(word):
            raise ArgumentError(
                "gpu", f"names {word!r}, which is no index, UUID or simulated[:PROFILE[@BOARD]]"
            )
    if all(map(_is_simulated, words)):
        found = [_simulated(word) for word in words]
    else:
        from ptxbench.devices.visible import Machine

        machine = Machine()
        if spec == ALL:
            found = [NamedGpu(board.uuid, board.uuid_hash) for board in machine.usable()]
        else:
            found = [_simulated(word) if _is_simulated(word) else _real(word, machine) for word in words]
        machine.say_left_out()
    twice = [gpu.spec for gpu in found if [one.board for one in found].count(gpu.board) > 1]
    if twice:
        raise ArgumentError("gpu", f"{spec!r} names {twice[0]} twice")
    return tuple(found)


def _is_simulated(word: str) -> bool:
    return word.partition(":")[0] == "simulated"


def _simulated(word: str) -> NamedGpu:
    gpu = open_gpu(word)
    return NamedGpu(word, gpu.info.uuid_hash)


def _real(word: str, machine: Machine) -> NamedGpu:
    from ptxbench.sensors.nvml import NvmlDevice

    device = NvmlDevice(int(word) if word.isdecimal() else word)
    try:
        device.require_whole()
        machine.require_visible(device.index)
        return NamedGpu(device.uuid, device.uuid_hash)
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

    The simulated GPU stands in only where there is no NVIDIA driver at all, and nothing of the environment
    says that there should be GPUs. A driver that does not work, or that shows no GPU, is an error: numbers of
    a simulation must not pass for those of the GPU.

    Args:
        spec: As for `open_gpu`, or None.
        notice: Called with why numbers will be simulated.

    Raises:
        GpuError: There is no such GPU, the driver does not work, or it is missing where there should be GPUs.
        InputError: The profile or the run is unknown.
    """
    if spec is not None:
        return open_gpu(spec)
    if not driver_traces():
        why = wants_gpus(os.environ)
        if why:
            raise GpuError(
                f"this machine has no NVIDIA driver, but {why}: run where there is a GPU, or simulate by"
                " `gpu` simulated"
            )
        notice("this machine has no NVIDIA driver, so the GPU is SIMULATED: its numbers are no measurements")
        return open_gpu("simulated")
    return open_first()


def open_first() -> Gpu:
    """Open the first GPU that CUDA sees and that works.

    Raises:
        GpuError: There is none, or the driver does not work.
    """
    from ptxbench.devices.visible import Machine

    return open_gpu(Machine().first().uuid)


@dataclass(frozen=True)
class ListedGpu:
    """One real GPU of this machine.

    Attributes:
        index: NVML index.
        name: Marketing name, "" where the board does not tell it.
        info: What it is, None where it cannot be used.
        fault: Why it cannot be used, "" where it can.
    """

    index: int
    name: str
    info: GpuInfo | None
    fault: str = ""


def list_gpus() -> tuple[ListedGpu, ...]:
    """Return every real GPU of this machine, those that cannot be used among them.

    Raises:
        GpuError: No driver, or the cuda extra is not installed.
    """
    from ptxbench.devices.visible import Machine

    machine = Machine()
    with machine.showing_what_works():
        return tuple(map(_listed, machine.boards))


def _listed(board: DeviceEntry) -> ListedGpu:
    from ptxbench.devices.cuda import CudaGpu

    if board.fault:
        return ListedGpu(board.index, board.name, None, board.fault)
    try:
        gpu = CudaGpu(board.index)
    except GpuError as error:
        return ListedGpu(board.index, board.name, None, str(error))
    gpu.close()
    return ListedGpu(board.index, board.name, gpu.info)
