"""Kernels of a run that the power limit slowed down, as the fit of the exponent takes them."""

from __future__ import annotations

from collections.abc import Sequence

from ptxbench.experiment.roofline.point import MeasuredPoint
from ptxbench.experiment.roofline.regression import on_few
from ptxbench.model.roofline.exponent import SlowedKernel
from ptxbench.model.roofline.fit import RooflineFit, RooflinePoint
from ptxbench.model.roofline.kernels import DRAM

# Below this share of a level's highest bandwidth a slowed kernel's time is bound by the clock.
_BOUND_BY_BYTES = 0.85
_CLOCKED = ("counting", "mixing")


def slowed_kernels(
    points: Sequence[MeasuredPoint], regression: Sequence[RooflinePoint], fit: RooflineFit, kind: str
) -> list[SlowedKernel]:
    """Return the slowed kernels of a kind that are bound by the clock and ran below the limit, too.

    Args:
        points: All kernels of an operand pattern.
        regression: The same as the regression takes them.
        fit: Its fit.
        kind: Kind of flop.
    """
    free: dict[tuple[str, float], float] = {}
    highest: dict[str, float] = {}
    for point in points:
        level = point.kernel.level
        highest[level] = max(highest.get(level, 0.0), point.bytes_per_s)
        if point.kernel.kind == kind and not point.slowed:
            key = level, point.kernel.intensity
            free[key] = max(free.get(key, 0.0), point.flops_per_s / point.kernel.sms)
    made = []
    for point, row in zip(points, regression, strict=True):
        kernel = point.kernel
        at_full = free.get((kernel.level, kernel.intensity))
        bound_by_bytes = point.bytes_per_s > _BOUND_BY_BYTES * highest[kernel.level]
        if kernel.kind != kind or not point.slowed or at_full is None or bound_by_bytes:
            continue
        amounts = dict(row.extras)
        clocked = {name: amounts.pop(name) for name in (*_CLOCKED, on_few(kind)) if name in fit.rough}
        clocked[kind] = kernel.flops
        beside = {name: amount for name, amount in amounts.items() if name in fit.rough}
        beside["constant"] = point.time_s
        (beside if kernel.level == DRAM else clocked)[kernel.level] = kernel.bytes_moved
        if fit.third is not None:
            beside[fit.third] = point.time_s * fit.third.share(row.bandwidth_share, row.sms_share)
        ratio = point.flops_per_s / kernel.sms / at_full
        made.append(SlowedKernel(ratio, row.energy_j, clocked, beside))
    return [one for one in made if one.ratio < 1]
