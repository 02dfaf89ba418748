"""The state of a run of the dynamic protocol: every trial so far, and what follows from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptxbench.analysis.loop_energy import LoopEnergy, RunCalibration, scatter_of, shared_by
from ptxbench.analysis.variance import Scatter
from ptxbench.core.condition import OptLevel
from ptxbench.experiment.kernel import Kernel
from ptxbench.experiment.trial import Runner
from ptxbench.storage.schema import TrialRecord

# While a run goes on, its drift is fitted to so many of the last trials: those of the present batch and more.
_RECENT = 200


class DynamicState:
    """The trials of the dynamic protocol in the order in which the plan came to them.

    A resumed run may hold trials of later subjects: they are not in it before the plan gets there, so that a
    resumed run decides as a run that was never stopped does.

    Args:
        runner: Where trials run.
        failures: The run's failures, to which this adds.

    Attributes:
        runner: Where trials run.
        trials: Trials so far, by the name of what they measure.
        overheads: Calibrated overhead kernels, by name.
        failures: Why a subject or an overhead kernel could not be launched, by name; the run's own.
        references: Kernels that all batches run, by optimization level, once its first batch has chosen them.
    """

    def __init__(self, runner: Runner, failures: dict[str, str]) -> None:
        self.runner = runner
        self.trials: dict[str, list[TrialRecord]] = {}
        self.overheads: dict[str, Kernel] = {}
        self.failures = failures
        self.references: dict[OptLevel, tuple[Kernel, ...]] = {}
        self._order: list[TrialRecord] = []
        self._known: tuple[int, RunCalibration] | None = None
        self._scatter: dict[OptLevel, list[Scatter]] = {opt_level: [] for opt_level in OptLevel}

    def trial(self, kernel: Kernel, repeat: int, warm_for: str) -> TrialRecord:
        """Run one trial, or take the one that the run holds (`Runner.trial`), and count it."""
        record = self.run(kernel, repeat, warm_for)
        self.keep(record)
        return record

    def run(self, kernel: Kernel, repeat: int, warm_for: str) -> TrialRecord:
        """Return one trial that does not count yet, while what follows from the others is worked out."""
        return self.runner.trial(kernel, repeat, warm_for)

    def keep(self, record: TrialRecord) -> None:
        """Count a trial."""
        self.trials.setdefault(record.subject, []).append(record)
        if record.repeat >= 0:
            self._order.append(record)

    def common(
        self, opt_level: OptLevel, shared: RunCalibration, current: Sequence[LoopEnergy]
    ) -> RunCalibration:
        """Return what the rows of an optimization level share.

        Args:
            opt_level: Optimization level.
            shared: What all rows share.
            current: Loops of the present batch, which are not kept yet.
        """
        return replace(shared, scatter=scatter_of(current, self._scatter[opt_level]))

    def shared(self) -> RunCalibration:
        """Return what all rows share, except the scatter of the loops of an optimization level."""
        trials = len(self._order)
        if self._known is None or self._known[0] != trials:
            self._known = (trials, shared_by(self._order, self.runner.gpu.info, recent=_RECENT))
        return self._known[1]

    def keep_scatter(self, opt_level: OptLevel, loops: Sequence[LoopEnergy]) -> None:
        """Keep the scatter of loops that are done."""
        self._scatter[opt_level] += [found for loop in loops if (found := loop.scatter) is not None]
