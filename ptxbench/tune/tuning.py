"""Tunes a product, a kernel or a function on one GPU into one folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.toolchain import assembler_name
from ptxbench.devices.base import Gpu
from ptxbench.devices.calling import CallingGpu
from ptxbench.energy.settled import SourceCheck
from ptxbench.model.atlas import open_atlas
from ptxbench.model.default_table import default_table
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.location import default_run_path
from ptxbench.storage.shipped import SHIPPED
from ptxbench.tune.blocks.guerreiro import HIGH_OCCUPANCY
from ptxbench.tune.blocks.search import search_blocks
from ptxbench.tune.called_function import CalledFunction
from ptxbench.tune.candidate import Candidate
from ptxbench.tune.clocks.axes import SettingAxes, settings_of
from ptxbench.tune.clocks.search import search_by_clocks
from ptxbench.tune.clocks.strategies import CAPPED, CLOCK_STRATEGIES, ENERGY_CLOCKS
from ptxbench.tune.folder import TuningFolder, TuningManifest, tuning_manifest
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.library import LibraryTrial, is_right, measure_library, open_cublas
from ptxbench.tune.model_energy import model_name, open_model
from ptxbench.tune.objective import Goal, Objective, Pruning, pareto_front, ranked
from ptxbench.tune.observer import Observer
from ptxbench.tune.search import Evaluator, search_by_estimate, search_random
from ptxbench.tune.source import OTHER_SOURCES
from ptxbench.tune.space import USUAL, Space, load_axes, search_space
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.strategies import require_strategy, search_by_strategy
from ptxbench.tune.trial import Trial
from ptxbench.tune.tunable_kernel import Point, TunableKernel
from ptxbench.tune.user_kernel import UserKernel
from ptxbench.tune.variant import Core, Problem
from ptxbench.tune.variant_runner import TrialOptions, VariantRunner, require_flush, require_window

TIMED, BY_ESTIMATE, AT_RANDOM, BY_BLOCKS = "timed", "estimate", "random", "guerreiro"

# Variants that are built at most before anything is measured: what is wrong with all of them is said once.
_BUILT_BEFORE = 16


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how.

    Attributes:
        problem: The product, a user's kernel, or a function of another library.
        goal: What is made small.
        options: How variants are tried.
        strategy: "timed", "estimate", "random", "guerreiro", or a strategy of Kernel Tuner; "" for what
            `usual_strategy` says.
        budget: Variants that are tried.
        candidates: Variants that are predicted, for "timed" and "estimate".
        table: Run by which energy is estimated, or None: where no strategy is named either and power is
            measured on a real GPU, the one that comes with ptxbench for it, if there is one.
        space: TOML file of the search space, or the name of one that ptxbench ships; None for the usual.
        prune: Variants whose estimated cost is over so many times the best one's are not measured; NaN: all
            are.
        jobs: Assemblers at once; 0 for as many as there are processors.
        core: For a product, what multiplies; None: the usual for its type.
        variants: Names of the variants to try, and no others; (): the strategy chooses.
        high_occupancy: Occupancy over which the strategy "guerreiro" tries a block size.
        beside: Library whose product is measured before and after the search; "": none is.
        sample: Of the budget, variants that are drawn at random beside those that "timed" or "estimate" puts
            first; the power of all of them is measured.
        axes: Clocks and power limits that each variant is tried at.
        allow_settings: Whether the user allowed that the GPU is set.
        base_mhz: Base clock, for the strategy that begins there; NaN: 54% of the highest.
        samples: CSV file of power at several clocks, by which energies at lower clocks are estimated.
        observers: Look on while the power of a variant is measured; each trial keeps what they saw.
    """

    problem: Problem | KernelSpec | CalledFunction
    goal: Goal
    options: TrialOptions = field(default_factory=TrialOptions)
    strategy: str = ""
    budget: int = 50
    candidates: int = 256
    table: Path | None = None
    space: str | Path | None = None
    prune: float = math.nan
    jobs: int = 0
    sample: int = 0
    axes: SettingAxes = field(default_factory=SettingAxes)
    allow_settings: bool = False
    base_mhz: float = math.nan
    samples: Path | None = None
    core: Core | None = None
    variants: tuple[str, ...] = ()
    beside: str = ""
    high_occupancy: float = HIGH_OCCUPANCY
    observers: tuple[Observer, ...] = ()


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
        beside: What a library took for the same product, as often as it was measured.
        scale: What the energy counter says of all energies, "" for nothing.
    """

    path: Path
    manifest: TuningManifest
    trials: tuple[Trial, ...]
    best: tuple[Trial, ...]
    front: tuple[Trial, ...]
    searched: int
    beside: tuple[LibraryTrial, ...] = ()
    scale: str = ""


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
        show: Called with how many are done, how many there are to do, and which variant is in progress.
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
    tuning = _with_own_table(tuning, gpu.info)
    strategy = tuning.strategy or usual_strategy(tuning)
    require_sense(tuning, strategy)
    require_flush(gpu, tuning.options.l2, tuning.beside)
    if tuning.options.power:
        require_window(gpu, tuning.options.window_s)
    tunable, space = tunable_of(gpu, tuning)
    chosen = _chosen(space, tuning.variants)
    library = _library(gpu, tuning) if tuning.beside else None
    goal = goal_for(tuning.goal, tunable)
    pattern = pattern_of(tunable, tuning)
    model = open_model(tuning.table, gpu.info, pattern, tuning.samples) if tuning.table else None
    options = replace(tuning.options, pattern=pattern)
    assembler = "" if isinstance(tunable, CalledFunction) else assembler_name()
    manifest = tuning_manifest(gpu, tunable.problem, options, _model_name(tuning, gpu), assembler)
    path = resume or out or default_run_path(gpu.info, datetime.now(UTC), prefix="tune-")
    pruning = None if math.isnan(tuning.prune) else Pruning(goal, tuning.prune)
    if isinstance(tunable, UserKernel):
        wanted = chosen or [one.variant for one in space.candidates]
        tunable.prepare(gpu, wanted[:: max(1, len(wanted) // _BUILT_BEFORE)][:_BUILT_BEFORE])
    with settings_of(gpu, tuning.axes, say, allowed=tuning.allow_settings) as set_to:
        space = replace(space, settings=set_to.settings)
        folder = TuningFolder.resume(path, manifest) if resume else TuningFolder.create(path, manifest)
        runner = VariantRunner(
            gpu,
            tunable,
            options,
            model,
            full_memory_mhz=set_to.full_memory_mhz,
            before=folder.trials.values(),
            observers=tuning.observers,
            metrics=tunable.metrics if isinstance(tunable, UserKernel) else lambda _: {},
        )
        evaluator = Evaluator(runner, folder, tuning.budget, tuning.jobs, show, pruning, set_to.apply)
        try:
            _require_same_sources(folder, evaluator)
            if library is not None:
                library(folder, runner.source)
            if tuning.variants:
                named = [Candidate(variant, one) for variant in chosen for one in space.settings]
                evaluator.budget = max(evaluator.budget, len(folder.trials) + len(named))
                for _ in evaluator.trials(named):
                    pass
            elif strategy in CLOCK_STRATEGIES:
                search_by_clocks(strategy, space, evaluator, set_to, tuning.base_mhz)
            else:
                _search(strategy, space, evaluator, goal, tuning, show)
            evaluator.repeat_first(goal)
            if library is not None:
                library(folder, runner.source)
        finally:
            folder.require(runner.source)
            folder.close()
            runner.close()
    return found_in(folder, goal, len(space.candidates))


def found_in(folder: TuningFolder, goal: Goal, searched: int) -> Tuned:
    """Return what the search in a folder found; it had so many candidates."""
    trials, scale = folder.believed()
    best, front = ranked(trials, goal), pareto_front(trials)
    return Tuned(folder.path, folder.manifest, trials, best, front, searched, folder.beside, scale)


def usual_strategy(tuning: Tuning) -> str:
    """Return the strategy where none is named.

    All are timed, and the power of the estimate's first is measured: of twelve kept searches that lost 0.1%
    of the energy at most (docs/tuning.md). Where no power is wanted, or only that of some by another rule,
    the estimate alone says what is tried.
    """
    if tuning.goal.objective is Objective.TIME:
        return BY_ESTIMATE
    if tuning.table is None:
        return AT_RANDOM
    return TIMED if tuning.options.power and math.isnan(tuning.prune) else BY_ESTIMATE


def _with_own_table(tuning: Tuning, info: GpuInfo) -> Tuning:
    """Return tuning that names no table and no strategy with the table of its GPU, if one comes along."""
    wanted = tuning.options.power and tuning.goal.objective is not Objective.TIME
    if tuning.table or tuning.strategy or tuning.variants or not wanted or info.kind is not GpuKind.REAL:
        return tuning
    try:
        name, _ = default_table(lambda: (info.name, info.target))
    except ArgumentError:
        return tuning
    return replace(tuning, table=SHIPPED[name])


def _search(
    strategy: str,
    space: Space,
    evaluator: Evaluator,
    goal: Goal,
    tuning: Tuning,
    show: Callable[[int, int, str], None],
) -> None:
    """Search by a strategy that takes clocks as it takes any other axis."""
    tunable, seed = evaluator.runner.tunable, tuning.options.seed
    if strategy in (TIMED, BY_ESTIMATE):
        timed = strategy == TIMED
        search_by_estimate(space, evaluator, goal, seed, tuning.candidates, show, tuning.sample, timed=timed)
    elif strategy == AT_RANDOM:
        search_random(space, evaluator, seed)
    elif isinstance(tunable, UserKernel) and strategy == BY_BLOCKS:
        search_blocks(tunable, space, evaluator, goal, tuning.high_occupancy)
    else:
        search_by_strategy(strategy, space, evaluator, goal, seed)


def tune_sizes(
    gpu: Gpu,
    tuning: Tuning,
    sizes: Sequence[int],
    out: Path,
    show: Callable[[int, int, str], None] = lambda *_: None,
) -> tuple[Tuned, ...]:
    """Search for square products of several sizes (Anzt et al. 2015, Figure 4), each in a folder of its own.

    Args:
        gpu: Where variants run.
        tuning: What is tuned, and how; its problem's m, n and k are those of `sizes`.
        sizes: The sizes.
        out: Folder of the folders; one that is there is continued.
        show: As `tune` calls it.

    Raises:
        InputError: A size, the table or a folder does not fit.
        GpuError: The GPU stopped answering; the folders hold what was tried.
        ToolError: ptxas or nvdisasm is missing.
    """
    found = []
    for size in sizes:
        assert isinstance(tuning.problem, Problem)  # noqa: S101 - a product has sizes
        problem = replace(tuning.problem, m=size, n=size, k=size)
        folder = out / f"{size:05d}"
        begun = (folder / MANIFEST).exists()
        one = replace(tuning, problem=problem)
        found.append(tune(gpu, one, None if begun else folder, folder if begun else None, show))
    return tuple(found)


def tunable_of(gpu: Gpu, tuning: Tuning) -> tuple[TunableKernel, Space]:
    """Return what has the variants, and the variants.

    Raises:
        InputError: No variant is left, or a file does not fit.
    """
    if isinstance(tuning.problem, CalledFunction):
        return tuning.problem, tuning.problem.space(gpu.info.target)
    if isinstance(tuning.problem, KernelSpec):
        cycles = open_atlas(tuning.table).cycles if tuning.table else None
        kernel = UserKernel(tuning.problem, tuning.options.seed, cycles)
        return kernel, kernel.space(gpu.info.target)
    axes = load_axes(tuning.problem.dtype, tuning.space or USUAL, tuning.core)
    space = search_space(tuning.problem, gpu.info.target, axes)
    return Gemm(tuning.problem, tuning.options.seed, tuning.options.pattern), space


def _require_same_sources(folder: TuningFolder, evaluator: Evaluator) -> None:
    """Refuse a folder whose variants were of other files or flags than they would be now.

    Raises:
        InputError: A file that nvcc includes, or a flag that it has from the environment, is another one.
        ToolError: nvcc is missing.
    """
    tunable, target = evaluator.runner.tunable, evaluator.runner.gpu.info.target
    held = {one.variant.name: one for one in folder.trials.values() if one.source_key}
    with ThreadPoolExecutor(evaluator.jobs) as pool:
        keys = pool.map(lambda one: tunable.source_key(one.variant, target), held.values())
        for trial, key in zip(held.values(), keys, strict=True):
            if key != trial.source_key:
                raise InputError(f"{folder.path}: {trial.variant.name}: {OTHER_SOURCES}")


def _chosen(space: Space, names: tuple[str, ...]) -> list[Point]:
    """Return the variants that are named.

    Raises:
        InputError: The space has no such variant.
    """
    found = {name: space.find(name) for name in names}
    missing = [name for name, variant in found.items() if variant is None]
    if missing:
        like = ", ".join(v.name for v in space.variants[:3])
        raise InputError(f"no variant of the space is called {missing[0]!r}; some are {like}")
    return [variant for variant in found.values() if variant is not None]


def _library(gpu: Gpu, tuning: Tuning) -> Callable[[TuningFolder, SourceCheck], None]:
    """Return what measures a library's product and keeps it in a folder.

    Raises:
        InputError: The library is not there, or cannot compute it, or the GPU is not a real one.
    """
    problem, options = tuning.problem, tuning.options
    if not isinstance(problem, Problem):
        raise InputError(f"`beside` {tuning.beside} goes with a matrix product; use tune gemm")
    if not isinstance(gpu, CallingGpu):
        raise InputError(f"`beside` {tuning.beside} needs a real GPU: name one by `gpu`")
    product = open_cublas(problem, gpu.ordinal, options.seed, options.pattern)
    right = is_right(problem, options.seed, options.pattern)
    window_s = options.window_s if options.power else math.nan

    def measure(folder: TuningFolder, source: SourceCheck) -> None:
        folder.add_beside(measure_library(gpu, product, right, len(folder.trials), window_s, source))

    return measure


def goal_for(goal: Goal, tunable: TunableKernel) -> Goal:
    """Return the goal with what the kernel itself says of a trial."""
    metric = tunable.metric if isinstance(tunable, UserKernel) else None
    return replace(goal, flops=lambda trial: trial.flops_of(tunable.problem), metric=metric)


def pattern_of(tunable: TunableKernel, tuning: Tuning) -> str:
    """Return the operand pattern: a user's arrays say their own."""
    return tunable.pattern if isinstance(tunable, UserKernel) else tuning.options.pattern


def require_sense(tuning: Tuning, strategy: str) -> None:
    """Refuse what cannot be done, before anything runs.

    Args:
        tuning: What is tuned, and how.
        strategy: How variants are chosen.

    Raises:
        InputError: The settings do not go together.
    """
    _require_estimates(tuning, strategy)
    if not math.isnan(tuning.prune) and tuning.table is None:
        raise ArgumentError("prune", "needs a table to estimate by; give `table`")
    if tuning.samples is not None and tuning.table is None:
        raise ArgumentError("clock_samples", "stand in for the power law of a table; give `table`")
    if strategy in CLOCK_STRATEGIES:
        _require_clocks(tuning, strategy)
    elif strategy not in (TIMED, BY_ESTIMATE, AT_RANDOM, BY_BLOCKS):
        require_strategy(strategy)
    if strategy == BY_BLOCKS and not isinstance(tuning.problem, KernelSpec):
        raise ArgumentError(
            "strategy", "guerreiro tunes the block size of a kernel that a specification describes"
        )
    if strategy != BY_BLOCKS and tuning.high_occupancy != HIGH_OCCUPANCY:
        raise ArgumentError("high_occupancy", f"is for `strategy` {BY_BLOCKS}; add that, or leave it out")
    if strategy != ENERGY_CLOCKS and not math.isnan(tuning.base_mhz):
        raise ArgumentError("base_mhz", f"is for `strategy` {ENERGY_CLOCKS}; add that, or leave it out")
    _require_goal(tuning)


def _require_goal(tuning: Tuning) -> None:
    if tuning.goal.objective is not Objective.TIME and not tuning.options.power and tuning.table is None:
        raise ArgumentError(
            "measure", f"time gives no energy for `objective` {tuning.goal.objective}; give `table`"
        )
    spec = tuning.problem if isinstance(tuning.problem, KernelSpec) else None
    if tuning.goal.objective is Objective.METRIC and (spec is None or spec.metric is None):
        raise ArgumentError("objective", "metric needs a specification with [objective] metric")
    if tuning.goal.objective is Objective.GFLOPS_PER_W and spec is not None and spec.flops is None:
        raise ArgumentError("objective", "gflops-per-w needs a specification with [work] flops")
    limited = tuning.goal.objective is Objective.POWER_LIMITED
    if limited and math.isnan(tuning.goal.power_limit_w):
        raise ArgumentError("objective", "power-limited needs `power_limit_w`")
    if not limited and not math.isnan(tuning.goal.power_limit_w):
        raise ArgumentError("power_limit_w", "is for `objective` power-limited; add that, or leave it out")


def _require_estimates(tuning: Tuning, strategy: str) -> None:
    for_time = tuning.goal.objective is Objective.TIME
    if isinstance(tuning.problem, CalledFunction):
        if strategy == BY_ESTIMATE:
            raise ArgumentError("strategy", "estimate needs the code of a kernel; take timed")
    elif strategy in (TIMED, BY_ESTIMATE) and tuning.table is None and not for_time:
        raise ArgumentError("strategy", f"{strategy} needs a table to estimate by; give `table`")
    if strategy == TIMED and (for_time or not tuning.options.power):
        raise ArgumentError("strategy", "timed measures the power of some; take estimate for times alone")


def _require_clocks(tuning: Tuning, strategy: str) -> None:
    wanted = "power_limits" if strategy == CAPPED else "clocks"
    if (tuning.axes.power_limits if strategy == CAPPED else tuning.axes.sm_clocks) is None:
        raise ArgumentError("strategy", f"{strategy} needs `{wanted}`")


def _model_name(tuning: Tuning, gpu: Gpu) -> str:
    return model_name(tuning.table, gpu.info) if tuning.table else ""
