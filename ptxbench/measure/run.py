"""The main job: measure a set of instructions and fill a run folder with rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from ptxbench.errors import GpuError, LaunchError
from ptxbench.gpu.protocol import Gpu, OptLevel
from ptxbench.measure.arafa import arafa_row, measure_arafa
from ptxbench.measure.batch import BLOCK, Batch, Member
from ptxbench.measure.bench import Bench, Work
from ptxbench.measure.cost import run_cost
from ptxbench.measure.dynamic import (
    Common,
    dynamic_row,
    last_attempt,
    loop_energy,
    overhead_trials,
    scatter_of,
)
from ptxbench.measure.flow import STATIC_UNIT, Flow
from ptxbench.measure.plan import BATCH_UNITS, Task, plan_batches, plan_tasks
from ptxbench.measure.prepare import Prepared, Preparer, quick_switching
from ptxbench.measure.record import TrialPlan
from ptxbench.measure.sensor_choice import choose_sensor
from ptxbench.measure.static import fit_static
from ptxbench.measure.unit import Unit, empty_row, unit_name
from ptxbench.status import Status
from ptxbench.store.run_folder import RunFolder
from ptxbench.store.schema import Protocol, Role, TableRow, TrialRecord

# The sleeping kernel's pass takes about 1 ms, where others take a microsecond.
_SLEEP_PASSES = 20
# Batches that are made ready ahead of the one in hand.
_AHEAD = 2


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
    reached say so.

    Args:
        gpu: Where kernels run.
        folder: A run folder that was created or resumed.
        on_progress: Called before every round of a batch, and at the end.
        on_trial: Called after every trial that really ran.
        budget_s: Time after which no more batches are begun, by the GPU's clock.

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
        folder.finish(rows, now, run_cost(folder.records()))
    else:
        folder.write_rows(rows)
        folder.end_session(now)
    return rows


def solve_rows(units: Sequence[Unit], records: Sequence[TrialRecord], sm_count: int) -> dict[str, TableRow]:
    """Return the rows of units from the trials of a run, by the units' names: pure arithmetic.

    Args:
        units: What was measured.
        records: Trials of the run.
        sm_count: Streaming multiprocessors of the GPU.
    """
    trials: dict[str, list[TrialRecord]] = {}
    for record in records:
        trials.setdefault(record.trial_id.rsplit("/", 2)[0], []).append(record)
    static = fit_static(trials.get(STATIC_UNIT, ()))
    dynamic = [unit for unit in units if unit.protocol is Protocol.DYNAMIC and trials.get(unit.name)]
    common = {level: Common(static) for level in OptLevel}
    for level in OptLevel:
        loops: dict[str, list[TrialRecord]] = {}
        for unit in (u for u in dynamic if u.opt_level is level):
            own = last_attempt(trials[unit.name])
            loops[unit.name] = [r for r in own if r.role is Role.TARGET]
            name = unit.overhead_name(Role.OVERHEAD, own[0].grid, own[0].block)
            loops[name] = list(overhead_trials(unit, own[0], Role.OVERHEAD, trials))
        common[level] = Common(static, scatter_of(loop_energy(of_loop, static) for of_loop in loops.values()))
    return {
        unit.name: dynamic_row(unit, trials, common[unit.opt_level], sm_count)
        if unit.protocol is Protocol.DYNAMIC
        else arafa_row(unit, trials.get(unit.name, ()))
        for unit in units
    }


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
        self._flow = Flow(bench)
        self._units: dict[str, Unit] = {}
        self._refused: dict[str, TableRow] = {}
        self._done = 0
        self._batches = 0
        self._batch_s: list[float] = []
        self._sleep: Work | None = None
        self._sleep_cubin = preparer.begin_sleep()
        self.complete = True

    def run(self) -> None:
        """Measure batch by batch, the next ones made ready meanwhile."""
        plan = plan_batches(self._tasks, self._bench.folder.manifest.order_seed)
        ready: list[Future[list[Prepared]]] = []
        retries: list[Member] = []
        for number, tasks in enumerate(plan):
            while len(ready) < min(len(plan), number + 1 + _AHEAD):
                ready.append(self._preparer.begin(plan[len(ready)]))
            if self._is_spent():
                return
            prepared = ready[number].result()
            ready[number] = _released()
            members = self._take(prepared)
            if tasks[0].protocol is Protocol.ARAFA:
                self._measure_arafa(members)
            else:
                retries += self._measure_batch(members, len(tasks))
                # Units that throttled share overhead loops when they are begun again together.
                if len(retries) >= BATCH_UNITS or number + 1 == len(plan):
                    retries = self._retry(retries, last=number + 1 == len(plan))
        self._on_progress(Progress(len(self._tasks), len(self._tasks), "", 0.0))

    def rows(self, ended: str = "the time given was spent before") -> tuple[TableRow, ...]:
        """Return the rows of all tasks, in the order asked for.

        Args:
            ended: Why some of them were not reached.
        """
        folder = self._bench.folder
        records = folder.records()
        begun = {r.trial_id.rsplit("/", 2)[0] for r in records if r.repeat >= 0} | set(self._flow.failures)
        units = [unit for unit in self._units.values() if unit.name in begun]
        solved = solve_rows(units, records, folder.manifest.gpu.sm_count)
        return tuple(self._row(task, solved, f"{ended}; go on with --resume") for task in self._tasks)

    def _row(self, task: Task, solved: dict[str, TableRow], not_reached: str) -> TableRow:
        name = _name(task)
        if name in self._refused:
            return self._refused[name]
        if name not in solved:
            return empty_row(
                task.instruction, task.opt_level, task.protocol, task.pattern, Status.NOT_REACHED, not_reached
            )
        row = solved[name]
        failure = self._flow.failures.get(name)
        if failure is not None and row.status is not Status.OK:
            return self._units[name].row(Status.LAUNCH_FAILED, failure)
        return row

    def _take(self, prepared: Sequence[Prepared]) -> list[Member]:
        """Note what was made ready; return what can be measured."""
        members = []
        for one in prepared:
            if one.row is not None:
                self._refused[_name(one.task)] = one.row
                self._done += 1
            elif one.loaded is not None:
                self._units[one.loaded.unit.name] = one.loaded.unit
                members.append(Member(one.loaded, one.task.check_linearity))
        return members

    def _measure_batch(self, members: Sequence[Member], tasks: int) -> list[Member]:
        """Measure one batch of the dynamic protocol; return what is to be begun again."""
        if not members:
            return []
        begin_ns = self._clock.now_ns()
        what = f"{members[0].unit.instruction.name} -{members[0].unit.opt_level} and {len(members) - 1} more"
        batch = Batch(
            self._flow,
            self._batches,
            members,
            self._sleeping(),
            self._arguments,
            lambda done: self._say(f"{what}, round {done + 1}"),
        )
        self._batches += 1
        again = batch.run()
        self._done += len(members) - len(again)
        self._batch_s.append((self._clock.now_ns() - begin_ns) / 1e9 / tasks)
        return again

    def _retry(self, members: Sequence[Member], *, last: bool) -> list[Member]:
        """Begin throttled units again, level by level; return those that throttle still, if not `last`."""
        waiting = list(members)
        while waiting and not self._is_spent():
            again: list[Member] = []
            for level in OptLevel:
                of_level = [m for m in waiting if m.unit.opt_level is level]
                for n in range(0, len(of_level), BATCH_UNITS):
                    chunk = of_level[n : n + BATCH_UNITS]
                    again += self._measure_batch(chunk, len(chunk))
            waiting = again
            if not last:
                break
        return waiting

    def _measure_arafa(self, members: Sequence[Member]) -> None:
        for member in members:
            self._say(f"{member.unit.instruction.name} -{member.unit.opt_level} {member.unit.protocol}")
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
        plan = TrialPlan(STATIC_UNIT, OptLevel.O3, Protocol.DYNAMIC, "zeros", Role.STATIC, 1, STATIC_UNIT)
        sm_count, block = self._bench.gpu.info.sm_count, BLOCK[OptLevel.O3]
        operands = np.zeros(8 * block, np.uint8)
        work = Work(plan, cubin, sm_count, block, operands, 8 * sm_count * block, _SLEEP_PASSES)
        window_s = self._arguments.dynamic_window_s or self._arguments.window_s
        self._sleep = self._bench.calibrated(work, window_s)
        return self._sleep

    def _is_spent(self) -> bool:
        """Return whether another batch would not fit into the budget; note it."""
        spent_s = (self._clock.now_ns() - self._begin_ns) / 1e9
        next_s = BATCH_UNITS * max(self._batch_s, default=0.0) if self._budget_s < math.inf else 0.0
        if spent_s + next_s > self._budget_s:
            self.complete = False
        return not self.complete

    def _say(self, what: str) -> None:
        spent_s = (self._clock.now_ns() - self._begin_ns) / 1e9
        left = len(self._tasks) - self._done
        left_s = spent_s / self._done * left if self._done else math.nan
        self._on_progress(Progress(self._done, len(self._tasks), what, left_s))


def _name(task: Task) -> str:
    return unit_name(task.instruction.name, task.opt_level, task.protocol, task.pattern)


def _released() -> Future[list[Prepared]]:
    """Return an empty result in the place of one that was taken: modules are large."""
    future: Future[list[Prepared]] = Future()
    future.set_result([])
    return future
