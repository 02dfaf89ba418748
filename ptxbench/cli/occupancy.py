"""`ptxbench occupancy`: how full a kernel makes an SM, by block size, without a GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import plot_of, target_of
from ptxbench.cli.output import print_json, print_table
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import BY_DIMENSION, Json

if TYPE_CHECKING:
    from ptxbench.tune.blocks.code_occupancy import Occupancy


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench occupancy`.

    Attributes:
        entry: Name of the entry, if the file has several.
        shared: Dynamic shared memory of a block: a number, or an expression such as '4 * threads'.
        registers: Registers of a thread, in place of the code's own.
        blocks: Threads per block (may be repeated; default: every multiple of 32).
    """

    file: Annotated[Path, Arg()]
    entry: str | None = None
    target: Annotated[str | None, target_of("default: that of a cubin; for PTX sm_90a")] = None
    shared: Annotated[str, Opt(metavar="BYTES")] = "0"
    registers: Annotated[int | None, Opt(1, 255)] = None
    blocks: Annotated[
        tuple[int | tuple[int, ...], ...], Opt(1, 1024, flag="--block", metavar=BY_DIMENSION)
    ] = ()
    plot: Annotated[Path | None, plot_of("occupancy over the block size, with what limits it")] = None
    as_json: Json = False


@command_of(_Options, "occupancy")
def command(options: _Options) -> None:
    """Show how many blocks of each size one SM holds, and what limits them.

    FILE is a cubin, or PTX, which is assembled for --target (default: sm_90a). Registers, static shared
    memory and launch bounds are the code's. These are Eqs. 1 to 5 of Guerreiro et al. (2015), with the
    registers of each sub-partition by themselves. The last column numbers the sizes over 80% in the order in
    which `ptxbench tune kernel --strategy guerreiro` tries them.
    """
    from ptxbench.tune.blocks.code_occupancy import THREADS, code_occupancy, read_code
    from ptxbench.tune.expression import parse

    bytes_of_block = parse(options.shared, "--shared", (THREADS,))
    sizes = [one if isinstance(one, int) else math.prod(one) for one in options.blocks]
    found = code_occupancy(
        read_code(options.file, options.target, options.entry),
        bytes_of_block,
        options.registers,
        sizes,
    )
    if options.plot is not None:
        from ptxbench.report.occupancy_plot import plot_occupancy

        plot_occupancy(found, options.plot)
    if options.as_json:
        print_json(_document(found))
    else:
        _print(found)


def _order(found: Occupancy) -> dict[int, int]:
    """Return the place of each block size in the order of trying."""
    from ptxbench.tune.blocks.guerreiro import ordered_distributions

    return {one.threads: n for n, one in enumerate(ordered_distributions(found.sizes), start=1)}


def _document(found: Occupancy) -> dict[str, object]:
    order = _order(found)
    return {
        "kernel": found.entry,
        "target": found.target,
        "registers": found.registers,
        "static_shared_bytes": found.static_bytes,
        "sizes": [
            {
                "threads": one.threads,
                "blocks": one.blocks,
                "occupancy": one.occupancy,
                "limited_by": one.limiters,
                "by_blocks": one.by_blocks,
                "by_warps": one.by_warps,
                "by_shared": one.by_shared,
                "by_registers": one.by_registers,
                "order": order.get(one.threads),
            }
            for one in found.sizes
        ],
    }


def _print(found: Occupancy) -> None:
    order = _order(found)
    click.echo(f"{found.entry} on {found.target}: {found.registers} registers a thread,")
    click.echo(f"{found.static_bytes} bytes of static shared memory a block")
    rows = [
        (
            str(one.threads),
            str(one.blocks),
            f"{one.occupancy:.1%}",
            str(one.by_blocks),
            str(one.by_warps),
            str(one.by_shared),
            str(one.by_registers),
            ", ".join(one.limiters),
            str(order.get(one.threads, "-")),
        )
        for one in found.sizes
    ]
    limits = ("by blocks", "by warps", "by shared", "by registers")
    headings = ("threads", "blocks", "occupancy", *limits, "limited by", "order")
    print_table(headings, rows, [h for h in headings if h != "limited by"], limits)
