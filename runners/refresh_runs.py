"""Write the tables of studies/h200/runs.md: every kept table of an H200, its repeats, and how boards differ.

    python runners/refresh_runs.py

A run is a folder `table-*` below results/nvidia-h200; one whose name goes on behind that of another
(`table-6eda-repeat`) is a repeat of it; `board-*` are too short for a table and only say how boards differ. A
figure is bold where it is what was aimed at. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from page_blocks import with_block

from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.status import Status
from ptxbench.report.diff import Agreement, agreement, diff_rows
from ptxbench.storage.atomic import replacing
from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.run_spread import find_run_spread, widened
from ptxbench.storage.schema import TableRow

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "nvidia-h200"
PAGE = ROOT / "studies" / "h200" / "runs.md"
# All others are set beside this one, by all of today's protocol on the quietest board.
REFERENCE = "table-6eda"
# Runs of a few rows only say how a board repeats, and of fewer common rows nothing.
_MIN_ROWS, _MIN_COMMON = 100, 5
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
# What was aimed at: rows, minutes, kernel time a row, share of intervals under 1%, median interval; and of
# repeats the median and the 95th percentile of the differences.
_ROWS, _MINUTES, _ROW_S, _NARROW, _MEDIAN, _AGREE, _AGREE_P95 = 400, 25, 1.5, 0.80, 0.003, 0.01, 0.03
# Columns of the three tables; the first so many are texts.
_RUNS = (
    "run",
    "board",
    "requested",
    "rows",
    "instructions",
    "minutes",
    "s a row",
    "under 1%",
    "median interval",
    "shared factor",
)
_LEFT = ("factor", "median left", "95th percentile left", "beyond left")
_REPEATS = ("run", "repeat", "rows", "median", "95th percentile", "beyond", *_LEFT)
_BOARDS = ("run", "rows", *_LEFT)


@dataclass(frozen=True)
class KeptRun:
    """What is shown of a run.

    Attributes:
        name: Name of its folder.
        manifest: Its manifest.
        rows: Its valid dynamic rows, as they were measured.
    """

    name: str
    manifest: TableManifest
    rows: tuple[TableRow, ...]


def main() -> int:
    """Write the tables into the page."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    page = with_tables(PAGE.read_text(encoding="utf-8"), kept_runs(RESULTS))
    with replacing(PAGE) as file:
        file.write(page.encode())
    return 0


def kept_runs(results: Path) -> list[KeptRun]:
    """Return all tables of a folder of results, and what says how boards differ, the newest first.

    Args:
        results: Folder with the runs.

    Raises:
        InputError: A run cannot be read.
    """
    kept = []
    for path in [*results.glob("table-*"), *results.glob("board-*")]:
        with RunFolder.open(path) as folder:
            rows = [r for r in folder.rows() if r.protocol == DYNAMIC and r.status is Status.OK]
            kept.append(KeptRun(path.name, folder.manifest, tuple(rows)))
    return sorted(kept, key=lambda run: run.manifest.created or _LONG_AGO, reverse=True)


def with_tables(page: str, runs: Sequence[KeptRun]) -> str:
    """Return a page whose three tables, each between its two comments, are those of the runs.

    Args:
        page: Markdown.
        runs: All runs, `REFERENCE` among them.

    Raises:
        InputError: A comment is missing, or that run.
    """
    for name, table in (("runs", runs_table), ("repeats", repeats_table), ("boards", boards_table)):
        page = with_block(page, name, table(runs))
    return page


def runs_table(runs: Iterable[KeptRun]) -> str:
    """Return the table of what each run reached."""
    aims = (
        "*aimed at*",
        "",
        "",
        f"{_ROWS}",
        "",
        f"{_MINUTES}",
        f"{_ROW_S}",
        f"{_NARROW:.0%}",
        f"{_MEDIAN:.1%}",
        "",
    )
    lines = [_heading(_RUNS, 2), _line(aims)]
    for run in (run for run in _tables(runs) if len(run.rows) >= _MIN_ROWS):
        cost, scale_ci95 = run.manifest.part.cost, run.manifest.part.scale_ci95
        widths = {level: _widths(run, (level,)) for level in OptLevel}
        both = _widths(run, OptLevel)
        cells = (
            f"`{run.name}`",
            run.manifest.gpu.uuid_hash,
            f"{run.manifest.part.arguments.precision:.2%}",
            _bold(f"{len(run.rows)}", len(run.rows) >= _ROWS),
            f"{len({row.instruction for row in run.rows})}",
            _bold(f"{cost.total_wall_s / 60:.1f}", cost.total_wall_s < 60 * _MINUTES) if cost else "-",
            _bold(f"{cost.kernel_s:.2f}", cost.kernel_s <= _ROW_S) if cost else "-",
            _bold(f"{np.mean(both < 0.01):.0%}", bool(np.mean(both < 0.01) >= _NARROW)),
            _bold(f"{np.median(both):.2%}", bool(np.median(both) < _MEDIAN))
            + f" ({', '.join(f'-{level} {np.median(of):.2%}' for level, of in widths.items() if len(of))})",
            f"± {scale_ci95:.2%}" if scale_ci95 is not None else "-",
        )
        lines.append(_line(cells))
    return "".join(lines)


def repeats_table(runs: Sequence[KeptRun]) -> str:
    """Return the table of how each run agrees with its repeats."""
    lines = [_heading(_REPEATS, 2)]
    for run in _tables(runs):
        for other in runs:
            if other.name.startswith(f"{run.name}-"):
                one = _agreement(run, other)
                if one.rows < _MIN_COMMON:
                    continue
                cells = (
                    f"`{run.name}`",
                    other.name.removeprefix(f"{run.name}-"),
                    f"{one.rows}",
                    _bold(f"{one.median:.2%}", one.median < _AGREE),
                    _bold(f"{one.p95:.2%}", one.p95 < _AGREE_P95),
                    f"{one.beyond}",
                    *_left(one),
                )
                lines.append(_line(cells))
    return "".join(lines)


def boards_table(runs: Sequence[KeptRun]) -> str:
    """Return the table of how each run agrees with `REFERENCE`."""
    reference = next((run for run in runs if run.name == REFERENCE), None)
    if reference is None:
        raise InputError(f"no run {REFERENCE}, beside which all others are set")
    lines = [_heading(_BOARDS, 1)]
    others = [run for run in runs if not _repeats(run) and run is not reference]
    found = [(_agreement(reference, run), run) for run in others]
    found = [pair for pair in found if pair[0].rows >= _MIN_COMMON]
    for one, run in sorted(found, key=lambda pair: pair[0].factor):
        lines.append(_line((f"`{run.name}`", f"{one.rows}", *_left(one))))
    return "".join(lines)


def _repeats(run: KeptRun) -> bool:
    """Return whether a run repeats another."""
    return run.name.count("-") > 1


def _tables(runs: Iterable[KeptRun]) -> list[KeptRun]:
    """Return the tables that repeat no other."""
    return [run for run in runs if run.name.startswith("table-") and not _repeats(run)]


def _agreement(a: KeptRun, b: KeptRun) -> Agreement:
    shared_a, shared_b = (run.manifest.part.level_error or 0.0 for run in (a, b))
    other_boards = a.manifest.gpu.uuid_hash != b.manifest.gpu.uuid_hash
    rows_a, rows_b = (
        widened(run.rows, find_run_spread(run.manifest.gpu), other_boards=other_boards) for run in (a, b)
    )
    return agreement(DYNAMIC, diff_rows(rows_a, rows_b, shared_a, shared_b))


def _left(one: Agreement) -> tuple[str, ...]:
    return (
        f"{one.factor - 1:+.1%}",
        f"{one.median_left:.2%}",
        f"{one.p95_left:.2%}",
        f"{one.beyond_left}",
    )


def _widths(run: KeptRun, levels: Iterable[OptLevel]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the half-widths of the 95% intervals as fractions, shape (rows,)."""
    chosen = set(levels)
    return np.array([abs(r.dynamic_ci95_pj / r.dynamic_pj) for r in run.rows if r.opt_level in chosen])


def _heading(columns: Sequence[str], texts: int) -> str:
    rules = ["---" if place < texts else "---:" for place in range(len(columns))]
    return _line(columns) + _line(rules)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _bold(text: str, met: bool) -> str:
    return f"**{text}**" if met else text


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"refresh_runs: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
