"""Options that several commands share: one name, one type and one meaning each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ptxbench.cli.parameters import Number, PictureFile
from ptxbench.core.target import TARGETS

# As in ptxbench.core.condition.OptLevel, which would load numpy.
OPT_LEVELS = ("O0", "O3")
DEFAULT_TARGET = "sm_90a"

Decorator = Callable[[Any], Any]

_PATH = click.Path(path_type=Path)
_TARGET = click.Choice([target.name for target in TARGETS])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
gpu_option = click.option(
    "--gpu",
    "spec",
    metavar="GPU",
    help="The GPU: index, UUID, simulated[:PROFILE] or replay:FOLDER (default: the first one); "
    "`table` takes several: all, or a list such as 0,2.",
)
out_option = click.option(
    "--out",
    type=_PATH,
    help="Where to write: a folder, new or empty (default: a new one in results/, or runs/ if not real).",
)
resume_option = click.option("--resume", is_flag=True, help="Continue the run in the folder --out.")
sensor_option = click.option(
    "--sensor",
    "sensor_path",
    type=_PATH,
    help="Folder or file of `ptxbench sensor`: use what it measured instead of what is documented.",
)
all_rows_option = click.option("--all-rows", is_flag=True, help="Print every row.")
category_option = click.option(
    "--category", default="", help="Take only the instructions of this category of the catalogue."
)
seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of the random operands and order."
)


def plot_option(what: str) -> Decorator:
    """Return the option --plot, which draws `what`."""
    return click.option(
        "--plot", type=PictureFile(), help=f"Draw a picture into this file (.png, .svg, .pdf): {what}."
    )


def opt_level_option(default: str | None) -> Decorator:
    """Return the option --opt-level.

    Args:
        default: The one optimization level that is taken, or None where the option may be repeated.
    """
    stem = "Optimization level of the assembler"
    if default is None:
        help_text = f"{stem} (may be repeated; default: both)."
        return click.option(
            "--opt-level", "opt_levels", multiple=True, type=click.Choice(OPT_LEVELS), help=help_text
        )
    return click.option(
        "--opt-level",
        "opt_level",
        type=click.Choice(OPT_LEVELS),
        default=default,
        help=f"{stem} (default: {default}).",
    )


def require_resumable(resume: bool, spec: str | None, out: Path | None) -> None:
    """Refuse --resume where nothing can be continued.

    Raises:
        UsageError: There is no --out, or the GPU is a recorded folder.
    """
    if resume and out is None:
        raise click.UsageError("--resume needs --out, the folder to continue.")
    if resume and spec is not None and spec.startswith("replay:"):
        raise click.UsageError("--resume measures: name a GPU, not a recorded folder.")


def target_option(default: str | None, *, multiple: bool = False) -> Decorator:
    """Return the option --target.

    Args:
        default: The target that is taken, None for no condition.
        multiple: Whether it may be repeated.
    """
    note = f"default: {default}" if default else "default: any"
    return click.option(
        "--target",
        "targets" if multiple else "target",
        multiple=multiple,
        type=_TARGET,
        default=(default,) if multiple else default,
        help=f"Compile target ({'may be repeated; ' if multiple else ''}{note}).",
    )


def table_option(*, required: bool) -> Decorator:
    """Return the option --table, the run that an estimate takes its energies from."""
    return click.option(
        "--table",
        type=_PATH,
        required=required,
        help="Table to take energies from: folder of a run on this GPU, or the name of one that comes with"
        " ptxbench (h100, h200).",
    )


def window_option(default_s: float | None) -> Decorator:
    """Return the option --window.

    Args:
        default_s: Seconds, or None where the sensor decides.
    """
    return click.option(
        "--window",
        "window_s",
        type=Number(0.01, 60),
        default=default_s,
        help="Seconds for which a kernel runs while its power is read"
        f" (default: {'as the sensor needs' if default_s is None else f'{default_s:g}'}).",
    )
