"""The rows that follow from the trials of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ptxbench.analysis.loop_energy import Common
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.energy.gate.source import UNJUDGED, SourceVerdict
from ptxbench.storage.schema import TableRow, TrialRecord

Trials = Mapping[str, Sequence[TrialRecord]]


@dataclass(frozen=True)
class SolvedRows:
    """The rows of a run.

    Attributes:
        rows: By the name of their subject.
        common: What the rows share; None where each row stands alone.
        source: What the energy counter says of the run's power source.
    """

    rows: Mapping[str, TableRow]
    common: Common | None = None
    source: SourceVerdict = UNJUDGED

    @property
    def level_error(self) -> float:
        """Standard error of a factor that all dynamic rows share, as a fraction.

        It holds the run's mean drift level, and by how much power source and energy counter differ. The rows'
        own intervals leave it out.
        """
        drift = self.common.drift.level_error if self.common else 0.0
        return math.hypot(drift, self.source.scale_uncertainty / COVERAGE_FACTOR)


def by_subject(records: Iterable[TrialRecord]) -> Trials:
    """Return trials by the name of what they measure."""
    trials: dict[str, list[TrialRecord]] = {}
    for record in records:
        trials.setdefault(record.subject, []).append(record)
    return trials
