"""`ptxbench meter`: an external power meter beside a run."""

from __future__ import annotations

import click

from ptxbench.cli.meter_correct import correct
from ptxbench.cli.meter_sync import sync
from ptxbench.cli.meter_validate import validate


@click.group(name="meter")
def command() -> None:
    """Check what the GPU reports against an external power meter, or correct it for a slow sensor."""


command.add_command(correct)
command.add_command(sync)
command.add_command(validate)
