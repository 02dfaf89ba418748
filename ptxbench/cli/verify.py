"""`ptxbench verify`: check the loops of the whole catalogue without a GPU."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import DEFAULT_TARGET, target_of
from ptxbench.cli.output import print_json, print_table
from ptxbench.cli.progress import progress_bar
from ptxbench.core.condition import OptLevel
from ptxbench.core.shared_options import OPT_LEVELS, Json, OptionalPatterns, OptLevels
from ptxbench.core.target import find_target

if TYPE_CHECKING:
    from ptxbench.sass.verify import VerifiedRow


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench verify`."""

    patterns: OptionalPatterns = ()
    targets: Annotated[tuple[str, ...], target_of("may be repeated; default: sm_90a")] = (DEFAULT_TARGET,)
    opt_levels: OptLevels = ()
    as_json: Json = False


@command_of(_Options, "verify")
def command(options: _Options) -> None:
    """Assemble instructions (default: all) and check the SASS of their loops, without a GPU.

    A row is exact (one SASS instruction), mixture (one, of several kinds), expands (several), calls (a
    routine), absent (the target does not have it) or refused. Without PATTERNs the command prints how many
    rows each class has, and the refused rows. With them it prints every row. The exit code is 1 if the check
    refuses a row that the catalogue expects to pass.
    """
    from ptxbench.catalogue.select import named_instructions
    from ptxbench.sass.verdict_cache import VerdictCache
    from ptxbench.sass.verify import verify_instructions

    with progress_bar() as show:
        rows = verify_instructions(
            named_instructions(options.patterns),
            [find_target(name) for name in dict.fromkeys(options.targets)],
            [OptLevel(level) for level in dict.fromkeys(options.opt_levels or OPT_LEVELS)],
            VerdictCache(),
            lambda done, total: show(done, total, "kernels checked"),
        )
    if options.as_json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        if options.patterns:
            _print_rows(rows)
        _print_counts(rows)
        _print_refused(rows)
    unexpected = [row for row in rows if row.verdict == "refused" and not row.declared]
    if any(row.target != "sm_90a" for row in unexpected):
        _print_assembler_note()
    if unexpected:
        sys.exit(1)


def _print_assembler_note() -> None:
    """Say how to get ptxas where the library of the driver's JIT is in its place."""
    from ptxbench.core.toolchain import PTXAS_WHEEL, assembler_name

    name = assembler_name()
    if name.startswith("nvJitLink"):
        click.echo(
            f"note: {name} calls routines as the driver does, which the catalogue knows of sm_90a alone; for "
            f"ptxas run 'pip install {PTXAS_WHEEL}'",
            err=True,
        )


def _print_rows(rows: Sequence[VerifiedRow]) -> None:
    print_table(
        ("instruction", "target", "opt", "form", "verdict", "SASS for one"),
        [(*_place(row), row.verdict, row.sass or "-") for row in rows],
    )
    click.echo()


def _print_counts(rows: Sequence[VerifiedRow]) -> None:
    from ptxbench.sass.loop_check import Verdict

    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        counts.setdefault((row.target, row.opt_level), Counter())[row.verdict] += 1
    print_table(
        ("target", "opt", *Verdict, "rows"),
        [
            (*place, *(str(count[verdict]) for verdict in Verdict), str(count.total()))
            for place, count in counts.items()
        ],
        (*Verdict, "rows"),
        ("absent",),
    )


def _print_refused(rows: Sequence[VerifiedRow]) -> None:
    refused = [row for row in rows if row.verdict == "refused"]
    if refused:
        click.echo("\nrefused:")
        print_table(
            ("instruction", "target", "opt", "form", "reason"),
            [(*_place(row), row.reason) for row in refused],
        )


def _place(row: VerifiedRow) -> tuple[str, ...]:
    return (row.instruction, row.target, row.opt_level, row.form)
