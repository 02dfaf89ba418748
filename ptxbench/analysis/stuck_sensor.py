"""Whether a source stood still: real readings of one kernel scatter from trial to trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ptxbench.analysis.operating_point import kernel_of
from ptxbench.core.status import Status
from ptxbench.storage.schema import TrialRecord

# So many trials that agree to the last digit are enough where more says so, and so many where nothing does:
# of 20,000 kernels on H100s and H200s (results/) one had three alike by chance.
_FEWEST = 3
_FEWEST_ALONE = 4
# 1 mW, the last digit that NVML gives, of 1,000 W.
_SAME = 1e-6
# One whose readings stood still within the trial, too, is one more of them.
_READ = (Status.OK, Status.SENSOR_IMPLAUSIBLE)


def stuck_sensor(records: Sequence[TrialRecord]) -> dict[str, str]:
    """Return the trials whose source cannot have followed their kernel's power, by id, and a sentence.

    All trials of the kernel read one power to the last digit, while those of other kernels scatter, or
    read the very same power at other work, or the source stood still within one of them. A source that is too
    coarse to scatter shows none of this.

    Args:
        records: Trials of a run.
    """
    kernels: dict[str, list[TrialRecord]] = {}
    for record in records:
        if record.status in _READ and record.repeat >= 0:
            kernels.setdefault(kernel_of(record), []).append(record)
    powers_w = {name: [r.steady_power_w for r in trials] for name, trials in kernels.items()}
    repeated = {name: w for name, w in powers_w.items() if len(w) > 1}
    flat = {name: w for name, w in repeated.items() if _is_flat(w)}
    at = Counter(_digits(w) for w in flat.values())
    faults: dict[str, str] = {}
    for name, w in flat.items():
        stood_still = any(r.status is Status.SENSOR_IMPLAUSIBLE for r in kernels[name])
        is_sure = stood_still or at[_digits(w)] > 1
        if (len(w) >= _FEWEST and is_sure) or (len(w) >= _FEWEST_ALONE and len(flat) < len(repeated)):
            faults |= {record.trial_id: _sentence(record, len(w)) for record in kernels[name]}
    return faults


def _sentence(record: TrialRecord, trials: int) -> str:
    return (
        f"{record.source} gave {record.steady_power_w:.6g} W in all {trials} trials, to the last digit, and"
        " did not follow other kernels so: it stands still or is at the end of its range"
    )


def _digits(powers_w: Sequence[float]) -> str:
    return f"{max(powers_w):.6g}"


def _is_flat(powers_w: Sequence[float]) -> bool:
    return max(powers_w) - min(powers_w) <= _SAME * abs(max(powers_w))
