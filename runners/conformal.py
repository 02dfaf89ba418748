"""Intervals by what was measured of other kernels.

Conformal prediction: of n ratios of measured to estimated energy, in order, the interval's ends are the
floor(0.025 (n + 1))-th from either end, and the outermost where n is below 39 (Vovk et al., *Algorithmic
Learning in a Random World*, 2005). A new kernel like them is inside as often as is said, whatever their
distribution is. Where the ratios spread about one as a normal distribution does in logarithms, the prediction
interval of Student's t is narrower, as it does not hang on the outermost kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ptxbench.core.distributions import student_quantile

_OUTSIDE = 0.025


def conformal_ends(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the lower and upper end of the 95% interval of a ratio.

    Args:
        ratios: At least one.
    """
    ordered = sorted(ratios)
    rank = max(math.floor(_OUTSIDE * (len(ordered) + 1)), 1)
    return ordered[rank - 1], ordered[-rank]


def log_normal_ends(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the 95% prediction interval of a ratio that is one but for its scatter.

    Args:
        ratios: At least one.
    """
    count = len(ratios)
    spread = float(np.sqrt(np.mean(np.log(ratios) ** 2)))
    reach = student_quantile(count) * spread * math.sqrt(1 + 1 / count)
    return math.exp(-reach), math.exp(reach)
