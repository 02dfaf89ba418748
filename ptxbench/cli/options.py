"""Options that several commands share: one name, one type and one meaning each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from ptxbench.cli.parameters import OperandKind, PictureFile
from ptxbench.core.option import Arg, Opt
from ptxbench.core.target import TARGETS

DEFAULT_TARGET = "sm_90a"
_PATTERN_HELP = (
    "PATTERN is a name (fma.rn.f32), a pattern of names ('mma.*'), PTX as a file has it (ld.global.v4.f32), "
    "SASS (FFMA, HMMA.16816), a word for several (wgmma, tensor, fp8, dram, exp, atomic), or part of a name."
)

Patterns = Annotated[tuple[str, ...], Arg(metavar="PATTERN...", help=_PATTERN_HELP)]
OptionalPatterns = Annotated[tuple[str, ...], Arg(metavar="[PATTERN]...", help=_PATTERN_HELP)]
Json = Annotated[bool, Opt(help="Print JSON.", flag="--json")]
GpuSpec = Annotated[
    str | None,
    Opt(
        help="The GPU: index, UUID, simulated[:PROFILE or :FILE.toml] or replay:FOLDER (default: the first "
        "one); `table` takes several: all, or a list such as 0,2.",
        flag="--gpu",
        metavar="GPU",
    ),
]
Out = Annotated[
    Path | None,
    Opt(
        help="Where to write: a folder, new or empty (default: a new one in results/, or runs/ if not real)."
    ),
]
Resume = Annotated[bool, Opt(help="Continue the run in the folder --out.")]
SensorPath = Annotated[
    Path | None,
    Opt(
        help="Folder or file of `ptxbench sensor`: use what it measured instead of what is documented.",
        flag="--sensor",
    ),
]
AllRows = Annotated[bool, Opt(help="Print every row.")]
Category = Annotated[str, Opt(help="Take only the instructions of this category of the catalogue.")]
AllowSettings = Annotated[bool, Opt(help="Allow that the GPU is set.")]
_OPERANDS = OperandKind("random", "zeros")
OneOperands = Annotated[str, Opt(help="Operand pattern (default: random).", kind=_OPERANDS)]
Operands = Annotated[
    tuple[str, ...], Opt(help="Operand pattern (may be repeated; default: random).", kind=_OPERANDS)
]


def plot_of(what: str) -> Opt:
    """Return the option --plot, which draws `what`."""
    return Opt(help=f"Draw a picture into this file (.png, .svg, .pdf): {what}.", kind=PictureFile())


def target_of(note: str) -> Opt:
    """Return the option --target, with what its help says of repetition and default."""
    return Opt(help=f"Compile target ({note}).", choices=[target.name for target in TARGETS], flag="--target")


def require_resumable(resume: bool, spec: str | None, out: Path | None) -> None:
    """Refuse --resume where nothing can be continued.

    Raises:
        UsageError: There is no --out, or the GPU is a recorded folder.
    """
    if resume and out is None:
        raise click.UsageError("--resume needs --out, the folder to continue.")
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
