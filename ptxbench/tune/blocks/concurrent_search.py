"""Tunes the block sizes of kernels that run at once, into one folder: what `ptxbench tune concurrent` does.

manifest.json   tool, GPU, host, kernels and settings
trials.jsonl    one line a run of all kernels, on the disk before the next begins
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.base import Gpu
from ptxbench.storage.folder_kind import MANIFEST, Kind
from ptxbench.storage.journal import Lines
from ptxbench.storage.location import default_run_path
from ptxbench.storage.manifest import Manifest, begin_run, new_manifest, read_manifest, require_unchanged
from ptxbench.tune.blocks.concurrent import ConcurrentRunner, ConcurrentTrial, run_name
from ptxbench.tune.blocks.concurrent_options import ConcurrentOptions
from ptxbench.tune.blocks.guerreiro import (
    Choice,
    ConcurrentCost,
    Found,
    ordered_distributions,
    tune_blocks,
)
from ptxbench.tune.blocks.search import BlockVariant, block_variants, default_block
from ptxbench.tune.clocks.axes import SettingAxes, settings_of
from ptxbench.tune.configuration import KernelProblem
from ptxbench.tune.objective import plain_cost
from ptxbench.tune.repeats import FIRST, repeat_first, repeat_measurement
from ptxbench.tune.source import OTHER_SOURCES
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.user_kernel import UserKernel
from ptxbench.tune.variant_runner import require_window

_TRIALS = "trials.jsonl"

Show = Callable[[int, int, str], None]


@dataclass(frozen=True)
class ConcurrentTuning(ConcurrentOptions):
    """Which kernels are tuned, and how.

    Attributes:
        specs: The kernels, in the order of their launches.
        jobs: Compilers at once; 0 for as many as there are processors.
    """

    specs: tuple[KernelSpec, ...]
    jobs: int = 0


@dataclass(frozen=True, kw_only=True)
class ConcurrentPart:
    """What only a folder of kernels at once has.

    Attributes:
        kernels: What runs at once, in the order of the launches.
        window_s: Seconds of rounds over which power is read.
        seed: Of the arrays.
        source_keys: Hashes of the files and flags that the code follows from, of each block size of each
            kernel (see `TunableKernel.source_key`); () in folders of older versions.
    """

    kernels: tuple[KernelProblem, ...]
    window_s: float
    seed: int
    source_keys: tuple[str, ...] = ()


ConcurrentManifest = Manifest[ConcurrentPart]


def _manifest(
    gpu: Gpu,
    kernels: Sequence[UserKernel],
    tuning: ConcurrentTuning,
    built: Sequence[Sequence[BlockVariant]],
) -> ConcurrentManifest:
    """Return the manifest of a search that begins now, on this host."""
    part = ConcurrentPart(
        kernels=tuple(one.problem for one in kernels),
        window_s=tuning.window_s,
        seed=tuning.seed or 0,
        source_keys=tuple(
            kernel.source_key(one.variant, gpu.info.target)
            for kernel, variants in zip(kernels, built, strict=True)
            for one in variants
        ),
    )
    return new_manifest(Kind.CONCURRENT, part, (gpu.info,), gpu.sensors)


@dataclass(frozen=True)
class InTurn:
    """Kernels that run one after the other: times and energies of each alone add up.

    Attributes:
        alone: The run of each.
    """

    alone: tuple[ConcurrentTrial, ...]

    @property
    def name(self) -> str:
        """The variants in short."""
        return ", then ".join(one.variants[0].name for one in self.alone)

    @property
    def ok(self) -> bool:
        """Whether all of them count."""
        return all(one.ok for one in self.alone)

    @property
    def time_s(self) -> float:
        """Time of all together, s."""
        return sum(one.time_s for one in self.alone)

    @property
    def energy_j(self) -> float:
        """Energy of all together, J."""
        return sum(one.energy_j for one in self.alone)

    @property
    def power_w(self) -> float:
        """Their mean power, W."""
        return self.energy_j / self.time_s

    @property
    def at_limit(self) -> str:
        """What tables say of it at the power limit."""
        return "; ".join(dict.fromkeys(filter(None, (one.at_limit for one in self.alone))))

    @property
    def reason(self) -> str:
        """Why it does not count; "" where it does."""
        return "; ".join(one.reason for one in self.alone if not one.ok)


@dataclass(frozen=True)
class ConcurrentTuned:
    """What was found.

    Attributes:
        path: The folder.
        manifest: What it is.
        trials: Every run of all kernels.
        chosen: The run that Algorithm 3 ended at.
        default: The run with 256 threads in each block, or the size nearest to that.
        iterations: Runs that Algorithm 3 needed.
        tried: Combinations of block sizes of high occupancy.
        possible: Combinations of all block sizes.
        best: The best of all runs at once that were made.
        alone: The best run of each kernel alone.
        objective: What was made small.
    """

    path: Path
    manifest: ConcurrentManifest
    trials: tuple[ConcurrentTrial, ...]
    chosen: ConcurrentTrial
    default: ConcurrentTrial
    iterations: int
    tried: int
    possible: int
    best: ConcurrentTrial
    alone: tuple[ConcurrentTrial, ...]
    objective: str

    @property
    def in_turn(self) -> InTurn:
        """The kernels one after the other, each with the block size that is its best alone."""
        return InTurn(self.alone)

    @property
    def recommended(self) -> ConcurrentTrial | InTurn:
        """The best of all that was run, be it at once or in turn."""
        in_turn = self.in_turn
        is_better = cost_of(in_turn, self.objective) < cost_of(self.best, self.objective)
        return in_turn if is_better else self.best


class ConcurrentRuns:
    """Runs of kernels at once; one that the folder holds is not made again.

    Args:
        open_bench: Returns where they are made, given those that the folder holds.
        path: The folder, which holds a manifest.
        show: Called with how many are done, 0 for how many there are to do, and which is in progress.
        apply: Sets an SM clock before a run, MHz; 0: that which is set.
    """

    def __init__(
        self,
        open_bench: Callable[[Sequence[ConcurrentTrial]], ConcurrentRunner],
        path: Path,
        show: Show = lambda *_: None,
        apply: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._apply = apply
        self._lines = Lines(path / _TRIALS, ConcurrentTrial, lambda one: one.name).open()
        self._held = self._lines.by_name
        self._runner = open_bench(self.trials)
        self._show = show
        self._variants: dict[str, tuple[Sequence[BlockVariant], int, int]] = {}

    @property
    def trials(self) -> tuple[ConcurrentTrial, ...]:
        """Every run, in the order in which they were made."""
        return tuple(self._held.values())

    def measure(
        self, variants: Sequence[BlockVariant], clock_mhz: int = 0, alone: int = 0
    ) -> ConcurrentTrial:
        """Return a run of all kernels, or of one alone (its number, from 1 on), and keep it.

        Raises:
            GpuError: The GPU stopped answering.
            InputError: The disk is full.
        """
        name = run_name([one.variant for one in variants], clock_mhz, alone)
        self._variants[name] = variants, clock_mhz, alone
        if name not in self._held:
            self._show(len(self._held), 0, name)
            self._apply(clock_mhz)
            self._lines.add(self._runner.measure(variants, clock_mhz, alone))
        return self._held[name]

    def repeat_first(self, objective: str, alone: int = 0) -> None:
        """Make the best runs again, so that none stands first by a lucky reading.

        Args:
            objective: What they are the best by.
            alone: Of which kernel alone, from 1 on; 0: those at once.

        Raises:
            GpuError: The GPU stopped answering.
            InputError: The disk is full.
        """
        most = 1 if alone else FIRST

        def first() -> list[str]:
            return [trial.name for trial in self.best_first(objective, alone)[:most]]

        repeat_first(first, lambda name: max(1, len(self._held[name].energies_j)), self._again)

    def best_first(self, objective: str, alone: int = 0) -> list[ConcurrentTrial]:
        """Return the runs of this search that count, the best first.

        Args:
            objective: What they are the best by.
            alone: Of which kernel alone, from 1 on; 0: those at once.
        """
        known = [t for name, t in self._held.items() if name in self._variants and t.alone == alone]
        counted = [trial for trial in known if math.isfinite(cost_of(trial, objective))]
        return sorted(counted, key=lambda trial: cost_of(trial, objective))

    def _again(self, name: str) -> None:
        """Make a run that has one energy again, and keep both as one."""
        self._apply(self._variants[name][1])
        self._lines.add(
            repeat_measurement(self._held[name], lambda _: self._runner.measure(*self._variants[name]))
        )

    def require(self) -> None:
        """Take all powers out where their source may not be believed.

        Raises:
            InputError: The disk is full.
        """
        objection = self._runner.source.objection
        for trial in [t for t in self._held.values() if objection and math.isfinite(t.energy_j)]:
            self._lines.add(trial.without_power(objection))

    def close(self) -> None:
        """Take what may not be believed out, and give the right to write back.

        Raises:
            InputError: The disk is full.
        """
        self.require()
        self._lines.close()


def cost_of(trial: ConcurrentTrial | InTurn, objective: str) -> float:
    """Return what is made small; infinite for a run that does not count."""
    cost = plain_cost(objective, trial.time_s, trial.energy_j) if trial.ok else math.nan
    return cost if math.isfinite(cost) else math.inf


def concurrent_cost(trial: ConcurrentTrial, objective: str) -> ConcurrentCost:
    """Return a run's cost, with the times by which the kernels are put in order.

    No sensor tells the energy of each kernel that runs at once with others: under one power, the order of
    their times is that of their energies.
    """
    return ConcurrentCost(cost_of(trial, objective), trial.kernel_s or (0.0,) * len(trial.variants))


def tune_concurrently(
    gpu: Gpu,
    tuning: ConcurrentTuning,
    out: Path | None = None,
    resume: Path | None = None,
    show: Show = lambda *_: None,
    say: Callable[[str], None] = lambda _: None,
) -> ConcurrentTuned:
    """Search block sizes by Algorithm 3 of Guerreiro et al. (2015), with clocks by 4; return what was found.

    Args:
        gpu: Where kernels run.
        tuning: Which, and how.
        out: New folder; None for one below results/, or below runs/ where nothing is measured.
        resume: Folder to resume, in place of `out`.
        show: Called with how many are done, 0 for how many there are to do, and which is in progress.
        say: Told when the GPU is set and restored.

    Raises:
        InputError: A kernel, a clock or the folder does not fit.
        GpuError: The GPU stopped answering; the folder holds what was tried.
        ToolError: nvcc, ptxas or nvdisasm is missing.
    """
    if gpu.info.kind is GpuKind.REPLAYED:
        raise InputError(f"{gpu.info.name} is a recorded run: name a real or simulated GPU")
    require_window(gpu, tuning.window_s)
    kernels = [UserKernel(spec, tuning.seed or 0) for spec in tuning.specs]
    jobs = tuning.jobs or os.cpu_count() or 1
    every = [block_variants(one, gpu.info.target, jobs) for one in kernels]
    for kernel, variants in zip(kernels, every, strict=True):
        kernel.prepare(gpu, [variants[0].variant])
    path = resume or out or default_run_path(gpu.info, datetime.now(UTC), prefix="concurrent-")
    manifest = _manifest(gpu, kernels, tuning, every)
    axes = SettingAxes(sm_clocks=tuning.clocks)
    with settings_of(gpu, axes, say, allowed=tuning.allow_settings) as set_to:
        by_clock = {one.sm_clock_mhz or 0: one for one in set_to.settings}
        if resume:
            manifest = _resumed(path, manifest)
        else:
            begin_run(path, manifest)
        runs = ConcurrentRuns(
            lambda held: ConcurrentRunner(gpu, kernels, tuning.window_s, before=held),
            path,
            show,
            lambda clock_mhz: set_to.apply(by_clock[clock_mhz]),
        )
        try:
            return _search(runs, tuning, path, manifest, every, sorted(by_clock, reverse=True))
        finally:
            runs.close()


def _search(
    runs: ConcurrentRuns,
    tuning: ConcurrentTuning,
    path: Path,
    manifest: ConcurrentManifest,
    every: Sequence[Sequence[BlockVariant]],
    clocks_mhz: Sequence[int],
) -> ConcurrentTuned:
    """Search at once, then each kernel alone at the clock that was found, and make the best runs again."""
    ordered = [ordered_distributions(one, tuning.high_occupancy) for one in every]

    def search(
        sizes: Sequence[Sequence[BlockVariant]], clocks_mhz: Sequence[int], alone: int = 0
    ) -> tuple[str, Found]:
        """Return the name of the run that a search ends at, of all kernels or of one alone."""

        def measure(choice: Choice, clock_mhz: int) -> ConcurrentTrial:
            return runs.measure([one[n] for one, n in zip(sizes, choice, strict=True)], clock_mhz, alone)

        found = tune_blocks(
            [len(one) for one in sizes],
            lambda choice, clock_mhz: concurrent_cost(measure(choice, clock_mhz), tuning.objective),
            clocks_mhz,
            tuning.patience,
        )
        return measure(found.choice, found.clock_mhz).name, found

    chosen, found = search(ordered, clocks_mhz)
    default = runs.measure([default_block(one) for one in every], clocks_mhz[0]).name
    if tuning.exhaustive:
        for clock_mhz, combination in itertools.product(clocks_mhz, itertools.product(*every)):
            runs.measure(combination, clock_mhz)
    runs.repeat_first(tuning.objective)
    alone = []
    for number, sizes in enumerate(ordered, 1):
        alone.append(search([sizes], [found.clock_mhz], number)[0])
        runs.repeat_first(tuning.objective, number)
    runs.require()
    trials = {one.name: one for one in runs.trials}

    def best(number: int, name: str) -> ConcurrentTrial:
        return next(iter(runs.best_first(tuning.objective, number)), trials[name])

    return ConcurrentTuned(
        path=path,
        manifest=manifest,
        trials=runs.trials,
        chosen=trials[chosen],
        default=trials[default],
        iterations=found.iterations,
        tried=len(clocks_mhz) * math.prod(len(one) for one in ordered),
        possible=len(clocks_mhz) * math.prod(len(one) for one in every),
        best=best(0, chosen),
        alone=tuple(best(number, name) for number, name in enumerate(alone, 1)),
        objective=tuning.objective,
    )


def _resumed(path: Path, now: ConcurrentManifest) -> ConcurrentManifest:
    """Return the manifest of a folder, which must be of the same kernels, board and way.

    Raises:
        InputError: It is of something else.
    """
    held = read_manifest(path / MANIFEST, ConcurrentManifest, Kind.CONCURRENT)
    require_unchanged(path, held, now, "kernels", "window_s", "seed")
    if held.part.source_keys and held.part.source_keys != now.part.source_keys:
        raise InputError(f"{path}: {OTHER_SOURCES}")
    return held
