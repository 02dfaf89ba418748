"""Tunes GEMM on one GPU into one folder: what `ptxbench tune gemm` does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.base import Gpu
from ptxbench.storage.location import default_run_path
from ptxbench.tune.bench import Bench, BenchOptions
from ptxbench.tune.folder import TuningFolder, TuningManifest
from ptxbench.tune.model_energy import open_model
from ptxbench.tune.objective import Goal, Objective, Pruning, pareto_front, ranked
from ptxbench.tune.search import Evaluator, search_by_estimate, search_random
from ptxbench.tune.space import load_axes, search_space
from ptxbench.tune.strategies import require_strategy, search_by_strategy
from ptxbench.tune.trial import Trial
from ptxbench.tune.variant import Problem

BY_ESTIMATE, AT_RANDOM = "estimate", "random"


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how.

    Attributes:
        problem: The product.
        goal: What is made small.
        asked: How variants are tried.
        strategy: "estimate", "random", or a strategy of Kernel Tuner; "" for the first where there is a
            table or time is the objective, or else the second.
        budget: Variants that are tried.
        candidates: Variants that are foretold, for "estimate".
        table: Run by which energy is estimated, or None.
        space: TOML file of the search space, or None for the one that ptxbench ships.
        prune: Variants whose estimated cost is over so many times the best one's are not measured; NaN: all
            are.
        jobs: Assemblers at once; 0 for as many as there are processors.
    """

    problem: Problem
    goal: Goal
    asked: BenchOptions = field(default_factory=BenchOptions)
    strategy: str = ""
    budget: int = 50
    candidates: int = 256
    table: Path | None = None
    space: Path | None = None
    prune: float = math.nan
    jobs: int = 0


@dataclass(frozen=True)
class Tuned:
    """What tuning found.

    Attributes:
        path: The folder.
        manifest: What it is.
        trials: Every variant that was tried.
        best: Those that count, the best for the goal first.
        front: Those that no other beats in time and energy, the fastest first.
        searched: Variants in the search space.
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
) -> Tuned:
    """Search, and return what was found.

    Args:
        gpu: Where variants run.
        tuning: What is tuned, and how.
        out: New folder; None for one below results/, or below runs/ where nothing is measured.
        resume: Folder to resume, in place of `out`.
        show: Called with how many are done, how many there are to do, and which variant is in hand.

    Raises:
        InputError: The problem, the table or the folder does not fit.
        GpuError: The GPU stopped answering; the folder holds what was tried.
        ToolError: ptxas or nvdisasm is missing.
    """
    if gpu.info.kind is GpuKind.REPLAYED:
        raise InputError(
            f"{gpu.info.name} is a recorded run, which tunes nothing: name a real or simulated GPU"
        )
    for_time = tuning.goal.objective is Objective.TIME
    strategy = tuning.strategy or (BY_ESTIMATE if tuning.table or for_time else AT_RANDOM)
    _require_sense(tuning, strategy)
    axes = load_axes(tuning.problem.dtype, tuning.space)
    space = search_space(tuning.problem, gpu.info.target, axes)
    model = open_model(tuning.table, gpu.info, tuning.asked.pattern) if tuning.table else None
    manifest = TuningManifest.new(gpu, tuning.problem, tuning.asked, _model_name(tuning))
    path = resume or out or default_run_path(gpu.info, datetime.now(UTC), prefix="tune-")
    folder = TuningFolder.resume(path, manifest) if resume else TuningFolder.create(path, manifest)
    bench = Bench(gpu, tuning.problem, tuning.asked, model)
    pruning = None if math.isnan(tuning.prune) else Pruning(tuning.goal, tuning.prune)
    evaluator = Evaluator(bench, folder, tuning.budget, tuning.jobs, show, pruning)
    try:
        if strategy == BY_ESTIMATE:
            search_by_estimate(space, evaluator, tuning.goal, tuning.asked.seed, tuning.candidates, show)
        elif strategy == AT_RANDOM:
            search_random(space, evaluator, tuning.asked.seed)
        else:
            search_by_strategy(strategy, space, evaluator, tuning.goal, tuning.asked.seed)
    finally:
        folder.close()
    trials = tuple(folder.trials.values())
    best, front = ranked(trials, tuning.goal), pareto_front(trials)
    return Tuned(path, folder.manifest, trials, best, front, len(space.variants))


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
    if strategy not in (BY_ESTIMATE, AT_RANDOM):
        require_strategy(strategy)
    if not for_time and not tuning.asked.power and tuning.table is None:
        raise InputError(
            f"--measure time gives no energy for --objective {tuning.goal.objective}; give --table RUN"
        )
    if tuning.goal.objective is Objective.POWER_LIMITED and math.isnan(tuning.goal.power_limit_w):
        raise InputError("--objective power-limited needs --power-limit-w W")


def _model_name(tuning: Tuning) -> str:
    return f"table {tuning.table.name}" if tuning.table else ""
