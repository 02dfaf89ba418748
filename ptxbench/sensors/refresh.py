"""When a value that a call returned was made: sensors refresh, and hold in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxbench.sensors.trace import Float64s

# Calls further apart than this many usual ones say nothing about when the value between them changed.
_MAX_GAP = 3.0
# A refresh period is only seen where calls come clearly faster.
_MIN_CALLS_PER_REFRESH = 1.2
# No board is known to refresh more slowly; longer holds are a load that stays.
_MAX_REFRESH_S = 0.25
# The shortest spacings are those up to so many times the one at this quantile; a refresh may be a whole
# fraction of their mean, up to the last. Chosen.
_SHORT_QUANTILE = 0.1
_SHORT_RANGE = 2.5
_MAX_DIVISOR = 60
# Almost any changes lie on a grid hardly wider than the calls.
_MIN_CALLS_PER_SKIPPED = 1.8
# Changes that tell a grid; share of them that must lie on it; rounds in which its period is fitted. Chosen.
_MIN_CHANGES = 6
_MIN_INSIDE = 0.85
_ROUNDS = 4


@dataclass(frozen=True)
class HoldInterval:
    """Readings with the time at which each value was made, by one hypothesis.

    Attributes:
        read_s: Time of each call, shape (n,).
        made_s: When its value was made, at or before `read_s` (but for jitter), shape (n,).
        value_w: Value, shape (n,).
        refresh_s: Period of the refresh; 0 where every call gives a new value.
    """

    read_s: Float64s
    made_s: Float64s
    value_w: Float64s
    refresh_s: float

    def fresh(self) -> HoldInterval:
        """Return the first reading of each value."""
        _, first = np.unique(self.made_s, return_index=True)
        return HoldInterval(self.read_s[first], self.made_s[first], self.value_w[first], self.refresh_s)


def hypotheses(read_s: Float64s, value_w: Float64s) -> list[HoldInterval]:
    """Return how the readings may have come about: always new, on a grid, or at each change.

    A constant load shows no refresh, so that the readings alone cannot decide; the fit
    against the meter does.

    Args:
        read_s: Times of the calls, increasing, shape (n,).
        value_w: What they returned, shape (n,).
    """
    result = [HoldInterval(read_s, read_s, value_w, 0.0)]
    changes = np.flatnonzero(np.diff(value_w)) + 1
    gap_s = read_s[changes] - read_s[changes - 1]
    call_s = float(np.median(np.diff(read_s)))
    changes = changes[gap_s <= _MAX_GAP * call_s]
    if len(changes) < _MIN_CHANGES:
        return result
    before_s, after_s = read_s[changes - 1], read_s[changes]
    middle_s = (before_s + after_s) / 2
    spacing_s = np.diff(middle_s)
    short_s = float(np.quantile(spacing_s, _SHORT_QUANTILE))
    # Calls and refreshes out of step make spacings of one call more or less: their mean is right.
    short_s = float(spacing_s[spacing_s <= _SHORT_RANGE * short_s].mean())
    grid = _widest_grid(before_s, after_s, short_s, call_s)
    if grid is not None:
        phase_s, period_s = grid
        made_s = phase_s + period_s * np.floor((read_s - phase_s) / period_s + 1e-6)
        result.append(HoldInterval(read_s, made_s, value_w, period_s))
    if _MIN_CALLS_PER_REFRESH * call_s <= short_s <= _MAX_REFRESH_S:
        last = np.searchsorted(changes, np.arange(len(read_s)), side="right") - 1
        known = last >= 0
        period_s = grid[1] if grid is not None else short_s
        result.append(HoldInterval(read_s[known], middle_s[last[known]], value_w[known], period_s))
    return result


def _widest_grid(
    before_s: Float64s, after_s: Float64s, spacing_s: float, call_s: float
) -> tuple[float, float] | None:
    """Return phase and period of the widest grid that the changes lie on, of which they may skip points."""
    for divisor in range(1, _MAX_DIVISOR + 1):
        calls = _MIN_CALLS_PER_REFRESH if divisor == 1 else _MIN_CALLS_PER_SKIPPED
        if spacing_s / divisor < calls * call_s:
            return None
        grid = _grid(before_s, after_s, spacing_s / divisor)
        if grid is not None and grid[1] <= _MAX_REFRESH_S:
            return grid
    return None


def _grid(before_s: Float64s, after_s: Float64s, refresh_s: float) -> tuple[float, float] | None:
    """Return phase and period of refreshes, each of which lies in (before, after]."""
    middle_s = (before_s + after_s) / 2
    for _ in range(_ROUNDS):
        # From one change to the next, so that an error of the period does not add up.
        number = np.concatenate([[0.0], np.cumsum(np.round(np.diff(middle_s) / refresh_s))])
        if number[-1] == 0:
            return None
        refresh_s, phase_s = (float(x) for x in np.polyfit(number, middle_s, 1))
    at_s = refresh_s * number
    earliest, latest = float((before_s - at_s).max()), float((after_s - at_s).min())
    # Calls in step with the refresh leave a whole period between two calls open: a value is then
    # dated by the call that first returned it.
    phase_s = latest if earliest <= latest else phase_s
    made_s = phase_s + at_s
    inside = (made_s > before_s - 1e-9) & (made_s <= after_s + 1e-9)
    return (phase_s, refresh_s) if inside.mean() >= _MIN_INSIDE else None
