"""`ptxbench cost`: what an instruction costs on every GPU that was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import AllRows
from ptxbench.cli.output import print_json, say_found
from ptxbench.cli.parameters import FormatName
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import Json, Patterns


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench cost`.

    Attributes:
        gpus: The GPU: name of a table that comes with ptxbench, such as h200 (may be repeated; default: all).
        tables: Table to take energies from: folder of a run (may be repeated; with --gpu, beside its table).
        form: Print this format (default: text).
    """

    patterns: Patterns
    gpus: Annotated[tuple[str, ...], Opt(flag="--gpu")] = ()
    tables: Annotated[tuple[Path, ...], Opt(metavar="RUN", flag="--table")] = ()
    form: Annotated[str | None, Opt(kind=FormatName(), flag="--format")] = None
    all_rows: AllRows = False
    as_json: Json = False


@command_of(_Options, "cost")
def command(options: _Options) -> None:
    """Print what an instruction costs: energy with its 95% interval, SASS, and where it was measured.

    Without --gpu or --table it looks into every table that comes with ptxbench. For all but whole names the
    text leaves out rows that no board has reached (--all-rows prints them); csv and json have every row. The
    other formats are those of `ptxbench report`.
    """
    from ptxbench.catalogue.search import search
    from ptxbench.model.atlas import open_atlas
    from ptxbench.report.cost import (
        costs_csv,
        costs_document,
        costs_report,
        costs_text,
        find_costs,
        reached,
    )
    from ptxbench.report.text_table import output_width
    from ptxbench.storage.shipped import find_shipped, shipped_names

    if options.as_json and options.form not in (None, "json"):
        raise click.UsageError(f"--json and --format {options.form} exclude each other.")
    names = options.gpus or (() if options.tables else shipped_names())
    selection = search(dict.fromkeys(options.patterns))
    # One that is named twice would look like two boards that agree.
    opened = [
        *(
            open_atlas(find_shipped(name), selection.has, name)
            for name in dict.fromkeys(map(str.lower, names))
        ),
        *(open_atlas(table, selection.has) for table in dict.fromkeys(options.tables)),
    ]
    costs = find_costs(selection, opened)
    say_found(selection)
    if options.as_json or options.form == "json":
        print_json(costs_document(costs, opened))
    elif options.form == "csv":
        click.echo(costs_csv(costs))
    elif options.form not in (None, "text"):
        click.echo(costs_report(options.form, selection, opened, all_rows=options.all_rows))
    else:
        shown = costs if options.all_rows or selection.is_exact else reached(costs) or costs
        click.echo(costs_text(shown, opened, output_width()))
        if len(shown) < len(costs):
            click.echo(f"{len(costs) - len(shown)} more rows that no board has reached (--all-rows)")
