"""The subject of a row: an instruction under one condition; and what its trials say of themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.overhead import Alike, overhead_subject, with_plain_companions
from ptxbench.catalogue.model import Instruction
from ptxbench.core.condition import Condition
from ptxbench.core.status import Status
from ptxbench.sass.loop_check import LoopCheck
from ptxbench.storage.schema import Role, TableRow, TrialRecord, axes_of

# An SM clock that differs by more than this fraction from the subject's median is another operating point.
CLOCK_TOLERANCE = 0.01


@dataclass(frozen=True)
class Subject:
    """What one row of the table is about; light, because a run holds thousands.

    Attributes:
        instruction: Catalogue row.
        condition: Under which condition it is measured.
        loop_check: What the loop check found, None before its kernels are built.
        loops: Loops of its overhead kernels as text (`overhead_loops`), by role.
    """

    instruction: Instruction
    condition: Condition
    loop_check: LoopCheck | None = None
    loops: tuple[tuple[Role, str], ...] = ()

    @property
    def name(self) -> str:
        """Identity of the subject within a run: the beginning of its trials' ids."""
        return f"{self.instruction.name}/{self.condition.key}"

    def __str__(self) -> str:
        """Return the subject for a reader, such as "fma.rn.f32 -O3 dynamic random"."""
        return f"{self.instruction.name} {self.condition}"

    def overhead_name(self, role: Role, grid: int, block: int, alike: Alike = Alike.BITS) -> str:
        """Return under which name an overhead kernel is measured, perhaps for many subjects.

        Where the 2N kernel has no overhead kernel of its own, the one of N serves both.

        Args:
            role: Which overhead kernel.
            grid: Blocks.
            block: Threads a block.
            alike: As in `overhead_subject`.
        """
        return next(self.overhead_names(role, grid, block, (alike,)))

    def overhead_names(
        self, role: Role, grid: int, block: int, alike: Iterable[Alike] = tuple(Alike)
    ) -> Iterator[str]:
        """Yield the name of an overhead kernel, then the names that earlier runs gave it.

        Args:
            role: Which overhead kernel.
            grid: Blocks.
            block: Threads a block.
            alike: As in `overhead_subject`.
        """
        loops = dict(self.loops)
        found = role if role in loops else Role.OVERHEAD
        plain = with_plain_companions(self.instruction)
        # Names are hashes of the loop's whole text: none is made twice.
        for row in (self.instruction, *([plain] if plain != self.instruction else [])):
            for one in alike:
                yield overhead_subject(
                    row,
                    loops[found],
                    found,
                    self.condition.pattern,
                    f"{grid}x{block}",
                    one,
                    self.condition.lanes,
                )

    def row(self, status: Status, reason: str) -> TableRow:
        """Return the subject's row without any number.

        Args:
            status: Validity.
            reason: One sentence, or "".
        """
        loop_check = self.loop_check
        return TableRow.without_numbers(
            instruction=self.instruction.name,
            category=self.instruction.category,
            **axes_of(self.condition),
            sass=loop_check.sass_text if loop_check else "",
            sass_per_ptx=loop_check.sass_per_ptx if loop_check else math.nan,
            status=status,
            reason=reason,
            unit=self.instruction.unit,
        )


def trial_faults(
    records: Sequence[TrialRecord], contradicted: Mapping[str, tuple[Status, str]]
) -> dict[str, tuple[Status, str]]:
    """Return status and reason of every trial of a subject that does not count, by trial id.

    A trial's own status comes first; then a clock that differs from the subject's median, then what
    other trials say. The short trials that find the loop count are passed over.

    Args:
        records: Trials of a subject.
        contradicted: Status and reason of valid trials that others of the run show to be wrong, by id.
    """
    rounds = [r for r in records if r.repeat >= 0]
    clocks = [r.sm_clock_mhz for r in rounds if math.isfinite(r.sm_clock_mhz)]
    median_mhz = float(np.median(clocks)) if clocks else math.nan
    faults: dict[str, tuple[Status, str]] = {}
    for record in rounds:
        drift = abs(record.sm_clock_mhz / median_mhz - 1)
        if record.status is not Status.OK:
            faults[record.trial_id] = (record.status, record.reason)
        elif drift > CLOCK_TOLERANCE:
            reason = (
                f"the SM clock was {record.sm_clock_mhz:.0f} MHz where the unit's median is {median_mhz:.0f}"
            )
            faults[record.trial_id] = (Status.CLOCK_DRIFT, reason)
        elif record.trial_id in contradicted:
            faults[record.trial_id] = contradicted[record.trial_id]
    return faults


def most_common_fault(faults: dict[str, tuple[Status, str]]) -> tuple[Status, str]:
    """Return the status that most trials failed with, and one of its reasons."""
    statuses = [status for status, _ in faults.values()]
    if not statuses:
        return Status.WINDOW_TOO_SHORT, "no trial gave a power reading"
    worst = max(set(statuses), key=lambda status: (statuses.count(status), status))
    return next(fault for fault in faults.values() if fault[0] is worst)


def nan_mean(values: Sequence[float]) -> float:
    """Return the mean of the finite values, NaN where there is none."""
    finite = [v for v in values if math.isfinite(v)]
    return float(np.mean(finite)) if finite else math.nan
