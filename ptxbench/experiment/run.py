"""The main job: measure a set of instructions and fill a run folder with rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from ptxbench.analysis.loop_energy import Common
from ptxbench.analysis.operating_point import STATIC_UNIT
from ptxbench.analysis.run_cost import run_cost
from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel
from ptxbench.core.errors import GpuError, LaunchError
from ptxbench.devices.base import Gpu
from ptxbench.devices.replay import ReplayGpu
from ptxbench.experiment.arafa import measure_arafa
from ptxbench.experiment.batch import Batch
from ptxbench.experiment.launch_configuration import BLOCK, LaunchConfiguration
from ptxbench.experiment.ledger import Ledger
from ptxbench.experiment.plan import BATCH_UNITS, plan_batches, plan_tasks
from ptxbench.experiment.prepare import Prepared, Preparer, quick_switching
from ptxbench.experiment.recompute import measure_again
from ptxbench.experiment.run_state import RunState
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.experiment.trial import Bench, Work
from ptxbench.experiment.trial_record import TrialPlan
from ptxbench.model.solve_run import store_solved
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TableRow, TrialRecord

# The sleeping kernel's pass takes about 1 ms, where others take a microsecond.
_SLEEP_PASSES = 20
# Batches that are made ready ahead of the one in hand.
_AHEAD = 2
# So many throttled units make a batch of their own: enough to share overhead loops on fewer SMs.
_RETRIED_UNITS = BATCH_UNITS // 2


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        done: Units finished.
        total: Units in all.
        unit: What is in hand.
        left_s: Time that the rest will take at the rate so far, NaN before anything is done.
    """

    done: int
    total: int
    unit: str
    left_s: float = math.nan

    @property
    def text(self) -> str:
        """What is in hand and how much time is left, for a reader."""
        if not self.left_s > 0:
            return self.unit
        return f"{self.unit}; about {self.left_s / 60:.1f} min left"


def measure_table(
    gpu: Gpu,
    folder: RunFolder,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_trial: Callable[[TrialRecord], None] = lambda _: None,
    budget_s: float = math.inf,
) -> tuple[TableRow, ...]:
    """Measure what the folder's manifest asks for, and finish the folder.

    Every trial is on the disk before the next begins; a folder that holds trials already is gone on with.
    Where the budget ends first, the folder is left as it is, to be gone on with; rows that were not
    reached say so. A replayed run decides nothing anew: all its trials are judged again.

    Args:
        gpu: Where kernels run.
        folder: A run folder that was created or resumed.
        on_progress: Called before every round of a batch, and at the end.
        on_trial: Called after every trial that really ran.
        budget_s: No round is begun that would end later, by the GPU's clock and the time a trial took so far.

    Returns:
        The table's rows, in the order asked for.

    Raises:
        GpuError: The GPU stopped answering; what was measured is kept.
        InputError: An instruction is unknown, or the folder cannot be written.
        ToolError: ptxas or nvdisasm is missing or was stopped; what was measured is kept.
    """
    if folder.finished:
        return folder.rows()
    bench = Bench(gpu, folder, choose_sensor(gpu, folder.manifest.source, folder.manifest.sensors), on_trial)
    if isinstance(gpu, ReplayGpu):
        return measure_again(gpu, bench)
    with quick_switching(), Preparer(gpu, folder) as preparer:
        measuring = _Measuring(bench, preparer, on_progress, budget_s)
        try:
            measuring.run()
        except GpuError as error:
            folder.write_rows(measuring.rows(f"the GPU failed before ({error})"))
            folder.end_session(datetime.now(UTC))
            raise
    rows = measuring.rows()
    now = datetime.now(UTC)
    if measuring.complete:
        folder.finish(rows, now, run_cost(folder.records()), measuring.level_error)
        store_solved(folder, measuring.common)
    else:
        folder.write_rows(rows)
        folder.end_session(now)
    return rows


class _Measuring:
    """One process's work on a run."""

    def __init__(
        self,
        bench: Bench,
        preparer: Preparer,
        on_progress: Callable[[Progress], None],
        budget_s: float,
    ) -> None:
        self._bench = bench
        self._preparer = preparer
        self._on_progress = on_progress
        self._clock = bench.gpu.clock
        self._begin_ns = self._clock.now_ns()
        self._budget_s = budget_s
        self._arguments = bench.folder.manifest.arguments
        self._tasks = plan_tasks(self._arguments)
        self._flow = RunState(bench)
        self._ledger = Ledger()
        self._done = 0
        self._batches = 0
        self._sleep: Work | None = None
        self._sleep_cubin = preparer.begin_sleep()
        self.complete = True

    def run(self) -> None:
        """Measure batch by batch, the next ones made ready meanwhile."""
        plan = plan_batches(self._tasks, self._bench.folder.manifest.order_seed)
        ready: list[Future[list[Prepared]]] = []
        retries: list[LaunchConfiguration] = []
        for number, tasks in enumerate(plan):
            while len(ready) < min(len(plan), number + 1 + _AHEAD):
                ready.append(self._preparer.begin(plan[len(ready)]))
            if self._is_spent():
                return
            prepared = ready[number].result()
            ready[number] = _released()
            members = [
                LaunchConfiguration(loaded, task.check_linearity)
                for task, loaded in self._ledger.take(prepared)
            ]
            self._done += len(tasks) - len(members)
            if tasks[0].protocol == ARAFA:
                self._measure_arafa(members)
            else:
                level = tasks[0].opt_level
                follow = any(later[0].opt_level is level for later in plan[number + 1 :])
                retries += self._measure_batch(members, more_follow=follow)
                # Units that throttled share overhead loops when they are begun again together.
                if len(retries) >= _RETRIED_UNITS or number + 1 == len(plan):
                    retries = self._retry(retries, last=number + 1 == len(plan))
        self._on_progress(Progress(len(self._tasks), len(self._tasks), "", 0.0))

    @property
    def level_error(self) -> float:
        """What the rows share of the supply, as in `Solved`."""
        return self._ledger.level_error

    @property
    def common(self) -> Common | None:
        """What the units of the run share, as in `Solved`."""
        return self._ledger.common

    def rows(self, ended: str = "the time given was spent before") -> tuple[TableRow, ...]:
        """Return the rows of all tasks, in the order asked for.

        Args:
            ended: Why some of them were not reached.
        """
        folder = self._bench.folder
        return self._ledger.rows(
            self._tasks,
            folder.records(),
            folder.manifest.gpu.sm_count,
            self._flow.failures,
            f"{ended}; go on with --resume",
        )

    def _measure_batch(
        self, members: Sequence[LaunchConfiguration], *, more_follow: bool
    ) -> list[LaunchConfiguration]:
        """Measure one batch of the dynamic protocol; return what is to be begun again.

        Args:
            members: Its units.
            more_follow: As in `Batch`.
        """
        if not members:
            return []
        names = {member.unit.name for member in members}
        what = f"{members[0].unit.instruction.name} -{members[0].unit.opt_level} and {len(members) - 1} more"

        def on_round(done: int, kernels: int) -> bool:
            self._say(f"{what}, round {done + 1}")
            return not self._is_spent(kernels)

        flow, sleep = self._flow, self._sleeping()
        batch = Batch(flow, self._batches, members, sleep, self._arguments, on_round, more_follow=more_follow)
        self._batches += 1
        self._ledger.unfinished |= names
        again = batch.run()
        if batch.complete:
            self._ledger.unfinished -= names - {member.unit.name for member in again}
            self._done += len(members) - len(again)
        return again

    def _retry(self, members: Sequence[LaunchConfiguration], *, last: bool) -> list[LaunchConfiguration]:
        """Begin throttled units again, level by level; return those that throttle still, if not `last`."""
        waiting = list(members)
        while waiting and not self._is_spent():
            again: list[LaunchConfiguration] = []
            for level in OptLevel:
                of_level = [m for m in waiting if m.unit.opt_level is level]
                for n in range(0, len(of_level), BATCH_UNITS):
                    again += self._measure_batch(of_level[n : n + BATCH_UNITS], more_follow=not last)
            waiting = again
            if not last:
                break
        return waiting

    def _measure_arafa(self, members: Sequence[LaunchConfiguration]) -> None:
        for member in members:
            self._say(f"{member.unit.instruction.name} -{member.unit.opt_level} {member.unit.protocol}")
            if self._is_spent():
                return
            try:
                measure_arafa(self._bench, member.loaded, self._arguments)
            except LaunchError as error:
                self._flow.failures[member.unit.name] = str(error)
            self._done += 1

    def _sleeping(self) -> Work:
        """Return the sleeping kernel, which fills the chip, calibrated when it is first asked for."""
        if self._sleep is not None:
            return self._sleep
        cubin = self._sleep_cubin.result()
        plan = TrialPlan(STATIC_UNIT, OptLevel.O3, DYNAMIC, "zeros", Role.STATIC, 1, STATIC_UNIT)
        sm_count, block = self._bench.gpu.info.sm_count, BLOCK
        operands = np.zeros(8 * block, np.uint8)
        work = Work(plan, cubin, sm_count, block, operands, 8 * sm_count * block, _SLEEP_PASSES)
        window_s = self._arguments.dynamic_window_s or self._arguments.window_s
        self._sleep = self._bench.calibrated(work, window_s)
        return self._sleep

    def _is_spent(self, kernels: int = 0) -> bool:
        """Return whether the budget is spent, or would be by so many trials more; note it."""
        spent_s = (self._clock.now_ns() - self._begin_ns) / 1e9
        trials = self._bench.measured
        if spent_s * (1 + (kernels / trials if trials else 0)) > self._budget_s:
            self.complete = False
        return not self.complete

    def _say(self, what: str) -> None:
        spent_s = (self._clock.now_ns() - self._begin_ns) / 1e9
        left = len(self._tasks) - self._done
        left_s = spent_s / self._done * left if self._done else math.nan
        self._on_progress(Progress(self._done, len(self._tasks), what, left_s))


def _released() -> Future[list[Prepared]]:
    """Return an empty result in the place of one that was taken: modules are large."""
    future: Future[list[Prepared]] = Future()
    future.set_result([])
    return future
