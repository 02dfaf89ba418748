"""Measured over estimated energy of kernels where bytes or a time are not known, and the intervals of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformal import conformal_ends, log_normal_ends

from ptxbench.model.terms import CodeSpread


@dataclass(frozen=True)
class CodeRatio:
    """One kernel's measured energy over its estimate by code alone.

    Attributes:
        family: Kernels that are alike.
        modelled_time: Whether the time of the estimate was modelled.
        global_memory: Whether the kernel uses global memory more than now and then.
        ratio: Measured over estimated energy.
        bytes_counted: Whether bytes and accesses were counted.
        scattered: Whether these take less than half a line each.
    """

    family: str
    modelled_time: bool
    global_memory: bool
    ratio: float
    bytes_counted: bool = False
    scattered: bool = False

    @property
    def inputs(self) -> tuple[bool, bool, bool, bool]:
        """What tells its interval from others."""
        return self.modelled_time, self.bytes_counted, self.global_memory, self.scattered


def code_spreads(ratios: Sequence[CodeRatio]) -> tuple[CodeSpread, ...]:
    """Return the interval of the ratios of each kind of inputs."""
    by_inputs: dict[tuple[bool, bool, bool, bool], list[float]] = defaultdict(list)
    for one in ratios:
        by_inputs[one.inputs].append(one.ratio)
    return tuple(
        CodeSpread(modelled_time, uses, *ends(values), len(values), counted, scattered)
        for (modelled_time, counted, uses, scattered), values in sorted(by_inputs.items())
        for ends in (log_normal_ends if counted else conformal_ends,)
    )


def inside(ratios: Sequence[CodeRatio], spreads: Sequence[CodeSpread]) -> int:
    """Return how many ratios are within the interval of their class."""
    by_inputs = {one.inputs: one for one in spreads}
    count = 0
    for one in ratios:
        spread = by_inputs.get(one.inputs)
        count += spread is not None and spread.low <= one.ratio <= spread.high
    return count


def coverage_by_family(ratios: Sequence[CodeRatio]) -> Mapping[str, tuple[int, int]]:
    """Return by family how many ratios the interval of the other families holds, and of how many."""
    found = {}
    for family in dict.fromkeys(one.family for one in ratios):
        own = [one for one in ratios if one.family == family]
        others = [one for one in ratios if one.family != family]
        found[family] = inside(own, code_spreads(others)), len(own)
    return found
