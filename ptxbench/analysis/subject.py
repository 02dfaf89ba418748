"""One unit of measuring: an instruction at one level, by one protocol, on one operand pattern."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.overhead import Alike, overhead_unit, with_plain_companions
from ptxbench.catalogue.model import Instruction
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.status import Status
from ptxbench.sass.loop_check import Judgement
from ptxbench.storage.schema import Role, TableRow, TrialRecord

# Every SM clock further than this from the unit's median is another operating point.
CLOCK_TOLERANCE = 0.01


@dataclass(frozen=True)
class Subject:
    """What one row of the table is about; light, for a run holds thousands.

    Attributes:
        instruction: Catalogue row.
        opt_level: Assembler level.
        judgement: What the gate found.
        protocol: Measuring protocol.
        pattern: Operand pattern.
        loops: Loops of its overhead kernels as text (`overhead_loops`), by role.
    """

    instruction: Instruction
    opt_level: OptLevel
    judgement: Judgement
    protocol: str
    pattern: Pattern
    loops: tuple[tuple[Role, str], ...] = ()

    @property
    def name(self) -> str:
        """Identity of the unit within a run."""
        return unit_name(self.instruction.name, self.opt_level, self.protocol, self.pattern)

    def overhead_name(self, role: Role, grid: int, block: int, alike: Alike = Alike.BITS) -> str:
        """Return under which name an overhead kernel is measured, perhaps for many units.

        Where the 2N kernel has no overhead kernel of its own, the one of N serves both.

        Args:
            role: Which overhead kernel.
            grid: Blocks.
            block: Threads a block.
            alike: As in `overhead_unit`.
        """
        return next(self.overhead_names(role, grid, block, (alike,)))

    def overhead_names(
        self, role: Role, grid: int, block: int, alike: Iterable[Alike] = tuple(Alike)
    ) -> Iterator[str]:
        """Yield today's name of an overhead kernel, then those that runs of before gave it.

        Args:
            role: Which overhead kernel.
            grid: Blocks.
            block: Threads a block.
            alike: As in `overhead_unit`.
        """
        loops = dict(self.loops)
        found = role if role in loops else Role.OVERHEAD
        plain = with_plain_companions(self.instruction)
        # Names are hashes of the loop's whole text: none is made twice.
        for row in (self.instruction, *([plain] if plain != self.instruction else [])):
            for one in alike:
                yield overhead_unit(row, loops[found], found, self.pattern, f"{grid}x{block}", one)

    def row(self, status: Status, reason: str) -> TableRow:
        """Return the unit's row, yet without a number."""
        return empty_row(
            self.instruction,
            self.opt_level,
            self.protocol,
            self.pattern,
            status,
            reason,
            self.judgement,
        )


def unit_name(instruction: str, opt_level: OptLevel, protocol: str, pattern: str) -> str:
    """Return the identity of a unit: the beginning of its trials' ids."""
    return f"{instruction}/{opt_level}/{protocol}/{pattern}"


def by_round(records: Sequence[TrialRecord]) -> dict[int, dict[Role, TrialRecord]]:
    """Return a unit's trials by repeat and role, calibration left out."""
    rounds: dict[int, dict[Role, TrialRecord]] = {}
    for record in records:
        if record.repeat >= 0:
            rounds.setdefault(record.repeat, {})[record.role] = record
    return rounds


def trial_faults(records: Sequence[TrialRecord]) -> dict[str, tuple[Status, str]]:
    """Return status and reason of every trial of a unit that does not count, by trial id.

    A trial's own status comes first; then a clock that differs from the unit's median. The short trials
    that find the loop count are passed over.
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
    return faults


def empty_row(
    instruction: Instruction,
    opt_level: OptLevel,
    protocol: str,
    pattern: str,
    status: Status,
    reason: str,
    judgement: Judgement | None = None,
) -> TableRow:
    """Return a row that has no number, with its status and reason.

    Args:
        instruction: Catalogue row.
        opt_level: Assembler level.
        protocol: Measuring protocol.
        pattern: Operand pattern.
        status: Validity.
        reason: One sentence, or "".
        judgement: What the gate found, where the instruction got that far.
    """
    nan = math.nan
    return TableRow(
        instruction=instruction.name,
        category=instruction.category,
        opt_level=opt_level,
        protocol=protocol,
        operands=pattern,
        sass=judgement.sass_text if judgement else "",
        sass_per_ptx=judgement.sass_per_ptx if judgement else nan,
        count=0,
        threads=0,
        sma_nj=nan,
        papi_nj=nan,
        mtsm_nj=nan,
        counter_nj=nan,
        dynamic_pj=nan,
        dynamic_ci95_pj=nan,
        cycles=nan,
        power_w=nan,
        static_w=nan,
        clock_mhz=nan,
        temperature_c=nan,
        repeats=0,
        status=status,
        reason=reason,
        unit=instruction.unit,
    )


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


def valid_pair(
    trials: Mapping[Role, TrialRecord],
    target: Role,
    overheads: Sequence[Role],
    faults: Mapping[str, tuple[Status, str]],
) -> tuple[TrialRecord, TrialRecord] | None:
    """Return a round's target and overhead trials, or None where one is missing or does not count.

    Args:
        trials: One round, by role.
        target: Role of the target.
        overheads: Roles that may serve as its overhead; the first that the round has is taken.
        faults: Trials that do not count, by id.
    """
    overhead = next((trials[role] for role in overheads if role in trials), None)
    if target not in trials or overhead is None:
        return None
    pair = (trials[target], overhead)
    return None if any(trial.trial_id in faults for trial in pair) else pair


def cycles_per_instruction(target: TrialRecord, overhead: TrialRecord) -> float:
    """Return SM cycles that one copy adds to a pass of the loop, NaN where the kernels gave none."""
    if target.cycles < 0 or overhead.cycles < 0:
        return math.nan
    pass_cycles = target.cycles / target.iterations - overhead.cycles / overhead.iterations
    return pass_cycles / target.copies
