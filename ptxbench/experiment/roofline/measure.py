"""Runs kernels of a set intensity on a GPU, and keeps their readings as it goes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ptxbench.catalogue.product import l2_bytes
from ptxbench.codegen.operands import RECORD_BYTES
from ptxbench.codegen.render import render_sleep
from ptxbench.codegen.values import RECORDS
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError, LaunchError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.target import find_target
from ptxbench.core.threads import WARP
from ptxbench.devices.base import Gpu, Launch
from ptxbench.devices.sequence import only_run
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.recordings import open_recordings
from ptxbench.experiment.roofline.kernel import (
    COPY,
    COPY_BYTES,
    FILL,
    STREAM,
    BuiltKernel,
    IntensityKernel,
    build,
    copy_ptx,
)
from ptxbench.experiment.roofline.kinds import CHASE, KINDS, LEVELS, FlopKind, MemoryLevel
from ptxbench.experiment.roofline.options import RooflineOptions
from ptxbench.experiment.roofline.point import PURPOSE, SLEEP, PointKernel, kernel_lines
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import BoardLimits, run_until_settled
from ptxbench.sass.listing import disassemble
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import KernelRun, SequenceRun
from ptxbench.storage.journal import Lines
from ptxbench.storage.recording import RecordingFolder

# The array is so many times the L2, and no less than this.
_TIMES_L2 = 16
_LEAST_ARRAY_BYTES = 1 << 30
# Of the L2, what an array of that level takes: with others of its data it must fit either half.
_L2_SHARE = 0.45
# Fewer would leave parts of an SM idle.
_LEAST_THREADS = 128
# A window is as long as the source takes to settle, and so many readings; no shorter than this. Chosen.
_LEAST_WINDOW_S = 0.5
_READINGS = 40
# Power of the kernel that sleeps is read after every so many kernels, when the chip is warm.
_SLEEP_EVERY = 6
_SLEEP_TRIPS = 1000
# By default kernels run on these parts of all SMs, each on two of them by turns: as many runs as on all and
# on one other, and what goes with the SMs is told from what goes with the bandwidth.
_PARTS = (16, 8, 4, 2, 1)
_TURNS = ((0, 4), (1, 3), (2, 4), (0, 3), (1, 2))
_MAX_LAUNCHES = 100_000
# What a launch from a cache loads, or computes where that takes longer: some milliseconds.
_CACHE_LAUNCH_BYTES = 1 << 35
_LAUNCH_FLOPS = 4e11
_THREADS = 1024
# What a lane writes a trip where an array is filled.
_VECTOR_BYTES = 16


def measure(
    gpu: Gpu,
    options: RooflineOptions,
    out: Path | None = None,
    *,
    resume: bool = False,
    show: Callable[[int, int, str], None] = lambda *_: None,
    budget_s: float = math.inf,
    peaks: bool = True,
) -> RecordingFolder:
    """Run every kernel that is wanted, and return the folder of their readings.

    Args:
        gpu: A real or simulated GPU.
        options: What is measured.
        out: Folder; None for a new one below results/, or below runs/ where nothing is measured.
        resume: Go on with the folder `out`: what it holds is not run again.
        show: Told how many are done, how many there are, and which is in progress.
        budget_s: No kernel begins later than this; what is missing then can be resumed.
        peaks: Whether kernels of multiply-adds alone, and a copy, are measured beside.

    Raises:
        InputError: An intensity cannot be reached, a kernel is not what it should be, or the folder does
            not fit.
        GpuError: The GPU stopped answering; the folder holds what was run.
        ToolError: The assembler or the disassembler is missing.
    """
    if gpu.info.kind is GpuKind.REPLAYED:
        raise InputError(f"{gpu.info.name} is a recorded run: name a real or simulated GPU")
    if isinstance(gpu, SimulatedGpu) and not gpu.has_memory:
        raise InputError(
            f"{gpu.info.name} has a memory without a limit, which has no roofline: name one that has a limit,"
            " such as simulated:h200-memory"
        )
    runner = _Roofline(gpu, options)
    plan = runner.plan(peaks=peaks)
    with open_recordings(gpu, PURPOSE, out, resume=resume) as folder, kernel_lines(folder) as kept:
        run_plan(gpu, folder, plan, lambda make, name: runner.run(*make(folder, name)), kept, show, budget_s)
    return folder


_Maker = Callable[[RecordingFolder, str], tuple[PointKernel, Launch]]
M = TypeVar("M")
K = TypeVar("K")


def run_plan(
    gpu: Gpu,
    folder: RecordingFolder,
    plan: Sequence[tuple[str, M]],
    run: Callable[[M, str], tuple[K, SequenceRun]],
    kept: Lines[K, str],
    show: Callable[[int, int, str], None],
    budget_s: float,
) -> None:
    """Run what a folder lacks of a plan, each on the disk before the next begins, and finish the folder.

    Args:
        gpu: Its clock tells when the time is spent.
        folder: The folder.
        plan: Name of every recording, with what `run` makes it from.
        run: Runs one; returns what ran, and its recording.
        kept: What the folder keeps of what ran.
        show: Told how many are done, how many there are, and which is in progress.
        budget_s: None begins later than this; what is missing then can be resumed.

    Raises:
        InputError: The folder is finished, and lacks one.
    """
    until_ns = gpu.clock.now_ns() + budget_s * 1e9
    held = {recording.name for recording in folder.recordings} & set(kept.by_name)
    missing = [(name, made) for name, made in plan if name not in held]
    if folder.finished:
        if missing:
            raise InputError(f"{folder.path} is finished, without {missing[0][0]}; choose a new folder")
        return
    kept.open()
    for number, (name, made) in enumerate(missing, len(plan) - len(missing)):
        if gpu.clock.now_ns() > until_ns:
            return
        show(number, len(plan), name)
        ran, recorded = run(made, name)
        kept.add(ran)
        folder.add(name, recorded)
    folder.finish()


class KernelRunner:
    """Builds kernels of a set intensity and their launches for one GPU, and runs any until it has settled.

    Args:
        gpu: The GPU.
        window_s: Time for which each kernel runs; 0: as the sensor needs.

    Raises:
        InputError: The size of the GPU's L2 is not known.
    """

    def __init__(self, gpu: Gpu, window_s: float = 0.0) -> None:
        self._gpu = gpu
        self._l2_bytes = l2_bytes(gpu.info)
        if math.isnan(self._l2_bytes):
            raise InputError(
                f"the size of the L2 of {gpu.info.title} is not known, so no kernel can keep to it"
            )
        self._source = SourceCheck(board_sensor(gpu.sensors), gpu.sensors)
        self.window_s = window_s or max(_LEAST_WINDOW_S, needed_s(self._source.sensor))
        self._built: dict[str, BuiltKernel] = {}

    def run_settled(self, launch: Launch) -> tuple[Launch, SequenceRun]:
        """Run a kernel, longer where it meets the power limit; return what ran, and its recording.

        A kernel with stamps of its own runs more passes, any other is launched more often.

        Raises:
            LaunchError: The kernel did not run.
            GpuError: The GPU stopped answering.
        """
        runs: list[tuple[Launch, SequenceRun]] = []

        def attempt(length_s: float) -> tuple[KernelRun, int]:
            share = length_s / self.window_s
            if launch.scalars is None:
                longer = replace(launch, iterations=math.ceil(launch.iterations * share))
            else:
                longer = replace(launch, times=math.ceil(launch.times * share))
            runs.append((longer, self._gpu.run_sequence((longer,), ())))
            return only_run(runs[-1][1]), longer.times

        run_until_settled(attempt, self.window_s, self._source, BoardLimits.of(self._gpu.info))
        return runs[-1]

    def stream(
        self, folder: RecordingFolder, name: str, kernel: IntensityKernel, pattern: str, sms: int
    ) -> tuple[PointKernel, Launch]:
        """Return a kernel of a set intensity, and its launches for the window; its array is filled.

        Args:
            folder: Where its code is kept.
            name: Name of the recording.
            kernel: The kernel.
            pattern: Operand pattern.
            sms: SMs that it runs on.

        Raises:
            InputError: Its machine code is not what it should be, or it does not fit into L2.
            LaunchError: It did not run.
        """
        built = self.build(folder, kernel)
        kind = kernel.kind
        threads = self._threads(kernel, sms)
        warps = sms * threads // WARP
        range_bytes = self._range_bytes(kernel, warps)
        array_bytes = warps * range_bytes
        trips = self._trips(kernel, warps, array_bytes)
        vectors = range_bytes // (kernel.width if kernel.chases else _VECTOR_BYTES) // WARP
        words = () if kernel.chases else kind.fill(pattern)
        base = self._fill(name, built.cubin, sms, threads, (range_bytes, vectors, *words), pattern)
        launch = replace(
            base,
            kernel=STREAM,
            iterations=trips,
            scalars=(range_bytes, trips, *(() if kernel.chases else kind.factors(pattern))),
            shared_bytes=kernel.shared_bytes,
        )
        self._gpu.time_s(base)
        launches = self._launches(launch)
        lanes = sms * threads * trips
        moved = 0 if kernel.loads_once else kernel.trip_bytes
        point = PointKernel(
            name=name,
            kind=kind.name,
            level="" if kernel.loads_once else kernel.level.name,
            pattern=pattern,
            sms=sms,
            flops=float(lanes * kernel.flops_per_trip),
            bytes_moved=float(lanes * moved),
            launches=launches,
            counting_instructions=float(lanes * built.beside.counting),
            mixing_instructions=float(lanes * built.beside.mixing),
        )
        return point, replace(launch, times=launches)

    def _fill(
        self,
        name: str,
        cubin: Cubin,
        sms: int,
        threads: int,
        scalars: tuple[int, ...],
        pattern: str,
    ) -> Launch:
        """Return the launch that fills an array; its scalars begin with a warp's range, bytes, and trips."""
        range_bytes, trips = scalars[:2]
        return Launch(
            name, cubin, FILL, sms, threads, trips, (), pattern,
            scalars=scalars, result_bytes=sms * threads // WARP * range_bytes,
        )  # fmt: skip

    def _launches(self, launch: Launch) -> int:
        """Return how many launches fill the window, after a first one."""
        self._gpu.time_s(launch)
        return min(_MAX_LAUNCHES, max(1, math.ceil(self.window_s / self._gpu.time_s(launch))))

    def _trips(self, kernel: IntensityKernel, warps: int, array_bytes: int) -> int:
        """Return trips of a launch: one pass of DRAM's array, or passes that are not all overhead."""
        once = array_bytes // (kernel.trip_bytes * WARP * warps)
        if kernel.level.name == "dram" and not kernel.loads_once:
            return once
        lanes = warps * WARP
        trips = _CACHE_LAUNCH_BYTES / (kernel.trip_bytes * lanes)
        if kernel.flops_per_trip:
            trips = min(trips, _LAUNCH_FLOPS / (kernel.flops_per_trip * lanes))
        return max(1, round(trips / once)) * once

    def _range_bytes(self, kernel: IntensityKernel, warps: int) -> int:
        """Return the bytes of a warp's range, a power of two."""
        if kernel.level.in_sm or kernel.loads_once:
            return kernel.range_bytes
        if kernel.level.name == "dram":
            return self._dram_range_bytes(warps)
        return self._l2_range_bytes(warps)

    def _l2_range_bytes(self, warps: int) -> int:
        return 1 << math.floor(math.log2(_L2_SHARE * self._l2_bytes / warps))

    def _threads(self, kernel: IntensityKernel, sms: int) -> int:
        """Return threads of a block: fewer than the kernel's where a trip of all does not fit into L2."""
        threads = kernel.threads
        if kernel.level.name != "l2" or kernel.loads_once:
            return threads
        while self._l2_range_bytes(sms * threads // WARP) < kernel.trip_bytes * WARP:
            threads //= 2
            if threads < _LEAST_THREADS:
                size = f"{self._l2_bytes / 2**20:g} MiB"
                raise InputError(
                    f"{kernel.name} on {sms} SMs cannot work from an L2 of {size}; name fewer by `sms`"
                )
        return threads

    def _dram_range_bytes(self, warps: int) -> int:
        array_bytes = max(_LEAST_ARRAY_BYTES, _TIMES_L2 * self._l2_bytes)
        return 1 << math.ceil(math.log2(array_bytes / warps))

    def build(self, folder: RecordingFolder, kernel: IntensityKernel) -> BuiltKernel:
        """Return a kernel as machine code, which the folder keeps.

        Raises:
            InputError: It is not what it should be.
        """
        if kernel.name not in self._built:
            built = build(self._gpu, kernel)
            if built.fault:
                raise InputError(f"kernel {kernel.name} is not what it should be: {built.fault}")
            folder.kernels.add(kernel.name, built.ptx, built.listing, built.cubin)
            self._built[kernel.name] = built
        return self._built[kernel.name]

    def sleeping(self, name: str) -> Launch:
        """Return the launch of the kernel that sleeps on every SM, for the window.

        Raises:
            LaunchError: It did not run.
        """
        info = self._gpu.info
        cubin = self._gpu.assemble(render_sleep(find_target(info.target)), OptLevel.O3)
        operands = (np.zeros(RECORDS * RECORD_BYTES, np.uint8),)
        launch = Launch(name, cubin, "static", info.sm_count, _THREADS, _SLEEP_TRIPS, operands, "zeros")
        trip_s = self._gpu.time_s(launch) / _SLEEP_TRIPS
        if not trip_s > 0:
            raise LaunchError("the kernel that sleeps took no time")
        return replace(launch, iterations=math.ceil(self.window_s / trip_s))


def wanted_kernels(options: RooflineOptions) -> tuple[IntensityKernel, ...]:
    """Return the kernels of every kind and level; with no intensities named, those that a kind can reach.

    Raises:
        InputError: An intensity cannot be reached.
    """
    made = []
    for kind in (KINDS[name] for name in options.kinds):
        for level in (LEVELS[name] for name in options.levels):
            if options.intensities:
                made += [IntensityKernel(kind, intensity, level) for intensity in options.intensities]
            else:
                made += _reachable(kind, level)
    return tuple(made)


def _reachable(kind: FlopKind, level: MemoryLevel) -> list[IntensityKernel]:
    made = []
    for intensity in kind.intensities:
        try:
            made.append(IntensityKernel(kind, intensity, level))
        except InputError:
            continue
    return made


def with_sms(options: RooflineOptions, count: int) -> list[tuple[IntensityKernel, tuple[int, ...]]]:
    """Return each kernel with the numbers of SMs that it runs on.

    Args:
        options: What is measured.
        count: SMs of the GPU.

    Raises:
        InputError: An intensity cannot be reached.
    """
    kernels = wanted_kernels(options)
    if options.sms:
        return [(kernel, options.sms) for kernel in kernels]
    parts = parts_of(count)
    places: dict[tuple[str, str], list[IntensityKernel]] = {}
    for kernel in kernels:
        places.setdefault((kernel.kind.name, kernel.level.name), []).append(kernel)
    made = []
    for series in places.values():
        for place, kernel in enumerate(series):
            # The ends of a series tell the peaks, on all SMs.
            is_end = place in (0, len(series) - 1)
            turn = _TURNS[0] if is_end else _TURNS[place % len(_TURNS)]
            made.append((kernel, tuple(sorted({parts[one] for one in turn}))))
    return made


def parts_of(count: int) -> list[int]:
    """Return the numbers of SMs that kernels run on unless others are named, of a GPU with so many."""
    return [max(1, count // part) for part in _PARTS]


class _Roofline(KernelRunner):
    """The kernels of a roofline."""

    def __init__(self, gpu: Gpu, options: RooflineOptions) -> None:
        super().__init__(gpu, options.window_s or 0.0)
        self._options = options

    def plan(self, *, peaks: bool) -> list[tuple[str, _Maker]]:
        """Return the name of every recording with what makes its launch, in random order.

        Raises:
            InputError: An intensity cannot be reached, or there are fewer SMs than wanted.
        """
        options, count = self._options, self._gpu.info.sm_count
        if max(options.sms, default=0) > count:
            raise InputError(f"`sms` {max(options.sms)}: {self._gpu.info.name} has {count}")
        made: list[tuple[str, _Maker]] = [
            self._planned(kernel, pattern, sms)
            for kernel, chosen in with_sms(options, count)
            for pattern in options.operands
            for sms in chosen
        ]
        if peaks:
            made += [
                self._planned(IntensityKernel(KINDS[kind], math.inf), options.operands[0], count)
                for kind in options.kinds
            ]
            made.append((f"{COPY}-{options.operands[0]}", self._copy))
        if options.chase:
            made += [
                self._planned(IntensityKernel(CHASE, 0.0, LEVELS[level]), options.operands[0], sms)
                for level in options.levels
                for sms in options.sms or parts_of(count)
            ]
        return with_sleep(made, self._sleep, options.seed or 0)

    def run(self, kernel: PointKernel, launch: Launch) -> tuple[PointKernel, SequenceRun]:
        """Run a kernel; return what ran, and its recording.

        Raises:
            LaunchError: The kernel did not run.
            GpuError: The GPU stopped answering.
        """
        ran, run = self.run_settled(launch)
        launches = kernel.launches * ran.times // launch.times
        return replace(kernel, launches=launches, other_processes=run.other_processes), run

    def _sleep(self, folder: RecordingFolder, name: str) -> tuple[PointKernel, Launch]:
        del folder
        sms = self._gpu.info.sm_count
        return PointKernel(name, "", "", "zeros", sms, 0.0, 0.0, 1), self.sleeping(name)

    def _planned(self, kernel: IntensityKernel, pattern: str, sms: int) -> tuple[str, _Maker]:
        def make(folder: RecordingFolder, name: str) -> tuple[PointKernel, Launch]:
            return self.stream(folder, name, kernel, pattern, sms)

        if kernel.loads_once:
            return f"{kernel.name}-{pattern}-{sms}", make
        if kernel.chases:
            return f"{kernel.kind.name}-{kernel.level.name}-{pattern}-{sms}", make
        return f"{kernel.kind.name}-{kernel.level.name}-{kernel.target:.4g}-{pattern}-{sms}", make

    def _copy(self, folder: RecordingFolder, name: str) -> tuple[PointKernel, Launch]:
        """Copy within DRAM on all SMs, as STREAM does: the peak that kernels are held against."""
        info, pattern = self._gpu.info, self._options.operands[0]
        ptx = copy_ptx(info.target)
        cubin = self._gpu.assemble(ptx, OptLevel.O3)
        folder.kernels.add(COPY, ptx, disassemble(cubin.image), cubin)
        warps = info.sm_count * _THREADS // WARP
        range_bytes = self._dram_range_bytes(warps)
        half = range_bytes // 2
        trips = half // (COPY_BYTES // 2 * WARP)
        words = KINDS["f32"].fill(pattern)
        scalars = (range_bytes, range_bytes // (_VECTOR_BYTES * WARP), *words)
        base = self._fill(name, cubin, info.sm_count, _THREADS, scalars, pattern)
        launch = replace(base, kernel=COPY, iterations=trips, scalars=(range_bytes, trips, half))
        self._gpu.time_s(base)
        launches = self._launches(launch)
        moved = float(info.sm_count * _THREADS * trips * COPY_BYTES)
        point = PointKernel(name, "", LEVELS["dram"].name, pattern, info.sm_count, 0.0, moved, launches)
        return point, replace(launch, times=launches)


def with_sleep(plan: Sequence[tuple[str, M]], sleep: M, seed: int) -> list[tuple[str, M]]:
    """Return a plan in random order, with the kernel that sleeps after every few: the chip is warm then."""
    shuffled = list(plan)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - an order is no secret
    made: list[tuple[str, M]] = []
    for number, one in enumerate(shuffled):
        if number % _SLEEP_EVERY == 0:
            made.append((f"{SLEEP}-{number // _SLEEP_EVERY}", sleep))
        made.append(one)
    return [*made, (f"{SLEEP}-last", sleep)]


def needed_s(sensor: SensorDescription) -> float:
    """Return for how long a kernel must run for its power to be read well by a source, s."""
    return sensor.settle_s + sensor.regulation_s + _READINGS * sensor.refresh_s
