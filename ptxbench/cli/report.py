"""`ptxbench report`: a run's table as text, Markdown, JSON or a picture."""

from __future__ import annotations

from pathlib import Path

import click

from ptxbench.cli.options import json_option, plot_option


@click.command(name="report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@plot_option("the dynamic energies")
@click.option("--all-rows", is_flag=True, help="Show the rows that the run did not reach, too.")
@json_option
def command(run: Path, markdown: bool, plot: Path | None, all_rows: bool, as_json: bool) -> None:
    """Print the table of a run folder, or draw it.

    Rows that a run did not reach (--budget-minutes) are counted in one line; --json has them all.
    """
    from ptxbench.core.condition import ARAFA, DYNAMIC
    from ptxbench.report.summary import summary_table
    from ptxbench.report.text import (
        markdown_rates,
        markdown_table,
        not_reached_sentence,
        print_rates,
        print_tables,
        reached,
        rows_as_json,
    )
    from ptxbench.storage.run_folder import RunFolder

    with RunFolder.open(run) as folder:
        rows, info = folder.rows(), folder.manifest.gpu
    if plot is not None:
        from ptxbench.report.plot import plot_energies

        plot_energies(rows, info, plot)
    if as_json:
        click.echo(rows_as_json(rows, info))
        return
    shown = rows if all_rows else reached(rows)
    if markdown:
        click.echo(summary_table(shown))
        for protocol in (ARAFA, DYNAMIC):
            click.echo(markdown_table(shown, protocol))
        click.echo(markdown_rates(shown))
    elif plot is None:
        print_tables(shown, info)
        print_rates(shown, info)
    if (markdown or plot is None) and len(shown) < len(rows):
        click.echo(not_reached_sentence(len(rows) - len(shown)))
