"""From measured kernels to the points and the rough terms of the regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ptxbench.analysis.static_power import StaticPower, static_line
from ptxbench.catalogue.architecture import Architecture
from ptxbench.core.threads import WARP
from ptxbench.experiment.roofline.kernel import MOST_TRIP_BYTES, IntensityKernel
from ptxbench.experiment.roofline.kinds import CHASE, KINDS, LEVELS
from ptxbench.experiment.roofline.point import MeasuredPoint, PointKernel
from ptxbench.model.roofline.chase import Chase
from ptxbench.model.roofline.fit import RooflineFit, RooflinePoint, RoughTerm, choose_fit, fit_roofline
from ptxbench.model.roofline.kernels import DRAM

# Temperatures are whole degrees: over a smaller span they say nothing of a slope.
_LEAST_SPAN_K, _FEWEST_ASLEEP = 4.0, 4
SLOPE = "slope"
# A flop on one element again and again costs less than on a trip's full number of them, by this share, give
# or take as much: between them by the logarithm of how many there are.
_LESS_ON_ONE = 0.2


def fit_twice(
    points: Sequence[RooflinePoint], rough: Sequence[RoughTerm]
) -> tuple[RooflineFit, tuple[RooflineFit, ...]]:
    """Fit points twice: what few elements save is known as a share of a flop's energy."""
    first = fit_roofline(points, rough)
    saved = [
        RoughTerm(on_few(kind), *[_LESS_ON_ONE * max(0.0, first.coefficient(kind).value)] * 2)
        for kind in dict.fromkeys(point.kind for point in points)
        if any(dict(p.extras)[on_few(kind)] < 0 for p in points if p.kind == kind and p.at_full_clock)
    ]
    return choose_fit(points, [*rough, *(term for term in saved if term.error > 0)])


def highest_bandwidth(points: Sequence[MeasuredPoint]) -> float:
    """Return the highest bandwidth from DRAM, byte/s; NaN where nothing was read from it."""
    return max((p.bytes_per_s for p in points if p.kernel.level == DRAM), default=math.nan)


def loop_terms(architecture: Architecture, pattern: str) -> list[RoughTerm]:
    """Return what is known beforehand of a thread's instruction that counts, and of one that mixes, J."""
    figures = {"counting": architecture.counting_pj, "mixing": architecture.mixing_pj[pattern]}
    return [RoughTerm(name, one.value / 1e12, one.error / 1e12) for name, one in figures.items()]


def on_few(kind: str) -> str:
    """Return the name of the term that says what few elements save a flop."""
    return f"{kind} on few elements"


def elements_of(kernel: PointKernel) -> int:
    """Return how many different elements a kernel computes on in a trip."""
    kind, level = KINDS[kernel.kind], LEVELS[kernel.level]
    return IntensityKernel(kind, kernel.intensity, level).elements


def _fewness(kernel: PointKernel) -> float:
    """Return 0 for a kernel that loads its full number of elements in a trip, 1 for one that loads one."""
    most = MOST_TRIP_BYTES / KINDS[kernel.kind].element_bytes
    return 1 - math.log(elements_of(kernel)) / math.log(most)


def static_of(asleep: Sequence[MeasuredPoint], at_c: float, assumed_per_k: float) -> tuple[StaticPower, bool]:
    """Return static power by kernels that sleep, and whether its slope is assumed.

    Args:
        asleep: Those kernels; of none only a slope of 0 +- 1 W/K is known.
        at_c: The temperature that all powers are brought to.
        assumed_per_k: By how much of itself static power is taken to grow a degree, give or take as much,
            where their temperatures span too little to tell.
    """
    if not asleep:
        return StaticPower(math.nan, at_c, 0.0, math.nan, 1.0), True
    temperatures_c = [p.temperature_c for p in asleep]
    found = static_line([p.power_w for p in asleep], temperatures_c)
    if np.ptp(temperatures_c) < _LEAST_SPAN_K or len(asleep) < _FEWEST_ASLEEP:
        slope = assumed_per_k * found.power_w
        return replace(found, slope_w_per_c=slope, slope_error_w_per_c=slope), True
    return found, False


def regression_point(point: MeasuredPoint, at_c: float, highest: float, sm_count: int) -> RooflinePoint:
    """Return a point as the regression takes it; static power is that of one temperature for all.

    Args:
        point: The point.
        at_c: That temperature.
        highest: Highest bandwidth from DRAM, byte/s.
        sm_count: SMs of the GPU.
    """
    kernel = point.kernel
    return RooflinePoint(
        kernel.name,
        kernel.kind,
        kernel.flops,
        ((kernel.level, kernel.bytes_moved),),
        point.time_s,
        point.power_w * point.time_s,
        at_full_clock=not point.slowed,
        extras=(
            ("counting", kernel.counting_instructions),
            ("mixing", kernel.mixing_instructions),
            (SLOPE, _warmth(point, at_c)),
            (on_few(kernel.kind), -kernel.flops * _fewness(kernel)),
        ),
        bandwidth_share=_bandwidth_share(point, highest),
        sms_share=kernel.sms / sm_count,
    )


def _bandwidth_share(point: MeasuredPoint, highest: float) -> float:
    """Return which part of the highest bandwidth from DRAM a kernel uses; 0 from other levels."""
    return point.bytes_per_s / highest if point.kernel.level == DRAM else 0.0


def _warmth(point: MeasuredPoint, at_c: float) -> float:
    """Return by how much, and how long, a kernel was warmer than the temperature of all, K s."""
    return (point.temperature_c - at_c) * point.time_s


def as_chase(point: MeasuredPoint, fit: RooflineFit, at_c: float, highest: float, sm_count: int) -> Chase:
    """Return a pointer chase with what it has of the terms of a fit; arguments as of `regression_point`."""
    kernel = point.kernel
    others = {
        "constant": point.time_s,
        "counting": kernel.counting_instructions,
        SLOPE: _warmth(point, at_c),
    }
    if fit.third is not None:
        share = fit.third.share(_bandwidth_share(point, highest), kernel.sms / sm_count)
        others[fit.third] = point.time_s * share
    intensity = IntensityKernel(CHASE, 0.0, LEVELS[kernel.level])
    array_bytes = kernel.sms * intensity.threads // WARP * intensity.range_bytes
    return Chase(
        kernel.bytes_moved,
        point.power_w * point.time_s,
        point.power_error_w * point.time_s,
        others,
        float(array_bytes) if intensity.level.in_sm else 0.0,
    )
