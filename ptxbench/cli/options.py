"""Options that several commands share: one name, one type and one meaning each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from ptxbench.cli.parameters import PictureFile
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import GpuSpec, Json, Out
from ptxbench.core.target import TARGETS

DEFAULT_TARGET = "sm_90a"

AllRows = Annotated[bool, Opt(help="Print every row.")]
AllowSettings = Annotated[bool, Opt(help="Allow that the GPU is set.")]


def plot_of(what: str) -> Opt:
    """Return the option --plot, which draws `what`."""
    return Opt(help=f"Draw a picture into this file (.png, .svg, .pdf): {what}.", kind=PictureFile())


def target_of(note: str) -> Opt:
    """Return the option --target, with what its help says of repetition and default."""
    return Opt(help=f"Compile target ({note}).", choices=[target.name for target in TARGETS], flag="--target")


def require_out(resume: bool, out: Path | None) -> None:
    """Refuse --resume without --out.

    Raises:
        UsageError: There is none.
    """
    if resume and out is None:
        raise click.UsageError("--resume needs --out, the folder to continue.")


def require_resumable(resume: bool, spec: str | None, out: Path | None) -> None:
    """Refuse --resume where nothing can be continued.

    Raises:
        UsageError: There is no --out, or the GPU is a recorded folder.
    """
    require_out(resume, out)
    if resume and spec is not None and spec.startswith("replay:"):
        raise click.UsageError("--resume measures: name a GPU, not a recorded folder.")


@dataclass(frozen=True, kw_only=True)
class JsonOptions:
    """Options of a command that has no others."""

    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class GpuOptions:
    """Options of a command that measures a GPU and has no others."""

    spec: GpuSpec = None
    out: Out = None
    as_json: Json = False
