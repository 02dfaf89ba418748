"""Boards of one GPU model beside each other: one factor for each board, and what is left of each row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median, stdev, variance

from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.storage.board_spread import BoardFactor, BoardSpread, RowSpread
from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.precision import without_precision
from ptxbench.storage.run_spread import RunSpread
from ptxbench.storage.schema import TableRow, ran_at_other_clock

# A factor from fewer rows would explain them by itself.
_MIN_ROWS = 3
_DIGITS = 5
# A row that scatters by more than so many times what rows do is unlike them (three standard deviations).
_ODD = 3.0
_PASSES = 3
# Clocks of two boards that differ by less, as 1,979 and 1,980 MHz do, are one.
_CLOCKS_ALIKE = 0.002
_LEFT_OUT = re.compile(r"\d+ trials? left out")

Key = tuple[str, ...]


@dataclass(frozen=True)
class BoardRun:
    """One run on one board.

    Attributes:
        name: Name of its folder.
        manifest: Its manifest.
        rows: Its rows.
        above: ln of what all rows are above those of other runs by, for a known cause (docs/accuracy.md,
            "Sparse products"). It counts where no common row tells the board's factor.
        above_error: Standard error of `above`.
    """

    name: str
    manifest: TableManifest
    rows: Sequence[TableRow]
    above: float = 0.0
    above_error: float = 0.0

    @property
    def board(self) -> str:
        """Hash of the board's UUID."""
        return self.manifest.gpu.uuid_hash

    @cached_property
    def by_code(self) -> Mapping[Key, TableRow]:
        """Valid dynamic rows by row and SASS; every pair of runs asks for both's."""
        return {_key(row): row for row in filter(_counts, self.rows)}

    @cached_property
    def energies_pj(self) -> Mapping[Key, float]:
        """Dynamic energies of the valid rows, by row and SASS."""
        return {key: row.dynamic_pj for key, row in self.by_code.items()}


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
    hashes = [run.board for run in (reference, *others)]
    if len(set(hashes)) < len(hashes):
        raise InputError("two of the runs are of one board; name one run for each board")
    runs = (reference, *others)
    boards = _factors(runs, any_rows)
    found: dict[Key, list[_OnBoard]] = {}
    for run, board in zip(runs, boards, strict=True):
        for row in filter(_has_energy, run.rows):
            log = math.log(row.dynamic_pj / board.factor)
            scatter = spread.ci95(row, other_boards=True) / COVERAGE_FACTOR if spread else 0.0
            one = _OnBoard(row, log, known_ci95(row) / COVERAGE_FACTOR, scatter, board.factor_error)
            found.setdefault(_key(row), []).append(one)
    gamma = spread.clock_exponent if spread else (math.nan, math.nan)
    measured = [
        _at_one_clock([one for one in of_row if _counts(one.row)] or of_row, gamma)
        for of_row in found.values()
    ]
    if spread is None:
        pooled = _usual([[one.log for one in of_row] for of_row in measured])
        measured = [[replace(one, scatter=pooled) for one in of_row] for of_row in measured]
    return BoardSpread(reference.name, boards, tuple(map(_row, measured)))


def ln_clock_ratio(clock_mhz: float, other_mhz: float) -> float:
    """Return ln of another clock over a clock; 0 where one of them is not known, or they are alike."""
    log = math.log(other_mhz / clock_mhz) if clock_mhz > 0 and other_mhz > 0 else 0.0
    return log if abs(log) >= _CLOCKS_ALIKE else 0.0


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


def _key(row: TableRow) -> Key:
    return (*row.key, row.sass)


def _counts(row: TableRow) -> bool:
    return row.protocol == DYNAMIC and row.status is Status.OK


def _has_energy(row: TableRow) -> bool:
    return row.protocol == DYNAMIC and row.status.has_number


def _factors(runs: Sequence[BoardRun], any_rows: bool) -> tuple[BoardFactor, ...]:
    """Return the factor of every board, the reference's first.

    Raises:
        InputError: A run shares too few rows with the reference, and any rows are not allowed.
    """
    groups = _linked(runs) if any_rows else [runs]
    factors = [_within(group) for group in groups]
    logs = [[math.log(board.factor) for board in group] for group in factors]
    spread = _pooled(logs)
    on_scale = list(factors[0])
    for group, within, of in zip(factors[1:], logs[1:], groups[1:], strict=True):
        shift = math.exp(fmean(logs[0]) - fmean(within) + fmean(run.above for run in of))
        common = spread * math.sqrt(1 / len(within) + 1 / len(logs[0]))
        error = _rounded(math.hypot(common, fmean(run.above_error for run in of)))
        on_scale += (
            replace(one, rows=0, factor=_rounded(one.factor * shift), factor_error=error) for one in group
        )
    by_run = {board.run: board for board in on_scale}
    return tuple(by_run[run.name] for run in runs)


def _linked(runs: Sequence[BoardRun]) -> list[list[BoardRun]]:
    """Return the runs in groups: each has enough rows in common with the first of its group."""
    groups: list[list[BoardRun]] = []
    for run in runs:
        energies = run.energies_pj.keys()
        fitting = (one for one in groups if len(energies & one[0].energies_pj.keys()) >= _MIN_ROWS)
        group = next(fitting, None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    return groups


def _within(runs: Sequence[BoardRun]) -> list[BoardFactor]:
    """Return the factors of boards beside the first of them.

    Raises:
        InputError: A run shares too few rows with it.
    """
    base = runs[0].energies_pj
    return [_factor(run, base) for run in runs]


def _factor(run: BoardRun, base: Mapping[Key, float]) -> BoardFactor:
    energies = run.energies_pj
    ratios = [energies[key] / base[key] for key in energies.keys() & base.keys()]
    if len(ratios) < _MIN_ROWS:
        raise InputError(f"{run.name} has {len(ratios)} rows in common with the reference, not {_MIN_ROWS}")
    gpu = run.manifest.gpu
    factor = _rounded(math.exp(median(map(math.log, ratios))))
    return BoardFactor(gpu.uuid_hash, run.name, gpu.driver, run.manifest.commit, len(ratios), factor)


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
        energy_pj=_rounded(energy_pj),
        ci95_pj=_rounded(COVERAGE_FACTOR * error * energy_pj),
        scatter=_rounded(scatter) if boards > 1 else None,
        note=_note(_told([one.row.reason for one in measured])),
        clock_mhz=_rounded(fmean(one.row.clock_mhz for one in measured)),
        lanes=row.lanes,
    )


def _told(reasons: Sequence[str]) -> str:
    """Return what the first board says of its row, or the first whose loops ran at unlike clocks."""
    return next(filter(ran_at_other_clock, reasons), reasons[0])


def _note(reason: str) -> str:
    """Return what a row's reason says of it, without its interval and the trials that were left out."""
    return _LEFT_OUT.split(without_precision(reason), maxsplit=1)[0].removesuffix("; ")


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
