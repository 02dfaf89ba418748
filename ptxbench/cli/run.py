"""`ptxbench run`: the energy of any program, by GPU and by kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import json_option
from ptxbench.cli.parameters import Fraction

if TYPE_CHECKING:
    from ptxbench.attribute.program import ProgramEnergy

_PATH = click.Path(path_type=Path)


@click.command(
    name="run",
    short_help="Measure the energy of any program, by kernel.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--gpu", "spec", metavar="GPU", help="The GPU: indices or UUIDs, as 0,1 (default: all that are visible)."
)
@click.option("--no-kernels", is_flag=True, help="Do not follow kernels: energy of the whole run only.")
@click.option("--out", type=_PATH, help="Where to write: a folder, new or empty, for JSON and CSV.")
@click.option("--baseline", type=_PATH, help="An earlier energy.json, or its folder, to compare with.")
@click.option(
    "--fail-over",
    "limit",
    type=Fraction(),
    metavar="FRACTION",
    help="Exit with 1 if a number differs by more than this, upward from --baseline.",
)
@json_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    spec: str | None,
    no_kernels: bool,
    out: Path | None,
    baseline: Path | None,
    limit: float | None,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Run the command WORDS and report what its GPUs drew, by kernel name.

    The command keeps its input, output and exit code (128 + n where signal n ended it). The report follows on
    standard error; --json makes it JSON. The energy is that of the whole board, idle power included.
    No GPU is set. Kernels need a C compiler and CUPTI; without them the whole run is measured.
    """
    from ptxbench.api.board import open_boards
    from ptxbench.attribute.child import CommandNotRunError
    from ptxbench.attribute.program import measure_program
    from ptxbench.attribute.report import changes, document, lines, read_report

    if (baseline is None) != (limit is None):
        raise click.UsageError("--baseline and --fail-over need each other.")
    if baseline is not None:
        read_report(baseline)
    if out is not None:
        _make_folder(out)
    boards = open_boards(_specs(spec))
    try:
        program = measure_program(boards, words, kernels=not no_kernels)
    except CommandNotRunError as error:
        click.echo(f"ptxbench: {error}", err=True)
        return error.exit_code
    if out is not None:
        _keep(program, out)
    if as_json:
        _print_json(document(program))
    else:
        for line in lines(program):
            click.echo(f"ptxbench: {line}", err=True)
    if baseline is None or limit is None:
        return program.exit_code
    found = changes(program, baseline, limit)
    for line in found:
        click.echo(f"ptxbench: {line}", err=True)
    return program.exit_code or bool(found)


def _specs(spec: str | None) -> list[int | str] | None:
    """Return the GPUs that --gpu names."""
    if spec is None:
        return None
    named = [word.strip() for word in spec.split(",")]
    for word in named:
        if not word.isdecimal() and not word.startswith("GPU-"):
            raise click.UsageError(
                f"--gpu {word!r} is no index or UUID of a GPU; a simulated GPU runs no program."
            )
    return [int(word) if word.isdecimal() else word for word in named]


def _make_folder(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise click.UsageError(f"--out {out} exists and is no empty folder.")
    out.mkdir(parents=True, exist_ok=True)


def _keep(program: ProgramEnergy, out: Path) -> None:
    import json

    from ptxbench.attribute.report import csv_text, document
    from ptxbench.storage.atomic import write_text

    write_text(out / "energy.json", json.dumps(document(program), indent=1) + "\n")
    write_text(out / "kernels.csv", csv_text(program))


def _print_json(document: dict[str, object]) -> None:
    import json

    click.echo(json.dumps(document, indent=1), err=True)
