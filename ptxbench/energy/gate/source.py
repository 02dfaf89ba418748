"""Whether a power source may be believed: the energy counter beside it, over all trials and gaps of a run.

One stretch is known to some percent, hundreds of them pooled to a tenth of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.energy.gate.comparison import SETTINGS, Comparison
from ptxbench.energy.gate.verdict import UNJUDGED, SourceVerdict
from ptxbench.sensors.trace import NS_PER_S, Float64s

# Stretches from which on a line through their powers says anything.
_MIN_LINE = 4
# Mean square of what a source missed, of that of its powers' spread, from which on such a line is flat.
_FLAT = 0.1


def judge_source(
    comparisons: Sequence[Comparison],
    known_difference: float = 0.0,
    group_factor: float = SETTINGS.group_factor,
) -> SourceVerdict:
    """Return what all stretches of a run say of its source.

    All are pooled, and those of like power and those of like time: a source that is compressed is right on
    average and wrong at the top, and one whose gain steps is right before. A row is a difference of powers:
    what the source makes of a further watt is compared as well.

    Args:
        comparisons: Stretches of one run and one source.
        known_difference: What `ptxbench doctor` found for this board, with its error, as a fraction.
        group_factor: Standard errors by which one of the groups must differ.
    """
    if not comparisons:
        return replace(UNJUDGED, scale_uncertainty=known_difference)
    whole = _ratio(comparisons, "", COVERAGE_FACTOR)
    parts, further = _parts(comparisons, group_factor), _further(comparisons, group_factor)
    findings = [whole, *parts, *further]
    # Where they scatter widely their mean says little.
    objections = (
        _scatter(comparisons, whole),
        whole.objection,
        *(_worst(some) for some in (parts, further)),
    )
    return SourceVerdict(
        1 + whole.off,
        whole.error,
        next(filter(None, objections), ""),
        max(known_difference, _scale(findings)),
        _note(whole, known_difference),
    )


@dataclass(frozen=True)
class _Finding:
    """How far the source and the counter differ in one respect.

    Attributes:
        off: Difference, as a fraction.
        error: Its standard error.
        factor: Standard errors by which it must differ to be no chance.
        where: In what, for a sentence that begins "it differs from the energy counter by so much".
    """

    off: float
    error: float
    factor: float
    where: str

    @property
    def chance(self) -> float:
        """Difference that may be chance."""
        return self.factor * self.error

    @property
    def text(self) -> str:
        """What differs by how much."""
        size = f"{100 * self.off:+.1f} ± {100 * COVERAGE_FACTOR * self.error:.2g}%"
        return f"it differs from the energy counter by {size}{self.where}"

    @property
    def objection(self) -> str:
        """A sentence where they differ by more than may be and than is chance, else ""."""
        if not abs(self.off) - SETTINGS.disagreement > self.chance:
            return ""
        return f"{self.text}: one of the two is wrong ({SETTINGS.disagreement:.0%} are allowed)"


def _ratio(comparisons: Sequence[Comparison], where: str, factor: float) -> _Finding:
    """Return source over counter, less one, by least squares; its error holds an odd scatter."""
    counter_j, source_j, error_j = _columns(comparisons)
    weight = 1 / error_j**2
    known = float((weight * counter_j**2).sum())
    ratio = float((weight * counter_j * source_j).sum()) / known
    squares = float((weight * (source_j - ratio * counter_j) ** 2).sum())
    # Birge: what scatters by more than its errors is known less well (Phys. Rev. 40, 207, 1932).
    birge = max(1.0, squares / (len(comparisons) - 1)) if len(comparisons) > 1 else 1.0
    return _Finding(ratio - 1, math.sqrt(birge / known), factor, where)


def _further_watts(comparisons: Sequence[Comparison], where: str, factor: float) -> _Finding | None:
    """Return what the source makes of a further watt, less one; None where the power is too even to tell.

    The counter's power is fitted on the source's, whose errors must be small beside how much it moves: errors
    of what it is fitted on make it flat. A slope that is no clear one has no inverse.
    """
    if len(comparisons) < _MIN_LINE:
        return None
    counter_j, source_j, error_j = _columns(comparisons)
    length_s = np.array([one.end_ns - one.start_ns for one in comparisons]) / NS_PER_S
    source_w, counter_w, weight = source_j / length_s, counter_j / length_s, (length_s / error_j) ** 2
    spread_w = source_w - np.average(source_w, weights=weight)
    counter_w = counter_w - np.average(counter_w, weights=weight)
    known = float((weight * spread_w**2).sum())
    slope = float((weight * spread_w * counter_w).sum()) / known if known > 0 else 0.0
    missed_w = np.array([one.missed_j for one in comparisons]) / length_s
    is_flat = float((weight * missed_w**2).sum()) > _FLAT * known
    if is_flat or not known * (SETTINGS.slope_error * max(slope, 1.0)) ** 2 > 1:
        return None
    squares = float((weight * (counter_w - slope * spread_w) ** 2).sum())
    birge = max(1.0, squares / (len(comparisons) - 2))
    off = 1 / max(slope, SETTINGS.least_slope) - 1
    # As many standard errors from none as the slope is from 1.
    return _Finding(off, abs(off / (slope - 1)) * math.sqrt(birge / known) if off else 0.0, factor, where)


def _columns(comparisons: Sequence[Comparison]) -> tuple[Float64s, Float64s, Float64s]:
    rows = [(c.counter_j, c.source_j, c.error_j) for c in comparisons]
    counter_j, source_j, error_j = np.array(rows).T
    return counter_j, source_j, error_j


def _parts(comparisons: Sequence[Comparison], factor: float) -> list[_Finding]:
    """Return what parts of the run say, of like power and of like time."""
    parts = [
        _ratio(part, _from_power(part), factor) for part in _split(_by_power(comparisons), SETTINGS.groups)
    ]
    by_time = sorted(comparisons, key=lambda c: c.start_ns)
    for part in _split(by_time, SETTINGS.groups):
        begin_s, end_s = ((ns - by_time[0].start_ns) / NS_PER_S for ns in (part[0].start_ns, part[-1].end_ns))
        parts.append(_ratio(part, f" from {begin_s:.4g} to {end_s:.4g} s of the run", factor))
    return parts


def _further(comparisons: Sequence[Comparison], factor: float) -> list[_Finding]:
    """Return what the source makes of a further watt, over all powers and over parts of them."""
    by_power = _by_power(comparisons)
    parts = [by_power, *_split(by_power, SETTINGS.groups)]
    found = [_further_watts(part, f" in each further watt{_from_power(part)}", factor) for part in parts]
    return [one for one in found if one is not None]


def _worst(findings: Sequence[_Finding]) -> str:
    """Return the objection of that finding which is farthest from chance, "" for none."""
    objecting = [one for one in findings if one.objection]
    if not objecting:
        return ""
    return max(objecting, key=lambda one: abs(one.off) / one.error).objection


def _by_power(comparisons: Sequence[Comparison]) -> list[Comparison]:
    return sorted(comparisons, key=lambda c: c.power_w)


def _from_power(by_power: Sequence[Comparison]) -> str:
    return f" from {by_power[0].power_w:.4g} to {by_power[-1].power_w:.4g} W"


def _split(comparisons: list[Comparison], groups: int) -> list[list[Comparison]]:
    bounds = [round(len(comparisons) * i / groups) for i in range(groups + 1)]
    return [comparisons[i:j] for i, j in pairwise(bounds) if j > i]


def _scale(findings: Sequence[_Finding]) -> float:
    """Return the largest difference that is no chance, at least all that the whole allows; 0 if usual."""
    sizes = [abs(one.off) for one in findings if abs(one.off) > one.chance]
    whole = findings[0]
    allowed = abs(whole.off) + whole.chance
    if max(sizes, default=0.0) > SETTINGS.usual or whole.chance > SETTINGS.disagreement:
        return max([*sizes, allowed])
    return 0.0


def _scatter(comparisons: Sequence[Comparison], whole: _Finding) -> str:
    """Return a sentence where too many stretches contradict what all say together."""
    counter_j, source_j, error_j = _columns(comparisons)
    off_j = np.abs(source_j - (1 + whole.off) * counter_j)
    wrong = (off_j > SETTINGS.scatter_limit * counter_j) & (off_j > SETTINGS.scatter_factor * error_j)
    if int(wrong.sum()) <= SETTINGS.scatter_share * len(comparisons):
        return ""
    return (
        f"in {wrong.sum()} of {len(comparisons)} stretches it differs from the energy counter by more than"
        f" {SETTINGS.scatter_limit:.0%}, one way or the other"
    )


def _note(whole: _Finding, known_difference: float) -> str:
    if whole.chance > SETTINGS.disagreement:
        what = f"the energy counter tells the scale of its power to {whole.chance:.0%} only"
        return f"{what}: too little ran to compare"
    is_known = abs(whole.off) - whole.chance <= max(known_difference, SETTINGS.usual)
    return "" if is_known else whole.text
