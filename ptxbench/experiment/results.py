"""The rows of a run: of what was measured, refused, could not be launched, or was not reached."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from ptxbench.analysis.loop_energy import RunCalibration
from ptxbench.analysis.solved_rows import SolvedRows
from ptxbench.analysis.source_check import judge_run
from ptxbench.analysis.subject import Subject
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.energy.gate.verdict import UNJUDGED
from ptxbench.experiment.build import Outcome
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.protocols import find_protocol
from ptxbench.storage.precision import judged
from ptxbench.storage.schema import TableRow, TrialRecord


class Results:
    """What became of each subject of a run.

    Args:
        known_difference: By how much power source and energy counter are known to differ, as a fraction.
        precision: Relative half-width that was requested.

    Attributes:
        subjects: Subjects that can be measured, by name.
        level_error: As in `SolvedRows`, once rows were worked out; NaN before.
        source: What the energy counter says of the power source, once rows were worked out.
        common: As in `SolvedRows`, once rows were worked out; None before.
    """

    def __init__(self, known_difference: float, precision: float) -> None:
        self.subjects: dict[str, Subject] = {}
        self.level_error = math.nan
        self.source = UNJUDGED
        self.common: RunCalibration | None = None
        self._known_difference = known_difference
        self._precision = precision
        self._refused: dict[str, TableRow] = {}

    def take(self, outcomes: Sequence[Outcome]) -> list[BuiltKernels]:
        """Note what was made ready; return what can be measured."""
        ready = []
        for outcome in outcomes:
            if isinstance(outcome, TableRow):
                self._refused[outcome.subject] = outcome
            else:
                self.subjects[outcome.subject.name] = outcome.subject
                ready.append(outcome)
        return ready

    def refuse(self, row: TableRow) -> None:
        """Note the row of a subject that is not measured, though it was made ready."""
        del self.subjects[row.subject]
        self._refused[row.subject] = row

    def rows(
        self,
        subjects: Sequence[Subject],
        records: Sequence[TrialRecord],
        gpu: GpuInfo,
        failures: Mapping[str, str],
        ended: str,
        unfinished: Collection[str] = (),
    ) -> tuple[TableRow, ...]:
        """Return the rows of subjects, in their order.

        Args:
            subjects: What the run measures.
            records: Trials of the run.
            gpu: The GPU that they ran on.
            failures: Why a subject could not be launched, by name.
            ended: Why some subjects were not reached.
            unfinished: Names of subjects whose measurement has started and not ended.
        """
        begun = {r.subject for r in records if r.repeat >= 0} | set(failures)
        solved = solve_rows([s for s in self.subjects.values() if s.name in begun], records, gpu)
        self.level_error, self.common = solved.level_error, solved.common
        self.source = judge_run(records, self._known_difference)
        rows = (self._row(s, solved.rows, failures, ended, unfinished) for s in subjects)
        return judged(rows, self._precision)

    def _row(
        self,
        subject: Subject,
        solved: Mapping[str, TableRow],
        failures: Mapping[str, str],
        ended: str,
        unfinished: Collection[str],
    ) -> TableRow:
        name = subject.name
        if name in self._refused:
            return self._refused[name]
        row = solved.get(name)
        if row is not None and row.status is Status.OK:
            return row
        if name in failures:
            return self.subjects[name].row(Status.LAUNCH_FAILED, failures[name])
        if row is None or name in unfinished:
            return subject.row(Status.NOT_REACHED, ended)
        return row


def solve_rows(subjects: Sequence[Subject], records: Sequence[TrialRecord], gpu: GpuInfo) -> SolvedRows:
    """Return the rows of subjects from the trials of a run: pure arithmetic.

    Args:
        subjects: What was measured.
        records: Trials of the run.
        gpu: The GPU that they ran on.
    """
    rows: dict[str, TableRow] = {}
    common = None
    for name in sorted({subject.condition.protocol for subject in subjects}):
        own = [subject for subject in subjects if subject.condition.protocol == name]
        solved = find_protocol(name).solve(own, records, gpu)
        rows.update(solved.rows)
        common = common or solved.common
    return SolvedRows(rows, common)
