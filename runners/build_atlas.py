"""Write what runs of one GPU model say of each other: boards.json of every table that comes with ptxbench.

    python runners/build_atlas.py
    python runners/build_atlas.py --judge  # writes nothing: how often a board keeps to the others' mean

run_spread.json says how much a row differs from run to run beyond its interval, on one board and from
board to board, which docs/accuracy.md has as a table; boards.json how the rows of a table differ between
boards. Both are of the table.csv of every run `table-*`, `board-*` and `zeros-*`, and `operands-moving`,
below results/GPU: all of them ran the same machine code by the same protocol. Of `law-*` they take equal
halves and fewer lanes, of catalogue instructions. Of several runs of one board
the first by name counts, and later ones give the rows that it lacks. A second run of a board (`-repeat`,
`-after`) says only how it repeats. Rows that are withdrawn are left out, and `imprecise` ones where another
board has them. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from board_means import board_spread, clock_log
from page_blocks import with_block
from run_spread import SETTINGS, run_spread

from ptxbench.analysis.board_spread import BoardRun
from ptxbench.analysis.large_steps import LARGE
from ptxbench.core.condition import Pattern
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.storage.atomic import write_text
from ptxbench.storage.board_spread import BoardSpread, write_board_spread
from ptxbench.storage.known_rows import measured_rows
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.run_spread import RunSpread, SpreadTerm, write_run_spread
from ptxbench.storage.schema import TableRow
from ptxbench.storage.shipped import SHIPPED
from ptxbench.storage.table import TABLE, read_table

RESULTS = Path(__file__).parents[1] / "results"
PAGE = RESULTS.parent / "docs" / "accuracy.md"
_HEADINGS = (
    *("GPU", "rows of", "pairs", "boards", "added"),
    *("beyond both before", "beyond both now", "on boards left out"),
)
_KINDS = {
    "same_board": "two runs of one board",
    "other_board": "two boards",
    "clock_corrected": "two boards, with a corrected clock",
}
# The run that comes with ptxbench, by GPU; its board has the factor 1.
REFERENCES = {"h100": "table-57c3", "h200": "table-6eda"}
# A second run of the same rows on a board that has one already.
_AGAIN = ("-repeat", "-after")
# Runs whose first batch held a product of sparse matrices: all of their rows are at the upper level. By how
# much six other runs of H100s say, in which both levels were seen: factors of 1.08 to 1.136.
_AT_UPPER_LEVEL = frozenset({"table-1241", "table-c080", "zeros-8c28"})
_UPPER_LEVEL, _UPPER_LEVEL_ERROR = math.log(1.12), 0.02
# Runs that have the rows of a board.
_RUNS = (
    *("table-*", "board-*", "zeros-*", "operands-moving", "compiler-*", "halves-*", "lanes-*", "tensor-*"),
    # A law's tensor products are of boards whose factor nothing else tells.
    *("law-*/core", "law-*/lanes"),
)
# What only a law of operands asks about, its instructions and its operands, is on docs/operands.md.
_OF_LAW = "law."
_PATTERNS = (Pattern.RANDOM, Pattern.ZEROS, Pattern.UNIFORM, Pattern.HALVES)


def main() -> int:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", action="store_true", help="print how the means hold on boards left out")
    if parser.parse_args().judge:
        for name in REFERENCES:
            spread, boards = runs_of(name)
            for of, text in ((spread, "with what rows differ by"), (None, "by their scatter alone")):
                rows, beyond = judged_means(boards, of)
                print(f"{spread.gpu}: {beyond:.1%} of {rows:,} rows beyond the mean of other boards, {text}")
        return 0
    built = {name: build(name) for name in REFERENCES}
    spreads = [spread for spread, _ in built.values()]
    write_run_spread(spreads)
    write_text(PAGE, with_table(PAGE.read_text(encoding="utf-8"), spreads))
    for name, (_, found) in built.items():
        write_board_spread(SHIPPED[name], found)
    return 0


def build(gpu: str) -> tuple[RunSpread, BoardSpread]:
    """Return how much the rows of a table differ from run to run, and how boards differ.

    Args:
        gpu: Name of the table; the board of its run has the factor 1.

    Raises:
        InputError: A run cannot be read.
    """
    spread, (first, *others) = runs_of(gpu)
    return spread, board_spread(first, others, any_rows=True, spread=spread)


def runs_of(gpu: str) -> tuple[RunSpread, list[BoardRun]]:
    """Return how much the rows of a table differ from run to run, and each board's rows, the reference first.

    Args:
        gpu: Name of the table.

    Raises:
        InputError: A run cannot be read.
    """
    results = RESULTS / SHIPPED[gpu].name
    paths = {path for pattern in _RUNS for path in results.glob(pattern) if path.is_dir()}
    ordered = sorted(paths, key=lambda path: (path.name != REFERENCES[gpu], str(path)))
    runs = [run for path in ordered if not path.name.endswith(_AGAIN) and (run := _run(path)).rows]
    repeats = [_run(path) for path in ordered if path.name.endswith(_AGAIN)]
    spread = run_spread(runs[0].manifest.gpu.name, runs, repeats)
    boards: dict[str, BoardRun] = {}
    for run in runs:
        boards[run.board] = _with_more(boards[run.board], run) if run.board in boards else run
    return spread, list(boards.values())


def judged_means(boards: Sequence[BoardRun], spread: RunSpread | None) -> tuple[int, float]:
    """Return how many rows of a board others have, too, and which share is beyond both their intervals.

    Each board is set beside the mean of all others, apart from one factor.

    Args:
        boards: The boards.
        spread: How much rows differ from board to board; None: as far as the boards of a mean scatter.
    """
    rows = beyond = 0
    for place, left_out in enumerate(boards):
        first, *others = (board for at, board in enumerate(boards) if at != place)
        means = {(*row.key, row.sass): row for row in board_spread(first, others, True, spread).rows}
        common = [(row, means[key]) for key, row in left_out.by_code.items() if key in means]
        # Too few rows do not tell the factor between them.
        if len(common) < SETTINGS.min_common:
            continue
        gamma = spread.clock_exponent if spread else (math.nan, math.nan)
        clocks = [clock_log(row, mean.clock_mhz, gamma) for row, mean in common]
        logs = [
            math.log(row.dynamic_pj / mean.energy_pj) + log
            for (row, mean), (log, _) in zip(common, clocks, strict=True)
        ]
        factor = median(logs)
        for (row, mean), log, (_, error) in zip(common, logs, clocks, strict=True):
            added = spread.ci95(row, other_boards=True) if spread else 0.0
            of_clock = COVERAGE_FACTOR * error
            allowed = math.hypot(mean.ci95_pj / mean.energy_pj, row.relative_ci95, added, of_clock)
            rows += 1
            beyond += abs(log - factor) > allowed
    return rows, beyond / rows


def with_table(page: str, spreads: Sequence[RunSpread]) -> str:
    """Return a page whose table, between its two marks, says how much rows differ from run to run.

    Args:
        page: Markdown.
        spreads: What it shall say.
    """
    return with_block(page, "spread", spread_table(spreads))


def spread_table(spreads: Sequence[RunSpread]) -> str:
    """Return how much rows differ from run to run, in Markdown."""
    lines = [f"| {' | '.join(_HEADINGS)} |", f"| --- | --- |{' ---: |' * (len(_HEADINGS) - 2)}"]
    for spread in spreads:
        for name, kind in _KINDS.items():
            term: SpreadTerm | None = getattr(spread, name)
            if term is not None:
                shares = (term.beyond_before, term.beyond, term.beyond_held_out)
                cells = (
                    f"{term.pairs:,}",
                    str(term.boards),
                    f"± {term.ci95:.2%}",
                    *map("{:.1%}".format, shares),
                )
                lines.append(f"| {' | '.join((spread.gpu, kind, *cells))} |")
    return "\n".join(lines) + "\n"


def _with_more(first: BoardRun, later: BoardRun) -> BoardRun:
    """Return a board's run with the rows of a later run of it that the first lacks, or has `imprecise`.

    A process that ran a product of sparse matrices has all of its rows a tenth higher (docs/accuracy.md).
    Where the rows that both runs have differ by more than 3% the later run is brought to the first.
    """
    known = {row.key: row.dynamic_pj for row in first.rows if row.dynamic_pj > 0}
    logs = [
        math.log(row.dynamic_pj / known[row.key])
        for row in later.rows
        if known.get(row.key, 0) and row.dynamic_pj > 0
    ]
    factor = math.exp(median(logs)) if len(logs) >= SETTINGS.min_common else 1.0
    if abs(math.log(factor)) > LARGE:
        later = replace(later, rows=tuple(_scaled(row, 1 / factor) for row in later.rows))
    best = {row.key: row for row in later.rows}
    for row in first.rows:
        if row.key not in best or _worth(row) >= _worth(best[row.key]):
            best[row.key] = row
    return replace(first, rows=tuple(best.values()))


def _scaled(row: TableRow, factor: float) -> TableRow:
    return replace(row, dynamic_pj=row.dynamic_pj * factor, dynamic_ci95_pj=row.dynamic_ci95_pj * factor)


def _worth(row: TableRow) -> tuple[bool, bool]:
    return row.status is Status.OK, row.status.has_number


def _run(folder: Path) -> BoardRun:
    manifest = read_run_manifest(folder)
    every = read_table(folder / TABLE)
    rows = [row for row in every if not row.instruction.startswith(_OF_LAW) and row.operands in _PATTERNS]
    name = str(folder.relative_to(RESULTS / folder.relative_to(RESULTS).parts[0]))
    run = BoardRun(name, manifest, measured_rows(rows, manifest))
    if run.name in _AT_UPPER_LEVEL:
        return replace(run, above=_UPPER_LEVEL, above_error=_UPPER_LEVEL_ERROR)
    return run


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"build_atlas: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
