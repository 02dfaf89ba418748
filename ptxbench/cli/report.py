"""`ptxbench report`: the tables of runs in one of several formats, or as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from ptxbench.cli.options import all_rows_option, json_option, plot_option
from ptxbench.cli.parameters import FormatName, Size


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
    """
    from ptxbench.report.cost import with_other_boards
    from ptxbench.report.formats import RunReport, format_by_ending, render_report
    from ptxbench.report.row_trials import row_trials
    from ptxbench.report.text_table import output_width
    from ptxbench.storage.atomic import require_file, write_text
    from ptxbench.storage.board_spread import read_board_spread
    from ptxbench.storage.run_folder import RunFolder
    from ptxbench.storage.shipped import find_table

    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other.")
    if plot is not None and len(runs) > 1:
        raise click.UsageError("--plot draws one run; name one.")
    if out is not None:
        require_file(out)
    name = "json" if as_json else form or format_by_ending(out)
    reports = []
    for run in runs:
        with RunFolder.open(find_table(run)) as folder:
            spread = read_board_spread(folder.path)
            reports.append(
                RunReport(
                    *(
                        str(run),
                        folder.manifest.gpu,
                        tuple(with_other_boards(folder.rows(), spread)),
                        all_rows,
                    ),
                    *(folder.manifest, spread, folder.kernels),
                    row_trials(folder) if name == "html" else {},
                )
            )
    if plot is not None:
        from ptxbench.report.plot import PageSize, plot_energies

        page = PageSize(*size) if size else None
        for path in plot_energies(reports[0].rows, reports[0].gpu, plot, rows, page):
            click.echo(f"ptxbench: wrote {path}", err=True)
    if as_json or form or out is not None or plot is None:
        if out is None:
            click.echo(render_report(name, reports, output_width()))
        else:
            write_text(out, render_report(name, reports, None) + "\n")
            click.echo(f"ptxbench: wrote {out}", err=True)
