"""What several commands' options share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ptxbench.core.target import TARGETS

# As in ptxbench.devices.base.OptLevel, which would load numpy.
OPT_LEVELS = ("O0", "O3")
DEFAULT_TARGET = "sm_90a"

target_choice = click.Choice([target.name for target in TARGETS])
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
gpu_option = click.option(
    "--gpu", "spec", metavar="GPU", help="Index, UUID, simulated[:PROFILE] or replay:RUN."
)
sensor_option = click.option(
    "--sensor",
    "sensor_path",
    type=click.Path(path_type=Path),
    help="Folder or file of `ptxbench sensor`: what it found is used in place of what is documented.",
)


def plot_option(what: str) -> Callable[[Any], Any]:
    """Return the option --plot, which draws `what`."""
    return click.option("--plot", type=click.Path(path_type=Path), help=f"Draw {what} (.png, .svg, .pdf).")
