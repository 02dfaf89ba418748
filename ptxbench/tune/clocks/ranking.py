"""Ranks variants and clocks by the estimator alone: nothing is set, nothing runs, nothing is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.gpu_settings import CLOCK_STEP_MHZ, GpuSettings, evenly
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_settable
from ptxbench.tune.candidate import Candidate
from ptxbench.tune.model_energy import open_model
from ptxbench.tune.objective import ranked
from ptxbench.tune.search import predict_candidates
from ptxbench.tune.trial import Trial
from ptxbench.tune.tunable_kernel import TunableKernel
from ptxbench.tune.tuning import Tuning, goal_for, pattern_of, tunable_of
from ptxbench.tune.variant_runner import VariantRunner

# Clocks that are ranked, and how far down where a GPU does not list its own; chosen.
_CLOCKS = 24
_LOWEST = 0.5


@dataclass(frozen=True)
class ClockRanking:
    """Predictions of variants at clocks; nothing of it was measured.

    Attributes:
        tunable: What has the variants.
        best: Pairs of a variant and a clock, the best first.
        clocks_mhz: Clocks that were ranked, ascending.
        seen_mhz: Lowest clock at which the law of the clock was measured: below it energies are extrapolated,
            with wider intervals.
        law: How energy goes with the clock, in words.
        predicted: Variants that were predicted.
    """

    tunable: TunableKernel
    best: tuple[Trial, ...]
    clocks_mhz: tuple[int, ...]
    seen_mhz: float
    law: str
    predicted: int

    @property
    def by_variant(self) -> tuple[Trial, ...]:
        """The best clock of each variant, the best variant first."""
        first: dict[str, Trial] = {}
        for trial in self.best:
            first.setdefault(trial.variant.name, trial)
        return tuple(first.values())


def rank_clocks(
    gpu: Gpu, tuning: Tuning, show: Callable[[int, int, str], None] = lambda *_: None
) -> ClockRanking:
    """Predict up to `tuning.candidates` variants at each of 24 clocks, and rank the pairs.

    Args:
        gpu: What they would run on; only its clocks are read.
        tuning: The kernel, the goal and the table.
        show: Called with how many pairs are predicted, how many there are, and which is in progress.

    Raises:
        InputError: There is no table, or it is of another GPU.
        ToolError: ptxas or nvdisasm is missing.
    """
    if tuning.table is None:
        raise InputError("`clocks` model needs a table to estimate by; give `table` RUN")
    tunable, space = tunable_of(gpu, tuning)
    options = replace(tuning.options, pattern=pattern_of(tunable, tuning))
    model = open_model(tuning.table, gpu.info, options.pattern, tuning.samples)
    clocks_mhz = evenly(_supported_mhz(gpu), _CLOCKS)
    drawn = Random(options.seed).sample(  # noqa: S311
        space.variants, min(tuning.candidates, len(space.variants))
    )
    candidates = [Candidate(v, GpuSettings(sm_clock_mhz=mhz)) for v in drawn for mhz in clocks_mhz]
    runner = VariantRunner(gpu, tunable, options, model)
    trials = predict_candidates(candidates, runner, tuning.jobs, show)
    law = model.machine.law
    return ClockRanking(
        tunable=tunable,
        best=ranked(trials, goal_for(tuning.goal, tunable)),
        clocks_mhz=clocks_mhz,
        seen_mhz=law.lowest_ratio * gpu.info.max_sm_clock_mhz,
        law=law.origin,
        predicted=len(drawn),
    )


def _supported_mhz(gpu: Gpu) -> Sequence[int]:
    """Return the clocks that a GPU has, down to half of its highest where it does not say."""
    try:
        with open_settable(gpu) as settable:
            choices = settable.choices().clocks
    except GpuError:
        choices = ()
    if choices:
        return choices[-1].sm_clocks_mhz
    highest = round(gpu.info.max_sm_clock_mhz)
    return range(highest, round(_LOWEST * highest), -CLOCK_STEP_MHZ)[::-1]
