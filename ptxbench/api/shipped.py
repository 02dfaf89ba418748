"""Tables by name."""

from __future__ import annotations

from pathlib import Path

from ptxbench.core.errors import InputError

_SHIPPED = {"h200": Path(__file__).parents[2] / "results" / "nvidia-h200" / "table-6eda"}


def find_table(table: str | Path) -> Path:
    """Return the folder of a table that is named, or given as a path.

    Raises:
        InputError: There is none.
    """
    place = _SHIPPED.get(str(table), Path(table))
    if not place.is_dir():
        raise InputError(
            f"no table {str(table)!r}: give the folder of a run, or one of {', '.join(_SHIPPED)}"
        )
    return place
