"""The rows of a run: of what was measured, refused, could not be launched, or was not reached."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ptxbench.analysis.dynamic_energy import dynamic_row, last_attempt, overhead_trials
from ptxbench.analysis.loop_energy import Common, loop_energy, scatter_of, shared_by
from ptxbench.analysis.subject import Subject, empty_row
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.status import Status
from ptxbench.experiment.arafa import arafa_row
from ptxbench.experiment.loaded_unit import LoadedUnit
from ptxbench.experiment.plan import Task
from ptxbench.experiment.prepare import Prepared
from ptxbench.storage.schema import Role, TableRow, TrialRecord


@dataclass(frozen=True)
class Solved:
    """The rows of a run.

    Attributes:
        rows: By the name of their unit.
        common: What its units share.
    """

    rows: Mapping[str, TableRow]
    common: Common

    @property
    def level_error(self) -> float:
        """Standard error of the supply's mean level, at which all dynamic energies of the run are.

        As a fraction: a factor that its rows share, and that their own intervals leave out.
        """
        return self.common.supply.level_error


class Ledger:
    """What became of each task of a run.

    Attributes:
        units: Units that can be measured, by name.
        unfinished: Names of units whose measuring has begun and not ended.
        level_error: As in `Solved`, once rows were worked out; NaN before.
        common: As in `Solved`, once rows were worked out; None before.
    """

    def __init__(self) -> None:
        self.units: dict[str, Subject] = {}
        self.unfinished: set[str] = set()
        self.level_error = math.nan
        self.common: Common | None = None
        self._refused: dict[str, TableRow] = {}

    def take(self, prepared: Sequence[Prepared]) -> list[tuple[Task, LoadedUnit]]:
        """Note what was made ready; return what can be measured."""
        ready = []
        for one in prepared:
            if one.row is not None:
                self._refused[one.task.unit] = one.row
            elif one.loaded is not None:
                self.units[one.loaded.unit.name] = one.loaded.unit
                ready.append((one.task, one.loaded))
        return ready

    def rows(
        self,
        tasks: Sequence[Task],
        records: Sequence[TrialRecord],
        sm_count: int,
        failures: Mapping[str, str],
        ended: str,
    ) -> tuple[TableRow, ...]:
        """Return the rows of tasks, in their order.

        Args:
            tasks: What was asked for.
            records: Trials of the run.
            sm_count: Streaming multiprocessors of the GPU.
            failures: Why a unit could not be launched, by name.
            ended: Why some tasks were not reached.
        """
        begun = {r.unit for r in records if r.repeat >= 0} | set(failures)
        units = [unit for unit in self.units.values() if unit.name in begun]
        solved = solve_rows(units, records, sm_count)
        self.level_error, self.common = solved.level_error, solved.common
        return tuple(self._row(task, solved.rows, failures, ended) for task in tasks)

    def _row(
        self, task: Task, solved: Mapping[str, TableRow], failures: Mapping[str, str], ended: str
    ) -> TableRow:
        name = task.unit
        if name in self._refused:
            return self._refused[name]
        row = solved.get(name)
        if row is not None and row.status is Status.OK:
            return row
        if name in failures:
            return self.units[name].row(Status.LAUNCH_FAILED, failures[name])
        if row is None or name in self.unfinished:
            return empty_row(
                task.instruction, task.opt_level, task.protocol, task.pattern, Status.NOT_REACHED, ended
            )
        return row


def solve_rows(units: Sequence[Subject], records: Sequence[TrialRecord], sm_count: int) -> Solved:
    """Return the rows of units from the trials of a run: pure arithmetic.

    Args:
        units: What was measured.
        records: Trials of the run.
        sm_count: Streaming multiprocessors of the GPU.
    """
    trials: dict[str, list[TrialRecord]] = {}
    for record in records:
        trials.setdefault(record.unit, []).append(record)
    shared = shared_by(records)
    dynamic = [unit for unit in units if unit.protocol == DYNAMIC and trials.get(unit.name)]
    common = dict.fromkeys(OptLevel, shared)
    for level in OptLevel:
        loops: dict[str, list[TrialRecord]] = {}
        for unit in (u for u in dynamic if u.opt_level is level):
            own = last_attempt(trials[unit.name])
            loops[unit.name] = [r for r in own if r.role is Role.TARGET]
            shared_loop = list(overhead_trials(unit, own[0], Role.OVERHEAD, trials))
            loops[shared_loop[0].unit if shared_loop else ""] = shared_loop
        scatter = scatter_of(loop_energy(of_loop, shared) for of_loop in loops.values())
        common[level] = replace(shared, scatter=scatter)
    rows = {
        unit.name: dynamic_row(unit, trials, common[unit.opt_level], sm_count)
        if unit.protocol == DYNAMIC
        else arafa_row(unit, trials.get(unit.name, ()))
        for unit in units
    }
    return Solved(rows, shared)
