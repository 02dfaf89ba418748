"""Rows of several boards of one GPU model as one: their mean on the reference's scale, and its interval."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev, variance

from ptxbench.analysis.board_spread import (
    MIN_ROWS,
    BoardRun,
    board_factors,
    ln_clock_ratio,
    logs_by_row,
    rounded,
)
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.storage.board_spread import BoardFactor, BoardSpread, RowSpread
from ptxbench.storage.precision import without_precision
from ptxbench.storage.run_spread import RunSpread
from ptxbench.storage.schema import TableRow, ran_at_other_clock

# A row that scatters by more than so many times what rows do is unlike them (three standard deviations).
_ODD = 3.0
_PASSES = 3
_LEFT_OUT = re.compile(r"\d+ trials? left out")


def board_spread(
    reference: BoardRun, others: Sequence[BoardRun], any_rows: bool = False, spread: RunSpread | None = None
) -> BoardSpread:
    """Return how the rows differ between boards, apart from one factor for each board.

    A board's factor f is the median over the common rows of e_board / e_reference; a row's scatter is the
    standard deviation over boards of ln(e / f). Rows count only where the instruction became the same SASS.
    The interval of a row's mean over n boards is 1.96 sqrt(sum(u^2 + s^2) / n^2 + v^2): u is a board's own
    standard error, s what rows differ by from board to board (`spread`). Where that is not known s is the
    scatter of all rows that two boards or more have, pooled. A row that scatters more than three times as
    much as both allow, as atomic instructions do, has its own scatter and is not in the pool. `imprecise`
    rows count where no board has a better one. Boards run a product of matrices at unlike clocks: such rows
    are brought to the mean of their clocks, and the error of that is in u (`clock_log`).

    A board that shares no three rows with the reference has an unknown factor. With `any_rows` the mean of
    such boards, linked to each other by their common rows, is that of all others: v is what that may be off
    by, from how much the factors of boards differ.

    Args:
        reference: The run whose board has the factor 1.
        others: Runs on other boards, one for each board.
        any_rows: Whether a board counts whose factor is unknown.
        spread: How much rows of this GPU model differ from board to board, where it is known.

    Raises:
        InputError: Two runs are of one board, or a run shares fewer than three rows with the reference.
    """
    runs = (reference, *others)
    boards = _factors(runs, any_rows)
    gamma = spread.clock_exponent if spread else (math.nan, math.nan)
    measured = []
    for of_row in logs_by_row(runs, [board.factor for board in boards]):
        on_boards = [
            _OnBoard(
                row,
                log,
                known_ci95(row) / COVERAGE_FACTOR,
                spread.ci95(row, other_boards=True) / COVERAGE_FACTOR if spread else 0.0,
                boards[at].factor_error,
            )
            for row, at, log in of_row
        ]
        measured.append(_at_one_clock(on_boards, gamma))
    if spread is None:
        pooled = _usual([[one.log for one in of_row] for of_row in measured])
        measured = [[replace(one, scatter=pooled) for one in of_row] for of_row in measured]
    return BoardSpread(reference.name, boards, tuple(map(_row, measured)))


def clock_log(row: TableRow, clock_mhz: float, gamma: tuple[float, float]) -> tuple[float, float]:
    """Return ln of what a row's energy takes to be that at another clock, and its standard error.

    E(f) = E(f0) (f / f0)^gamma. Both are 0 where gamma or one of the clocks is not known, or the clocks are
    alike.

    Args:
        row: The row.
        clock_mhz: The other clock.
        gamma: The exponent between boards of this model, and its standard error (`RunSpread`).
    """
    log = ln_clock_ratio(row.clock_mhz, clock_mhz)
    return (gamma[0] * log, gamma[1] * abs(log)) if math.isfinite(gamma[0]) else (0.0, 0.0)


def _at_one_clock(measured: Sequence[_OnBoard], gamma: tuple[float, float]) -> list[_OnBoard]:
    """Return a row of several boards at the mean of their clocks."""
    clock_mhz = fmean(one.row.clock_mhz for one in measured)
    logs = [clock_log(one.row, clock_mhz, gamma) for one in measured]
    return [
        replace(one, log=one.log + log, error=math.hypot(one.error, error))
        for one, (log, error) in zip(measured, logs, strict=True)
    ]


def _usual(rows: Sequence[Sequence[float]]) -> float:
    """Return the pooled scatter of the rows without those that scatter unlike the others."""
    usual = _pooled(rows)
    for _ in range(_PASSES):
        usual = _pooled([logs for logs in rows if not _is_odd(logs, usual)])
    return usual


def _is_odd(logs: Sequence[float], usual: float) -> bool:
    return len(logs) > 1 and stdev(logs) > _ODD * usual


@dataclass(frozen=True)
class _OnBoard:
    """A row on one board: logarithm of its energy on the reference board's scale, and relative errors.

    Attributes:
        row: The row.
        log: That logarithm.
        error: Standard error of the row's repeats.
        scatter: Standard deviation of what it differs by from board to board.
        factor_error: Standard error of the board's factor, where no common row tells it.
    """

    row: TableRow
    log: float
    error: float
    scatter: float
    factor_error: float


def known_ci95(row: TableRow) -> float:
    """Return the relative half-width of a row's interval, 0 where it is not known."""
    return 0.0 if math.isnan(row.relative_ci95) else row.relative_ci95


def _pooled(rows: Iterable[Sequence[float]]) -> float:
    """Return the standard deviation within rows, over all that have two values or more; 0 where none has."""
    several = [logs for logs in rows if len(logs) > 1]
    freedom = sum(len(logs) - 1 for logs in several)
    return math.sqrt(sum((len(logs) - 1) * variance(logs) for logs in several) / freedom) if freedom else 0.0


def _factors(runs: Sequence[BoardRun], any_rows: bool) -> tuple[BoardFactor, ...]:
    """Return the factor of every board, the reference's first.

    Raises:
        InputError: A run shares too few rows with the reference, and any rows are not allowed.
    """
    groups = _linked(runs) if any_rows else [runs]
    factors = [board_factors(group) for group in groups]
    logs = [[math.log(board.factor) for board in group] for group in factors]
    spread = _pooled(logs)
    on_scale = list(factors[0])
    for group, within, of in zip(factors[1:], logs[1:], groups[1:], strict=True):
        shift = math.exp(fmean(logs[0]) - fmean(within) + fmean(run.above for run in of))
        common = spread * math.sqrt(1 / len(within) + 1 / len(logs[0]))
        error = rounded(math.hypot(common, fmean(run.above_error for run in of)))
        on_scale += (
            replace(one, rows=0, factor=rounded(one.factor * shift), factor_error=error) for one in group
        )
    by_run = {board.run: board for board in on_scale}
    return tuple(by_run[run.name] for run in runs)


def _linked(runs: Sequence[BoardRun]) -> list[list[BoardRun]]:
    """Return the runs in groups: each has enough rows in common with the first of its group."""
    groups: list[list[BoardRun]] = []
    for run in runs:
        energies = run.energies_pj.keys()
        fitting = (one for one in groups if len(energies & one[0].energies_pj.keys()) >= MIN_ROWS)
        group = next(fitting, None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    return groups


def _row(measured: Sequence[_OnBoard]) -> RowSpread:
    row, boards = measured[0].row, len(measured)
    logs = [one.log for one in measured]
    energy_pj = math.exp(fmean(logs))
    factor_error = fmean(one.factor_error for one in measured)
    allowed = math.sqrt(fmean(one.error**2 + one.scatter**2 for one in measured))
    scatter = stdev(logs) if boards > 1 else 0.0
    scatters = [scatter if scatter > _ODD * allowed else one.scatter for one in measured]
    error = math.hypot(
        *(one.error / boards for one in measured), *(s / boards for s in scatters), factor_error
    )
    return RowSpread(
        *(row.instruction, row.opt_level, row.protocol, row.operands, row.sass, row.sass_per_ptx),
        boards=boards,
        energy_pj=rounded(energy_pj),
        ci95_pj=rounded(COVERAGE_FACTOR * error * energy_pj),
        scatter=rounded(scatter) if boards > 1 else None,
        note=_note(_told([one.row.reason for one in measured])),
        clock_mhz=rounded(fmean(one.row.clock_mhz for one in measured)),
        lanes=row.lanes,
    )


def _told(reasons: Sequence[str]) -> str:
    """Return what the first board says of its row, or the first whose loops ran at unlike clocks."""
    return next(filter(ran_at_other_clock, reasons), reasons[0])


def _note(reason: str) -> str:
    """Return what a row's reason says of it, without its interval and the trials that were left out."""
    return _LEFT_OUT.split(without_precision(reason), maxsplit=1)[0].removesuffix("; ")
