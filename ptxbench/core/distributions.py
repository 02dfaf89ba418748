"""Student's t, F, polygamma functions and ranks, so that what everyone needs does not load SciPy.

It would be 113 MB of an installation and a second of a command.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

# Steps at most, which end sooner by themselves; and what stands for a denominator of 0.
_STEPS = 300
_TINY = 1e-300
# Degrees of freedom from which a series in their inverse is exact to 1e-15.
_MANY = 1e5
# Bernoulli numbers B2, B4, ..., B14 of the asymptotic series (Abramowitz and Stegun, 6.3.18 and 6.4.11).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
# The series is used from here on, where its last term is below 1e-15; recurrence leads there.
_SHIFT = 12
# With so many degrees of freedom below, F is chi square over its own.
_ENDLESS = 1e6


@lru_cache(1024)
def student_quantile(degrees: float, probability: float = 0.975) -> float:
    """Return the value that Student's t is below with a probability.

    Args:
        degrees: Degrees of freedom, above 0; infinite: the normal distribution.
        probability: Above 0.5 and below 1.
    """
    value = NormalDist().inv_cdf(probability)
    if not degrees > 0:
        return math.nan
    if degrees > _MANY:  # (Abramowitz and Stegun, 26.7.5)
        first, second = value**3 + value, 5 * value**5 + 16 * value**3 + 3 * value
        return value + first / 4 / degrees + second / 96 / degrees**2
    log_density = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    # The tail is convex and the normal quantile is below the root: Newton's steps only ever come closer.
    for _ in range(_STEPS):
        tail = f_tail(1, degrees, value**2) / 2
        density = math.exp(log_density - (degrees + 1) / 2 * math.log1p(value**2 / degrees))
        step = (tail - (1 - probability)) / density
        value += step
        if abs(step) <= 1e-14 * value:
            break
    return value


def f_tail(above: float, below: float, ratio: float) -> float:
    """Return the probability that a ratio of mean squares (F) is greater by chance.

    Args:
        above: Degrees of freedom of the numerator.
        below: Degrees of freedom of the denominator.
        ratio: The ratio, at least 0.
    """
    return _incomplete_beta(below / 2, above / 2, below, above * ratio)


def chi_square_tail(degrees: float, ratio: float) -> float:
    """Return the probability that chi square over its degrees of freedom is greater than this by chance.

    Args:
        degrees: Degrees of freedom.
        ratio: Chi square over them, at least 0.
    """
    return f_tail(degrees, _ENDLESS, ratio)


def _incomplete_beta(a: float, b: float, of_x: float, of_y: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), x = of_x / (of_x + of_y).

    (Press et al., "Numerical Recipes", 3rd ed., section 6.4.) Both parts are given, so that neither 1 - x nor
    x is a difference.
    """
    if math.isnan(of_x + of_y) or math.isinf(of_y):
        return 0.0 if math.isinf(of_y) else math.nan
    x, y = of_x / (of_x + of_y), of_y / (of_x + of_y)
    # Either may be lost beside the other.
    if y == 0:
        return 1.0
    if x == 0:
        return 0.0
    log_y = math.log(y) if y < 0.5 else math.log1p(-x)
    log_x = math.log(x) if x < 0.5 else math.log1p(-y)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * log_x + b * log_y)
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, y) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _apart(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / _apart(1 + term * d), _apart(1 + term / c)
            value *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return value


def _apart(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def polygamma(order: int, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a derivative of the digamma function, itself the derivative of the logarithm of gamma.

    Args:
        order: 0 for digamma, 1 for trigamma, 2 for the next.
        x: Above 0, of any shape.
    """
    values = np.asarray(x, dtype=np.float64)
    far = values + _SHIFT
    sign = -1.0 if order % 2 == 0 else 1.0
    below = sum((values + k) ** -(order + 1.0) for k in range(_SHIFT)) * math.factorial(order)
    leading = np.log(far) * sign if order == 0 else math.factorial(order - 1) * far**-order
    series = leading + math.factorial(order) / 2 * far ** -(order + 1.0)
    for n, bernoulli in enumerate(_BERNOULLI, start=1):
        factor = math.factorial(2 * n + order - 1) / math.factorial(2 * n)
        series = series + bernoulli * factor * far ** -(2.0 * n + order)
    return np.asarray(sign * (below + series), dtype=np.float64)


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Return Spearman's rank correlation of sequences that are not constant; equal values share a rank."""
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[place], dtype=np.float64)
