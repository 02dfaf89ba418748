"""The simplex method of Nelder and Mead (1965): a minimum without derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxbench.sensors.trace import Float64s


class _NoCallLeftError(Exception):
    """As many calls were made as were allowed."""


def minimum(
    function: Callable[[Float64s], float], simplex: Float64s, near: float, most_calls: int
) -> Float64s:
    """Return where a function is least, among the corners of the last simplex.

    SciPy's `fmin` takes the same steps; to load it takes longer than to find a minimum.

    Args:
        function: What is minimized.
        simplex: The first simplex, a corner a row.
        near: Ends where all corners are as near to the best, along each axis, and have its value.
        most_calls: Ends after so many calls of the function.
    """
    calls = 0

    def value_at(point: Float64s) -> float:
        nonlocal calls
        if calls >= most_calls:
            raise _NoCallLeftError
        calls += 1
        return function(point)

    corners = np.array(simplex, dtype=np.float64)
    values = np.array([value_at(corner) for corner in corners])
    while True:
        order = np.argsort(values)
        corners, values = corners[order], values[order]
        if np.abs(corners[1:] - corners[0]).max() <= near and np.all(values == values[0]):
            return np.asarray(corners[0])
        try:
            _step(value_at, corners, values)
        except _NoCallLeftError:
            return np.asarray(corners[np.argmin(values)])


def _step(value_at: Callable[[Float64s], float], corners: Float64s, values: Float64s) -> None:
    """Replace the worst corner by a better one, or draw all towards the best; corners are in order."""
    middle, worst = corners[:-1].sum(axis=0) / (len(corners) - 1), corners[-1]
    at = 2 * middle - worst
    value = value_at(at)
    if value < values[0]:
        further = 3 * middle - 2 * worst
        there = value_at(further)
        at, value = (further, there) if there < value else (at, value)
    elif value >= values[-2]:
        is_outside = value < values[-1]
        nearer = 1.5 * middle - 0.5 * worst if is_outside else 0.5 * middle + 0.5 * worst
        there = value_at(nearer)
        if not (there <= value if is_outside else there < values[-1]):
            for j in range(1, len(corners)):
                corners[j] = corners[0] + 0.5 * (corners[j] - corners[0])
                values[j] = value_at(corners[j])
            return
        at, value = nearer, there
    corners[-1], values[-1] = at, value
