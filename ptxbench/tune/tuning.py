"""Tunes GEMM on one GPU into one folder: what `ptxbench tune gemm` does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.base import Gpu
from ptxbench.model.inputs import read_table
from ptxbench.storage.location import default_run_path
from ptxbench.tune.bench import Bench, BenchOptions
from ptxbench.tune.clock_search import search_by_clocks
from ptxbench.tune.clock_strategies import CAPPED, CLOCK_STRATEGIES
from ptxbench.tune.folder import TuningFolder, TuningManifest
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.model_energy import open_model
from ptxbench.tune.objective import Goal, Objective, Pruning, pareto_front, ranked
from ptxbench.tune.search import Evaluator, search_by_estimate, search_random
from ptxbench.tune.setting_axes import SettingAxes, settings_of
from ptxbench.tune.space import Space, load_axes, search_space
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.strategies import require_strategy, search_by_strategy
from ptxbench.tune.subject import Subject
from ptxbench.tune.trial import Trial
from ptxbench.tune.user_kernel import UserKernel
from ptxbench.tune.variant import Problem

BY_ESTIMATE, AT_RANDOM = "estimate", "random"


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how.

    Attributes:
        problem: The product, or a user's kernel.
        goal: What is made small.
        options: How variants are tried.
        strategy: "estimate", "random", or a strategy of Kernel Tuner; "" for the first where there is a
            table or time is the objective, or else the second.
        budget: Variants that are tried.
        candidates: Variants that are predicted, for "estimate".
        table: Run by which energy is estimated, or None.
        space: TOML file of the search space, or None for the one that ptxbench ships.
        prune: Variants whose estimated cost is over so many times the best one's are not measured; NaN: all
            are.
        jobs: Assemblers at once; 0 for as many as there are processors.
        sample: Of the budget, variants that are drawn at random beside those that "estimate" puts first.
        axes: Clocks and power limits that each variant is tried at.
        allow_settings: Whether the user allowed that the GPU is set.
        base_mhz: Base clock, for the strategy that begins there; NaN: 54% of the highest.
        samples: CSV file of power at several clocks, by which energies at lower clocks are estimated.
    """

    problem: Problem | KernelSpec
    goal: Goal
    options: BenchOptions = field(default_factory=BenchOptions)
    strategy: str = ""
    budget: int = 50
    candidates: int = 256
    table: Path | None = None
    space: Path | None = None
    prune: float = math.nan
    jobs: int = 0
    sample: int = 0
    axes: SettingAxes = field(default_factory=SettingAxes)
    allow_settings: bool = False
    base_mhz: float = math.nan
    samples: Path | None = None


@dataclass(frozen=True)
class Tuned:
    """What tuning found.

    Attributes:
        path: The folder.
        manifest: What it is.
        trials: Every variant that was tried.
        best: Those that count, the best for the goal first.
        front: Those that no other beats in time and energy, the fastest first.
        searched: Candidates in the search space.
    """

    path: Path
    manifest: TuningManifest
    trials: tuple[Trial, ...]
    best: tuple[Trial, ...]
    front: tuple[Trial, ...]
    searched: int


def tune(
    gpu: Gpu,
    tuning: Tuning,
    out: Path | None = None,
    resume: Path | None = None,
    show: Callable[[int, int, str], None] = lambda *_: None,
    say: Callable[[str], None] = lambda _: None,
) -> Tuned:
    """Search, and return what was found.

    Args:
        gpu: Where variants run.
        tuning: What is tuned, and how.
        out: New folder; None for one below results/, or below runs/ where nothing is measured.
        resume: Folder to resume, in place of `out`.
        show: Called with how many are done, how many there are to do, and which variant is in hand.
        say: Told when the GPU is set and restored.

    Raises:
        InputError: The problem, the table, a setting or the folder does not fit.
        GpuError: The GPU stopped answering; the folder holds what was tried. Or it could not be set, and
            nothing was changed.
        ToolError: ptxas or nvdisasm is missing.
    """
    if gpu.info.kind is GpuKind.REPLAYED:
        raise InputError(
            f"{gpu.info.name} is a recorded run, which tunes nothing: name a real or simulated GPU"
        )
    for_time = tuning.goal.objective is Objective.TIME
    strategy = tuning.strategy or (BY_ESTIMATE if tuning.table or for_time else AT_RANDOM)
    _require_sense(tuning, strategy)
    subject, space = subject_of(gpu, tuning)
    goal = goal_for(tuning.goal, subject)
    pattern = pattern_of(subject, tuning)
    model = open_model(tuning.table, gpu.info, pattern, tuning.samples) if tuning.table else None
    options = replace(tuning.options, pattern=pattern)
    manifest = TuningManifest.new(gpu, subject.problem, options, _model_name(tuning))
    path = resume or out or default_run_path(gpu.info, datetime.now(UTC), prefix="tune-")
    pruning = None if math.isnan(tuning.prune) else Pruning(goal, tuning.prune)
    with settings_of(gpu, tuning.axes, say, allowed=tuning.allow_settings) as set_to:
        space = replace(space, settings=set_to.settings)
        bench = Bench(gpu, subject, options, model, full_memory_mhz=set_to.full_memory_mhz)
        folder = TuningFolder.resume(path, manifest) if resume else TuningFolder.create(path, manifest)
        evaluator = Evaluator(bench, folder, tuning.budget, tuning.jobs, show, pruning, set_to.apply)
        try:
            if strategy == BY_ESTIMATE:
                candidates, seed = tuning.candidates, options.seed
                search_by_estimate(space, evaluator, goal, seed, candidates, show, tuning.sample)
            elif strategy == AT_RANDOM:
                search_random(space, evaluator, tuning.options.seed)
            elif strategy in CLOCK_STRATEGIES:
                search_by_clocks(strategy, space, evaluator, set_to, tuning.base_mhz)
            else:
                search_by_strategy(strategy, space, evaluator, goal, options.seed)
        finally:
            folder.close()
    trials = tuple(folder.trials.values())
    best, front = ranked(trials, goal), pareto_front(trials)
    return Tuned(path, folder.manifest, trials, best, front, len(space.candidates))


def subject_of(gpu: Gpu, tuning: Tuning) -> tuple[Subject, Space]:
    """Return what has the variants, and the variants.

    Raises:
        InputError: No variant is left, or a file does not fit.
    """
    if isinstance(tuning.problem, KernelSpec):
        cycles = read_table(tuning.table).cycles if tuning.table else None
        kernel = UserKernel(tuning.problem, tuning.options.seed, cycles)
        return kernel, kernel.space(gpu.info.target)
    axes = load_axes(tuning.problem.dtype, tuning.space)
    space = search_space(tuning.problem, gpu.info.target, axes)
    return Gemm(tuning.problem, tuning.options.seed, tuning.options.pattern), space


def goal_for(goal: Goal, subject: Subject) -> Goal:
    """Return the goal with what the kernel itself says of a trial."""
    metric = subject.metric if isinstance(subject, UserKernel) else None
    return replace(goal, flops=lambda trial: trial.flops_of(subject.problem), metric=metric)


def pattern_of(subject: Subject, tuning: Tuning) -> str:
    """Return the operand pattern: a user's arrays say their own."""
    return subject.pattern if isinstance(subject, UserKernel) else tuning.options.pattern


def _require_sense(tuning: Tuning, strategy: str) -> None:
    """Refuse what cannot be done.

    Raises:
        InputError: The settings do not go together.
    """
    for_time = tuning.goal.objective is Objective.TIME
    if strategy == BY_ESTIMATE and tuning.table is None and not for_time:
        raise InputError("--strategy estimate needs a table to estimate by; give --table RUN")
    if not math.isnan(tuning.prune) and tuning.table is None:
        raise InputError("--prune needs a table to estimate by; give --table RUN")
    if strategy in CLOCK_STRATEGIES:
        _require_clocks(tuning, strategy)
    elif strategy not in (BY_ESTIMATE, AT_RANDOM):
        require_strategy(strategy)
    if not for_time and not tuning.options.power and tuning.table is None:
        raise InputError(
            f"--measure time gives no energy for --objective {tuning.goal.objective}; give --table RUN"
        )
    spec = tuning.problem if isinstance(tuning.problem, KernelSpec) else None
    if tuning.goal.objective is Objective.METRIC and (spec is None or spec.metric is None):
        raise InputError("--objective metric needs a specification with [objective] metric")
    if tuning.goal.objective is Objective.GFLOPS_PER_W and spec is not None and spec.flops is None:
        raise InputError("--objective gflops-per-w needs a specification with [work] flops")
    if tuning.goal.objective is Objective.POWER_LIMITED and math.isnan(tuning.goal.power_limit_w):
        raise InputError("--objective power-limited needs --power-limit-w W")


def _require_clocks(tuning: Tuning, strategy: str) -> None:
    wanted = "--power-limits" if strategy == CAPPED else "--clocks"
    if (tuning.axes.power_limits if strategy == CAPPED else tuning.axes.sm_clocks) is None:
        raise InputError(f"--strategy {strategy} needs {wanted}")


def _model_name(tuning: Tuning) -> str:
    return f"table {tuning.table.name}" if tuning.table else ""
