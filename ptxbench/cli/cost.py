"""`ptxbench cost`: what an instruction costs on every GPU that was measured."""

from __future__ import annotations

from pathlib import Path

import click

from ptxbench.cli.options import all_rows_option, json_option
from ptxbench.cli.output import print_json
from ptxbench.cli.parameters import FormatName


@click.command(name="cost")
@click.argument("pattern")
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    help="The GPU: name of a table that comes with ptxbench, such as h200 (may be repeated; default: all).",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Table to take energies from: folder of a run (may be repeated; with --gpu, beside its table).",
)
@click.option("--format", "form", type=FormatName(), help="Print this format (default: text).")
@all_rows_option
@json_option
def command(
    pattern: str,
    gpus: tuple[str, ...],
    tables: tuple[Path, ...],
    form: str | None,
    all_rows: bool,
    as_json: bool,
) -> None:
    """Print what an instruction costs: energy with its 95% interval, SASS, and where it was measured.

    PATTERN is a name, such as fma.rn.f32, or a pattern of names, such as 'mma.*'. Without --gpu or --table
    it looks into every table that comes with ptxbench. For a pattern of names the text leaves out rows that
    no board has reached (--all-rows prints them); csv and json have every row. The other formats are those
    of `ptxbench report`.
    """
    from ptxbench.model.atlas import open_atlas
    from ptxbench.report.cost import (
        costs_csv,
        costs_document,
        costs_report,
        costs_text,
        find_costs,
        is_glob,
        reached,
    )
    from ptxbench.report.text_table import output_width
    from ptxbench.storage.shipped import find_shipped, shipped_names

    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other.")
    names = gpus or (() if tables else shipped_names())
    # One that is named twice would look like two boards that agree.
    opened = [
        *(open_atlas(find_shipped(name), pattern, name) for name in dict.fromkeys(map(str.lower, names))),
        *(open_atlas(table, pattern) for table in dict.fromkeys(tables)),
    ]
    costs = find_costs(pattern, opened)
    if as_json or form == "json":
        print_json(costs_document(costs, opened))
    elif form == "csv":
        click.echo(costs_csv(costs))
    elif form not in (None, "text"):
        click.echo(costs_report(form, pattern, opened, all_rows=all_rows))
    else:
        shown = costs if all_rows or not is_glob(pattern) else reached(costs) or costs
        click.echo(costs_text(shown, opened, output_width()))
        if len(shown) < len(costs):
            click.echo(f"{len(costs) - len(shown)} more rows that no board has reached (--all-rows)")
