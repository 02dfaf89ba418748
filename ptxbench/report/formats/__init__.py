"""Formats of `ptxbench report --format`: each module of this package is one, called by its name.

A format is a module with `render(reports, width) -> str`: the text of one or several runs, for a terminal of
so many columns (None: no terminal). A new one needs this one file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.plugins import load_plugin, plugin_names
from ptxbench.core.status import Status
from ptxbench.model.atlas import Atlas
from ptxbench.storage.board_spread import BoardSpread
from ptxbench.storage.kernels import KernelStore
from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.schema import TableRow

if TYPE_CHECKING:
    from ptxbench.report.row_trials import RowTrials

_BY_ENDING = {
    **{"": "text", ".txt": "text", ".html": "html", ".csv": "csv"},
    **{".json": "json", ".md": "markdown", ".tex": "latex"},
}


@dataclass(frozen=True)
class RunReport:
    """One run that is shown.

    Attributes:
        path: Its folder.
        gpu: Its GPU.
        rows: All of its rows.
        all_rows: Whether formats for people show the rows, too, that the run did not reach.
        manifest: When and how it was measured, None where that is not known.
        spread: How boards of this GPU differ, None where one board was measured.
        kernels: PTX and SASS of what ran, None where they are not at hand.
        trials: What each row rests on, by `TableRow.subject`; empty where the readings are not at hand.
    """

    path: str
    gpu: GpuInfo
    rows: tuple[TableRow, ...]
    all_rows: bool = False
    manifest: TableManifest | None = None
    spread: BoardSpread | None = None
    kernels: KernelStore | None = None
    trials: Mapping[str, RowTrials] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        atlas: Atlas,
        all_rows: bool = False,
        kernels: KernelStore | None = None,
        trials: Mapping[str, RowTrials] | None = None,
    ) -> Self:
        """Return what an atlas has, with the kernels and trials of its run where they are at hand."""
        return cls(
            *(atlas.name, atlas.gpu, atlas.rows, all_rows),
            *(atlas.manifest, atlas.spread, kernels, trials or {}),
        )

    @property
    def shown(self) -> tuple[TableRow, ...]:
        """The rows for people; formats for programs take `rows`."""
        if self.all_rows:
            return self.rows
        return tuple(row for row in self.rows if row.status is not Status.NOT_REACHED)

    @property
    def footer(self) -> str:
        """A line on the rows that are not shown, "" where all are."""
        count = len(self.rows) - len(self.shown)
        rows = "1 row" if count == 1 else f"{count} rows"
        return (
            f"{rows} not reached in the time that the run had; `ptxbench report --all-rows` shows them, too"
            if count
            else ""
        )


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return plugin_names(__path__)


def format_by_ending(path: Path | None) -> str:
    """Return the format that a file's ending names; text where there is no file, or no ending.

    Raises:
        InputError: The ending names none.
    """
    ending = "" if path is None else path.suffix.lower()
    if ending not in _BY_ENDING:
        raise InputError(f"{path}: the ending {ending} names no format; give `format`")
    return _BY_ENDING[ending]


def other_format(path: Path, name: str) -> str:
    """Return the format that a file's ending names where that is another than `name`; "" of text or none."""
    named = _BY_ENDING.get(path.suffix.lower(), "text")
    return "" if named in ("text", name) else named


def render_report(name: str, reports: Sequence[RunReport], width: int | None) -> str:
    """Return runs in one format.

    Args:
        name: The format.
        reports: The runs.
        width: Columns of the terminal, None where there is none.

    Raises:
        InputError: There is no such format.
    """
    text = load_plugin(__name__, __path__, name, "format").render(reports, width)
    assert isinstance(text, str)  # noqa: S101
    return text
