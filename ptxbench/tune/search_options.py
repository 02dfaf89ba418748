"""What a search for the best variant of a kernel takes, from Python and from the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ptxbench.core.errors import ArgumentError
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import L2, TRIAL_WINDOW_S, TUNE_TABLE, WARM, Seed, window_of

if TYPE_CHECKING:
    from ptxbench.tune.objective import Goal
    from ptxbench.tune.spec import KernelSpec
    from ptxbench.tune.tuning import Tuning
    from ptxbench.tune.variant import Problem

# As in ptxbench.tune.objective, which would load numpy.
_OBJECTIVES = ("energy", "time", "edp", "power-limited", "gflops-per-w", "metric")

# Default of `VariantTimeout`, s; chosen.
VARIANT_TIMEOUT_S = 60.0

VariantTimeout = Annotated[
    float,
    Opt(
        1,
        86_400,
        help="Seconds after which a variant that does not end is given up.",
        flag="--variant-timeout",
    ),
]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What a search makes small, and how variants are chosen and measured.

    Attributes:
        objective: Minimize this; gflops-per-w is maximized, metric is the specification's own.
        alpha: Minimize alpha t + (1 - alpha) e instead; time t and energy e are relative to the first
            variant.
        power_limit_w: Leave out variants above this power (for --objective power-limited).
        strategy: Search by timed (time as many as --trials, then measure the power of the estimate's best
            five), estimate, random, guerreiro (block sizes in the order of their occupancy, for tune
            kernel), a way to tune clocks such as race-to-idle+clocks, or a strategy of Kernel Tuner such as
            genetic_algorithm (default: timed with a table, estimate for time, else random).
        trials: Try so many variants.
        candidates: Estimate so many variants before the first is tried (for --strategy timed or estimate;
            default: eight for each trial, 32 to 256).
        measure: Measure the energy of each variant, or only its time.
        prune: Only time a variant whose estimate is more than so many times the best.
        measurements: Measure the power of each variant so many times, of which the median energy counts
            (default: once, and the best five again).
        heat_up_s: Run each variant for so many seconds before its power is read.
    """

    objective: Annotated[str, Opt(choices=_OBJECTIVES)] = "energy"
    alpha: Annotated[float | None, Opt(0, 1)] = None
    power_limit_w: Annotated[float | None, Opt(1, 10_000)] = None
    table: Annotated[Path | str | None, TUNE_TABLE] = None
    strategy: str | None = None
    trials: Annotated[int, Opt(1, 100_000, former=("budget",))] = 50
    candidates: Annotated[int | None, Opt(1, 100_000)] = None
    measure: Annotated[str, Opt(choices=("energy", "time"))] = "energy"
    window_s: Annotated[float, window_of(f"{TRIAL_WINDOW_S:g}")] = TRIAL_WINDOW_S
    prune: Annotated[float | None, Opt(1, 1000)] = None
    measurements: Annotated[int, Opt(1, 100)] = 1
    heat_up_s: Annotated[float, Opt(0, 3600, flag="--heat-up")] = 0.0
    l2: L2 = WARM


@dataclass(frozen=True, kw_only=True)
class SampleOptions:
    """How well the estimate is checked.

    Attributes:
        sample: Draw so many of the trials at random, to see how well the estimate ranks (for --strategy timed
            or estimate); at most a third of it.
    """

    sample: Annotated[int, Opt(0, 100_000)] = 0


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """What random operands and order follow from."""

    seed: Seed = None


@dataclass(frozen=True, kw_only=True)
class TuningOptions(SeedOptions, SampleOptions, SearchOptions):
    """What every search takes."""

    def tuning(self, problem: Problem | KernelSpec, **own: Any) -> Tuning:
        """Return what is tuned, and how.

        Args:
            problem: What is tuned.
            own: Further fields of `Tuning`.

        Raises:
            ArgumentError: Two of them do not go together.
            InputError: There is no such table.
        """
        from ptxbench.storage.shipped import find_table
        from ptxbench.tune.tuning import BY_ESTIMATE, TIMED, Tuning
        from ptxbench.tune.variant_runner import TrialOptions

        if self.alpha is not None and self.objective != SearchOptions.objective:
            raise ArgumentError("alpha", "is an objective of its own; leave out `objective`")
        if self.candidates is not None and self.strategy not in (None, TIMED, BY_ESTIMATE):
            raise ArgumentError("candidates", f"are estimated, and `strategy` {self.strategy} estimates none")
        return Tuning(
            problem=problem,
            goal=self.goal,
            options=TrialOptions(
                power=self.measure == "energy",
                window_s=self.window_s,
                seed=self.seed or 0,
                measurements=self.measurements,
                heat_up_s=self.heat_up_s,
                l2=self.l2,
            ),
            strategy=self.strategy or "",
            budget=self.trials,
            candidates=self.candidates or min(max(32, 8 * self.trials), 256),
            table=find_table(self.table) if self.table else None,
            prune=math.nan if self.prune is None else self.prune,
            sample=min(self.sample, self.trials // 3),
            **own,
        )

    @property
    def goal(self) -> Goal:
        """What is made small."""
        from ptxbench.tune.objective import Goal, Objective

        return Goal(
            Objective.WEIGHTED if self.alpha is not None else Objective(self.objective),
            math.nan if self.power_limit_w is None else self.power_limit_w,
            math.nan if self.alpha is None else self.alpha,
        )
