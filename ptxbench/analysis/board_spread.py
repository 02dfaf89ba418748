"""Boards of one GPU model beside each other: one factor for each board, and what is left of each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.storage.board_spread import BoardFactor
from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.schema import TableRow

# A factor from fewer rows would explain them by itself.
MIN_ROWS = 3
_DIGITS = 5
# Clocks of two boards that differ by less, as 1,979 and 1,980 MHz do, are one.
_CLOCKS_ALIKE = 0.002

Key = tuple[str, ...]
# A row, which run has it, and the logarithm of its energy.
RowLog = tuple[TableRow, int, float]


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
        return {row_key(row): row for row in filter(counts, self.rows)}

    @cached_property
    def energies_pj(self) -> Mapping[Key, float]:
        """Dynamic energies of the valid rows, by row and SASS."""
        return {key: row.dynamic_pj for key, row in self.by_code.items()}


def board_factors(runs: Sequence[BoardRun]) -> list[BoardFactor]:
    """Return the factor of each board beside the first: the median over their common rows.

    Raises:
        InputError: Two runs are of one board, or a run shares fewer than three rows with the first.
    """
    if len({run.board for run in runs}) < len(runs):
        raise InputError("two of the runs are of one board; name one run for each board")
    return [_factor(run, runs[0].energies_pj) for run in runs]


def logs_by_row(
    runs: Sequence[BoardRun], factors: Sequence[float]
) -> list[list[tuple[TableRow, int, float]]]:
    """Return each row on the boards that have it: the row, which run's, and ln of its energy over the factor.

    Rows are one only where the instruction became the same SASS. `imprecise` ones count where no board has a
    better one.

    Args:
        runs: One run for each board.
        factors: Factor of each board.
    """
    found: dict[Key, list[RowLog]] = {}
    for at, (run, factor) in enumerate(zip(runs, factors, strict=True)):
        for row in run.rows:
            if row.protocol == DYNAMIC and row.status.has_number:
                found.setdefault(row_key(row), []).append((row, at, math.log(row.dynamic_pj / factor)))
    return [[one for one in of_row if counts(one[0])] or of_row for of_row in found.values()]


def ln_clock_ratio(clock_mhz: float, other_mhz: float) -> float:
    """Return ln of another clock over a clock; 0 where one of them is not known, or they are alike."""
    log = math.log(other_mhz / clock_mhz) if clock_mhz > 0 and other_mhz > 0 else 0.0
    return log if abs(log) >= _CLOCKS_ALIKE else 0.0


def row_key(row: TableRow) -> Key:
    """Return what one row of two boards shares: its key, and its SASS."""
    return (*row.key, row.sass)


def counts(row: TableRow) -> bool:
    """Return whether a row is a valid one of the dynamic protocol."""
    return row.protocol == DYNAMIC and row.status is Status.OK


def rounded(value: float) -> float:
    """Return a value to the digits that files of boards have."""
    return float(f"{value:.{_DIGITS}g}")


def _factor(run: BoardRun, base: Mapping[Key, float]) -> BoardFactor:
    energies = run.energies_pj
    ratios = [energies[key] / base[key] for key in energies.keys() & base.keys()]
    if len(ratios) < MIN_ROWS:
        raise InputError(f"{run.name} has {len(ratios)} rows in common with the reference, not {MIN_ROWS}")
    gpu = run.manifest.gpu
    factor = rounded(math.exp(median(map(math.log, ratios))))
    return BoardFactor(gpu.uuid_hash, run.name, gpu.driver, run.manifest.commit, len(ratios), factor)
