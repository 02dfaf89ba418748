"""Runs kernels of a set intensity on a GPU, and keeps their readings as it goes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

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
from ptxbench.energy.settled import SourceCheck
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
from ptxbench.experiment.roofline.kinds import KINDS, LEVELS
from ptxbench.experiment.roofline.point import (
    PURPOSE,
    SLEEP,
    PointKernel,
    RooflineOptions,
    kernel_lines,
    read_kernels,
)
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import BoardLimits, run_until_settled
from ptxbench.sass.listing import disassemble
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import KernelRun, SequenceRun
from ptxbench.storage.location import default_run_path
from ptxbench.storage.recording import RecordingFolder, recording_manifest

# The array is so many times the L2, and no less than this.
_TIMES_L2 = 16
_LEAST_ARRAY_BYTES = 1 << 30
# Of the L2, what an array of that level takes: with others of its data it must fit either half.
_L2_SHARE = 0.45
# Fewer would leave parts of an SM idle.
_LEAST_THREADS = 128
_LEAST_WINDOW_S = 0.5
_READINGS = 40
# Power of the kernel that sleeps is read after every so many kernels, when the chip is warm.
_SLEEP_EVERY = 6
_SLEEP_TRIPS = 1000
# By default kernels run on all SMs and on one in so many.
_FEW = 8
_MAX_LAUNCHES = 100_000
# What a launch from a cache loads, or computes where that takes longer: some milliseconds.
_CACHE_LAUNCH_BYTES = 1 << 35
_LAUNCH_FLOPS = 4e11
_THREADS = 1024


def measure(
    gpu: Gpu,
    options: RooflineOptions,
    out: Path | None = None,
    *,
    resume: bool = False,
    show: Callable[[int, int, str], None] = lambda *_: None,
    budget_s: float = math.inf,
) -> RecordingFolder:
    """Run every kernel that is wanted, and return the folder of their readings.

    Args:
        gpu: A real or simulated GPU.
        options: What is measured.
        out: Folder; None for a new one below results/, or below runs/ where nothing is measured.
        resume: Go on with the folder `out`: what it holds is not run again.
        show: Told how many are done, how many there are, and which is in hand.
        budget_s: No kernel begins later than this; what is missing then can be resumed.

    Raises:
        InputError: An intensity cannot be reached, a kernel is not what it should be, or the folder does
            not fit.
        GpuError: The GPU stopped answering; the folder holds what was run.
        ToolError: The assembler or the disassembler is missing.
    """
    if gpu.info.kind is GpuKind.REPLAYED:
        raise InputError(f"{gpu.info.name} is a recorded run: name a real or simulated GPU")
    until_ns = gpu.clock.now_ns() + budget_s * 1e9
    bench = _Bench(gpu, options)
    plan = bench.plan()
    with _open(gpu, out, resume=resume) as folder:
        done = {kernel.name for kernel in read_kernels(folder)}
        missing = [(name, make) for name, make in plan if name not in done]
        if folder.finished:
            if missing:
                raise InputError(f"{folder.path} is finished, without {missing[0][0]}; choose a new folder")
            return folder
        with kernel_lines(folder).open() as kept:
            for number, (name, make) in enumerate(missing, len(plan) - len(missing)):
                if gpu.clock.now_ns() > until_ns:
                    return folder
                show(number, len(plan), name)
                kernel, run = bench.run_settled(*make(folder, name))
                kept.add(kernel)
                folder.add(name, run)
        folder.finish()
    return folder


_Maker = Callable[[RecordingFolder, str], tuple[PointKernel, Launch]]


def _open(gpu: Gpu, out: Path | None, *, resume: bool) -> RecordingFolder:
    manifest = recording_manifest(gpu.info, gpu.clock, PURPOSE, gpu.sensors, 0.0, load_sms=0)
    if resume and out is None:
        raise InputError("`resume` needs the folder: name it by `out`")
    path = out or default_run_path(gpu.info, datetime.now(UTC), prefix="roofline-")
    return (RecordingFolder.resume if resume else RecordingFolder.create)(path, manifest)


class _Bench:
    """Builds kernels and their launches for one GPU."""

    def __init__(self, gpu: Gpu, options: RooflineOptions) -> None:
        self._gpu = gpu
        self._options = options
        self._l2_bytes = l2_bytes(gpu.info)
        if math.isnan(self._l2_bytes):
            raise InputError(
                f"the size of the L2 of {gpu.info.title} is not known, so no kernel can keep to it"
            )
        self._source = SourceCheck(board_sensor(gpu.sensors), gpu.sensors)
        self._window_s = options.window_s or max(_LEAST_WINDOW_S, needed_s(self._source.sensor))
        self._built: dict[str, BuiltKernel] = {}

    def plan(self) -> list[tuple[str, _Maker]]:
        """Return the name of every recording with what makes its launch, in random order.

        Raises:
            InputError: An intensity cannot be reached, or there are fewer SMs than wanted.
        """
        options, count = self._options, self._gpu.info.sm_count
        chosen = options.sms or (count, max(1, count // _FEW))
        if max(chosen) > count:
            raise InputError(f"`sms` {max(chosen)}: {self._gpu.info.name} has {count}")
        made: list[tuple[str, _Maker]] = [
            self._planned(kernel, pattern, sms)
            for kernel in options.kernels()
            for pattern in options.patterns
            for sms in chosen
        ]
        if options.peaks:
            made += [
                self._planned(IntensityKernel(KINDS[kind], math.inf), options.patterns[0], count)
                for kind in options.kinds
            ]
            made.append((f"{COPY}-{options.patterns[0]}", self._copy))
        random.Random(self._options.seed).shuffle(made)  # noqa: S311 - an order is no secret
        plan: list[tuple[str, _Maker]] = []
        for number, one in enumerate(made):
            if number % _SLEEP_EVERY == 0:
                plan.append((f"{SLEEP}-{number // _SLEEP_EVERY}", self._sleep))
            plan.append(one)
        return [*plan, (f"{SLEEP}-last", self._sleep)]

    def run_settled(self, kernel: PointKernel, launch: Launch) -> tuple[PointKernel, SequenceRun]:
        """Run a kernel, longer where it meets the power limit; return what ran, and its recording.

        Raises:
            LaunchError: The kernel did not run.
            GpuError: The GPU stopped answering.
        """
        runs: list[tuple[SequenceRun, int]] = []

        def attempt(length_s: float) -> tuple[KernelRun, int]:
            times = math.ceil(launch.times * length_s / self._window_s)
            runs.append((self._gpu.run_sequence((replace(launch, times=times),), ()), times))
            return only_run(runs[-1][0]), times

        run_until_settled(attempt, self._window_s, self._source, BoardLimits.of(self._gpu.info))
        run, times = runs[-1]
        others = max(run.before.other_processes, run.after.other_processes)
        return replace(kernel, launches=kernel.launches * times // launch.times, other_processes=others), run

    def _planned(self, kernel: IntensityKernel, pattern: str, sms: int) -> tuple[str, _Maker]:
        def make(folder: RecordingFolder, name: str) -> tuple[PointKernel, Launch]:
            return self._stream(folder, name, kernel, pattern, sms)

        if kernel.loads_once:
            return f"{kernel.name}-{pattern}-{sms}", make
        return f"{kernel.kind.name}-{kernel.level.name}-{kernel.target:.4g}-{pattern}-{sms}", make

    def _stream(
        self, folder: RecordingFolder, name: str, kernel: IntensityKernel, pattern: str, sms: int
    ) -> tuple[PointKernel, Launch]:
        built = self._build(folder, kernel)
        kind = kernel.kind
        threads = self._threads(kernel, sms)
        warps = sms * threads // WARP
        range_bytes = self._range_bytes(kernel, warps)
        array_bytes = warps * range_bytes
        trips = self._trips(kernel, warps, array_bytes)
        base = self._fill(name, built.cubin, sms, threads, range_bytes, kind.fill(pattern), pattern)
        launch = replace(
            base,
            kernel=STREAM,
            iterations=trips,
            scalars=(range_bytes, trips, *kind.factors(pattern)),
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
        range_bytes: int,
        words: tuple[int, ...],
        pattern: str,
    ) -> Launch:
        """Return the launch that fills an array of a range for each warp."""
        vectors = range_bytes // (16 * WARP)
        return Launch(
            name, cubin, FILL, sms, threads, vectors, (), pattern,
            scalars=(range_bytes, vectors, *words), result_bytes=sms * threads // WARP * range_bytes,
        )  # fmt: skip

    def _launches(self, launch: Launch) -> int:
        """Return how many launches fill the window, after a first one."""
        self._gpu.time_s(launch)
        return min(_MAX_LAUNCHES, max(1, math.ceil(self._window_s / self._gpu.time_s(launch))))

    def _trips(self, kernel: IntensityKernel, warps: int, array_bytes: int) -> int:
        """Return trips of a launch: one pass of DRAM's array, or passes that are not all overhead."""
        once = array_bytes // (kernel.trip_bytes * WARP * warps)
        if kernel.level.name == "dram" and not kernel.loads_once:
            return once
        lanes = warps * WARP
        trips = min(
            _CACHE_LAUNCH_BYTES / (kernel.trip_bytes * lanes), _LAUNCH_FLOPS / (kernel.flops_per_trip * lanes)
        )
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

    def _copy(self, folder: RecordingFolder, name: str) -> tuple[PointKernel, Launch]:
        """Copy within DRAM on all SMs, as STREAM does: the peak that kernels are held against."""
        info, pattern = self._gpu.info, self._options.patterns[0]
        ptx = copy_ptx(info.target)
        cubin = self._gpu.assemble(ptx, OptLevel.O3)
        folder.kernels.add(COPY, ptx, disassemble(cubin.image), cubin)
        warps = info.sm_count * _THREADS // WARP
        range_bytes = self._dram_range_bytes(warps)
        half = range_bytes // 2
        trips = half // (COPY_BYTES // 2 * WARP)
        words = KINDS["f32"].fill(pattern)
        base = self._fill(name, cubin, info.sm_count, _THREADS, range_bytes, words, pattern)
        launch = replace(base, kernel=COPY, iterations=trips, scalars=(range_bytes, trips, half))
        self._gpu.time_s(base)
        launches = self._launches(launch)
        moved = float(info.sm_count * _THREADS * trips * COPY_BYTES)
        point = PointKernel(name, "", LEVELS["dram"].name, pattern, info.sm_count, 0.0, moved, launches)
        return point, replace(launch, times=launches)

    def _build(self, folder: RecordingFolder, kernel: IntensityKernel) -> BuiltKernel:
        if kernel.name not in self._built:
            built = build(self._gpu, kernel)
            if built.fault:
                raise InputError(f"kernel {kernel.name} is not what it should be: {built.fault}")
            folder.kernels.add(kernel.name, built.ptx, built.listing, built.cubin)
            self._built[kernel.name] = built
        return self._built[kernel.name]

    def _sleep(self, folder: RecordingFolder, name: str) -> tuple[PointKernel, Launch]:
        del folder
        info = self._gpu.info
        cubin = self._gpu.assemble(render_sleep(find_target(info.target)), OptLevel.O3)
        operands = (np.zeros(RECORDS * RECORD_BYTES, np.uint8),)
        launch = Launch(name, cubin, "static", info.sm_count, _THREADS, _SLEEP_TRIPS, operands, "zeros")
        trip_s = self._gpu.time_s(launch) / _SLEEP_TRIPS
        if not trip_s > 0:
            raise LaunchError("the kernel that sleeps took no time")
        point = PointKernel(name, "", "", "zeros", info.sm_count, 0.0, 0.0, 1)
        return point, replace(launch, iterations=math.ceil(self._window_s / trip_s))


def needed_s(sensor: SensorDescription) -> float:
    """Return for how long a kernel must run for its power to be read well by a source, s."""
    return sensor.settle_s + sensor.regulation_s + _READINGS * sensor.refresh_s
