"""What several commands' options share."""

from __future__ import annotations

import click

from ptxbench.ptx.target import TARGETS

# As in ptxbench.gpu.protocol.OptLevel, which would load numpy.
OPT_LEVELS = ("O0", "O3")
DEFAULT_TARGET = "sm_90a"

target_choice = click.Choice([target.name for target in TARGETS])
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
