"""Whether a function takes less energy than another, by rounds in which both were measured.

With e_r and f_r the energies of a call of both in round r, d_r = ln(f_r / e_r) is free of what changes
slowly. Its mean d has Student's interval of the n rounds, t s / sqrt(n). What differs between two functions
for as long as they live, such as where their memory lies, no number of rounds shows, so that

    half = hypot(t s / sqrt(n), 0.3%).

There is a verdict where d is further from zero than that. Of several functions t is that of the 95% of all
intervals together (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ptxbench.analysis.statistics import estimate
from ptxbench.core.distributions import student_quantile
from ptxbench.experiment.calls.window import LEAST_ROUNDS, CallWindow

_LEVEL = 0.95  # of all intervals together (see above)
# Difference that is none, whatever the rounds (see above).
SAME = 0.003
# Change of the SM clock, as a fraction, from which on it has moved.
CLOCK_MOVED = 0.02


class Verdict(StrEnum):
    """Whether a function takes less energy than the one that it is compared with."""

    LESS = "yes"
    MORE = "no"
    UNDECIDED = "undecided"
    REFUSED = "refused"


@dataclass(frozen=True)
class Ratio:
    """How many times one quantity is as large as another.

    Attributes:
        value: The ratio; NaN where it is not known.
        low: Low end of its 95% interval.
        high: High end.
    """

    value: float
    low: float
    high: float

    @property
    def change(self) -> str:
        """It as a change in percent, with its interval."""
        if math.isnan(self.value):
            return "not known"
        if math.isnan(self.low):
            return f"{self.value - 1:+.1%}"
        return f"{self.value - 1:+.1%} ({self.low - 1:+.1%} to {self.high - 1:+.1%})"


UNKNOWN_RATIO = Ratio(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Judged:
    """What rounds say of a function beside another.

    Attributes:
        verdict: Whether it takes less energy.
        energy: Its energy over that of the other.
        time: Its time over that of the other.
        rounds: Rounds that both have, and that count.
        reason: Why there is no verdict; "" where there is.
    """

    verdict: Verdict
    energy: Ratio
    time: Ratio
    rounds: int
    reason: str = ""


def judge(first: Sequence[CallWindow], other: Sequence[CallWindow], pairs: int = 1) -> Judged:
    """Return whether a function takes less energy than the first.

    Args:
        first: Windows of the one that it is compared with, one a round.
        other: Its windows.
        pairs: How many functions are compared with the first.
    """
    counted = [both for both in zip(first, other, strict=True) if all(one.counts for one in both)]
    rounds = len(counted)
    energy = _ratio([_log(b.energy_j, a.energy_j) for a, b in counted], pairs)
    time = _ratio([_log(b.time_s, a.time_s) for a, b in counted], pairs)
    if moved := moved_clock(first, other):
        return Judged(Verdict.REFUSED, energy, time, rounds, moved)
    if rounds < LEAST_ROUNDS:
        failed = next((one.reason for one in (*first, *other) if one.reason), "")
        reason = f"{rounds} round(s) count, {LEAST_ROUNDS} are needed" + (f": {failed}" if failed else "")
        return Judged(Verdict.UNDECIDED, energy, time, rounds, reason)
    if energy.high < 1:
        return Judged(Verdict.LESS, energy, time, rounds)
    if energy.low > 1:
        return Judged(Verdict.MORE, energy, time, rounds)
    reason = f"the difference of {energy.change} may be none"
    return Judged(Verdict.UNDECIDED, energy, time, rounds, reason)


def moved_clock(*functions: Sequence[CallWindow]) -> str:
    """Return what must be said where a clock moved that no function moved itself, "" where none did.

    At the power limit the clock is what a function's power lets it be: it may differ from another's, but not
    from round to round.
    """
    known = [[one for one in windows if one.counts and one.clock_mhz > 0] for windows in functions]
    for windows in known:
        clocks_mhz = [one.clock_mhz for one in windows]
        if clocks_mhz and max(clocks_mhz) > (1 + CLOCK_MOVED) * min(clocks_mhz):
            return (
                f"the SM clock moved from round to round, {min(clocks_mhz):.0f} to {max(clocks_mhz):.0f} MHz"
            )
    free = [one.clock_mhz for windows in known for one in windows if not one.at_limit]
    if free and max(free) > (1 + CLOCK_MOVED) * min(free):
        return (
            f"the functions ran at different SM clocks, {min(free):.0f} and {max(free):.0f} MHz, below the"
            " power limit"
        )
    return ""


def _log(value: float, other: float) -> float:
    return math.log(value / other) if value > 0 and other > 0 else math.nan


@cache
def _student(degrees: int, pairs: int) -> float:
    return student_quantile(degrees, 1 - (1 - _LEVEL) / 2 / pairs)


def _ratio(logs: Sequence[float], pairs: int) -> Ratio:
    """Return a ratio by the logarithms of the rounds, with the interval of the module's docstring."""
    if not logs or any(map(math.isnan, logs)):
        return UNKNOWN_RATIO
    found = estimate(logs)
    if found.n < 2:
        return Ratio(math.exp(found.mean), math.nan, math.nan)
    half = math.hypot(_student(found.n - 1, pairs) * found.uncertainty.standard_error, SAME)
    return Ratio(math.exp(found.mean), math.exp(found.mean - half), math.exp(found.mean + half))
