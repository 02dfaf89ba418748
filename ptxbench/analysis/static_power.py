"""Static power as a function of temperature, from a kernel that fills the chip and sleeps.

Between two sessions of a run the power of a board may change by several watts for every kernel, the sleeping
one too (studies/h200/power.md). Where its trials say so beyond chance, each session has a line of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

import numpy as np

from ptxbench.analysis.statistics import Uncertainty
from ptxbench.core.arrays import Floats, Indices
from ptxbench.core.distributions import f_tail
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role, TrialRecord

# NVML gives whole degrees; under this spread a slope would be noise.
_MIN_SPREAD_C = 2.0
# What is left open by a reading in whole degrees: evenly spread over one (JCGM 100:2008, F.2.2.1).
_READING_SD_C = 1 / math.sqrt(12)
# What lies so far apart in time is of two sessions, where each has so many sleeping trials.
_PAUSE_NS = 10_000_000_000
# Chosen.
_MIN_SLEEPING = 3
# Sessions differ where chance would make them so less often than this.
_CHANCE = 1e-3


@dataclass(frozen=True)
class SessionPower:
    """Part of a run without a long pause.

    Attributes:
        begin_ns: When its first trial began.
        shift_w: Static power less that of the run at the same temperature.
        error_w: Standard error of the session's static power at the run's mean temperature.
    """

    begin_ns: int
    shift_w: float
    error_w: float


@dataclass(frozen=True)
class StaticPower:
    """P_static(T) = power_w + slope_w_per_c (T - temperature_c), by least squares.

    Attributes:
        power_w: Static power at the mean temperature of the sleeping trials, NaN where there is none.
        temperature_c: That mean temperature.
        slope_w_per_c: Change with temperature; 0 where the trials span less than 2 C or none is known.
        error_w: Standard error of `power_w`.
        slope_error_w_per_c: Standard error of the slope.
        degrees: Degrees of freedom that both errors are known with.
        sessions: Where sessions differ, each of them in the order of time, else none.
    """

    power_w: float
    temperature_c: float
    slope_w_per_c: float
    error_w: float
    slope_error_w_per_c: float
    degrees: float = math.inf
    sessions: tuple[SessionPower, ...] = ()

    def at(self, temperature_c: float, when_ns: int | None = None) -> float:
        """Return the static power at a temperature, W: at a time, or on the mean of the run."""
        return self.power_w + self.shift_w(when_ns) + self._beside(temperature_c, self.slope_w_per_c)

    def error_at(self, temperature_c: float, when_ns: int | None = None) -> float:
        """Return the standard error of `at`, W."""
        session = self._session(when_ns)
        error_w = session.error_w if session else self.error_w
        return math.hypot(error_w, self._beside(temperature_c, self.slope_error_w_per_c))

    def shift_w(self, when_ns: int | None) -> float:
        """Return the static power of the session at a time less that of the run; 0 where none differs."""
        session = self._session(when_ns)
        return session.shift_w if session else 0.0

    def _session(self, when_ns: int | None) -> SessionPower | None:
        if when_ns is None:
            return None
        return next((one for one in reversed(self.sessions) if one.begin_ns <= when_ns), None)

    def reading_error(self, temperature_c: Sequence[float]) -> Uncertainty:
        """Return what whole degrees make of the mean static power of some trials, W, beyond their scatter.

        Trials that all read one degree may all be off by the same part of it, and their scatter does not
        show it. At different degrees their errors differ, and their scatter shows it.

        Args:
            temperature_c: Temperature of each trial, shape (n,); each a mean of readings in whole degrees.
        """
        alike = len({round(t) for t in temperature_c if math.isfinite(t)}) == 1
        return Uncertainty(abs(self.slope_w_per_c) * _READING_SD_C if alike else 0.0)

    def _beside(self, temperature_c: float, slope_w_per_c: float) -> float:
        """Return what a slope makes of the distance to the mean temperature; a GPU may not tell either."""
        return slope_w_per_c * (temperature_c - self.temperature_c) if slope_w_per_c else 0.0


def fit_static(
    records: Iterable[TrialRecord], power_w: Callable[[TrialRecord], float] = attrgetter("steady_power_w")
) -> StaticPower:
    """Fit static power against temperature over every valid sleeping trial.

    Args:
        records: All trials of a run; others than sleeping ones are passed over.
        power_w: The power of a trial: as measured, or at another drift level.
    """
    ordered = sorted((r for r in records if r.repeat >= 0), key=lambda r: r.start_ns)
    valid = [r for r in ordered if r.role is Role.STATIC and r.status is Status.OK]
    if not valid:
        return StaticPower(math.nan, math.nan, math.nan, math.nan, math.nan)
    powers_w, temperatures_c = [power_w(r) for r in valid], [r.temperature_c for r in valid]
    line = static_line(powers_w, temperatures_c)
    begins_ns = _begins(ordered, [r.start_ns for r in valid])
    session = np.searchsorted(begins_ns, [r.start_ns for r in valid], side="right") - 1
    return _by_session(line, np.array(powers_w), np.array(temperatures_c), session, begins_ns)


def _begins(ordered: Sequence[TrialRecord], sleeping_ns: Sequence[int]) -> list[int]:
    """Return when sessions began; one with few sleeping trials belongs to the one before or behind it."""
    after_pause = [b.start_ns for a, b in pairwise(ordered) if b.start_ns - a.end_ns > _PAUSE_NS]
    begins_ns = [ordered[0].start_ns]
    for at_ns in after_pause:
        if sum(begins_ns[-1] <= t < at_ns for t in sleeping_ns) >= _MIN_SLEEPING:
            begins_ns.append(at_ns)
    if len(begins_ns) > 1 and sum(t >= begins_ns[-1] for t in sleeping_ns) < _MIN_SLEEPING:
        begins_ns.pop()
    return begins_ns


def _by_session(
    line: StaticPower, power_w: Floats, temperature_c: Floats, session: Indices, begins_ns: Sequence[int]
) -> StaticPower:
    """Return parallel lines, one a session, where these explain more than chance; else the one line.

    (Analysis of covariance; the test is that of the ratio of the mean squares, F.)
    """
    n, count = len(power_w), len(begins_ns)
    degrees = n - count - 1
    if count < 2 or not np.all(np.isfinite(temperature_c)):
        return line
    members = np.bincount(session, minlength=count)
    mean_w, mean_c = (np.bincount(session, values, count) / members for values in (power_w, temperature_c))
    within_w, within_c = power_w - mean_w[session], temperature_c - mean_c[session]
    has_slope = line.slope_w_per_c != 0.0 and bool(np.ptp(within_c) >= _MIN_SPREAD_C)
    slope = float(within_c @ within_w / (within_c @ within_c)) if has_slope else 0.0
    left = float(np.sum((within_w - slope * within_c) ** 2))
    beside = line.slope_w_per_c * (temperature_c - line.temperature_c)
    together = float(np.sum((power_w - line.power_w - beside) ** 2))
    variance = left / degrees
    if not together - left > 0 or (
        variance > 0 and f_tail(count - 1, degrees, (together - left) / (count - 1) / variance) > _CHANCE
    ):
        return line
    slope_error = math.sqrt(variance / float(within_c @ within_c)) if has_slope else 0.0
    at_centre_w = mean_w - slope * (mean_c - line.temperature_c)
    errors_w = np.hypot(np.sqrt(variance / members), slope_error * (mean_c - line.temperature_c))
    run_w = float(members @ at_centre_w) / n
    shifts = zip(begins_ns, at_centre_w - run_w, errors_w, strict=True)
    return replace(
        line,
        power_w=run_w,
        slope_w_per_c=slope,
        error_w=math.sqrt(variance / n),
        slope_error_w_per_c=slope_error,
        degrees=degrees,
        sessions=tuple(SessionPower(at, float(shift), float(error)) for at, shift, error in shifts),
    )


def static_line(power_w: Sequence[float], temperature_c: Sequence[float]) -> StaticPower:
    """Fit the power of a sleeping GPU against temperature.

    Args:
        power_w: Power of each trial, shape (n,), n at least 1.
        temperature_c: Temperature of each trial, shape (n,).
    """
    power, temperature = np.array(power_w), np.array(temperature_c)
    centre_c = float(temperature.mean())
    n = len(power)
    if n < 3 or not np.ptp(temperature) >= _MIN_SPREAD_C:
        error_w = float(power.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
        return StaticPower(float(power.mean()), centre_c, 0.0, error_w, 0.0, max(n - 1, 1))
    mean_w, away_c = float(power.mean()), temperature - centre_c
    squares_c2 = float(away_c @ away_c)
    slope = float(away_c @ power) / squares_c2
    left_w = power - mean_w - slope * away_c
    variance = float(left_w @ left_w) / (n - 2)
    errors = math.sqrt(variance / n), math.sqrt(variance / squares_c2)
    return StaticPower(mean_w, centre_c, slope, *errors, n - 2)
