"""The main job: measure a set of instructions and fill a run folder with rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime

from ptxbench.analysis.run_cost import run_cost
from ptxbench.core.errors import GpuError
from ptxbench.devices.base import Gpu
from ptxbench.devices.replay import ReplayGpu
from ptxbench.experiment.build import Builder, Outcome, quick_switching
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.plan import later_alike, plan_batches, plan_subjects
from ptxbench.experiment.protocol import Measurement
from ptxbench.experiment.protocols import find_protocol
from ptxbench.experiment.recompute import reanalyse
from ptxbench.experiment.results import Results
from ptxbench.experiment.run_state import RunState, Show
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.experiment.trial import Runner
from ptxbench.model.solve_run import store_solved
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow, TrialRecord

# Batches that are made ready ahead of the present one.
_AHEAD = 2
_SPENT = "the time given was spent before"


def measure_table(
    gpu: Gpu,
    folder: RunFolder,
    show: Show = lambda *_: None,
    on_trial: Callable[[TrialRecord], None] = lambda _: None,
    budget_s: float = math.inf,
) -> tuple[TableRow, ...]:
    """Measure what the folder's manifest lists, and finish the folder.

    Every trial is on the disk before the next begins; a folder that already holds trials is continued.
    Where the budget ends first, the folder stays as it is and can be resumed; rows that were not reached have
    that status. A replayed run repeats no decision: all its trials are validated again.

    Args:
        gpu: Where kernels run.
        folder: A run folder that was created or resumed.
        show: Told before every round of a batch, and at the end, how far the run is (`Show`).
        on_trial: Called after every trial that really ran.
        budget_s: No round starts that would end later, by the GPU's clock and the time a trial took so far.

    Returns:
        The rows as they were measured, in the table's order (`known_rows` has what is believed of them).

    Raises:
        GpuError: The GPU stopped answering; what was measured is kept.
        InputError: An instruction is unknown, or the folder cannot be written.
        ToolError: ptxas or nvdisasm is missing or was stopped; what was measured is kept.
    """
    if folder.finished:
        return folder.rows()
    runner = Runner(
        gpu, folder, choose_sensor(gpu, folder.manifest.part.source, folder.manifest.sensors), on_trial
    )
    if isinstance(gpu, ReplayGpu):
        return reanalyse(gpu, runner)
    with quick_switching(), Builder(gpu, folder) as builder:
        measuring = _Measuring(runner, builder, show, budget_s)
        try:
            measuring.run()
        except GpuError as error:
            measuring.stop(f"the GPU failed before ({error})")
            raise
    return measuring.end()


class _Measuring:
    """One process's work on a run."""

    def __init__(
        self,
        runner: Runner,
        builder: Builder,
        show: Show,
        budget_s: float,
    ) -> None:
        self._runner = runner
        self._folder = runner.folder
        self._builder = builder
        part = self._folder.manifest.part
        self._subjects = plan_subjects(part.arguments)
        self._state = RunState(runner, len(self._subjects), show, budget_s)
        self._results = Results(part.known_difference, part.arguments.precision)
        self._sleep_cubin = builder.begin_sleep()
        self._protocols: dict[str, Measurement] = {}

    def run(self) -> None:
        """Measure batch by batch, the next ones made ready meanwhile."""
        plan = plan_batches(self._subjects, self._folder.manifest.part.order_seed)
        ready: list[Future[list[Outcome]]] = []
        for number, subjects in enumerate(plan):
            while len(ready) < min(len(plan), number + 1 + _AHEAD):
                ready.append(self._builder.begin(plan[len(ready)]))
            if self._state.is_spent():
                return
            batch = [one for one in self._results.take(ready[number].result()) if self._does_its_work(one)]
            ready[number] = _released()
            self._state.done += len(subjects) - len(batch)
            own, later = subjects[0].condition, later_alike(plan, number)
            self._protocol(own.protocol).measure(
                batch,
                more_follow=any(condition.opt_level is own.opt_level for condition in later),
                is_last=not later,
            )
        self._state.report_end()

    def _does_its_work(self, prepared: BuiltKernels) -> bool:
        """Return whether a module computes what it must, as far as that is known; else its row says so."""
        failed = self._runner.check(prepared)
        if failed is not None:
            self._results.refuse(prepared.subject.row(failed.status, failed.reason))
        return failed is None

    def end(self) -> tuple[TableRow, ...]:
        """Finish the folder where the budget was enough, and return the rows."""
        if not self._state.complete:
            return self.stop()
        rows, results, folder = self._rows(), self._results, self._folder
        cost = run_cost(folder.records())
        folder.finish(rows, datetime.now(UTC), cost, results.level_error, results.source)
        store_solved(folder, results.common)
        return rows

    def stop(self, ended: str = _SPENT) -> tuple[TableRow, ...]:
        """Keep and return the rows so far; the folder can be resumed.

        Args:
            ended: Why some of them were not reached.
        """
        rows = self._rows(ended)
        self._folder.write_rows(rows)
        self._folder.end_session(datetime.now(UTC))
        return rows

    def _rows(self, ended: str = _SPENT) -> tuple[TableRow, ...]:
        return self._results.rows(
            self._subjects,
            self._folder.records(),
            self._folder.manifest.gpu,
            self._state.failures,
            f"{ended}; continue with `ptxbench table --resume`",
            self._state.unfinished,
        )

    def _protocol(self, name: str) -> Measurement:
        """Return a protocol at work in this run."""
        if name not in self._protocols:
            self._protocols[name] = find_protocol(name).begin(self._state, self._sleep_cubin.result)
        return self._protocols[name]


def _released() -> Future[list[Outcome]]:
    """Return an empty result in the place of one that was taken: modules are large."""
    future: Future[list[Outcome]] = Future()
    future.set_result([])
    return future
