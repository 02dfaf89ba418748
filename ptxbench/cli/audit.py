"""`ptxbench audit`: what is to be thought of the numbers that other tools recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.audit.audit import AuditOptions
from ptxbench.cli.command import command_of, of_flags
from ptxbench.cli.options import AllRows
from ptxbench.cli.output import print_json, print_table
from ptxbench.core.option import Arg
from ptxbench.core.shared_options import Json
from ptxbench.storage.atomic import require_file, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxbench.audit.audit import AuditedFile

_SHOWN, _ON_PAGE = 20, 1000


@dataclass(frozen=True, kw_only=True)
class _Options(AuditOptions):
    """Options of `ptxbench audit`.

    Attributes:
        html: Write the report as a page for a browser.
    """

    files: Annotated[tuple[Path, ...], Arg(help="FILE is what another tool wrote (docs/howto/audit.md).")]
    html: Path | None = None
    all_rows: AllRows = False
    as_json: Json = False


@command_of(_Options, "audit")
def command(options: _Options) -> None:
    """Say of the numbers that other tools recorded which are right, which are biased, and why.

    Reads logs of nvidia-smi, of dmon, of DCGM and of PTDaemon, and what Zeus, codecarbon, Kernel Tuner,
    InferenceX and aiconfigurator wrote. Each number is valid, biased by so much, or cannot be told; what it
    should be is always an interval. It goes by the board's sensor as `ptxbench doctor` measured it
    (--sensor), or by one that was measured on boards alike, or by documents, and says which.
    """
    from ptxbench.audit.audit import audit
    from ptxbench.report.audit import DOCS, as_json, sections
    from ptxbench.report.sections import sections_page

    if options.html is not None:
        require_file(options.html)
    found = audit(options.files, options)
    if options.html is not None:
        parts = sections(found, None if options.all_rows else _ON_PAGE)
        write_text(options.html, sections_page(parts, DOCS))
    if options.as_json:
        print_json(as_json(found))
    else:
        _print(found, None if options.all_rows else _SHOWN)


def _print(files: Sequence[AuditedFile], most: int | None) -> None:
    from ptxbench.report.audit import COLUMNS, sections

    head, *parts = sections(files, most)
    for line in head.lines:
        click.echo(line)
    for part in parts:
        click.echo()
        print_table(COLUMNS, part.rows, optional=("why",))
        for line in part.lines:
            click.echo(of_flags(f"  {line}"))
