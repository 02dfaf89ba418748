"""Many boards beside each other, as text."""

from __future__ import annotations

import math

from ptxbench.core.printable import number
from ptxbench.report.text_table import Column, Kind, render_table
from ptxbench.storage.fleet_file import BoardLine, FleetFile, ModelSpread

_NUMBER = Kind.NUMBER
_COLUMNS = (
    Column("board"),
    Column("run", drop=1),
    Column("rows", _NUMBER),
    Column("factor", _NUMBER),
    Column("scatter", _NUMBER),
    Column("C", _NUMBER, drop=3),
    Column("static W", _NUMBER, drop=2),
    Column("outlier"),
)


def fleet_text(document: FleetFile, width: int | None) -> str:
    """Return the boards as tables for people, one for each GPU model.

    Args:
        document: The comparison.
        width: Columns of the terminal, None where there is none.
    """
    parts = [_model_text(model, width) for model in document.models]
    parts += [f"{one.run}: left out: {one.reason}" for one in document.left_out]
    return "\n".join(parts) or "no run has a row"


def _model_text(model: ModelSpread, width: int | None) -> str:
    factors = [board.factor for board in model.boards if math.isfinite(board.factor)]
    lines = [f"{model.gpu}: {len(model.boards)} board{'s' * (len(model.boards) != 1)}"]
    lines.append(render_table(_COLUMNS, [_cells(board) for board in model.boards], width))
    if len(factors) > 1 and model.rows:
        lines.append(
            f"one factor each, {min(factors):.3f} to {max(factors):.3f} of the median board; with it removed,"
            f" {model.rows} rows scatter by {model.row_scatter:.2%} (median)"
        )
    return "\n".join((*lines, ""))


def _cells(board: BoardLine) -> tuple[str, ...]:
    return (
        *(board.board, board.run, str(board.rows), number(board.factor, ".4f")),
        *(number(board.scatter, ".2%"), number(board.temperature_c, ".1f"), number(board.static_w, ".1f")),
        board.outlier or "-",
    )
