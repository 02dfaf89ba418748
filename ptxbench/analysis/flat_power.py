"""Whether a source stood still: real readings of one kernel scatter from trial to trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxbench.core.status import Status
from ptxbench.storage.schema import Role, TrialRecord

# Two trials of thousands may agree to the last digit by chance, three do not.
_FEWEST = 3
_SAME = 1e-6


def flat_power(own: Sequence[TrialRecord], trials: Mapping[str, Sequence[TrialRecord]]) -> str:
    """Return a sentence where a source cannot have followed a kernel's power, else "".

    All valid trials of the kernel read one power to the last digit, while those of other kernels scatter, or
    read the very same power at other work. A source that is too coarse to scatter shows neither.

    Args:
        own: Trials of one subject.
        trials: All trials of the run, by what they measure.
    """
    powers_w = _powers_w(own, Role.TARGET)
    if len(powers_w) < _FEWEST or not _is_flat(powers_w):
        return ""
    others = (
        _powers_w(records, role)
        for records in trials.values()
        if records and records[0].subject != own[0].subject
        for role in dict.fromkeys(record.role for record in records)
    )
    if not any(len(w) > 1 and (not _is_flat(w) or _is_flat([*w, *powers_w])) for w in others):
        return ""
    return (
        f"{own[0].source} gave {powers_w[0]:.6g} W in all {len(powers_w)} trials, to the last digit, and did"
        " not follow other kernels so: it stands still or is at the end of its range"
    )


def _powers_w(records: Sequence[TrialRecord], role: Role) -> list[float]:
    return [r.steady_power_w for r in records if r.role is role and r.status is Status.OK and r.repeat >= 0]


def _is_flat(powers_w: Sequence[float]) -> bool:
    return max(powers_w) - min(powers_w) <= _SAME * abs(max(powers_w))
