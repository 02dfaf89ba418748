"""Least squares with unknowns that cannot be negative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxbench.core.arrays import Bools, Floats


def nonnegative(matrix: Floats, right: Floats) -> Floats:
    """Return the x >= 0 that makes |matrix x - right| least.

    (C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.)

    Args:
        matrix: Shape (m, n).
        right: Shape (m,).
    """
    gram, side = matrix.T @ matrix, matrix.T @ right

    def solved_fast(is_free: Bools) -> Floats:
        some = gram[np.ix_(is_free, is_free)]
        try:
            return np.asarray(np.linalg.solve(some, side[is_free]))
        except np.linalg.LinAlgError:  # two columns are the same
            return np.asarray(np.linalg.lstsq(some, side[is_free], rcond=None)[0])

    def solved(is_free: Bools) -> Floats:
        return np.asarray(np.linalg.lstsq(matrix[:, is_free], right, rcond=None)[0])

    tolerance = 10 * max(matrix.shape) * np.finfo(float).eps * float(np.abs(matrix).sum(axis=0).max())
    # Most unknowns are positive: begin with those that are where none is held.
    x = _padded(solved_fast, np.ones(matrix.shape[1], dtype=bool))
    while (x < 0).any():
        x = _padded(solved_fast, x > 0)
    x = _searched(x, solved_fast, lambda at: np.asarray(side - gram @ at), tolerance)
    # The squares are fast, and round off what tells like columns apart: by them alone, which unknowns were
    # zero differed between processors.
    return _searched(x, solved, lambda at: np.asarray(matrix.T @ (right - matrix @ at)), tolerance)


def _padded(solved: Callable[[Bools], Floats], is_free: Bools) -> Floats:
    """Return the solution of the free unknowns, the others 0."""
    x = np.zeros(len(is_free))
    x[is_free] = solved(is_free)
    return x


def _searched(
    x: Floats, solved: Callable[[Bools], Floats], gradient: Callable[[Floats], Floats], tolerance: float
) -> Floats:
    """Return the best x >= 0, from another one.

    Args:
        x: Where to begin; what is positive is free.
        solved: Returns the best values of the unknowns that are free.
        gradient: Returns by how much each unknown would help.
        tolerance: What is less is rounding.
    """
    is_free, shut_out, last = x > 0, np.zeros(len(x), dtype=bool), -1
    for _ in range(30 * len(x)):
        there = _padded(solved, is_free)
        if last >= 0 and not there[last] > 0:
            # Rounding alone made it look as if it would help.
            is_free[last], shut_out[last] = False, True
        else:
            while (there[is_free] <= 0).any():
                back = is_free & (there <= 0)
                step = float((x[back] / (x[back] - there[back])).min())
                x = x + step * (there - x)
                is_free &= x > tolerance
                there = _padded(solved, is_free)
            x = there
            if last >= 0:
                shut_out[:] = False
        helps = np.where(is_free | shut_out, -np.inf, gradient(x))
        last = int(np.argmax(helps))
        if not helps[last] > tolerance:
            break
        is_free[last] = True
    return x
