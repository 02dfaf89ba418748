"""`ptxbench estimate`: the energy of a kernel, from a measured table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from ptxbench.api.estimate_options import EstimateOptions, is_specification, require_code
from ptxbench.cli.command import command_of, of_flags
from ptxbench.cli.output import encoded, print_encoded, print_table
from ptxbench.cli.progress import progress_lines
from ptxbench.core.errors import ArgumentError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import ESTIMATE_TABLE, Json
from ptxbench.storage.atomic import require_file, write_text

if TYPE_CHECKING:
    from ptxbench.api.table import Table
    from ptxbench.model.estimate import KernelEstimate
    from ptxbench.report.sections import Section

_ERROR = "± J"


@dataclass(frozen=True, kw_only=True)
class _Options(EstimateOptions):
    """Options of `ptxbench estimate`.

    Attributes:
        against: Another kernel to set beside it, part by part: a file as KERNEL, or FILE::ENTRY where its
            entry has another name; with --ncu, a name in the same CSV or another CSV with the same kernel.
        html: Write the report as a page for a browser.
    """

    kernel: Annotated[str, Arg()] = field()
    table: Annotated[Path | None, ESTIMATE_TABLE] = None
    against: Annotated[str, Opt(metavar="OTHER")] = ""
    html: Annotated[Path | None, Opt(metavar="FILE")] = None
    as_json: Json = False


@command_of(_Options, "estimate")
def command(options: _Options) -> None:
    """Estimate the energy of KERNEL: a file of PTX or machine code or, with --ncu, part of a kernel's name.

    SPEC.toml, as `tune kernel` takes it, names a kernel with its arrays: it is run in an emulator on some of
    its blocks, which tells what it executes, its bytes and what its operands hold (docs/howto/emulate.md).

    From a file, the executed instructions are counted along its control-flow graph. Trip counts are those in
    the code, or those of --trips (`--trips 0=128`). Bytes are those of addresses that are affine in thread,
    block and pass, else those of --dram-bytes and --l2-bytes. A CSV of ncu has the executed counts. Without
    --time-s (or gpu__time_duration in the CSV) the time is modelled.
    """
    launched = options.ncu is not None or is_specification(options.kernel)
    if not launched and (options.grid is None or options.block is None):
        raise click.UsageError(
            "give the launch's shape with --grid BLOCKS --block THREADS, or counts with --ncu."
        )
    if not launched:
        require_code(Path(options.kernel))
    from ptxbench.api.kernel import estimate_of
    from ptxbench.api.table import load_table
    from ptxbench.model.default_table import default_table

    if options.html is not None:
        _require_page(options.html, options.against)
        options = replace(options, explain=True)
    beside = options
    if options.against:
        options, beside = _own_passes(options, "a"), _own_passes(options, "b")
    named, note = (options.table, "") if options.table is not None else default_table()
    measured = load_table(named)
    kernel = options.kernel if options.ncu is not None else Path(options.kernel)
    with progress_lines() as show:
        result = estimate_of(
            kernel, measured, options, lambda steps: show(0, 0, f"{steps:,} instructions emulated")
        )
    if note:
        result = replace(result, notes=(note, *result.notes))
    info = measured._atlas.gpu
    gpu = {"gpu": info.name, "kind": info.kind}
    if options.against:
        other = _estimate_other(beside, measured)
        if options.as_json:
            print_encoded(result, {**gpu, "against": encoded(other)})
        else:
            _print_beside(result, other, info)
        return
    if options.as_json:
        print_encoded(result, gpu)
    if options.html is not None or not options.as_json:
        _show(result, info, options)


def _show(result: KernelEstimate, gpu: GpuInfo, options: _Options) -> None:
    """Print an estimate, and write its page where one is wanted."""
    from ptxbench.report.estimate import DOCS, sections
    from ptxbench.report.sections import sections_page

    parts = sections(result, gpu, str(options.ncu or ""))
    if options.html is not None:
        write_text(options.html, sections_page(parts, DOCS))
    if not options.as_json:
        _print(parts, options.explain)


def _require_page(html: Path, against: str) -> None:
    """Refuse a page that cannot be written, before anything is computed."""
    if against:
        raise click.UsageError("--html is the page of one kernel; leave --against out.")
    require_file(html)


def _estimate_other(options: _Options, table: Table) -> KernelEstimate:
    """Estimate the kernel of --against."""
    from ptxbench.api.kernel import estimate_of

    try:
        return estimate_of(*_other(options, table))
    except ArgumentError as error:
        if error.argument != "entry":
            raise
        raise ArgumentError("against", f"FILE::ENTRY {error.text}") from error


def _own_passes(options: _Options, kernel: str) -> _Options:
    """Return the options of one of two kernels, "a" or "b": loops and branches are numbered by their code.

    Raises:
        UsageError: One is named, and not whose it is.
    """
    own: dict[str, dict[Any, float]] = {"trips": {}, "probability": {}}
    for name, of_kernel in own.items():
        for place, value in (getattr(options, name) or {}).items():
            whose, sign, number = str(place).lower().partition(":")
            if not sign or whose not in ("a", "b"):
                raise click.UsageError(
                    f"--{name} {place}={value:g}: with --against say whose it is,"
                    f" A:{place}={value:g} or B:{place}={value:g} (B is that of --against)."
                )
            if whose == kernel:
                of_kernel[number] = value
    return replace(options, trips=own["trips"], probability=own["probability"])


def _other(options: _Options, table: Table) -> tuple[str | Path, Table, _Options]:
    """Return the kernel of --against, the table and its options."""
    if options.ncu is None:
        file, sign, entry = options.against.partition("::")
        if sign and not Path(options.against).exists():
            return Path(file), table, replace(options, entry=entry)
        return Path(options.against), table, options
    if Path(options.against).is_file():
        return options.kernel, table, replace(options, ncu=Path(options.against))
    return options.against, table, options


def _print_beside(result: KernelEstimate, other: KernelEstimate, gpu: GpuInfo) -> None:
    """Print where the joules of two kernels go, the parts that differ most first."""
    from ptxbench.report.estimate import energy_line

    click.echo(f"A: {result.kernel}, B: {other.kernel}, on {gpu.title}")
    for name, one in (("A", result), ("B", other)):
        own = f"{100 * one.coverage.own_row:.1f}% of its instructions have own rows"
        click.echo(f"{name}: {energy_line(one)}; {own}")
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
            click.echo(of_flags(f"note on {name}: {note}"))


def _print(parts: Sequence[Section], with_errors: bool) -> None:
    """Print sections without their headings, but for the first."""
    click.echo(parts[0].heading)
    for part in parts:
        for line in part.lines:
            click.echo(of_flags(line))
        if part.rows:
            hidden = not with_errors and part.columns[-1] == _ERROR
            shown = [row[:-1] if hidden else row for row in part.rows]
            columns = part.columns[:-1] if hidden else part.columns
            print_table(columns, shown, columns[1:])
