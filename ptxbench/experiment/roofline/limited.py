"""Kernels that the power limit slowed down, beside what three models say of them; none saw them before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ptxbench.experiment.roofline.point import MeasuredPoint
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.power_capping import under_limit


@dataclass(frozen=True)
class LimitedPoint:
    """One kernel under the power limit.

    Attributes:
        kernel: Its name.
        intensity: Its intensity, flop/byte.
        model: "no limit" (Eqs. 3 and 7), "work waits" (Choi et al. 2014) or "clock falls".
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
    if not math.isfinite(machine.cap_w):
        return ()
    whole = max(point.kernel.sms for point in points)
    on_chip = points[0].kernel.level != "dram"
    made = []
    for point in points:
        if not point.slowed or point.kernel.sms != whole:
            continue
        algorithm = Algorithm(point.kernel.flops, point.kernel.bytes_moved)
        models = {
            "no limit": _no_limit(machine, algorithm),
            "work waits": (machine.time_s(algorithm), machine.power_w(algorithm.intensity)),
            "clock falls": _clock_falls(machine, algorithm, on_chip=on_chip),
        }
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


def _no_limit(machine: RooflineMachine, algorithm: Algorithm) -> tuple[float, float]:
    free = replace(machine, cap_w=math.inf)
    return free.time_s(algorithm), free.power_w(algorithm.intensity)


def _clock_falls(machine: RooflineMachine, algorithm: Algorithm, *, on_chip: bool) -> tuple[float, float]:
    run = under_limit(machine, algorithm, on_chip=on_chip)
    return run.time_s, run.power_w
