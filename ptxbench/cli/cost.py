"""`ptxbench cost`: what an instruction costs on every GPU that was measured, and what can be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import AllRows, target_of
from ptxbench.cli.output import print_json, print_table, say_found
from ptxbench.cli.parameters import FormatName
from ptxbench.cli.terminal import as_written
from ptxbench.core.condition import OptLevel
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import OPT_LEVELS, Category, Json, OptionalPatterns, tables_of
from ptxbench.core.target import find_target
from ptxbench.report.text_table import output_width
from ptxbench.storage.shipped import SHIPPED, find_table, shipped_names, table_name

if TYPE_CHECKING:
    from ptxbench.catalogue.model import Expectation, Instruction
    from ptxbench.catalogue.operations import Operation
    from ptxbench.catalogue.search import Selection

_SASS_COLUMNS = 40


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench cost`.

    Attributes:
        is_list: List the instructions that can be measured, and the SASS that each becomes, without energies.
        ptx_type: Take only this register type, such as f32.
        opcode: Take only instructions that become this SASS opcode at -O0 or -O3.
        form: Print this format (default: text).
        is_why: Print below the table why a row has no number, or what to know about the one that it has.
    """

    patterns: OptionalPatterns = ()
    tables: Annotated[tuple[Path, ...], tables_of("all that come with ptxbench", former="gpu")] = ()
    is_list: Annotated[bool, Opt(flag="--list")] = False
    category: Category = ""
    ptx_type: Annotated[str, Opt(flag="--type")] = ""
    opcode: Annotated[str, Opt(flag="--sass")] = ""
    target: Annotated[str | None, target_of("default: any")] = None
    form: Annotated[str | None, Opt(kind=FormatName(), flag="--format")] = None
    is_why: Annotated[bool, Opt(flag="--why")] = False
    all_rows: AllRows = False
    as_json: Json = False


@command_of(_Options, "cost")
def command(options: _Options) -> None:
    """Print what an instruction costs: energy with its 95% interval, SASS, and where it was measured.

    'gemm 4096x4096x4096 bf16' names an operation of a library: it is looked up in tables of operations, and
    between their rows worked out with an interval (docs/howto/operations.md). gemm, softmax or another kind
    alone prints all rows of it, and operations those of all; with --format html as a page.

    Without --table it looks into every table that comes with ptxbench. For all but whole names the text
    leaves out rows that no board has measured (--all-rows prints them); csv and json have every row. Other
    formats are those of `ptxbench report`. --list names what can be measured (default: all).
    """
    from ptxbench.catalogue.operations import named_kinds, parse_operation
    from ptxbench.catalogue.search import find, search
    from ptxbench.catalogue.select import matching_instructions, narrowed

    if options.as_json and options.form not in (None, "json"):
        raise click.UsageError(f"--json and --format {options.form} exclude each other.")
    form = "json" if options.as_json else options.form or "text"
    operations = [named_kinds(text) or parse_operation(text) for text in options.patterns]
    if any(operations):
        of_instructions = {
            "--list": options.is_list,
            "--why": options.is_why,
            "--category": options.category,
            "--type": options.ptx_type,
            "--sass": options.opcode,
            "--target": options.target,
        }
        _require_none("an operation is no instruction", of_instructions)
        _print_operations(operations, options, form)
        return
    patterns = tuple(dict.fromkeys(options.patterns))
    conditions = (options.category, options.ptx_type, options.opcode)
    target = find_target(options.target) if options.target else None
    if options.is_list:
        of_costs = {"--table": options.tables, "--why": options.is_why, "--all-rows": options.all_rows}
        _require_none("--list names what can be measured, whatever was", of_costs)
        selection = find(patterns)
        rows = matching_instructions(selection, *conditions, target)
        say_found(selection)
        _print_list(rows, form)
        return
    has_conditions = any(conditions) or target is not None
    if not patterns and not has_conditions:
        raise click.UsageError("name an instruction, or list them with --list.")
    for pattern in map(str.lower, patterns):
        if pattern in SHIPPED:
            raise click.UsageError(
                f"{pattern} is a table, not an instruction: give --table {pattern} beside a name, or see "
                f"all of it by `ptxbench report {pattern}`."
            )
    found = search(patterns or ("*",))
    if has_conditions:
        selection = narrowed(found, matching_instructions(found, *conditions, target))
    else:
        selection = found
    _print_costs(found, selection, options, form)


def _require_none(why: str, given: Mapping[str, object]) -> None:
    """Refuse options that would change nothing."""
    if unfit := [name for name, value in given.items() if value]:
        raise click.UsageError(f"{why}: leave out {unfit[0]}.")


def _print_operations(
    named: Sequence[tuple[str, ...] | Operation | None], options: _Options, form: str
) -> None:
    from ptxbench.catalogue.operations import Operation
    from ptxbench.model.operation_cost import measured_costs, operation_costs
    from ptxbench.report.operation_costs import COLUMNS, NUMBERS, cells, document
    from ptxbench.report.operations_page import render_operations
    from ptxbench.storage.operations_file import SHIPPED_FILE, read_operations

    if form not in ("text", "json", "html"):
        raise click.UsageError(f"operations are printed as text, html or --json, not --format {form}.")
    if not all(named):
        raise click.UsageError("name operations or instructions, not both at once.")
    shipped = (Path(name) for name, folder in SHIPPED.items() if (folder / SHIPPED_FILE).exists())
    tables = dict.fromkeys(map(table_name, options.tables or shipped))
    rows = [row for table in tables for row in read_operations(find_table(table))]
    kinds = {kind for one in named if isinstance(one, tuple) for kind in one}
    if form == "html":
        click.echo(render_operations([row for row in rows if row.op_name in kinds or row.operation in named]))
        return
    whole = (row for row in rows if row.op_name in kinds)
    found = sorted(measured_costs(whole), key=lambda one: one.operation.order)
    found += [cost for one in named if isinstance(one, Operation) for cost in operation_costs(rows, one)]
    if form == "json":
        print_json(document(found))
    else:
        print_table(COLUMNS, [cells(one) for one in found], NUMBERS)


def _print_list(rows: Sequence[Instruction], form: str) -> None:
    """Print instructions, and the SASS that each becomes."""
    if form == "json":
        print_json({"instructions": [asdict(row) for row in rows]})
    elif form == "text":
        print_table(
            ("instruction", "category", "type", "for each", *(f"SASS at -{level}" for level in OPT_LEVELS)),
            [(row.name, row.category, row.type, row.unit, *_sass(row)) for row in rows],
            optional=("category", "for each", "type"),
        )
    else:
        raise click.UsageError(f"--list prints text or --json, not --format {form}.")


def _sass(row: Instruction) -> tuple[str, ...]:
    """Return the SASS columns; what cannot be measured says so, and `show` says why."""
    if row.refused:
        return tuple("refused" for _ in OPT_LEVELS)
    return tuple(_short(row.expected(OptLevel(level))) for level in OPT_LEVELS)


def _short(expected: Expectation) -> str:
    """Return a SASS column that leaves space for the others; `show` and --json have all of it."""
    if len(expected.text) <= _SASS_COLUMNS:
        return expected.text
    total = sum(count for _, count in expected.counts)
    return f"{total:g} of {len(expected.counts)} kinds"


def _print_costs(found: Selection, selection: Selection, options: _Options, form: str) -> None:
    from ptxbench.model.atlas import open_atlas
    from ptxbench.report.cost import (
        costs_csv,
        costs_document,
        costs_report,
        costs_text,
        find_costs,
        reached,
        reasons_text,
    )

    # One that is named twice would look like two boards that agree.
    tables = dict.fromkeys(map(table_name, options.tables or map(Path, shipped_names())))
    opened = [open_atlas(table, selection.has) for table in tables]
    costs = find_costs(selection, opened)
    say_found(found)
    if form == "json":
        print_json(costs_document(costs, opened))
    elif form == "csv":
        click.echo(costs_csv(costs), file=as_written())
    elif form != "text":
        click.echo(costs_report(form, selection, opened, all_rows=options.all_rows), file=as_written())
    else:
        shown = costs if options.all_rows or selection.is_exact else reached(costs) or costs
        click.echo(costs_text(shown, opened, output_width(), is_short=options.is_why))
        if options.is_why:
            click.echo(f"\n{reasons_text(shown, output_width())}")
        if len(shown) < len(costs):
            click.echo(f"{len(costs) - len(shown)} more rows that no board has measured (--all-rows --why)")
