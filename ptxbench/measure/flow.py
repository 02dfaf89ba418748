"""What a run knows while it measures: every trial so far, and what follows from all of them."""

from __future__ import annotations

from collections.abc import Sequence

from ptxbench.gpu.protocol import OptLevel
from ptxbench.measure.bench import Bench, Work
from ptxbench.measure.dynamic import Common, LoopEnergy, scatter_of
from ptxbench.measure.static import fit_static
from ptxbench.store.schema import TrialRecord

STATIC_UNIT = "static"


class Flow:
    """The trials of a run in the order in which the plan came to them.

    What a resumed run holds of later units is not in it before the plan gets there, so that a resumed run,
    and its replay, decide as the run that was not stopped did.

    Args:
        bench: Where trials run.

    Attributes:
        bench: Where trials run.
        trials: Trials so far, by the name of what they measure.
        overheads: Calibrated overhead kernels, by name.
        failures: Why a unit or an overhead kernel could not be launched, by name.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.trials: dict[str, list[TrialRecord]] = {}
        self.overheads: dict[str, Work] = {}
        self.failures: dict[str, str] = {}
        self._scatter: dict[OptLevel, list[tuple[float, int]]] = {level: [] for level in OptLevel}

    def trial(self, work: Work, repeat: int, batch: str) -> TrialRecord:
        """Run one trial, or take the one that is held."""
        record = self.bench.trial(work, repeat, batch)
        self.trials.setdefault(work.plan.unit, []).append(record)
        return record

    def common(self, level: OptLevel, current: Sequence[LoopEnergy] = ()) -> Common:
        """Return what the units of a level share, by all trials so far.

        Args:
            level: Assembler level.
            current: Loops in hand, which are not kept yet.
        """
        static = fit_static(self.trials.get(STATIC_UNIT, ()))
        return Common(static, scatter_of(current, self._scatter[level]))

    def keep_scatter(self, level: OptLevel, loops: Sequence[LoopEnergy]) -> None:
        """Keep what loops that are done say of a loop's scatter."""
        self._scatter[level] += [found for loop in loops if (found := loop.scatter) is not None]
