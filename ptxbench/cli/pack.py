"""`ptxbench pack`: a finished run as one file to hand on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.output import print_json
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench pack`.

    Attributes:
        out: Where to write: a file (default: beside the run's folder, with the ending .tar).
    """

    run: Annotated[Path, Arg()]
    out: Annotated[Path | None, Opt()] = None
    as_json: Json = False


@command_of(_Options, "pack")
def command(options: _Options) -> None:
    """Write a finished table as one file, for the tables that come with ptxbench.

    It holds the manifest with what the sensor is like, the table, the solved quantities, and the hashes of
    the machine code that ran. It leaves out the readings, the command, the host and the folder's name.
    """
    from ptxbench.storage.pack import write_pack

    file = write_pack(options.run, options.out)
    if options.as_json:
        print_json({"file": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()})
    else:
        click.echo(file)
