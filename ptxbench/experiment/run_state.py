"""What a run knows while it measures: every trial so far, and what follows from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptxbench.analysis.loop_energy import Common, LoopEnergy, scatter_of, shared_by
from ptxbench.analysis.variance import Scatter
from ptxbench.core.condition import OptLevel
from ptxbench.experiment.trial import Bench, Work
from ptxbench.storage.schema import TrialRecord

# While a run goes on the supply is looked at over so many trials: about those of the batch in hand.
_RECENT = 300


class RunState:
    """The trials of a run in the order in which the plan came to them.

    What a resumed run holds of later units is not in it before the plan gets there, so that a resumed run
    decides as the run that was not stopped did.

    Args:
        bench: Where trials run.

    Attributes:
        bench: Where trials run.
        trials: Trials so far, by the name of what they measure.
        overheads: Calibrated overhead kernels, by name.
        failures: Why a unit or an overhead kernel could not be launched, by name.
        references: Kernels of each level that all batches run, once its first batch has found them.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.trials: dict[str, list[TrialRecord]] = {}
        self.overheads: dict[str, Work] = {}
        self.failures: dict[str, str] = {}
        self.references: dict[OptLevel, tuple[Work, ...]] = {}
        self._order: list[TrialRecord] = []
        self._known: tuple[int, Common] | None = None
        self._scatter: dict[OptLevel, list[Scatter]] = {level: [] for level in OptLevel}

    def trial(self, work: Work, repeat: int, warm_for: str) -> TrialRecord:
        """Run one trial, or take the one that is held (`Bench.trial`)."""
        record = self.bench.trial(work, repeat, warm_for)
        self.trials.setdefault(work.plan.unit, []).append(record)
        if repeat >= 0:
            self._order.append(record)
        return record

    def common(self, level: OptLevel, current: Sequence[LoopEnergy] = ()) -> Common:
        """Return what the units of a level share, by all trials so far.

        Args:
            level: Assembler level.
            current: Loops in hand, which are not kept yet.
        """
        return replace(self.shared(), scatter=scatter_of(current, self._scatter[level]))

    def shared(self) -> Common:
        """Return what all units share, but for the scatter of a level's loops."""
        trials = len(self._order)
        if self._known is None or self._known[0] != trials:
            self._known = (trials, shared_by(self._order, recent=_RECENT))
        return self._known[1]

    def keep_scatter(self, level: OptLevel, loops: Sequence[LoopEnergy]) -> None:
        """Keep what loops that are done say of a loop's scatter."""
        self._scatter[level] += [found for loop in loops if (found := loop.scatter) is not None]
