"""How much the rows of two runs of one GPU model differ beyond their own intervals (run_spread.json)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place
from ptxbench.storage.schema import TableRow
from ptxbench.storage.shipped import TABLES

RUN_SPREAD = "run_spread.json"


@dataclass(frozen=True)
class SpreadTerm:
    """What the interval of a row lacks, as pairs of runs that have the same row tell it.

    Attributes:
        ci95: Relative half-width that, added in quadrature to the half-widths of both rows, makes them hold
            95% of the pairs. The factor between the two runs is taken out first.
        pairs: Pairs of rows that it is from.
        boards: Boards that these ran on.
        beyond_before: Share of the pairs that differ by more than both intervals as the runs have them.
        beyond: The same with this term.
        beyond_held_out: The same with the term of the pairs that have none of the two boards (of the same
            board: not this one); NaN where no such pairs are left.
    """

    ci95: float
    pairs: int
    boards: int
    beyond_before: float
    beyond: float
    beyond_held_out: float


@dataclass(frozen=True)
class RunSpread:
    """How much rows differ from run to run of one GPU model.

    Attributes:
        gpu: Its name as NVML gives it.
        same_board: Of two runs of one board; None where too few were repeated, and so for the others.
        other_board: Of runs of two boards.
        clock_corrected: The same of rows that were brought from one SM clock to another.
        gamma: Of E(f) = E(f0) (f / f0)^gamma, for a row that two boards ran at unlike clocks; NaN where it is
            not known.
        gamma_error: Its standard error.
    """

    gpu: str
    same_board: SpreadTerm | None
    other_board: SpreadTerm | None
    clock_corrected: SpreadTerm | None
    gamma: float = math.nan
    gamma_error: float = math.nan

    @property
    def clock_exponent(self) -> tuple[float, float]:
        """Gamma between boards, and its standard error."""
        return self.gamma, self.gamma_error

    def ci95(self, row: TableRow, *, other_boards: bool) -> float:
        """Return what to add in quadrature to the relative half-width of a row; 0 where it is not known.

        Args:
            row: The row.
            other_boards: Whether the row shall stand for other boards, too, apart from one factor for each.
        """
        term = self.same_board
        if other_boards:
            term = (self.clock_corrected if row.clock_corrected else None) or self.other_board
        return term.ci95 if term else 0.0

    def sentence(self, *, other_boards: bool) -> str:
        """Return what the intervals of rows have of it, "" for nothing.

        Args:
            other_boards: As in `ci95`.
        """
        term = self.other_board if other_boards else self.same_board
        if term is None:
            return ""
        where = "board to board (scale factor removed)" if other_boards else "run to run on one board"
        corrected = self.clock_corrected if other_boards else None
        more = f"; ± {corrected.ci95:.2%} where a clock was corrected" if corrected else ""
        return f"95% intervals include how rows change from {where}: ± {term.ci95:.2%}{more}"


def spread_sentence(gpu: GpuInfo, *, other_boards: bool) -> str:
    """Return what the intervals of a GPU's rows have of how rows of its model differ, "" for nothing."""
    spread = find_run_spread(gpu)
    return spread.sentence(other_boards=other_boards) if spread else ""


def widened(
    rows: Sequence[TableRow], spread: RunSpread | None, *, other_boards: bool
) -> tuple[TableRow, ...]:
    """Return rows whose dynamic energies have the interval that another run of the same keeps to.

    Args:
        rows: Rows as a run has them.
        spread: How much they differ from run to run; None: nobody knows, and they stay as they are.
        other_boards: Whether they shall stand for other boards, too.
    """
    if spread is None:
        return tuple(rows)
    return tuple(row.wider(spread.ci95(row, other_boards=other_boards)) for row in rows)


def find_run_spread(gpu: GpuInfo) -> RunSpread | None:
    """Return how much rows differ from run to run of a GPU's model, None where nobody measured it.

    A simulated GPU has another name than the real one, and no such spread.
    """
    return next((one for one in _shipped() if one.gpu == gpu.name), None)


def write_run_spread(spreads: Sequence[RunSpread]) -> None:
    """Write run_spread.json atomically."""
    write_text(TABLES / RUN_SPREAD, codec.to_text(list(spreads)))
    _shipped.cache_clear()


@lru_cache(maxsize=1)
def _shipped() -> tuple[RunSpread, ...]:
    path: Path = TABLES / RUN_SPREAD
    return codec.decode_list(RunSpread, codec.read_json(path), Place(path))
