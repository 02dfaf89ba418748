"""Which trials of a kernel ran at one operating point: on warm silicon, and at the full SM clock.

On an H200 the supply voltage seems to move in steps (docs/accuracy.md): the dynamic power of one kernel is
the same to some tenths of a percent, or 1.7% lower, or 3.2%. The upper state is the one on warm silicon: a
kernel behind a colder one often falls out of it. And while the supply changes the clock dips, so that the
mean clock of the trial's window lies below the full one. The energy of a kernel is that on warm silicon at
the full clock; a mean over states would mix in how often each was met.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ptxbench.gpu.protocol import OptLevel
from ptxbench.store.schema import Protocol, TrialRecord

Mask = npt.NDArray[np.bool_]

# A mean clock further below the full one, as a fraction, holds a change of clock: 0.1 of 1980 MHz. That of
# an undisturbed H200 repeats to 0.02 MHz.
_CLOCK_DIP = 5e-5
# The full clock is the one that all but a few of the fastest trials keep to; those are errors of the timer.
_FASTEST_PERCENT = 90.0
# A kernel that draws hardly more than the one before it finds silicon as warm as it makes itself.
_AS_HOT = 0.97
# Between two trials there is no pause, except for an unrecorded warm-up, which lasts as long as a trial.
_WARM_UP = 0.5
_LEAST = 2


@dataclass(frozen=True)
class Selection:
    """Which trials of a kernel count.

    Attributes:
        kept: Mask over the trials, shape (n,).
        on_cold_silicon: How many are left out because a colder kernel ran before them.
        at_lower_clock: How many are left out because the clock dipped.
    """

    kept: Mask
    on_cold_silicon: int = 0
    at_lower_clock: int = 0


def full_clock_mhz(clocks_mhz: Sequence[float]) -> float:
    """Return the SM clock of undisturbed kernels, NaN where none is known.

    Args:
        clocks_mhz: Mean clock of each trial of a run, but of the sleeping kernel, shape (n,).
    """
    known = np.asarray(clocks_mhz, dtype=float)
    known = known[np.isfinite(known)]
    return float(np.percentile(known, _FASTEST_PERCENT, method="nearest")) if len(known) else float("nan")


def cold_trials(records: Iterable[TrialRecord]) -> frozenset[str]:
    """Return the ids of the trials at -O3 that a colder kernel ran before.

    At -O0 kernels draw little and keep to one state, so that none of theirs is cold.

    Args:
        records: All trials of a run.
    """
    dynamic = (r for r in records if r.repeat >= 0 and r.protocol is Protocol.DYNAMIC)
    ordered = sorted(dynamic, key=lambda r: r.order)
    return frozenset(
        record.trial_id
        for before, record in pairwise(ordered)
        if record.opt_level is OptLevel.O3
        and before.steady_power_w < _AS_HOT * record.steady_power_w
        # A process that went on with a run warmed the GPU, too, and may have another clock.
        and 0 <= record.start_ns - before.end_ns < _WARM_UP * 1e9 * record.elapsed_s
    )


def same_operating_point(records: Sequence[TrialRecord], cold: Collection[str], full_mhz: float) -> Selection:
    """Choose the trials on warm silicon and at the full clock.

    A criterion that would leave fewer than two trials is not used: a kernel whose clock never stays at the
    full one (at the power limit, say) is a mean over what there was, and its interval shows it.

    Args:
        records: Valid trials of one kernel, shape (n,).
        cold: Ids of trials that a colder kernel ran before (`cold_trials`).
        full_mhz: SM clock of undisturbed kernels (`full_clock_mhz`).
    """
    warm = _narrowed(np.ones(len(records), dtype=bool), [r.trial_id not in cold for r in records])
    # A clock that is not known is no dip.
    steady = [not r.sm_clock_mhz < full_mhz * (1 - _CLOCK_DIP) for r in records]
    kept = _narrowed(warm, steady)
    return Selection(kept, int(np.sum(~warm)), int(np.sum(warm & ~kept)))


def _narrowed(kept: Mask, criterion: Sequence[bool]) -> Mask:
    both = kept & np.array(criterion, dtype=bool)
    return both if np.count_nonzero(both) >= _LEAST else kept
