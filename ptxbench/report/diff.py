"""Two runs set beside each other, row by row, and how well they agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxbench.analysis.board_spread import MIN_ROWS, ln_clock_ratio
from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.model.atlas import open_atlas
from ptxbench.sensors.base import SourceName
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow
from ptxbench.storage.shipped import SHIPPED

# Their rows have an energy that is compared.
_PROTOCOLS = (ARAFA, DYNAMIC)
_PERCENTILE = 95

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RunSide:
    """One of the two runs.

    Attributes:
        path: Its folder.
        run_id: Its name.
        ptxbench_version: What measured it.
        commit: Git commit of that, None where it is not known.
        source: Power source of its numbers.
        gpus: Every board that it met, each with the hash of its UUID.
    """

    path: str
    run_id: str
    ptxbench_version: str
    commit: str | None
    source: SourceName
    gpus: tuple[GpuInfo, ...]


@dataclass(frozen=True)
class RowDiff:
    """One row of either run beside the same of the other.

    Attributes:
        instruction: Catalogue name.
        opt_level: Optimization level of the assembler.
        protocol: Measuring protocol.
        operands: Operand pattern.
        lanes: Active lanes of each warp.
        a: Number of the first run, NaN where it has none.
        a_ci95: Half-width of its 95% interval, NaN where none is known.
        b: Number of the second run.
        b_ci95: Half-width of its 95% interval.
        ratio: b / a, NaN unless both are above 0.
        beyond: Whether they differ by more than both intervals, and what each run's rows share, together;
            None where an interval is not known.
        same_sass: Whether the instruction became the same machine code; None where a run does not tell.
        a_status: Validity in the first run, None where it does not hold the row.
        b_status: Validity in the second run.
        a_sass: Machine code of one copy in the first run, "" where it does not tell.
        b_sass: Machine code of one copy in the second run.
        a_clock_mhz: SM clock of the target in the first run, NaN where it is not known.
        b_clock_mhz: SM clock of the target in the second run.
    """

    instruction: str
    opt_level: OptLevel
    protocol: str
    operands: str
    lanes: int
    a: float
    a_ci95: float
    b: float
    b_ci95: float
    ratio: float
    beyond: bool | None
    same_sass: bool | None
    a_status: Status | None
    b_status: Status | None
    a_sass: str
    b_sass: str
    a_clock_mhz: float
    b_clock_mhz: float

    @property
    def at_unlike_clocks(self) -> bool:
        """Whether the two targets ran at other clocks."""
        return ln_clock_ratio(self.a_clock_mhz, self.b_clock_mhz) != 0

    @property
    def compared(self) -> bool:
        """Whether both runs have a number."""
        return math.isfinite(self.ratio)

    def change(self, factor: float) -> float:
        """Return by what fraction the second number differs from the first times `factor`."""
        return self.ratio / factor - 1

    def moved(self, factor: float) -> bool | None:
        """Return whether that is more than both rows' own intervals; None where an interval is not known."""
        if self.beyond is None:
            return None
        return abs(self.change(factor)) > math.hypot(self.a_ci95 / self.a, self.b_ci95 / self.b)


@dataclass(frozen=True)
class Agreement:
    """How the rows of one protocol agree; NaN where too few rows are compared (one, or three for the factor).

    Attributes:
        protocol: Measuring protocol.
        rows: Rows that both runs have a number for.
        judged: Those of them whose intervals are known.
        beyond: Those with intervals that differ beyond both; 5% would by chance alone.
        median: Median of |ratio - 1|.
        p95: 95th percentile of |ratio - 1|.
        factor: The one factor between the runs: the median of the ratios.
        median_left: Median of |ratio / factor - 1|: what is left once the factor is taken out.
        p95_left: 95th percentile of the same.
        beyond_left: Those with intervals that then differ beyond both rows' own.
        explained: Share of the sum of |ln ratio| that the factor takes away, from 0 to 1.
    """

    protocol: str
    rows: int
    judged: int
    beyond: int
    median: float
    p95: float
    factor: float
    median_left: float
    p95_left: float
    beyond_left: int
    explained: float


@dataclass(frozen=True)
class RunDiff:
    """Two runs compared.

    Attributes:
        a: The first run.
        b: The second run.
        same_board: Whether both ran on one and the same board alone.
        rows: Every row of either, in the first run's order.
        agreements: One a protocol that both runs have a number for.
    """

    a: RunSide
    b: RunSide
    same_board: bool
    rows: tuple[RowDiff, ...]
    agreements: tuple[Agreement, ...]


@dataclass(frozen=True)
class Mover:
    """A row that differs beyond both intervals once the factor between the runs is taken out.

    Attributes:
        row: The row.
        change: By what fraction it differs apart from the factor.
    """

    row: RowDiff
    change: float


def movers(found: RunDiff) -> tuple[Mover, ...]:
    """Return the rows that differ beyond both intervals and the factor of their protocol, largest first.

    Without a factor (fewer than three rows) a row moves where it differs beyond both intervals and what the
    rows of each run share.
    """
    factors = {one.protocol: one.factor for one in found.agreements}
    moved = []
    for row in found.rows:
        factor = factors.get(row.protocol, math.nan)
        if not row.compared:
            continue
        if math.isnan(factor):
            if row.beyond:
                moved.append(Mover(row, row.change(1.0)))
        elif row.moved(factor):
            moved.append(Mover(row, row.change(factor)))
    return tuple(sorted(moved, key=lambda mover: -abs(math.log1p(mover.change))))


def over_limit(found: RunDiff, limit: float) -> tuple[RowDiff, ...]:
    """Return the rows whose numbers differ by more than `limit`, and by more than both intervals if known.

    Args:
        found: Two runs compared.
        limit: Fraction of the first run's number.
    """
    return tuple(
        row for row in found.rows if row.compared and row.beyond is not False and abs(row.ratio - 1) > limit
    )


def diff_runs(a: RunFolder, b: RunFolder) -> RunDiff:
    """Compare the tables of two runs, with intervals that another run of the same board or boards keeps to.

    Compared with another board, a table that comes with ptxbench has what other boards of its model tell,
    too, at its own board's scale.

    Args:
        a: The first run: ratios are the other over this one.
        b: The second run.

    Raises:
        InputError: A table cannot be read, or no row has a number in both.
    """
    sides = _side(a), _side(b)
    boards = [{gpu.uuid_hash for gpu in side.gpus} for side in sides]
    same_board = boards[0] == boards[1] and len(boards[0]) == 1
    rows = diff_rows(
        _rows(a, other_boards=not same_board),
        _rows(b, other_boards=not same_board),
        a.manifest.part.level_error or 0.0,
        b.manifest.part.level_error or 0.0,
    )
    if not any(row.compared for row in rows):
        raise InputError(f"{a.path} and {b.path} have no row in common with a number in both; compare others")
    agreements = tuple(
        agreement(protocol, rows)
        for protocol in _PROTOCOLS
        if any(row.compared for row in rows if row.protocol == protocol)
    )
    return RunDiff(*sides, same_board, rows, agreements)


def diff_rows(
    a: Sequence[TableRow], b: Sequence[TableRow], a_level_error: float = 0.0, b_level_error: float = 0.0
) -> tuple[RowDiff, ...]:
    """Return every row of either table beside the same of the other, in the order of the first.

    Args:
        a: Rows of the first run.
        b: Rows of the second run.
        a_level_error: Standard error of the factor that the dynamic rows of the first run share.
        b_level_error: The same of the second run.
    """
    shared = 1.96 * math.hypot(a_level_error, b_level_error)
    first, second = ({row.key: row for row in rows} for rows in (a, b))
    return tuple(
        _row_diff(first.get(key), second.get(key), shared) for key in dict.fromkeys((*first, *second))
    )


def agreement(protocol: str, rows: Sequence[RowDiff]) -> Agreement:
    """Return how the rows of one protocol agree.

    The factor is the median of the ratios r, which makes the sum of |ln(r / factor)| least; the share
    explained is 1 - sum |ln(r / factor)| / sum |ln r|.

    Args:
        protocol: Which rows.
        rows: Rows of any protocol.
    """
    shown = [row for row in rows if row.protocol == protocol and row.compared]
    judged = [row for row in shown if row.beyond is not None]
    ratio = np.array([row.ratio for row in shown], dtype=np.float64)
    nan = math.nan
    counts = protocol, len(shown), len(judged), sum(row.beyond is True for row in judged)
    off = _off_by(ratio) if len(ratio) else (nan, nan)
    if len(ratio) < MIN_ROWS:
        return Agreement(*counts, *off, nan, nan, nan, 0, nan)
    # The median of logarithms, so that swapping the runs inverts the factor also for an even number of rows.
    factor = math.exp(float(np.median(np.log(ratio))))
    beyond_left = sum(row.moved(factor) is True for row in judged)
    return Agreement(*counts, *off, factor, *_off_by(ratio / factor), beyond_left, _explained(ratio, factor))


def _off_by(ratio: Float64s) -> tuple[float, float]:
    """Return median and 95th percentile of |ratio - 1|."""
    off = np.abs(ratio - 1)
    return float(np.median(off)), float(np.percentile(off, _PERCENTILE))


def _explained(ratio: Float64s, factor: float) -> float:
    whole = float(np.abs(np.log(ratio)).sum())
    # Runs that agree to the last digit have no spread to explain.
    return 1 - float(np.abs(np.log(ratio / factor)).sum()) / whole if whole > 0 else math.nan


def _row_diff(a: TableRow | None, b: TableRow | None, shared: float) -> RowDiff:
    held = a or b
    assert held is not None  # noqa: S101 (a key comes from one of the two)
    (a_value, a_ci95), (b_value, b_ci95) = _number(a), _number(b)
    allowed = math.hypot(a_ci95, b_ci95, shared * a_value)
    return RowDiff(
        instruction=held.instruction,
        opt_level=held.opt_level,
        protocol=held.protocol,
        operands=held.operands,
        lanes=held.lanes,
        a=a_value,
        a_ci95=a_ci95,
        b=b_value,
        b_ci95=b_ci95,
        ratio=b_value / a_value if a_value > 0 and b_value > 0 else math.nan,
        beyond=abs(b_value - a_value) > allowed if math.isfinite(allowed) else None,
        same_sass=a.sass == b.sass if a and b and a.sass and b.sass else None,
        a_status=a.status if a else None,
        b_status=b.status if b else None,
        a_sass=a.sass if a else "",
        b_sass=b.sass if b else "",
        a_clock_mhz=a.clock_mhz if a else math.nan,
        b_clock_mhz=b.clock_mhz if b else math.nan,
    )


def _number(row: TableRow | None) -> tuple[float, float]:
    """Return what is compared of a row, and the half-width of its 95% interval."""
    if row is None or row.status is not Status.OK:
        return math.nan, math.nan
    return row.energy_pj, row.ci95_pj


def _rows(folder: RunFolder, *, other_boards: bool) -> Sequence[TableRow]:
    if other_boards and folder.path in SHIPPED.values():
        return open_atlas(folder.path).rows
    return folder.known_rows(other_boards=other_boards)


def _side(folder: RunFolder) -> RunSide:
    manifest = folder.manifest
    return RunSide(
        path=next((name for name, path in SHIPPED.items() if path == folder.path), str(folder.path)),
        run_id=manifest.part.run_id,
        ptxbench_version=manifest.ptxbench_version,
        commit=manifest.commit,
        source=manifest.part.source,
        gpus=manifest.gpus,
    )
