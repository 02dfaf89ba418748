"""Runs the strategies of `clock_strategies` on a GPU, each with no more trials than it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptxbench.core.gpu_settings import GpuSettings, evenly
from ptxbench.experiment.clock_sweep import sample_clocks
from ptxbench.model.clocks.ridge import fit_ridge, power_samples_csv, read_power_samples
from ptxbench.storage.atomic import write_text
from ptxbench.tune.candidate import Candidate
from ptxbench.tune.clocks.axes import SetGpu
from ptxbench.tune.clocks.strategies import STEERED, Chosen, ClockSpace, choose
from ptxbench.tune.folder import POWER_SAMPLES
from ptxbench.tune.search import Evaluator
from ptxbench.tune.space import Space
from ptxbench.tune.trial import Trial


def search_by_clocks(
    strategy: str, space: Space, evaluator: Evaluator, set_to: SetGpu, base_mhz: float
) -> Chosen:
    """Tune by one strategy; where the budget ends before it, it chooses among what was tried.

    `model-steered` first runs the load of `ptxbench clocks ridge` at every clock of the search and fits the
    power curve. It then tries as many clocks, all near the best one, and last its choice at the highest
    clock, so that what the clock saves is measured. The folder keeps the samples; a search that goes on takes
    them from there.

    Args:
        strategy: One of `CLOCK_STRATEGIES`.
        space: The search space with its settings.
        evaluator: Tries candidates.
        set_to: Sets the GPU.
        base_mhz: Base clock; NaN: 54% of the highest.

    Raises:
        InputError: There are too few clocks, none counts, or the folder's samples cannot be read.
        GpuError: The GPU stopped answering, or refuses a setting.
    """
    clocks = ClockSpace.of(space.variants, space.settings, base_mhz)
    if strategy == STEERED:
        clocks = replace(clocks, steered=_steered(clocks.clocks, evaluator, set_to))

    def ask(candidates: Sequence[Candidate]) -> list[Trial]:
        return list(evaluator.trials(candidates))

    chosen = choose(strategy, clocks, ask)
    if strategy == STEERED:
        evaluator.budget = max(evaluator.budget, len(evaluator.folder.trials) + 1)
        ask([Candidate(chosen.trial.variant, clocks.clocks[0])])
    return chosen


def _steered(clocks: Sequence[GpuSettings], evaluator: Evaluator, set_to: SetGpu) -> tuple[GpuSettings, ...]:
    """Return settings near the best clock of the power curve, the highest first."""
    gpu, path = evaluator.runner.gpu, evaluator.folder.path / POWER_SAMPLES
    if path.exists():
        samples = read_power_samples(path)
    else:
        samples = sample_clocks(gpu, clocks, set_to.apply)
        write_text(path, power_samples_csv(samples))
    low_mhz, high_mhz = fit_ridge(samples, gpu.info.power_limit_w).search_mhz
    near = [mhz for mhz in set_to.supported_mhz if low_mhz <= mhz <= high_mhz]
    return tuple(replace(clocks[0], sm_clock_mhz=mhz) for mhz in evenly(near, len(clocks))[::-1])
