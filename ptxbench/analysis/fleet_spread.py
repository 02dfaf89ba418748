"""How many boards differ: one factor each, the scatter beside it, and which of them are unlike the others."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean, median, stdev

from ptxbench.analysis.board_spread import BoardRun, Key, board_factors, logs_by_row, rounded
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import SD_OVER_MAD
from ptxbench.storage.fleet_file import BoardLine, FleetFile, LeftOut, ModelSpread

# A factor is unlike the others from so many of their standard deviations on, and from so much on at least.
_FACTOR_SDS, _FACTOR_LEAST = 3.5, 0.01
# The scatter of one board is unlike the others' from so many times their median on, and from so much on.
_SCATTER_TIMES, _SCATTER_LEAST = 3.0, 0.01
# Fewer boards do not say what is usual.
_LEAST_BOARDS = 4


def fleet_spread(runs: Sequence[BoardRun]) -> FleetFile:
    """Compare the boards of each GPU model.

    Where one board has several runs, the one with most rows counts. A board that shares fewer than three rows
    with the board that has most is left out.

    Args:
        runs: One run or more for each board.
    """
    left_out = [LeftOut(run.name, "it has no valid row") for run in runs if not run.energies_pj]
    best: dict[str, BoardRun] = {}
    for run in sorted((one for one in runs if one.energies_pj), key=lambda r: (-len(r.energies_pj), r.name)):
        board = run.board
        if board in best:
            left_out.append(
                LeftOut(run.name, f"of the same board as {best[board].name}, which has more rows")
            )
        else:
            best[board] = run

    def title(run: BoardRun) -> str:
        return run.manifest.gpu.title

    models = []
    for gpu, of_model in groupby(sorted(best.values(), key=title), key=title):
        usable, short = _usable(sorted(of_model, key=lambda r: (-len(r.energies_pj), r.name)))
        left_out += short
        models.append(_model(gpu, usable))
    return FleetFile(tuple(models), tuple(left_out))


def _usable(runs: Sequence[BoardRun]) -> tuple[list[BoardRun], list[LeftOut]]:
    """Return the runs that can be compared with the first, which has most rows, and why the others cannot."""
    reference, *others = runs
    usable, short = [reference], []
    for run in others:
        try:
            board_factors([reference, run])
        except InputError as error:
            short.append(LeftOut(run.name, str(error)))
        else:
            usable.append(run)
    return usable, short


def _model(gpu: str, runs: Sequence[BoardRun]) -> ModelSpread:
    try:
        boards = board_factors(runs)
    except InputError:  # a single board of fewer than three rows
        return ModelSpread(gpu, (_line(runs[0], 0, math.nan, math.nan),), 0, math.nan)
    centre = math.exp(median(math.log(board.factor) for board in boards))
    factors = [board.factor for board in boards]
    scatters = _scatters(runs, factors)
    lines = [
        _line(run, board.rows, board.factor / centre, scatter)
        for run, board, scatter in zip(runs, boards, scatters, strict=True)
    ]
    shared = [
        rounded(stdev(log for _, _, log in of_row))
        for of_row in logs_by_row(runs, factors)
        if len(of_row) > 1
    ]
    return ModelSpread(
        gpu,
        tuple(sorted(_judged(lines), key=lambda line: line.factor)),
        len(shared),
        median(shared) if shared else math.nan,
    )


def _scatters(runs: Sequence[BoardRun], factors: Sequence[float]) -> list[float]:
    """Return each board's scatter about the median board, row by row, apart from the factors."""
    logs: list[Mapping[Key, float]] = [
        {key: math.log(energy / factor) for key, energy in run.energies_pj.items()}
        for run, factor in zip(runs, factors, strict=True)
    ]
    by_row: dict[Key, list[float]] = defaultdict(list)
    for board in logs:
        for key, value in board.items():
            by_row[key].append(value)
    centre = {key: median(values) for key, values in by_row.items() if len(values) > 1}
    scatters = []
    for board in logs:
        off = [abs(value - centre[key]) for key, value in board.items() if key in centre]
        scatters.append(SD_OVER_MAD * median(off) if off else math.nan)
    return scatters


def _line(run: BoardRun, common: int, factor: float, scatter: float) -> BoardLine:
    energies = run.energies_pj
    rows = [row for row in run.rows if math.isfinite(row.dynamic_pj)]
    return BoardLine(
        *(run.board, run.name, run.manifest.gpu.driver, len(energies), common, factor, scatter),
        temperature_c=_mean([row.temperature_c for row in rows]),
        static_w=_mean([row.static_w for row in rows]),
        outlier="",
    )


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return fmean(known) if known else math.nan


def _judged(lines: Sequence[BoardLine]) -> list[BoardLine]:
    """Return the boards, with a reason where one is unlike the others."""
    if len(lines) < _LEAST_BOARDS:
        return list(lines)
    off = [abs(math.log(line.factor)) for line in lines]
    allowed = max(_FACTOR_SDS * SD_OVER_MAD * median(off), _FACTOR_LEAST)
    usual = median(line.scatter for line in lines)
    judged = []
    for line, distance in zip(lines, off, strict=True):
        reasons = []
        if distance > allowed:
            reasons.append(f"its factor is {line.factor - 1:+.1%} off, the others' within {allowed:.1%}")
        if line.scatter > max(_SCATTER_TIMES * usual, _SCATTER_LEAST):
            reasons.append(f"its rows scatter by {line.scatter:.1%}, the others' by {usual:.1%}")
        judged.append(replace(line, outlier="; ".join(reasons)))
    return judged
