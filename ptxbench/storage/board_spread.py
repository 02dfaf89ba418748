"""How one instruction's energy differs between boards of one GPU model (boards.json of a table)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from ptxbench.catalogue.load import load_named
from ptxbench.core.condition import OptLevel, lanes_key
from ptxbench.core.estimate import SD_OVER_MAD
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place
from ptxbench.storage.precision import judged
from ptxbench.storage.schema import TableRow

BOARDS = "boards.json"
# A factor so many robust standard deviations from the median is no usual board's: such a board ran a sparse
# product before its rows (docs/accuracy.md).
_FAR, _LEAST_FAR = 4.0, 0.05


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
    factor_error: float = 0.0


def factors_text(boards: Sequence[BoardFactor]) -> str:
    """Return between which factors boards lie, and apart from these any that is far from all others.

    Args:
        boards: Boards, one at least; those whose factor no common row tells are passed over.
    """
    known = [board for board in boards if not board.factor_error] or boards
    factors = sorted(board.factor for board in known)
    middle = median(factors)
    reach = max(_LEAST_FAR, _FAR * SD_OVER_MAD * median(abs(factor - middle) for factor in factors))
    usual = [factor for factor in factors if abs(factor - middle) <= reach]
    far = [f"one {factor:.3f}" for factor in factors if abs(factor - middle) > reach]
    return " and ".join([f"{min(usual):.3f} to {max(usual):.3f}", *far])


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
        note: What the first of these boards says of its row, or one whose loops ran at unlike clocks.
        clock_mhz: Mean of the clocks that its target ran at, NaN where that is not kept.
        lanes: Active lanes of each warp.
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
    note: str = field(default="", metadata=codec.UNLESS_DEFAULT)
    clock_mhz: float = math.nan
    lanes: int = field(default=WARP, metadata=codec.UNLESS_DEFAULT)

    @property
    def key(self) -> tuple[str, ...]:
        """What the row is about, as `TableRow.key`."""
        return self.instruction, self.opt_level, self.protocol, self.operands, *lanes_key(self.lanes)


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


# What is said of a row that no board has reached.
NO_BOARD = "no board has measured it yet; `ptxbench table NAME` does on yours"


def read_board_spread(
    folder: Path, wanted: Callable[[str], bool] | None = None, level: OptLevel | None = None
) -> BoardSpread | None:
    """Read a table's file about other boards, None where there is none.

    Args:
        folder: The table's folder.
        wanted: Whether the rows of an instruction are wanted, by its name; others are not looked at.
            None: all of them are.
        level: Optimization level of the rows that are wanted, where `wanted` is given; None: of any.

    Raises:
        InputError: The file cannot be read, or does not fit.
    """
    path = folder / BOARDS
    if not path.exists():
        return None
    document = codec.read_json(path)
    if wanted is not None and isinstance(document, dict) and isinstance(document.get("rows"), list):
        document["rows"] = [row for row in document["rows"] if _is_wanted(row, wanted, level)]
    return codec.decode(BoardSpread, document, Place(path))


def _is_wanted(row: object, wanted: Callable[[str], bool], level: OptLevel | None) -> bool:
    """Return whether a row must be read: what is no row is, and refused."""
    name = row.get("instruction") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(name, str):
        return True
    return wanted(name) and (level is None or row.get("opt_level") == level)


def with_other_boards(rows: Sequence[TableRow], spread: BoardSpread | None) -> tuple[TableRow, ...]:
    """Return a table's rows; those that its run lacks have the mean of other boards, on its scale.

    So has an `imprecise` row that other boards know better. A row that none of them reached says so: why the
    table's own run did not is of no use to who looks it up.

    Args:
        rows: Rows of the table.
        spread: How boards of this GPU differ, None where one board was measured.
    """
    boards = by_row(rows, spread)
    known = {row.key for row in rows}
    lacking = [one for key, one in boards.items() if key not in known]
    described = {row.instruction: (row.category, row.unit) for row in rows}
    # Only what is newer than the table is looked up: the whole catalogue takes 0.2 s.
    newer = frozenset(one.instruction for one in lacking).difference(described)
    if newer:
        described |= {name: (kind.category, kind.unit) for name, kind in load_named(newer).items()}
    added = [_of_others(one, *described[one.instruction]) for one in lacking if one.instruction in described]
    found = (_from_others(row, boards.get(row.key)) for row in rows)
    return (*found, *added) if spread is None else (*map(_of_no_board, found), *added)


def _of_no_board(row: TableRow) -> TableRow:
    return replace(row, reason=NO_BOARD) if row.status is Status.NOT_REACHED else row


def _of_others(one: RowSpread, category: str, unit: str) -> TableRow:
    """Return a row that the table does not have: of a newer instruction, or on operands or at a level."""
    mean = TableRow.without_numbers(
        instruction=one.instruction,
        category=category,
        opt_level=one.opt_level,
        protocol=one.protocol,
        operands=one.operands,
        unit=unit,
        lanes=one.lanes,
        **_mean(one),
    )
    return judged((mean,))[0]


def by_row(rows: Sequence[TableRow], spread: BoardSpread | None) -> dict[tuple[str, ...], RowSpread]:
    """Return what boards have for each row: of its machine code, or of that which most boards ran."""
    codes = {row.key: row.sass for row in rows}
    keyed = [(one.key, one) for one in (spread.rows if spread else ())]

    def worth(of: tuple[tuple[str, ...], RowSpread]) -> tuple[bool, int]:
        key, one = of
        return one.sass == codes.get(key), one.boards

    best: dict[tuple[str, ...], RowSpread] = {}
    for key, one in sorted(keyed, key=worth, reverse=True):
        best.setdefault(key, one)
    return best


def _from_others(row: TableRow, spread: RowSpread | None) -> TableRow:
    if row.status not in (Status.NOT_REACHED, Status.WITHDRAWN, Status.IMPRECISE) or spread is None:
        return row
    found = _mean_row(row, spread)
    return row if row.status is found.status is Status.IMPRECISE else found


def _mean_row(row: TableRow, spread: RowSpread) -> TableRow:
    """Return a row with the mean of other boards."""
    return judged((replace(row, **_mean(spread)),))[0]


def _mean(spread: RowSpread) -> dict[str, Any]:
    """Return the columns that the mean of boards gives a row."""
    boards = "1 other board" if spread.boards == 1 else f"{spread.boards} other boards"
    return {
        "sass": spread.sass,
        "sass_per_ptx": spread.sass_per_ptx,
        "dynamic_pj": spread.energy_pj,
        "dynamic_ci95_pj": spread.ci95_pj,
        "clock_mhz": spread.clock_mhz,
        "status": Status.OK,
        "reason": "; ".join(filter(None, (f"measured on {boards}", spread.note))),
    }


def write_board_spread(folder: Path, spread: BoardSpread) -> None:
    """Write boards.json atomically, a row a line."""
    write_text(folder / BOARDS, codec.to_lines(spread))
