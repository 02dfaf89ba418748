"""Intervals by what was measured of other kernels: split conformal prediction.

Of n ratios of measured to estimated energy, in order, the interval's ends are the floor(0.025 (n + 1))-th
from either end, and the outermost where n is below 39 (Vovk et al., *Algorithmic Learning in a Random
World*, 2005). A new kernel like them is inside as often as is said, whatever their distribution is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_OUTSIDE = 0.025


def conformal_ends(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the lower and upper end of the 95% interval of a ratio.

    Args:
        ratios: At least one.
    """
    ordered = sorted(ratios)
    rank = max(math.floor(_OUTSIDE * (len(ordered) + 1)), 1)
    return ordered[rank - 1], ordered[-rank]
