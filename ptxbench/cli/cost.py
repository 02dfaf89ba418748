"""`ptxbench cost`: what an instruction costs on every GPU that was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import AllRows
from ptxbench.cli.output import print_json
from ptxbench.cli.parameters import FormatName
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench cost`.

    Attributes:
        gpus: The GPU: name of a table that comes with ptxbench, such as h200 (may be repeated; default: all).
        tables: Table to take energies from: folder of a run (may be repeated; with --gpu, beside its table).
        form: Print this format (default: text).
    """

    pattern: Annotated[str, Arg()]
    gpus: Annotated[tuple[str, ...], Opt(flag="--gpu")] = ()
    tables: Annotated[tuple[Path, ...], Opt(metavar="RUN", flag="--table")] = ()
    form: Annotated[str | None, Opt(kind=FormatName(), flag="--format")] = None
    all_rows: AllRows = False
    as_json: Json = False


@command_of(_Options, "cost")
def command(options: _Options) -> None:
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

    if options.as_json and options.form not in (None, "json"):
        raise click.UsageError(f"--json and --format {options.form} exclude each other.")
    names = options.gpus or (() if options.tables else shipped_names())
    # One that is named twice would look like two boards that agree.
    opened = [
        *(
            open_atlas(find_shipped(name), options.pattern, name)
            for name in dict.fromkeys(map(str.lower, names))
        ),
        *(open_atlas(table, options.pattern) for table in dict.fromkeys(options.tables)),
    ]
    costs = find_costs(options.pattern, opened)
    if options.as_json or options.form == "json":
        print_json(costs_document(costs, opened))
    elif options.form == "csv":
        click.echo(costs_csv(costs))
    elif options.form not in (None, "text"):
        click.echo(costs_report(options.form, options.pattern, opened, all_rows=options.all_rows))
    else:
        shown = costs if options.all_rows or not is_glob(options.pattern) else reached(costs) or costs
        click.echo(costs_text(shown, opened, output_width()))
        if len(shown) < len(costs):
            click.echo(f"{len(costs) - len(shown)} more rows that no board has reached (--all-rows)")
