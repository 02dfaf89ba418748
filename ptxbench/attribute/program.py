"""Measures an unmodified program: what its GPUs drew, and which kernels took it."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxbench.api.board import Board, Recording
from ptxbench.api.window_energy import GpuEnergy
from ptxbench.attribute.attribution import NO_KERNEL, Readings, Share, attribute
from ptxbench.attribute.child import run_child
from ptxbench.attribute.injector import build_injector, find_cupti, injected
from ptxbench.attribute.launches import LaunchLog, no_launches, read_launches
from ptxbench.core.errors import ToolError
from ptxbench.sensors.trace import KernelWindow

_NS_PER_S = 1e9


@dataclass(frozen=True)
class GpuShare:
    """What one GPU drew while the program ran, and for what.

    Attributes:
        energy: The whole board's energy.
        kernels: Its parts, the largest first; empty where they are not known.
    """

    energy: GpuEnergy
    kernels: tuple[Share, ...]


@dataclass(frozen=True)
class ProgramEnergy:
    """What a program took.

    Attributes:
        command: Its words.
        exit_code: Of the command; 128 + n where signal n ended it.
        time_s: How long it ran, s.
        gpus: What each GPU drew.
        method: How the energy was found.
        remarks: What else to know, a sentence each.
        is_simulated: Whether the GPU is simulated.
    """

    command: tuple[str, ...]
    exit_code: int
    time_s: float
    gpus: tuple[GpuShare, ...]
    method: str
    remarks: tuple[str, ...]
    is_simulated: bool = False

    @property
    def energy_j(self) -> float:
        """Energy of all GPUs, J."""
        return sum(gpu.energy.energy_j for gpu in self.gpus)


def measure_program(boards: Sequence[Board], words: Sequence[str], *, kernels: bool = True) -> ProgramEnergy:
    """Run a command and return its energy.

    Args:
        boards: The GPUs to read; they are released at the end.
        words: The command.
        kernels: Whether kernels are followed; without, the program runs exactly as it would by itself.

    Raises:
        CommandNotRunError: The command could not be started.
        SensorError: A GPU's first reading failed.
    """
    recordings = [Recording(board) for board in boards]
    clock = boards[0].clock
    context_s = max(recording.context_s for recording in recordings)
    started: list[Recording] = []
    try:
        for recording in recordings:
            recording.start(int)
            started.append(recording)
        clock.sleep_s(context_s)
        with tempfile.TemporaryDirectory(prefix="ptxbench-run-") as folder:
            environment, remarks = _environment(boards, words, Path(folder), kernels=kernels)
            start_ns = clock.now_ns()
            code = run_child(words, environment)
            end_ns = clock.now_ns()
            log = read_launches(Path(folder))
        clock.sleep_s(context_s)
    finally:
        for recording in started:
            recording.stop()
    window = KernelWindow(start_ns, end_ns, (end_ns - start_ns) / _NS_PER_S)
    followed = kernels and not remarks
    gpus = tuple(share_of(recording, window, log) for recording in recordings)
    said = (*remarks, *_said(log, boards, followed=followed))
    method = "; ".join(dict.fromkeys(recording.method for recording in recordings))
    return ProgramEnergy(tuple(words), code, window.elapsed_s, gpus, method, said)


def share_of(recording: Recording, window: KernelWindow, log: LaunchLog) -> GpuShare:
    """Return what one GPU drew in a window that is over, and for what."""
    energy = recording.energy(window, ())
    launches = log.by_gpu.get(recording.board.uuid, no_launches())
    if not log.by_gpu or math.isnan(energy.energy_j):
        return GpuShare(energy, ())
    at_ns, power_w = recording.power(window)
    readings = Readings(
        (at_ns - window.start_ns) / _NS_PER_S,
        power_w,
        recording.sensor.averaging_s,
        max(recording.sensor.refresh_s, 1e-3),
    )
    half_j = (energy.interval_j[1] - energy.interval_j[0]) / 2
    shares = attribute(
        readings, launches, window.elapsed_s, energy.energy_j, half_j, origin_ns=window.start_ns
    )
    return GpuShare(energy, shares)


def _environment(
    boards: Sequence[Board], words: Sequence[str], folder: Path, *, kernels: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the command's environment, and why kernels cannot be followed, if so."""
    own = dict(os.environ)
    if not kernels:
        return own, ("kernels were not requested: whole-run energy",)
    try:
        library = build_injector()
    except ToolError as error:
        return own, (f"kernels are not known: {error}; whole-run energy",)
    cupti = find_cupti(words[0], max(board.cuda_major for board in boards))
    return injected(own, library, cupti, folder), ()


def _said(log: LaunchLog, boards: Sequence[Board], *, followed: bool) -> tuple[str, ...]:
    """Return what to know about the kernels that were followed."""
    if not followed:
        return ()
    said = list(log.remarks)
    if not log.processes:
        said.append("no process of the command started CUDA: what the GPUs drew is not the command's")
    if log.dropped:
        said.append(f"{log.dropped} kernels were lost: their energy is in {NO_KERNEL!r}")
    unread = set(log.by_gpu) - {board.uuid for board in boards}
    if unread:
        said.append(f"kernels also ran on {len(unread)} GPUs that were not read: {', '.join(sorted(unread))}")
    foreign = [board.name for board in boards if board.other_processes > 0]
    said += [f"{name}: another process was on it, whose energy is included" for name in foreign]
    return tuple(said)
