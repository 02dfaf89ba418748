"""The rows that follow from the trials of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ptxbench.analysis.loop_energy import RunCalibration
from ptxbench.storage.schema import TableRow, TrialRecord

Trials = Mapping[str, Sequence[TrialRecord]]


@dataclass(frozen=True)
class SolvedRows:
    """The rows of a run.

    Attributes:
        rows: By the name of their subject.
        common: What the rows share; None where each row stands alone.
    """

    rows: Mapping[str, TableRow]
    common: RunCalibration | None = None

    @property
    def level_error(self) -> float:
        """Standard error of the run's mean drift level, as a fraction: a factor that all dynamic rows share.

        Their own intervals leave it out.
        """
        return self.common.drift.level_error if self.common else 0.0


def by_subject(records: Iterable[TrialRecord]) -> Trials:
    """Return trials by the name of what they measure."""
    trials: dict[str, list[TrialRecord]] = {}
    for record in records:
        trials.setdefault(record.subject, []).append(record)
    return trials
