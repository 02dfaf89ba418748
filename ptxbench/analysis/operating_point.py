"""Which trials of a kernel ran at one operating point: at a known drift level.

While the supply voltage of an H200 changes the clock dips: the mean clock of a trial in which it did lies
about a thousandth below that of the same kernel's other trials. What that says of its power is learnt from
the run (`dips`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.throttling import is_near_limit
from ptxbench.core.arrays import Bools
from ptxbench.core.condition import OptLevel
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role, TrialRecord

# A mean clock that is lower by more than this fraction holds a dip: 0.5 of 1980 MHz. Without one, that of a
# kernel on an H200 repeats to 0.1 MHz at one drift level. At -O3 it is the full clock: a kernel that
# lies below it in all trials dipped in all. At -O0 some read up to 2 MHz less on every board and draw what
# they should: there it is the kernel's best.
_DIP = 2.5e-4
# The full clock is the one that all but a few of the fastest trials keep to; those are errors of the timer.
_FASTEST_PERCENT = 90.0
# A kernel whose best clock is further below the full one has a clock of its own: that of the power limit.
_OWN_CLOCK = 2e-3
# A trial whose mean clock is off by more ran at another clock: steps of it are 15 MHz, 0.8% of 1980. A dip is
# less: of 65,000 trials on H100s and H200s (results/) five were lower by 0.3%, and none by 0.4%. One H100 ran
# 35 trials a step or two higher, above its highest clock by NVML: at up to 2% more power.
OTHER_CLOCK = 4e-3
# A trial within which the clock went one step up for a while; without, a mean clock repeats to 0.1 MHz.
_ABOVE = 1e-3
# One trial shows no scatter.
_LEAST = 2
# The sleeping kernel fills the chip for all units of a run: its trials are measured under this name.
STATIC_SUBJECT = "static"


@dataclass(frozen=True)
class Selection:
    """Which trials of a kernel count.

    Attributes:
        kept: Mask over the trials, shape (n,).
        mixed: Whether some that should be left out are kept, because too few others are there.
    """

    kept: Bools
    mixed: bool


def kernel_of(record: TrialRecord) -> str:
    """Return what trials of one kernel in one launch shape on one board share; there is one that sleeps."""
    if record.role is Role.STATIC:
        return STATIC_SUBJECT
    return f"{record.gpu}/{record.subject}/{record.role}/{record.grid}x{record.block}"


def full_clock_mhz(records: Iterable[TrialRecord]) -> float:
    """Return the SM clock of undisturbed kernels, NaN where none is known.

    Args:
        records: Trials of a run; the sleeping kernel's are passed over.
    """
    known = [r.sm_clock_mhz for r in records if r.role is not Role.STATIC and math.isfinite(r.sm_clock_mhz)]
    return float(np.percentile(known, _FASTEST_PERCENT, method="nearest")) if known else math.nan


def limited_trials(records: Sequence[TrialRecord], power_limit_w: float) -> frozenset[str]:
    """Return the ids of trials whose clock the power limit sets: far below the full one, and near the limit.

    Tensor kernels of an H100 have a clock of their own below the full one whatever they draw: it stays.

    Args:
        records: Trials of a run.
        power_limit_w: The GPU's power limit, NaN where it is not known: any may be near it.
    """
    full_mhz, best = full_clock_mhz(records), _best_clock_mhz(records)
    return frozenset(
        r.trial_id
        for r in records
        if _is_limited(best[kernel_of(r)], full_mhz) and is_near_limit(r.steady_power_w, power_limit_w)
    )


def clock_faults(records: Sequence[TrialRecord]) -> dict[str, str]:
    """Return the trials that ran at another clock than their kernel's others, by id, and a sentence.

    The kernel's clock is the full one where any trial had it, else the median. Kernels that never come near
    the full clock are passed over: the power limit sets theirs.

    Args:
        records: Trials of a run.
    """
    known = [r for r in records if r.status is Status.OK and r.repeat >= 0 and r.role is not Role.STATIC]
    full_mhz = full_clock_mhz(known)
    kernels: dict[str, list[TrialRecord]] = {}
    for record in known:
        if math.isfinite(record.sm_clock_mhz):
            kernels.setdefault(kernel_of(record), []).append(record)
    return {
        r.trial_id: f"the SM clock was {r.sm_clock_mhz:.0f} MHz, and that of the kernel is {own_mhz:.0f}"
        for trials in kernels.values()
        if not _is_limited(own_mhz := _own_clock_mhz([t.sm_clock_mhz for t in trials], full_mhz), full_mhz)
        for r in trials
        if _is_other(r.sm_clock_mhz, own_mhz)
    }


def stated_clocks(records: Sequence[TrialRecord], highest_mhz: float) -> dict[str, float]:
    """Return the clock at which the energy of a trial is stated that ran at another one, MHz, by trial id.

    It is the full clock, unless the power limit sets that of the kernel. Some H100s run for a while one step
    above the highest clock that NVML names, and at it in between: 1995 and 1980 MHz.

    Args:
        records: Trials of a run.
        highest_mhz: Highest SM clock that NVML names, NaN where it does not: the full clock is no higher.
    """
    known = [r for r in records if r.status is Status.OK and r.repeat >= 0 and r.role is not Role.STATIC]
    full_mhz = float(np.fmin(full_clock_mhz(known), highest_mhz))
    best = _best_clock_mhz(known)
    return {
        r.trial_id: full_mhz
        for r in known
        if not _is_limited(best[kernel_of(r)], full_mhz)
        and (r.sm_clock_mhz > full_mhz * (1 + _ABOVE) or _is_other(r.sm_clock_mhz, full_mhz))
    }


def dipped_trials(records: Sequence[TrialRecord]) -> frozenset[str]:
    """Return the ids of the trials within which the clock dipped.

    A clock that is not known is no dip, and one that the power limit sets has none of its own.

    Args:
        records: Trials of a run.
    """
    full_mhz, best = full_clock_mhz(records), _best_clock_mhz(records)
    return frozenset(
        r.trial_id
        for r in records
        if r.role is not Role.STATIC
        and not _is_limited(own_mhz := best[kernel_of(r)], full_mhz)
        and r.sm_clock_mhz < _undipped_mhz(r.opt_level, own_mhz, full_mhz) * (1 - _DIP)
    )


def same_operating_point(records: Sequence[TrialRecord], unsure: Collection[str]) -> Selection:
    """Choose the trials at a known drift level.

    Where these are fewer than two, all count: the kernel is a mean over what there was then, and its interval
    shows it.

    Args:
        records: Valid trials of one kernel, shape (n,).
        unsure: Ids of trials at an unknown drift level.
    """
    is_sure = np.array([r.trial_id not in unsure for r in records], dtype=bool)
    if np.count_nonzero(is_sure) >= _LEAST:
        return Selection(is_sure, mixed=False)
    return Selection(np.ones(len(records), dtype=bool), mixed=not bool(is_sure.all()))


def _best_clock_mhz(records: Iterable[TrialRecord]) -> dict[str, float]:
    """Return the highest clock of each kernel, NaN where none is known."""
    best: dict[str, float] = {}
    for record in records:
        name = kernel_of(record)
        best[name] = float(np.fmax(best.get(name, math.nan), record.sm_clock_mhz))
    return best


def _own_clock_mhz(clocks_mhz: Sequence[float], full_mhz: float) -> float:
    """Return the clock of a kernel, from the mean clocks of its trials and the full one."""
    own_mhz = min(max(clocks_mhz), full_mhz)
    if all(_is_other(mhz, own_mhz) for mhz in clocks_mhz):
        return float(np.median(clocks_mhz))
    return own_mhz


def _is_other(clock_mhz: float, own_mhz: float) -> bool:
    return abs(clock_mhz / own_mhz - 1) > OTHER_CLOCK


def _undipped_mhz(level: OptLevel, best_mhz: float, full_mhz: float) -> float:
    """Return the clock that a kernel without a dip has at a level, from its best and the full one."""
    return min(best_mhz, full_mhz) if level is OptLevel.O0 else full_mhz


def _is_limited(best_mhz: float, full_mhz: float) -> bool:
    """Return whether the power limit sets a kernel's clock; one that is not known is not limited."""
    return best_mhz < full_mhz * (1 - _OWN_CLOCK)
