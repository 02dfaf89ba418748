"""A run that is being measured: what all protocols share of it."""

from __future__ import annotations

from collections.abc import Callable

from ptxbench.experiment.criteria import criterion_for
from ptxbench.experiment.trial import Runner

# Told how many rows are finished, how many there are, and which subject or round is being measured.
Show = Callable[[int, int, str], None]


class RunState:
    """A run that is being measured.

    Args:
        runner: Where trials run.
        total: Rows that the run measures.
        show: Told how far the run is.
        budget_s: Time that the run may take, by the GPU's clock.

    Attributes:
        runner: Where trials run.
        arguments: What the run measures and how.
        criterion: When a row has been measured often enough.
        failures: Why a subject could not be launched, by name.
        unfinished: Names of subjects whose measurement has started and not ended.
        done: Rows that are finished.
        complete: Whether the budget was enough so far.
    """

    def __init__(self, runner: Runner, total: int, show: Show, budget_s: float) -> None:
        self.runner = runner
        self.arguments = runner.folder.manifest.part.arguments
        self.criterion = criterion_for(self.arguments)
        self.failures: dict[str, str] = {}
        self.unfinished: set[str] = set()
        self.done = 0
        self.complete = True
        self._total = total
        self._show = show
        self._budget_s = budget_s
        self._begin_ns = runner.gpu.clock.now_ns()

    def is_spent(self, trials: int = 0) -> bool:
        """Return whether the budget is spent, or would be after so many more trials; remember it."""
        measured = self.runner.measured
        if self._spent_s() * (1 + (trials / measured if measured else 0)) > self._budget_s:
            self.complete = False
        return not self.complete

    def report(self, what: str) -> None:
        """Tell the caller what is being measured now."""
        self._show(self.done, self._total, what)

    def report_end(self) -> None:
        """Tell the caller that every row is finished."""
        self._show(self._total, self._total, "")

    def _spent_s(self) -> float:
        return (self.runner.gpu.clock.now_ns() - self._begin_ns) / 1e9
