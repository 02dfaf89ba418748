"""What of the past a power reading is the mean of, found from the readings of a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ptxbench.attribute.equations import SETTINGS, Equations, Readings, Response, equations_of
from ptxbench.attribute.exposure import ExposureMatrix
from ptxbench.attribute.simplex import minimum
from ptxbench.sensors.description import Shape
from ptxbench.sensors.trace import Float64s


def responses(readings: Readings, busy: ExposureMatrix, columns: Sequence[tuple[int, ...]]) -> list[Response]:
    """Return the response of the sensor that explains the readings best, then some that do as well."""
    few = readings.thinned(max(1, -(-len(readings.at_s) // SETTINGS.search_readings)))
    length_s = float(readings.at_s[-1]) if len(readings.at_s) else 0.0
    refresh_s = readings.refresh_s
    # Documents are right about a running mean of a second, but not about windows near the refresh.
    is_long = readings.averaging_s >= SETTINGS.long_mean_refreshes * refresh_s
    nominal_s = readings.averaging_s if is_long else min(readings.averaging_s or refresh_s, refresh_s)
    squares: dict[Response, float] = {}

    def left_of(some: Readings, response: Response) -> float:
        return _left_w2(equations_of(some, busy, columns, length_s, response, in_blocks=False))

    def left(response: Response) -> float:
        """Return the mean square that a response leaves."""
        # Of a program that repeats itself exactly, other lags and windows can explain the readings as well.
        odd = abs(response.lag_s) / refresh_s + abs(math.log(response.averaging_s / nominal_s))
        if response not in squares:
            squares[response] = left_of(few, response)
        return squares[response] * (1 + SETTINGS.response_penalty * odd)

    windows = [refresh_s * share for share in SETTINGS.windows_refreshes] + [nominal_s]
    tried = [
        Response(float(lag * refresh_s), window_s, shape)
        for shape in Shape
        for lag in SETTINGS.lags_refreshes
        for window_s in windows
    ]
    if len(few.at_s) >= SETTINGS.rough_from_readings:
        rough = few.thinned(SETTINGS.rough_step)
        roughly = {one: left_of(rough, one) for one in tried}
        least_of = {shape: min(roughly[one] for one in tried if one.shape is shape) for shape in Shape}
        tried = [one for one in tried if roughly[one] <= SETTINGS.hopeless_ratio * least_of[one.shape]]
    best = [min((one for one in tried if one.shape is shape), key=left) for shape in Shape]
    found = min(
        [Response(0.0, nominal_s, Shape.BOXCAR), *(_refined(one, refresh_s, left) for one in best)], key=left
    )
    # The grid alone: names that share a column can make a refined response look better than the true.
    least = min(squares[one] for one in tried)
    as_good = [
        one for one in tried if one != found and squares[one] <= SETTINGS.residual_ratio_accept * least
    ]
    chosen = np.random.default_rng(0).permutation(len(as_good))[: SETTINGS.most_responses]
    return [found, *(as_good[i] for i in chosen)]


def _refined(response: Response, refresh_s: float, left: Callable[[Response], float]) -> Response:
    """Return a response of the same shape that leaves less, by the simplex method of Nelder and Mead."""

    def at(point: Float64s) -> Response:
        return replace(response, lag_s=float(point[0]) * refresh_s, averaging_s=math.exp(float(point[1])))

    def left_at(point: Float64s) -> float:
        return left(at(point))

    if not math.isfinite(left(response)):
        return response
    start = np.array([response.lag_s / refresh_s, math.log(response.averaging_s)])
    simplex = start + np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.15]])
    found = minimum(left_at, simplex, near=0.005, most_calls=SETTINGS.refinements)
    return min((response, at(found)), key=left)


def _left_w2(equations: Equations) -> float:
    """Return the mean square of what a response does not explain of the readings, W^2."""
    if equations.count < SETTINGS.needed_readings:
        return math.inf
    ridge = SETTINGS.ridge * equations.count * np.eye(len(equations.gram))
    powers_w = np.asarray(np.linalg.solve(equations.gram + ridge, equations.side_w), dtype=np.float64)
    return equations.left_w2(powers_w) / equations.count
