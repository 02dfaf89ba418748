"""`ptxbench list`: what the catalogue holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from ptxbench.cli.command import command_of
from ptxbench.cli.options import target_of
from ptxbench.cli.output import print_json, print_table, say_found
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import OPT_LEVELS, Category, Json, OptionalPatterns

if TYPE_CHECKING:
    from ptxbench.catalogue.model import Expectation, Instruction

_SASS_COLUMNS = 40


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench list`.

    Attributes:
        ptx_type: List only this register type, such as f32.
        opcode: List only instructions that become this SASS opcode at -O0 or -O3.
    """

    patterns: OptionalPatterns = ()
    category: Category = ""
    ptx_type: Annotated[str, Opt(flag="--type")] = ""
    target: Annotated[str | None, target_of("default: any")] = None
    opcode: Annotated[str, Opt(flag="--sass")] = ""
    as_json: Json = False


@command_of(_Options, "list")
def command(options: _Options) -> None:
    """List the instructions that ptxbench can measure (default: all), and the SASS that each becomes."""
    from ptxbench.catalogue.search import find
    from ptxbench.catalogue.select import matching_instructions
    from ptxbench.core.target import find_target

    selection = find(options.patterns)
    rows = matching_instructions(
        selection,
        options.category,
        options.ptx_type,
        options.opcode,
        find_target(options.target) if options.target else None,
    )
    say_found(selection)
    if options.as_json:
        print_json({"instructions": [asdict(row) for row in rows]})
        return
    print_table(
        ("instruction", "category", "type", "for each", *(f"SASS at -{level}" for level in OPT_LEVELS)),
        [_cells(row) for row in rows],
        optional=("category", "for each", "type"),
    )


def _cells(row: Instruction) -> tuple[str, ...]:
    return (row.name, row.category, row.type, row.unit, *_sass(row))


def _sass(row: Instruction) -> tuple[str, ...]:
    """Return the SASS columns; what cannot be measured says so, and `show` says why."""
    from ptxbench.core.condition import OptLevel

    if row.refused:
        return tuple("refused" for _ in OPT_LEVELS)
    return tuple(_short(row.expected(OptLevel(level))) for level in OPT_LEVELS)


def _short(expected: Expectation) -> str:
    """Return a SASS column that leaves space for the others; `show` and --json have all of it."""
    if len(expected.text) <= _SASS_COLUMNS:
        return expected.text
    total = sum(count for _, count in expected.counts)
    return f"{total:g} of {len(expected.counts)} kinds"
