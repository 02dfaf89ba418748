"""Least squares with unknowns that cannot be negative."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptxbench.core.arrays import Floats


def nonnegative(matrix: Floats, right: Floats) -> Floats:
    """Return the x >= 0 that makes |matrix x - right| least.

    (C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.)

    Args:
        matrix: Shape (m, n).
        right: Shape (m,).
    """
    count, gram, side = matrix.shape[1], matrix.T @ matrix, matrix.T @ right
    # Most unknowns are positive: begin with those that are where none is held.
    is_free = np.ones(count, dtype=bool)
    x = _solved(gram, side, is_free)
    while (x[is_free] <= 0).any():
        is_free &= x > 0
        x = _solved(gram, side, is_free)
    tolerance = 10 * max(matrix.shape) * np.finfo(float).eps * float(np.abs(matrix).sum(axis=0).max())
    shut_out = np.zeros(count, dtype=bool)
    for _ in range(30 * count):
        gradient = np.where(is_free | shut_out, -np.inf, side - gram @ x)
        best = int(np.argmax(gradient))
        if not gradient[best] > tolerance:
            break
        is_free[best] = True
        solved = _solved(gram, side, is_free)
        # Rounding alone made it look as if it would help.
        if not solved[best] > 0:
            is_free[best], shut_out[best] = False, True
            continue
        shut_out[:] = False
        while (solved[is_free] <= 0).any():
            back = is_free & (solved <= 0)
            step = float((x[back] / (x[back] - solved[back])).min())
            x += step * (solved - x)
            is_free &= x > tolerance
            solved = _solved(gram, side, is_free)
        x = solved
    # Which unknowns are free is known; their values are without the rounding of squares.
    x = np.zeros(count)
    x[is_free] = np.linalg.lstsq(matrix[:, is_free], right, rcond=None)[0]
    return np.maximum(x, 0.0)


def _solved(gram: Floats, side: Floats, is_free: npt.NDArray[np.bool_]) -> Floats:
    """Return the least squares of the free unknowns from the normal equations, the others 0."""
    x = np.zeros(len(is_free))
    some = gram[np.ix_(is_free, is_free)]
    try:
        x[is_free] = np.linalg.solve(some, side[is_free])
    except np.linalg.LinAlgError:  # two columns are the same
        x[is_free] = np.linalg.lstsq(some, side[is_free], rcond=None)[0]
    return x
