"""How one instruction's energy differs between boards of one GPU model (boards.json of a table)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ptxbench.core.condition import OptLevel
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place

BOARDS = "boards.json"


@dataclass(frozen=True)
class BoardFactor:
    """One board that was measured.

    Attributes:
        board: Hash of its UUID.
        run: Name of the run's folder.
        driver: Driver version.
        commit: Git commit of ptxbench that measured it, None where it is not known.
        rows: Rows that it has in common with the reference board.
        factor: Median of its energies over those of the reference board. Where it has too few rows in common
            with it, its place among boards alike, whose mean is that of the others.
        factor_error: Relative standard error of such a place; 0 where common rows tell the factor.
    """

    board: str
    run: str
    driver: str
    commit: str | None
    rows: int
    factor: float
    factor_error: float = field(default=0.0, metadata={"optional": True})


@dataclass(frozen=True)
class RowSpread:
    """One row on several boards, each board's energy divided by its factor.

    Attributes:
        instruction: Catalogue name.
        opt_level: Optimization level.
        protocol: Measuring protocol.
        operands: Operand pattern.
        sass: What one copy became on all of these boards.
        sass_per_ptx: SASS instructions for one copy.
        boards: How many boards have an energy for it.
        energy_pj: Geometric mean of their energies on the reference board's scale, pJ.
        ci95_pj: Half-width of that mean's 95% interval, pJ: repeats on each board, and boards in general.
        scatter: Standard deviation of their logarithms: a fraction; None for fewer than two boards.
    """

    instruction: str
    opt_level: OptLevel
    protocol: str
    operands: str
    sass: str
    sass_per_ptx: float
    boards: int
    energy_pj: float
    ci95_pj: float
    scatter: float | None

    @property
    def key(self) -> tuple[str, ...]:
        """What the row is about, as `TableRow.key`."""
        return self.instruction, self.opt_level, self.protocol, self.operands


@dataclass(frozen=True)
class BoardSpread:
    """Several boards of one GPU model beside each other (boards.json).

    Attributes:
        reference: Run whose board has the factor 1.
        boards: Every board, the reference first.
        rows: Every row that any board has an energy for.
    """

    reference: str
    boards: tuple[BoardFactor, ...]
    rows: tuple[RowSpread, ...]


def read_board_spread(folder: Path) -> BoardSpread | None:
    """Read a table's file about other boards, None where there is none.

    Raises:
        InputError: The file cannot be read, or does not fit.
    """
    path = folder / BOARDS
    return codec.decode(BoardSpread, codec.read_json(path), Place(path)) if path.exists() else None


def write_board_spread(folder: Path, spread: BoardSpread) -> None:
    """Write boards.json atomically, a row a line."""
    write_text(folder / BOARDS, codec.to_lines(spread))
