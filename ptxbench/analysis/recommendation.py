"""What a comparison of methods comes to, in plain sentences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from ptxbench.analysis.source_reach import ACCEPTED
from ptxbench.storage.methods_file import LoadKind, MethodPoint

_ACCEPTED_PCT = 100 * ACCEPTED
_OF_THE_PAPER = ("sma", "papi", "mtsm")
_AS_PUBLISHED = (*_OF_THE_PAPER, "collector", "median", "difference")
_WITH_IDLE = ("corrected", "capacitance")

_Way = tuple[str, str]


def recommend(points: Sequence[MethodPoint]) -> tuple[str, ...]:
    """Return which method and source to use, from which duration on, and what to do with shorter kernels.

    The error of a point is sqrt(bias^2 + spread^2); of a duration, the largest over the kinds of load. A way
    of reading serves from the shortest duration on from which it always answers and the error stays under
    2%. The one that serves the shortest kernels is named, and among equals the one with the smallest error;
    and beside it the best of the methods as published.
    """
    errors = _errors_pct(points)
    if not errors:
        return ("no method gave an energy",)
    sentences = []
    best = min(errors, key=lambda way: _rank(errors[way]))
    sentences.append(_advice(best, errors[best]))
    published = {way: of_way for way, of_way in errors.items() if way[0] in _AS_PUBLISHED}
    if best not in published and published:
        plain = min(published, key=lambda way: _rank(published[way]))
        sentences.append("without correction: " + _advice(plain, published[plain]))
    sentences += _worst_of_the_paper(points)
    return tuple(sentences)


def _errors_pct(points: Sequence[MethodPoint]) -> dict[_Way, dict[float, float]]:
    """Return the error of every way of reading by duration; infinite where it does not always answer."""
    worst: dict[_Way, dict[float, float]] = defaultdict(dict)
    for point in points:
        spread_pct = 0.0 if math.isnan(point.spread_pct) else point.spread_pct
        answers = point.answered == point.runs and math.isfinite(point.bias_pct)
        error_pct = math.hypot(point.bias_pct, spread_pct) if answers else math.inf
        of_way = worst[point.method, point.source]
        of_way[point.requested_s] = max(of_way.get(point.requested_s, 0.0), error_pct)
    return dict(worst)


def _serves_from_s(of_way: dict[float, float]) -> float:
    """Return the shortest duration from which on the error stays accepted, infinite where there is none."""
    serves_s = math.inf
    for duration_s in sorted(of_way, reverse=True):
        if of_way[duration_s] > _ACCEPTED_PCT:
            break
        serves_s = duration_s
    return serves_s


def _rank(of_way: dict[float, float]) -> tuple[float, float]:
    known = [error for error in of_way.values() if math.isfinite(error)]
    return _serves_from_s(of_way), sum(known) / len(known) if known else math.inf


def _advice(way: _Way, of_way: dict[float, float]) -> str:
    method, source = way
    serves_s = _serves_from_s(of_way)
    if math.isinf(serves_s):
        known = [duration_s for duration_s, error_pct in of_way.items() if math.isfinite(error_pct)]
        if not known:
            return f"{method} on {source} does not always give an energy, and no other does"
        error_pct = of_way[max(known)]
        return f"{method} on {source} is the least wrong, {error_pct:.1f}% off on a {max(known):g} s kernel"
    around = ", with idle time recorded around the kernel" if method in _WITH_IDLE else ""
    text = f"use {method} on {source}{around}: within {_ACCEPTED_PCT:g}% from {serves_s:g} s on"
    if serves_s > min(of_way):
        text += f"; repeat shorter kernels until they fill {serves_s:g} s"
    return text


def _worst_of_the_paper(points: Sequence[MethodPoint]) -> list[str]:
    """Return what the published methods on the call of the paper are off by, on a kernel of some 0.3 s."""
    even = [
        p for p in points if p.kind is LoadKind.CONSTANT and p.source == "usage" and p.method in _OF_THE_PAPER
    ]
    known = [p for p in even if math.isfinite(p.bias_pct)]
    if not known:
        return []
    nearest_s = min((p.requested_s for p in known), key=lambda d: abs(math.log(d / 0.3)))
    shown = ", ".join(f"{p.method} {p.bias_pct:+.0f}%" for p in known if p.requested_s == nearest_s)
    return [f"on usage, as published, a {nearest_s:g} s kernel of even power reads: {shown}"]
