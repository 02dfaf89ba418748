"""Kernels that the power limit slowed down, beside what three models say of them; none saw them before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.experiment.roofline.point import MeasuredPoint
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.power_capping import under_limit

# Limits that are tried in a round, and rounds: down to some milliwatts.
_CAPS, _ROUNDS = 41, 4
# A limit must be above the least power by more than rounding.
_SAME = 1e-6


@dataclass(frozen=True)
class LimitedPoint:
    """One kernel under the power limit.

    Attributes:
        kernel: Its name.
        intensity: Its intensity, flop/byte.
        model: "no limit" (Eqs. 3 and 7), "work waits" (Choi et al. 2014), "work waits, limit fitted" (to the
            other kernels) or "clock falls".
        time_pct: Predicted time against the measured one, 100 (predicted / measured - 1).
        power_pct: The same of the power.
    """

    kernel: str
    intensity: float
    model: str
    time_pct: float
    power_pct: float


def limited_points(machine: RooflineMachine, points: Sequence[MeasuredPoint]) -> tuple[LimitedPoint, ...]:
    """Return what each model is off by on each kernel that was slowed down on the most SMs.

    Args:
        machine: The machine, with its power limit; its peaks are those of the most SMs.
        points: Kernels of its kind and level.
    """
    slowed = slowed_on_most(machine, points)
    on_chip = points[0].kernel.level != "dram"
    made = []
    for number, point in enumerate(slowed):
        algorithm = Algorithm(point.kernel.flops, point.kernel.bytes_moved)
        models = {
            "no limit": _no_limit(machine, algorithm),
            "work waits": (machine.time_s(algorithm), machine.power_w(algorithm.intensity)),
            "clock falls": _clock_falls(machine, algorithm, on_chip=on_chip),
        }
        if others := slowed[:number] + slowed[number + 1 :]:
            waits = replace(machine, cap_w=fitted_cap_w(machine, others))
            models["work waits, limit fitted"] = waits.time_s(algorithm), waits.power_w(algorithm.intensity)
        for name, (time_s, power_w) in models.items():
            made.append(
                LimitedPoint(
                    point.kernel.name,
                    algorithm.intensity,
                    name,
                    100 * (time_s / point.time_s - 1),
                    100 * (power_w / point.power_w - 1),
                )
            )
    return tuple(made)


def slowed_on_most(machine: RooflineMachine, points: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return the kernels that were slowed down on the most SMs; none where the limit is not known."""
    whole = max(point.kernel.sms for point in points)
    known = math.isfinite(machine.cap_w)
    return [point for point in points if known and point.slowed and point.kernel.sms == whole]


def fitted_cap_w(machine: RooflineMachine, points: Sequence[MeasuredPoint]) -> float:
    """Return the limit that explains the times and powers of kernels best if work waits, W.

    Choi et al. (2014) know no limit and fit the power that it leaves for work. Here the other figures are
    known from kernels below it; squares of the logarithms of time and power count alike.

    Args:
        machine: The machine.
        points: Kernels that were slowed down, at least one.
    """
    least = machine.lowest_cap_w
    pairs = [(Algorithm(point.kernel.flops, point.kernel.bytes_moved), point) for point in points]

    def misfit(cap_w: float) -> float:
        waits = replace(machine, cap_w=cap_w)
        return sum(
            math.log(waits.time_s(algorithm) / point.time_s) ** 2
            + math.log(waits.power_w(algorithm.intensity) / point.power_w) ** 2
            for algorithm, point in pairs
        )

    # Above what the kernels would draw without a limit all are alike: the steps find the place, in a few
    # rounds of finer ones.
    low, high = least * (1 + _SAME), 2 * max(least, *(point.power_w for point in points))
    for _ in range(_ROUNDS):
        caps_w = np.linspace(low, high, _CAPS)
        best = int(np.argmin([misfit(float(cap_w)) for cap_w in caps_w]))
        low, high = caps_w[max(0, best - 1)], caps_w[min(_CAPS - 1, best + 1)]
    return float(low + high) / 2


def _no_limit(machine: RooflineMachine, algorithm: Algorithm) -> tuple[float, float]:
    free = replace(machine, cap_w=math.inf)
    return free.time_s(algorithm), free.power_w(algorithm.intensity)


def _clock_falls(machine: RooflineMachine, algorithm: Algorithm, *, on_chip: bool) -> tuple[float, float]:
    run = under_limit(machine, algorithm, on_chip=on_chip)
    return run.time_s, run.power_w
