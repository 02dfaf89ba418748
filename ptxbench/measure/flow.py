"""What a run knows while it measures: every trial so far, and what follows from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptxbench.gpu.protocol import OptLevel
from ptxbench.measure.bench import Bench, Work
from ptxbench.measure.loops import Common, LoopEnergy, scatter_of
from ptxbench.measure.operating_point import cold_trials, full_clock_mhz
from ptxbench.measure.scatter import Scatter
from ptxbench.measure.static import fit_static
from ptxbench.store.schema import TrialRecord

STATIC_UNIT = "static"


class Flow:
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
        references: Kernels of each level that every batch runs, once its first batch has found them.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.trials: dict[str, list[TrialRecord]] = {}
        self.overheads: dict[str, Work] = {}
        self.failures: dict[str, str] = {}
        self.references: dict[OptLevel, tuple[Work, ...]] = {}
        self._last: TrialRecord | None = None
        self._cold: frozenset[str] = frozenset()
        self._clocks_mhz: list[float] = []
        self._scatter: dict[OptLevel, list[Scatter]] = {level: [] for level in OptLevel}

    def trial(self, work: Work, repeat: int, warm_for: str, heater: Work | None = None) -> TrialRecord:
        """Run one trial, or take the one that is held (`Bench.trial`)."""
        record = self.bench.trial(work, repeat, warm_for, heater)
        self.trials.setdefault(work.plan.unit, []).append(record)
        if repeat >= 0:
            self._cold |= cold_trials([self._last, record] if self._last else [])
            self._last = record
            if work.plan.unit != STATIC_UNIT:
                self._clocks_mhz.append(record.sm_clock_mhz)
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
        return Common(
            fit_static(self.trials.get(STATIC_UNIT, ())),
            full_clock_mhz=full_clock_mhz(self._clocks_mhz),
            cold=self._cold,
        )

    def keep_scatter(self, level: OptLevel, loops: Sequence[LoopEnergy]) -> None:
        """Keep what loops that are done say of a loop's scatter."""
        self._scatter[level] += [found for loop in loops if (found := loop.scatter) is not None]
