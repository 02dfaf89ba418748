"""`ptxbench estimate`: the energy of a kernel, from a measured table."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.api.estimate_options import EstimateOptions
from ptxbench.cli.command import command_of
from ptxbench.cli.output import encoded, print_encoded, print_table
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import ESTIMATE_TABLE, Json

if TYPE_CHECKING:
    from ptxbench.api.table import Table
    from ptxbench.core.gpu_info import GpuInfo
    from ptxbench.model.estimate import Coverage, KernelEstimate

_FILLS_SHOWN = 8
_LINES_SHOWN = 20
_LACKING_SHOWN = 3
_LEAST_LACKING = 0.001


@dataclass(frozen=True, kw_only=True)
class _Options(EstimateOptions):
    """Options of `ptxbench estimate`.

    Attributes:
        against: Another kernel to set beside it, part by part: a file as KERNEL or, with --ncu, a name in the
            same CSV or another CSV with the same kernel.
    """

    kernel: Annotated[str, Arg()] = field()
    table: Annotated[Path | None, ESTIMATE_TABLE] = None
    against: Annotated[str, Opt(metavar="OTHER")] = ""
    as_json: Json = False


@command_of(_Options, "estimate")
def command(options: _Options) -> None:
    """Estimate the energy of KERNEL: a file of PTX or machine code or, with --ncu, part of a kernel's name.

    From a file, the executed instructions are counted along its control-flow graph. Trip counts are those in
    the code, or those of --trips (`--trips 0=128`). Bytes are those of addresses that are affine in thread,
    block and pass, else those of --dram-bytes and --l2-bytes. A CSV of ncu has the executed counts. Without
    --time-s (or gpu__time_duration in the CSV) the time is modelled.
    """
    from ptxbench.api.default_table import default_table
    from ptxbench.api.kernel import estimate_of
    from ptxbench.api.table import load_table

    if options.ncu is None and (options.grid is None or options.block is None):
        raise click.UsageError(
            "give the launch's shape with --grid BLOCKS --block THREADS, or counts with --ncu."
        )
    named, note = (options.table, "") if options.table is not None else default_table()
    measured = load_table(named)
    kernel = options.kernel if options.ncu is not None else Path(options.kernel)
    result = estimate_of(kernel, measured, options)
    if note:
        result = replace(result, notes=(note, *result.notes))
    info = measured._atlas.gpu
    gpu = {"gpu": info.name, "kind": info.kind}
    if options.against:
        other = estimate_of(*_other(options, measured))
        if options.as_json:
            print_encoded(result, {**gpu, "against": encoded(other)})
        else:
            _print_beside(result, other, info)
    elif options.as_json:
        print_encoded(result, gpu)
    else:
        _print(result, info, options.explain, str(options.ncu or ""))


def _other(options: _Options, table: Table) -> tuple[str | Path, Table, _Options]:
    """Return the kernel of --against, the table and its options."""
    if options.ncu is None:
        return Path(options.against), table, options
    if Path(options.against).is_file():
        return options.kernel, table, replace(options, ncu=Path(options.against))
    return options.against, table, options


def _print_beside(result: KernelEstimate, other: KernelEstimate, gpu: GpuInfo) -> None:
    """Print where the joules of two kernels go, the parts that differ most first."""
    click.echo(f"A: {result.kernel}, B: {other.kernel}, on {gpu.title}")
    for name, one in (("A", result), ("B", other)):
        own = f"{100 * one.coverage.own_row:.1f}% of its instructions have own rows"
        click.echo(f"{name}: {_energy_of(one)}; {own}")
    parts = [{part.name: part.energy_j for part in one.parts} for one in (result, other)]
    joules = {name: tuple(of.get(name, 0.0) for of in parts) for name in {**parts[0], **parts[1]}}
    rows = [
        (name, f"{a:.4g}", f"{b:.4g}", f"{b - a:+.4g}", f"{100 * (b - a) / result.known_j:+.1f}")
        for name, (a, b) in sorted(joules.items(), key=lambda one: -abs(one[1][1] - one[1][0]))
    ]
    total = other.known_j - result.known_j
    rows.append(
        (
            "all",
            f"{result.known_j:.4g}",
            f"{other.known_j:.4g}",
            f"{total:+.4g}",
            f"{100 * total / result.known_j:+.1f}",
        )
    )
    headings = ("where", "A, J", "B, J", "B - A, J", "% of A")
    print_table(headings, rows, headings[1:])
    for name, one in (("A", result), ("B", other)):
        for note in one.notes:
            click.echo(f"note on {name}: {note}")


def _print(result: KernelEstimate, gpu: GpuInfo, explain: bool, counts: str) -> None:
    click.echo(f"{result.kernel} on {gpu.title}")
    _print_coverage(result.coverage, counts)
    click.echo(_energy_of(result))
    for phrase in result.missing:
        click.echo(f"not known: {phrase}")
    if result.clock_ratio < 1:
        click.echo(f"at {result.clock_ratio * gpu.max_sm_clock_mhz:.0f} MHz SM clock")
    _print_parts(result, explain)
    _print_lines(result)
    if result.fills:
        click.echo("stand-ins, with their share of the executed instructions:")
    for fill in result.fills[:_FILLS_SHOWN]:
        beside = f" ({fill.source})" if fill.source else ""
        click.echo(f"  {fill.opcode}, {100 * fill.share:.2f}%: {fill.rule}{beside}")
    _print_answers(result)
    for note in result.notes:
        click.echo(f"note: {note}")


def _energy_of(result: KernelEstimate) -> str:
    """Return energy, power and time in a line; without a best value the range alone."""
    if result.missing:
        reach = f"{result.low_j:.4g} to {result.high_j:.4g} J (95%)"
        return f"{reach}, at least {result.time_s:.4g} s: no best value"
    return (
        f"{result.energy_j:.4g} J (95%: {result.low_j:.4g} to {result.high_j:.4g}), {result.power_w:.4g} W,"
        f" {result.time_s:.4g} s{', at the power limit' if result.capped else ''}"
    )


def _print_coverage(coverage: Coverage, counts: str) -> None:
    """Print what of the executed instructions the table knows, and what would help most."""
    from ptxbench.catalogue.common import measuring

    click.echo(
        f"rows of their own: {100 * coverage.own_row:.1f}% of the executed instructions; told with others:"
        f" {100 * coverage.together:.1f}%; stand-ins: {100 * coverage.stand_in:.1f}%"
    )
    most = [(opcode, share) for opcode, share in coverage.lacking if share >= _LEAST_LACKING][:_LACKING_SHOWN]
    if not most:
        return
    names = measuring(opcode for opcode, _ in most)
    shown = [
        f"{opcode} ({100 * share:.1f}%, by {names[opcode]})"
        if opcode in names
        else f"{opcode} ({100 * share:.1f}%, which no instruction tells)"
        for opcode, share in most
    ]
    click.echo(f"without a row, most executed: {', '.join(shown)}")
    if names:
        words = f"--for {shlex.quote(counts)}" if counts else " ".join(dict.fromkeys(names.values()))
        click.echo(f"measure them on your GPU with: ptxbench table {words}")


def _print_parts(result: KernelEstimate, with_errors: bool) -> None:
    rows = []
    for part in result.parts:
        row = [part.name, f"{part.energy_j:.4g}", f"{100 * part.energy_j / result.known_j:.1f}"]
        error = "" if math.isnan(part.error_j) else f"{part.error_j:.2g}"
        rows.append([*row, error] if with_errors else row)
    headings = ("where", "J", "%", "± J") if with_errors else ("where", "J", "%")
    print_table(headings, rows, headings[1:])


def _print_lines(result: KernelEstimate) -> None:
    """Print where the joules go by source line, the files by their names where these are unlike."""
    if not result.lines:
        return
    rows = [
        (
            Path(part.name).name,
            f"{part.energy_j:.4g}",
            f"{100 * part.energy_j / result.known_j:.1f}",
            f"{part.error_j:.2g}",
        )
        for part in result.lines[:_LINES_SHOWN]
    ]
    headings = ("source line", "J", "%", "± J")
    print_table(headings, rows, headings[1:])
    left = result.lines[_LINES_SHOWN:]
    if left:
        click.echo(f"{len(left)} more lines: {sum(part.energy_j for part in left):.4g} J")


def _print_answers(result: KernelEstimate) -> None:
    """Print what models that know less say, with their errors on judged kernels."""
    if not result.answers:
        return
    sets = [f"error %, {one.cases} {one.kernels}" for one in result.answers[0].errors]
    rows = [
        (
            answer.name,
            f"{answer.energy_j:.4g}",
            f"{100 * (answer.energy_j / result.known_j - 1):+.1f}",
            *(f"{one.mean_absolute_pct:.1f}" for one in answer.errors),
        )
        for answer in result.answers
    ]
    headings = ("model", "J", "% from the table's", *sets)
    print_table(headings, rows, headings[1:])
    click.echo(
        "error %: mean absolute error of the energy on kernels that no model was fitted to, with counts by "
        "ncu, measured time and clock"
    )
