"""The step between two neighbouring values of a source."""

from __future__ import annotations

import numpy as np

from ptxbench.sensors.trace import Float64s

# NVML gives whole mW and mJ, so that no step is smaller, and none is known better than this.
RESOLUTION = 1e-3
# Under so many resolutions a step cannot be distinguished from the resolution itself.
_MIN_STEPS = 4
# Gaps of more steps do not tell the step; fractions of the smallest gap that are tried; share of the gaps
# that must be multiples; and the fewest gaps. Chosen.
_MAX_MULTIPLE = 10
_MAX_DIVISOR = 12
_AGREEING = 0.97
_MIN_GAPS = 10


def find_quantum(values: Float64s) -> float:
    """Return the largest step of which the gaps between neighbouring values are multiples.

    The smallest gap, or a whole fraction of it, is taken where nearly all of the small gaps are its
    multiples to within NVML's own rounding to thousandths.

    Args:
        values: Any values of a source, shape (n,), W (J for a counter).

    Returns:
        The step; NVML's resolution of a thousandth where there is no coarser one.
    """
    gaps = np.diff(np.unique(values))
    gaps = gaps[gaps > RESOLUTION / 2]
    if len(gaps) < _MIN_GAPS:
        return RESOLUTION
    for divisor in range(1, _MAX_DIVISOR + 1):
        step = _refined(gaps, float(gaps.min()) / divisor)
        if step < _MIN_STEPS * RESOLUTION:
            return RESOLUTION
        near = gaps[gaps < (_MAX_MULTIPLE + 0.5) * step]
        off = np.abs(near - step * np.round(near / step))
        if len(near) >= _MIN_GAPS and np.mean(off <= 1.2 * RESOLUTION) >= _AGREEING:
            return step
    return RESOLUTION


def _refined(gaps: Float64s, step: float) -> float:
    """Return the step by least squares over the gaps that are a few times as wide."""
    near = gaps[gaps < (_MAX_MULTIPLE + 0.5) * step]
    multiple = np.maximum(np.round(near / step), 1)
    return float((near * multiple).sum() / (multiple**2).sum()) if len(near) else step
