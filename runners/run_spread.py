"""How much rows differ from run to run beyond their own intervals, from runs of one GPU model.

Rows of two runs are paired, and the median ratio of the two runs is taken out. What is left of a pair, |d|,
should be within the half-widths of both, u, in 19 of 20 pairs. The term h is the relative half-width that,
added in quadrature to both, makes it so: the 95th percentile of sqrt(max(d^2 - u^2, 0) / 2).
A percentile and no standard deviation, as what rows differ by has long tails: it is the interval's share
that must hold. One number for all rows of a model does as well on pairs that it was not fitted to as one that
grows with the interval, with the energy, or with the part of the loop's power that is the instruction's
(`docs/accuracy.md`). Rows whose energy was brought to another SM clock differ more, and have their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np
import numpy.typing as npt
from board_means import clock_log, known_ci95

from ptxbench.analysis.board_spread import BoardRun, ln_clock_ratio
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.storage.run_spread import RunSpread, SpreadTerm
from ptxbench.storage.schema import TableRow

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SpreadSettings:
    """How the terms are estimated."""

    held: float = 0.95
    """Share of the pairs that both intervals hold: what the intervals say."""
    min_common: int = 10
    """Two runs of fewer common rows do not tell the factor between them well enough to judge rows by it."""
    min_pairs: int = 100
    """Of fewer pairs under five lie beyond the 95th percentile, and one run more may double it."""
    exponent_boards: int = 3
    """Fewer boards do not tell by how much an exponent differs from board to board."""
    least_ci95: float = 0.012
    """What rows of two boards differ by at least (docs/accuracy.md): a narrower interval counts no more."""
    digits: int = 3
    """Significant digits that are kept: the terms of halves of the pairs differ by a tenth and more."""


SETTINGS = SpreadSettings()


@dataclass(frozen=True)
class RowPair:
    """One row that two runs have, with intervals as the runs give them.

    Attributes:
        boards: The boards of the runs.
        apart: |ln(b / a)| apart from the factor between the runs.
        ci95: Half-widths of both in quadrature, relative.
        corrected: How many of the two were brought to another SM clock: 0, 1 or 2.
    """

    boards: tuple[str, str]
    apart: float
    ci95: float
    corrected: int


def run_spread(gpu: str, runs: Sequence[BoardRun], repeats: Sequence[BoardRun]) -> RunSpread:
    """Return how much rows of a GPU model differ from run to run.

    Args:
        gpu: Name of the model.
        runs: Runs that are compared with those of other boards. Their rows have their own intervals.
        repeats: Further runs of the same boards, which are compared with those of their board alone.
    """
    gamma = board_exponent(runs)
    both = combinations((*runs, *repeats), 2)
    same = [pair for a, b in both if a.board == b.board for pair in pairs(a, b, gamma)]
    other = [pair for a, b in combinations(runs, 2) if a.board != b.board for pair in pairs(a, b, gamma)]
    plain = [pair for pair in other if not pair.corrected]
    corrected = [pair for pair in other if pair.corrected]
    between = _term(plain)
    of_corrected = _term(corrected, between.ci95) if between else None
    return RunSpread(gpu, _term(same), between, of_corrected, *(map(_rounded, gamma)))


def board_exponent(runs: Sequence[BoardRun]) -> tuple[float, float]:
    """Return gamma of E(f) = E(f0) (f / f0)^gamma between boards, and its standard error.

    At one power boards run a product of matrices at unlike clocks. What its energy differs by, apart from the
    factor of the two boards' other rows, is fitted by weighted least squares; the error is that of leaving
    out one board at a time. Both are NaN where fewer than three boards tell it.

    Args:
        runs: Runs of one GPU model.
    """
    found = [one for a, b in combinations(runs, 2) if a.board != b.board for one in _at_unlike_clocks(a, b)]
    boards = sorted({board for one in found for board in one.boards})
    if len(boards) < SETTINGS.exponent_boards or len(found) < SETTINGS.min_pairs:
        return math.nan, math.nan
    left_out = np.array([_slope([one for one in found if board not in one.boards]) for board in boards])
    error = math.sqrt((len(boards) - 1) * float(left_out.var()))
    return _slope(found), error


@dataclass(frozen=True)
class _AtUnlikeClocks:
    """A row on two boards.

    Attributes:
        boards: The two boards.
        clock: ln of the second board's clock over the first one's.
        energy: The same of its energy, apart from the factor of the two boards.
        ci95: Relative half-width of both intervals together.
    """

    boards: tuple[str, str]
    clock: float
    energy: float
    ci95: float


def _at_unlike_clocks(a: BoardRun, b: BoardRun) -> list[_AtUnlikeClocks]:
    """Return the rows that two runs have at unlike clocks; none where too few tell their factor."""
    first, second = a.by_code, b.by_code
    common = [(first[key], second[key]) for key in first if key in second]
    logs = [
        (ln_clock_ratio(one.clock_mhz, two.clock_mhz), math.log(two.dynamic_pj / one.dynamic_pj))
        for one, two in common
    ]
    alike = [energy for clock, energy in logs if not clock]
    if len(alike) < SETTINGS.min_common:
        return []
    factor, boards = float(np.median(alike)), (a.board, b.board)
    return [
        _AtUnlikeClocks(boards, clock, energy - factor, math.hypot(*map(known_ci95, both)))
        for (clock, energy), both in zip(logs, common, strict=True)
        if clock
    ]


def _slope(rows: Sequence[_AtUnlikeClocks]) -> float:
    """Return by how much the logarithm of the energy grows with that of the clock."""
    clock, energy, ci95 = (
        np.array([getattr(one, name) for one in rows]) for name in ("clock", "energy", "ci95")
    )
    weights = 1 / (ci95**2 + SETTINGS.least_ci95**2)
    return float((weights * clock * energy).sum() / (weights * clock**2).sum())


def pairs(a: BoardRun, b: BoardRun, gamma: tuple[float, float]) -> list[RowPair]:
    """Return the rows that two runs have of the same machine code; none where these are too few.

    Rows that ran at unlike clocks are compared at one.

    Args:
        a: The first run.
        b: The second run.
        gamma: Exponent of the clock, and its standard error (`clock_log`).
    """
    first, second = a.by_code, b.by_code
    common = [(first[key], second[key]) for key in first if key in second]
    if len(common) < SETTINGS.min_common:
        return []
    clocks = [clock_log(two, one.clock_mhz, gamma) for one, two in common]
    logs = np.array(
        [
            math.log(two.dynamic_pj / one.dynamic_pj) + log
            for (one, two), (log, _) in zip(common, clocks, strict=True)
        ]
    )
    left = np.abs(logs - np.median(logs))
    boards = a.board, b.board
    return [
        RowPair(
            boards,
            float(apart),
            math.hypot(*map(known_ci95, both), COVERAGE_FACTOR * error),
            _corrected(both),
        )
        for apart, both, (_, error) in zip(left, common, clocks, strict=True)
    ]


@dataclass(frozen=True)
class _Pairs:
    """Pairs as arrays of shape (n,), with the term of their rows that were not brought to another clock.

    Attributes:
        lacking: What both intervals, and that term, lack of the pair's difference, as squared half-width.
        corrected: How many of both have the term that is looked for.
    """

    lacking: Float64s
    corrected: Float64s

    @classmethod
    def of(cls, pairs: Sequence[RowPair], plain: float | None) -> Self:
        """Return pairs; without a term of others all rows have the one that is looked for."""
        corrected = np.array([2.0 if plain is None else pair.corrected for pair in pairs])
        apart, own = (np.array([getattr(pair, name) for pair in pairs]) for name in ("apart", "ci95"))
        known = own**2 + (2 - corrected) * (plain or 0.0) ** 2
        return cls(apart**2 - known, corrected)

    def fitted(self, counts: npt.NDArray[np.bool_]) -> float:
        """Return the relative half-width that makes the intervals of some pairs hold."""
        needed = np.maximum(self.lacking[counts], 0.0) / self.corrected[counts]
        return math.sqrt(float(np.quantile(needed, SETTINGS.held)))

    def beyond(self, ci95: float) -> npt.NDArray[np.bool_]:
        """Return which differ by more than both intervals with a term."""
        return self.lacking > self.corrected * ci95**2


def _term(of: Sequence[RowPair], plain: float | None = None) -> SpreadTerm | None:
    """Return the term of pairs, None where these are too few.

    Args:
        of: The pairs.
        plain: Where each has a row that was brought to another clock, and the term is theirs: that of others.
    """
    if len(of) < SETTINGS.min_pairs:
        return None
    both = _Pairs.of(of, plain)
    ci95 = _rounded(max(both.fitted(np.ones(len(of), bool)), plain or 0.0))
    boards = sorted({pair.boards for pair in of})
    # Of every pair the place of its boards in `boards`, and of every two boards who has none of them.
    at = {two: place for place, two in enumerate(boards)}
    places = np.array([at[pair.boards] for pair in of])
    beyond = judged = 0
    for place, two in enumerate(boards):
        others = np.array([set(two).isdisjoint(one) for one in boards])[places]
        if others.sum() >= SETTINGS.min_pairs:
            own = places == place
            beyond += int(both.beyond(max(both.fitted(others), plain or 0.0))[own].sum())
            judged += int(own.sum())
    return SpreadTerm(
        ci95=ci95,
        pairs=len(of),
        boards=len({board for two in boards for board in two}),
        beyond_before=_rounded(float(np.mean(_Pairs.of(of, None).beyond(0.0)))),
        beyond=_rounded(float(np.mean(both.beyond(ci95)))),
        beyond_held_out=_rounded(beyond / judged) if judged else math.nan,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{SETTINGS.digits}g}")


def _corrected(both: tuple[TableRow, TableRow]) -> int:
    return sum(row.clock_corrected for row in both)
