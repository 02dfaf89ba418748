"""`ptxbench report`: the tables of runs in one of several formats, or as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import all_rows_option, json_option, plot_option
from ptxbench.cli.parameters import FormatName, Size

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(name="report")
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--format",
    "form",
    type=FormatName(),
    help="Print this format (default: by the ending of --out, or text).",
)
@plot_option("the dynamic energies")
@click.option(
    "--rows", type=click.IntRange(1, 1000), help="Draw so many rows in a column of the picture (default: 60)."
)
@click.option(
    "--size", type=Size(), help="Width and height of a page of the picture in inches, such as 8x11."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write: a file (default: standard output)."
)
@all_rows_option
@json_option
def command(
    runs: tuple[Path, ...],
    form: str | None,
    plot: Path | None,
    rows: int | None,
    size: tuple[float, float] | None,
    out: Path | None,
    all_rows: bool,
    as_json: bool,
) -> None:
    """Print the tables of run folders, or of a table that comes with ptxbench (h100, h200), or draw one.

    Formats for people (text, markdown, latex, html) leave out rows that a run did not reach
    (--budget-minutes), and say how many. Formats for programs (json, csv) have every row. Both latex and html
    show several runs side by side. The html format is one page for a browser that needs no network. It has
    search, filters, plots and exports. --json is short for --format json. With --plot alone, no table is
    printed; a picture of many rows has columns and pages (NAME-2.png, or pages of one PDF).

    Folders of `ptxbench roofline run` have a page of their own with --format html: interactive figures, with
    the runs side by side. `ptxbench roofline show` prints them.
    """
    from ptxbench.model.atlas import open_atlas
    from ptxbench.report.formats import RunReport, format_by_ending, render_report
    from ptxbench.report.row_trials import row_trials
    from ptxbench.report.text_table import output_width
    from ptxbench.storage.atomic import require_file
    from ptxbench.storage.folder_kind import Kind, kind_of
    from ptxbench.storage.location import require_outside
    from ptxbench.storage.run_folder import RunFolder

    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other.")
    if plot is not None and len(runs) > 1:
        raise click.UsageError("--plot draws one run; name one.")
    if out is not None:
        require_file(out)
    name = "json" if as_json else form or format_by_ending(out)
    rooflines = [run for run in runs if kind_of(run)[0] is Kind.ROOFLINE]
    if rooflines:
        _report_rooflines(rooflines, [run for run in runs if run not in rooflines], name, plot, out)
        return
    reports = []
    for run in runs:
        atlas = open_atlas(run)
        with RunFolder.open(atlas.path) as folder:
            require_outside(folder.path, out, plot)
            trials = row_trials(folder) if name == "html" else {}
            reports.append(RunReport.of(atlas, all_rows, folder.kernels, trials))
    if plot is not None:
        from ptxbench.report.plot import PageSize, plot_energies

        page = PageSize(*size) if size else None
        for path in plot_energies(reports[0].rows, reports[0].gpu, plot, rows, page):
            click.echo(f"ptxbench: wrote {path}", err=True)
    if as_json or form or out is not None or plot is None:
        _give(render_report(name, reports, output_width() if out is None else None), out)


def _report_rooflines(
    runs: Sequence[Path], others: Sequence[Path], form: str, plot: Path | None, out: Path | None
) -> None:
    """Write the page of rooflines; exit code 1 where one of them has no line."""
    from ptxbench.core.errors import InputError
    from ptxbench.report.roofline_page import missing_fits, read_roofline, render_rooflines
    from ptxbench.storage.location import require_outside

    for run in runs:
        require_outside(run, out)
    if others:
        raise InputError(f"{runs[0]} is a roofline and {others[0]} is none: make a page of each kind")
    if form != "html" or plot is not None:
        raise InputError(
            f"{runs[0]} is a roofline: --format html makes its page, `ptxbench roofline show` the rest"
        )
    reports = [read_roofline(run) for run in runs]
    _give(render_rooflines(reports), out)
    missing = missing_fits(reports)
    for line in missing:
        click.echo(f"ptxbench: {line}", err=True)
    if missing:
        sys.exit(1)


def _give(text: str, out: Path | None) -> None:
    """Print a report, or write it into a file."""
    if out is None:
        click.echo(text)
        return
    from ptxbench.storage.atomic import write_text

    write_text(out, text + "\n")
    click.echo(f"ptxbench: wrote {out}", err=True)
