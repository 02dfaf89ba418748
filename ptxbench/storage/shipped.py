"""Tables by name: those that come with ptxbench, beside the folders of runs."""

from __future__ import annotations

from pathlib import Path

from ptxbench.core.errors import InputError

TABLES = Path(__file__).parents[1] / "tables"
# Each is a run of results/ without its readings and kernels; tests/storage/test_shipped.py holds them equal.
SHIPPED = {"h100": TABLES / "nvidia-h100", "h200": TABLES / "nvidia-h200"}


def shipped_names() -> tuple[str, ...]:
    """Return the names of the tables that come with ptxbench."""
    return tuple(SHIPPED)


def table_name(table: str | Path) -> Path:
    """Return a table as it is named, a name that comes with ptxbench in small letters."""
    name = str(table).lower()
    return Path(name) if name in SHIPPED else Path(table)


def find_table(table: str | Path) -> Path:
    """Return the folder of a table.

    Args:
        table: The folder of a run, or the name of a table that comes with ptxbench, such as "h200".

    Raises:
        InputError: It is neither.
    """
    place = SHIPPED.get(str(table), Path(table))
    if not place.is_dir():
        raise InputError(
            f"{table} holds no run, and no table that comes with ptxbench has this name"
            f" (those are {', '.join(SHIPPED)}); name the folder of a run"
        )
    return place
