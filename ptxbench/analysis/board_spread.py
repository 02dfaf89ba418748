"""Boards of one GPU model beside each other: one factor for each board, and what is left of each row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev, variance

from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.storage.board_spread import BoardFactor, BoardSpread, RowSpread
from ptxbench.storage.manifest import Manifest
from ptxbench.storage.schema import TableRow

# A factor from fewer rows would explain them by itself.
_MIN_ROWS = 3
_DIGITS = 5

Key = tuple[str, ...]


@dataclass(frozen=True)
class BoardRun:
    """One run on one board.

    Attributes:
        name: Name of its folder.
        manifest: Its manifest.
        rows: Its rows.
    """

    name: str
    manifest: Manifest
    rows: Sequence[TableRow]


def board_spread(reference: BoardRun, others: Sequence[BoardRun]) -> BoardSpread:
    """Return how the rows differ between boards beside one factor for each board.

    A board's factor f is the median over the common rows of e_board / e_reference; a row's scatter is the
    standard deviation over boards of ln(e / f). Rows count only where the instruction became the same SASS.
    The interval of a row's mean over n boards is 1.96 sqrt(sum(u^2) / n^2 + s^2 / n): u is a board's own
    standard error, s the scatter of all rows that two boards or more have, pooled.

    Args:
        reference: The run whose board has the factor 1.
        others: Runs on other boards, one for each board.

    Raises:
        InputError: Two runs are of one board, or a run shares fewer than three rows with the reference.
    """
    hashes = [run.manifest.gpu.uuid_hash for run in (reference, *others)]
    if len(set(hashes)) < len(hashes):
        raise InputError("two of the runs are of one board; name one run for each board")
    runs, base = (reference, *others), board_energies(reference)
    boards = tuple(_factor(run, base) for run in runs)
    found: dict[Key, list[_OnBoard]] = {}
    for run, board in zip(runs, boards, strict=True):
        for row in filter(_counts, run.rows):
            log = math.log(row.dynamic_pj / board.factor)
            found.setdefault(_key(row), []).append(_OnBoard(row, log, _relative_error(row)))
    pooled = _pooled([[one.log for one in measured] for measured in found.values()])
    rows = tuple(_row(measured, pooled) for measured in found.values())
    return BoardSpread(reference.name, boards, rows)


@dataclass(frozen=True)
class _OnBoard:
    """A row on one board: logarithm of its energy on the reference board's scale, and its relative error."""

    row: TableRow
    log: float
    error: float


def _relative_error(row: TableRow) -> float:
    return 0.0 if math.isnan(row.dynamic_ci95_pj) else row.dynamic_ci95_pj / COVERAGE_FACTOR / row.dynamic_pj


def _pooled(rows: Iterable[Sequence[float]]) -> float:
    """Return the standard deviation within rows, over all that have two values or more; 0 where none has."""
    several = [logs for logs in rows if len(logs) > 1]
    freedom = sum(len(logs) - 1 for logs in several)
    return math.sqrt(sum((len(logs) - 1) * variance(logs) for logs in several) / freedom) if freedom else 0.0


def _key(row: TableRow) -> Key:
    return (*row.key, row.sass)


def board_energies(run: BoardRun) -> dict[Key, float]:
    """Return the dynamic energies of a run's valid rows, pJ, by row and SASS."""
    return {_key(row): row.dynamic_pj for row in filter(_counts, run.rows)}


def _counts(row: TableRow) -> bool:
    return row.protocol == DYNAMIC and row.status is Status.OK


def _factor(run: BoardRun, base: Mapping[Key, float]) -> BoardFactor:
    energies = board_energies(run)
    ratios = [energies[key] / base[key] for key in energies.keys() & base.keys()]
    if len(ratios) < _MIN_ROWS:
        raise InputError(f"{run.name} has {len(ratios)} rows in common with the reference, not {_MIN_ROWS}")
    gpu = run.manifest.gpu
    factor = _rounded(math.exp(median(map(math.log, ratios))))
    return BoardFactor(gpu.uuid_hash, run.name, gpu.driver, run.manifest.commit, len(ratios), factor)


def _row(measured: Sequence[_OnBoard], pooled: float) -> RowSpread:
    row, boards = measured[0].row, len(measured)
    logs = [one.log for one in measured]
    energy_pj = math.exp(fmean(logs))
    error = math.hypot(*(one.error / boards for one in measured), pooled / math.sqrt(boards))
    return RowSpread(
        *(row.instruction, row.opt_level, row.protocol, row.operands, row.sass, row.sass_per_ptx),
        boards=boards,
        energy_pj=_rounded(energy_pj),
        ci95_pj=_rounded(COVERAGE_FACTOR * error * energy_pj),
        scatter=_rounded(stdev(logs)) if boards > 1 else None,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
