"""Write Table I of Arafa et al. (2020) for both GPUs: every row at -O0 and -O3, by three methods.

    python runners/table_one.py                        # prints the tables
    python runners/table_one.py --write                # puts them into studies/published/table_one.md
    python runners/table_one.py --plot docs/images/table1_power.png    # draws their Figures 3 and 4

Eq. 1 of each row is that of the runs `table1*` below results/. Of a merged row the instruction is shown that
the runs have at -O0 and -O3, if any, without .ftz where there is a choice. The picture needs the readings of
`table1`: `python runners/archive_readings.py restore results/nvidia-h200/table1 results/nvidia-h100/table1`.
Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from page_blocks import with_block

from ptxbench.catalogue.arafa import load_arafa_table
from ptxbench.catalogue.load import load_catalogue
from ptxbench.core.condition import ARAFA, OptLevel
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.status import Status
from ptxbench.report.figure import new_figure, require_picture, save
from ptxbench.report.row_trials import row_trials
from ptxbench.report.text import number
from ptxbench.storage.atomic import write_text
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import PJ_PER_NJ, TableRow
from ptxbench.storage.shipped import SHIPPED
from ptxbench.storage.table import TABLE, read_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "studies" / "published" / "table_one.md"
# Where two runs have a row, the first of these counts; the last are in the order of their names.
FIRST = ("table1", "table1-o3")
LEVELS = (OptLevel.O3, OptLevel.O0)
PUBLISHED = ("volta", "turing")
# What the paper's Figures 3 and 4 show.
DRAWN = ("add.u32", "div.u32")
_NJ_PER_UJ = 1e3
_PANEL_IN = (4.6, 2.5)

Rows = Mapping[tuple[str, OptLevel], TableRow]


def main() -> int:
    """Print the tables, write them into their page, or draw the power."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write them into {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the power of both kernels on both GPUs"
    )
    arguments = parser.parse_args()
    if arguments.plot is not None:
        plot(arguments.plot)
        return 0
    tables = {name: table(eq1_rows(name)) for name in SHIPPED}
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        for name, text in tables.items():
            page = with_table(page, name, text)
        write_text(PAGE, page)
    else:
        print("\n\n".join(f"{name}\n\n{text}" for name, text in tables.items()))
    return 0


def with_table(page: str, name: str, text: str) -> str:
    """Return a page with the table of a GPU between its marks."""
    return with_block(page, f"table1-{name}", f"{text}\n")


def eq1_rows(name: str) -> Rows:
    """Return the rows by Eq. 1 that the runs of a GPU have, by instruction and level."""
    folder = ROOT / "results" / SHIPPED[name].name
    runs = sorted(folder.glob("table1*"), key=lambda run: (run.name not in FIRST, run.name))
    found: dict[tuple[str, OptLevel], TableRow] = {}
    for run in runs:
        for row in read_table(run / TABLE):
            if row.protocol == ARAFA and row.status is Status.OK:
                found.setdefault((row.instruction, row.opt_level), row)
    return found


def table(rows: Rows) -> str:
    """Return the rows of Table I of one GPU as Markdown, in nJ."""
    heads = [f"-{level}: {what}" for level in LEVELS for what in ("SMA", "PAPI-style", "MTSM")]
    heads += [f"{at.capitalize()} -{level}" for level in LEVELS for at in PUBLISHED]
    lines = [
        f"| row of Table I | instruction | {' | '.join(heads)} |",
        "| --- | --- |" + " ---: |" * len(heads),
    ]
    published = {(one.row, one.optimization, one.architecture): one.mtsm_uj for one in load_arafa_table()}
    for paper in dict.fromkeys(row for row, _, _ in published):
        name = _shown(paper, rows)
        ours = [cell for level in LEVELS for cell in _cells(rows.get((name, level)))]
        theirs = [
            number(_NJ_PER_UJ * published.get((paper, level, at), math.nan))
            for level in LEVELS
            for at in PUBLISHED
        ]
        lines.append(f"| {paper} | `{name}` | {' | '.join([*ours, *theirs])} |")
    return "\n".join(lines)


def _shown(paper: str, rows: Rows) -> str:
    """Return the instruction of a merged row that is there at -O0 and -O3, without .ftz if it can be."""
    names = [row.name for row in load_catalogue() if row.paper == paper]
    return max(names, key=lambda name: (sum((name, level) in rows for level in LEVELS), ".ftz" not in name))


def _cells(row: TableRow | None) -> Iterator[str]:
    if row is None:
        yield from ("-", "-", "-")
        return
    yield from (number(row.sma_pj / PJ_PER_NJ), number(row.papi_pj / PJ_PER_NJ))
    yield f"{number(row.mtsm_pj / PJ_PER_NJ)} ± {number(row.mtsm_ci95_pj / PJ_PER_NJ, 2)}"


def plot(path: Path) -> None:
    """Draw the power of the last launch of two kernels on each GPU, its begin and end marked.

    Raises:
        InputError: matplotlib or the readings are missing, or the picture cannot be written.
    """
    require_picture(path)
    width_in, height_in = _PANEL_IN
    figure = new_figure(width_in * len(DRAWN), height_in * len(SHIPPED))
    panels = figure.subplots(len(SHIPPED), len(DRAWN), squeeze=False, sharey="row")
    for of_gpu, (name, home) in zip(panels, SHIPPED.items(), strict=True):
        with RunFolder.open(ROOT / "results" / home.name / "table1") as folder:
            rows = {row.instruction: row for row in folder.rows() if row.opt_level is OptLevel.O0}
            trials = row_trials(folder)
        for axes, instruction in zip(of_gpu, DRAWN, strict=True):
            if rows[instruction].subject not in trials:
                raise InputError(f"results/{home.name}/table1 has no readings; restore them first (--help)")
            one = trials[rows[instruction].subject]
            axes.plot(one.time_ms, one.power_w, "o-", ms=3, lw=1)
            for at_ms, text in ((0.0, "begin"), (one.duration_ms, "end")):
                axes.axvline(at_ms, color="#b3541e", lw=1)
                axes.annotate(text, (at_ms, 0.04), (2, 0), ("data", "axes fraction"), "offset points")
            axes.set_title(f"{name.upper()}: {instruction} at -O0, by {one.source}", fontsize="small")
            axes.grid(alpha=0.25)
            axes.set_ylim(0, 1.2 * max(one.power_w))
            axes.set_xlabel("ms after the kernel's begin")
        of_gpu[0].set_ylabel("power, W")
    save(figure, path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"table_one: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
