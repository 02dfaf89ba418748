"""Which trials of a kernel ran at one operating point: at the full SM clock, and in one state of the supply.

On an H200 the supply voltage seems to move in steps (docs/accuracy.md): the dynamic power of one kernel is
the same to some tenths of a percent, or 1.7% lower, or 3.2%. Two things tell in which state a trial was.
While the voltage changes the clock dips, so that the mean clock of the trial's window lies below the full
one. And trials of one state lie close together, those of another a step below. The energy of a kernel is
that of its upper state, which is the one on warm silicon; a mean over states would only mix in how often
each was met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

# A mean clock further below the full one, as a fraction, holds a change of clock: 0.1 of 1980 MHz. That of
# an undisturbed H200 repeats to 0.02 MHz.
_CLOCK_DIP = 5e-5
# The full clock is the one that all but a few of the fastest trials keep to; those are errors of the timer.
_FASTEST_PERCENT = 90.0
# Steps are 1.3 to 1.8% of the dynamic energy, two of them at most 4%. A gap counts as one where it is about
# so wide, and so many times wider than the trials above it are apart; a wider gap is something else.
_STEP, _TWO_STEPS = 0.009, 0.045
_STEP_OVER_SPREAD = 3.0
_LEAST = 2


@dataclass(frozen=True)
class Selection:
    """Which trials of a kernel count.

    Attributes:
        kept: Mask over the trials, shape (n,).
        at_lower_clock: How many are left out because the clock dipped.
        in_lower_state: How many are left out because their energy lies a step below.
    """

    kept: Mask
    at_lower_clock: int = 0
    in_lower_state: int = 0


def full_clock_mhz(clocks_mhz: Sequence[float]) -> float:
    """Return the SM clock of undisturbed kernels, NaN where none is known.

    Args:
        clocks_mhz: Mean SM clock of each trial of a run, NaN where it is not known.
    """
    known = np.asarray(clocks_mhz, dtype=float)
    known = known[np.isfinite(known)]
    return float(np.percentile(known, _FASTEST_PERCENT, method="nearest")) if len(known) else float("nan")


def same_operating_point(clock_mhz: Sequence[float], energy: Sequence[float], full_mhz: float) -> Selection:
    """Choose the trials at the full clock and in the upper state of the supply.

    A criterion that would leave fewer than two trials is not used: a kernel whose clock never stays at the
    full one (at the power limit, say) is a mean over what there was, and its interval shows it.

    Args:
        clock_mhz: Mean SM clock of each trial, shape (n,).
        energy: Dynamic energy of each trial, shape (n,), in any unit.
        full_mhz: SM clock of undisturbed kernels.
    """
    clock, values = np.asarray(clock_mhz, dtype=float), np.asarray(energy, dtype=float)
    everything = np.ones(len(values), dtype=bool)
    # A clock that is not known is no dip.
    steady = ~(clock < full_mhz * (1 - _CLOCK_DIP))
    if np.count_nonzero(steady) < _LEAST:
        steady = everything
    upper = steady & ~(values < _floor_of_upper_state(values[steady]))
    return Selection(upper, int(np.sum(~steady)), int(np.sum(steady & ~upper)))


def _floor_of_upper_state(values: npt.NDArray[np.float64]) -> float:
    """Return the least energy of the upper state, -inf where there is no step between the trials."""
    falling = np.sort(values)[::-1]
    gaps = falling[:-1] - falling[1:]
    for number in range(_LEAST, len(falling)):
        gap, spread = gaps[number - 1], falling[0] - falling[number - 1]
        is_step = _STEP <= gap / abs(falling[0]) <= _TWO_STEPS if falling[0] else False
        if is_step and gap >= _STEP_OVER_SPREAD * spread:
            return float(falling[number - 1])
    return float("-inf")
