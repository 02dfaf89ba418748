"""Boards of one GPU model beside each other: one factor for each board, and what is left of each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError
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

    Args:
        reference: The run whose board has the factor 1.
        others: Runs on other boards, one for each board.

    Raises:
        InputError: Two runs are of one board, or a run shares fewer than three rows with the reference.
    """
    hashes = [run.manifest.gpu.uuid_hash for run in (reference, *others)]
    if len(set(hashes)) < len(hashes):
        raise InputError("two of the runs are of one board; name one run for each board")
    base = board_energies(reference)
    boards = [_factor(reference, base, base)]
    found: dict[Key, list[float]] = {key: [energy] for key, energy in base.items()}
    for run in others:
        energies = board_energies(run)
        board = _factor(run, energies, base)
        boards.append(board)
        for key, energy in energies.items():
            found.setdefault(key, []).append(energy / board.factor)
    names = {_key(row): row for run in (reference, *others) for row in run.rows}
    rows = tuple(_row(names[key], energies) for key, energies in found.items())
    return BoardSpread(reference.name, tuple(boards), rows)


def _key(row: TableRow) -> Key:
    return (*row.key, row.sass)


def board_energies(run: BoardRun) -> dict[Key, float]:
    """Return the dynamic energies of a run's valid rows, pJ, by row and SASS."""
    return {
        _key(row): row.dynamic_pj for row in run.rows if row.protocol == DYNAMIC and row.status is Status.OK
    }


def _factor(run: BoardRun, energies: Mapping[Key, float], base: Mapping[Key, float]) -> BoardFactor:
    ratios = [energies[key] / base[key] for key in energies.keys() & base.keys()]
    if len(ratios) < _MIN_ROWS:
        raise InputError(f"{run.name} has {len(ratios)} rows in common with the reference, not {_MIN_ROWS}")
    gpu = run.manifest.gpu
    factor = _rounded(math.exp(median(map(math.log, ratios))))
    return BoardFactor(gpu.uuid_hash, run.name, gpu.driver, run.manifest.commit, len(ratios), factor)


def _row(row: TableRow, energies_pj: Sequence[float]) -> RowSpread:
    logs = [math.log(energy) for energy in energies_pj]
    return RowSpread(
        *(row.instruction, row.opt_level, row.protocol, row.operands, row.sass),
        boards=len(logs),
        energy_pj=_rounded(math.exp(fmean(logs))),
        scatter=_rounded(stdev(logs)) if len(logs) > 1 else None,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
