"""Options that commands and public functions share: one name, one type and one meaning each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ptxbench.core.condition import ARRAY_PATTERNS, OptLevel
from ptxbench.core.option import Arg, Opt
from ptxbench.core.threads import WARP

OPT_LEVELS = tuple(level.value for level in OptLevel)
_TABLE_HELP = "Table to take energies from: folder of a run{}, or the name of one that comes with ptxbench"
TABLE = Opt(help=f"{_TABLE_HELP.format(' on this GPU')} (h100, h200).", metavar="TABLE")
TUNE_TABLE = Opt(
    help=f"{_TABLE_HELP.format(' on this GPU')} (h100, h200; default: that of the GPU where power is measured"
    " and no --strategy is named, if there is one).",
    metavar="TABLE",
)
ESTIMATE_TABLE = Opt(
    help=f"{_TABLE_HELP.format(' or of a calibration')} (h100, h200; default: that of the GPU at hand, else"
    " h200).",
    metavar="TABLE",
)
CALIBRATED_TABLE = Opt(
    help=f"{_TABLE_HELP.format(' on a GPU like it')} (h100, h200; default: that of the GPU).",
    metavar="TABLE",
)

Json = Annotated[bool, Opt(help="Print JSON.", flag="--json")]
_GPU_HELP = "The GPU: index, UUID, simulated[:PROFILE or :FILE.toml], replay:FOLDER (default: the first one)"
GpuSpec = Annotated[str | None, Opt(help=f"{_GPU_HELP}.", flag="--gpu", metavar="GPU")]
GpusSpec = Annotated[
    str | None,
    Opt(help=f"{_GPU_HELP}; or several: all, or a list such as 0,2.", flag="--gpu", metavar="GPU"),
]
Out = Annotated[
    Path | None,
    Opt(
        help="Where to write: a folder, new or empty (default: a new one in results/, or runs/ if not real)."
    ),
]
Resume = Annotated[bool, Opt(help="Continue the run in the folder --out.")]
CataloguePath = Annotated[
    Path | None,
    Opt(
        help="File of instructions that ptxbench lacks (docs/howto/extend.md); without PATTERN, all in it.",
        flag="--catalogue",
    ),
]
SensorPath = Annotated[
    Path | None,
    Opt(
        help="Folder or file of `ptxbench doctor sensor`: use what it measured, not what is documented.",
        flag="--sensor",
    ),
]
Category = Annotated[str, Opt(help="Take only the instructions of this category of the catalogue.")]
# By these the command line knows the type.
PATTERNS = "[random|zeros|uniform|halves|hamming:N|still[:halves|:hamming:N]]"
# A time in seconds, which the command line takes as 10s or 2m, too.
TIME = "TIME"
# How a size by dimension is written.
BY_DIMENSION = "X[,Y[,Z]]"
OF_ARRAYS = f"[{'|'.join(ARRAY_PATTERNS)}]"
OneOperands = Annotated[str, Opt(help="Operand pattern (default: random).", metavar=OF_ARRAYS)]
Operands = Annotated[
    tuple[str, ...], Opt(help="Operand pattern (may be repeated; default: random).", metavar=OF_ARRAYS)
]
LaneOperands = Annotated[
    tuple[str, ...],
    Opt(
        help="Operand pattern (may be repeated; default: random). uniform: random, but the same values in all"
        " lanes of a warp; halves: random, but the same in lanes i and i + 16; hamming:N: of 32 bits of these"
        " lanes N differ, by mean (1, 2, 4, 8); still: the same in all copies of a thread.",
        metavar=PATTERNS,
    ),
]
OneLanes = Annotated[
    int,
    Opt(
        help="Active lanes of each warp, the first ones (default: 32). The energy stays that of one active"
        " thread.",
        low=1,
        high=WARP,
        metavar="N",
    ),
]
Lanes = Annotated[
    tuple[int, ...],
    Opt(
        help="Active lanes of each warp, the first ones (may be repeated; default: 32). Energies stay"
        " those of one active thread.",
        low=1,
        high=WARP,
        metavar="N",
    ),
]
TableFolder = Annotated[Path | None, TABLE]
Seed = Annotated[int | None, Opt(help="Seed of the random operands and order.", low=0, high=2**32 - 1)]
OneOptLevel = Annotated[
    str, Opt(help="Optimization level of the assembler (default: O3).", choices=OPT_LEVELS)
]
OptLevels = Annotated[
    tuple[str, ...],
    Opt(
        help="Optimization level of the assembler (may be repeated; default: both).",
        choices=OPT_LEVELS,
        flag="--opt-level",
    ),
]
_PATTERN_HELP = (
    "PATTERN is a name (fma.rn.f32), a pattern of names ('mma.*'), PTX as a file has it (ld.global.v4.f32), "
    "SASS (FFMA, HMMA.16816), a word for several (wgmma, tensor, fp8, dram, exp, atomic), or part of a name."
)
OptionalPatterns = Annotated[tuple[str, ...], Arg(metavar="[PATTERN]...", help=_PATTERN_HELP)]
Precision = Annotated[
    float | None,
    Opt(
        help="End a row when the half-width of its 95% interval is below this fraction (default: 0.02).",
        low=1e-5,
        high=1.0,
    ),
]
# What L2 holds when a kernel begins.
WARM, FLUSHED = "warm", "flushed"
L2 = Annotated[
    str,
    Opt(
        help="What L2 holds when a call begins: what the last one left (warm), or nothing of it (flushed);"
        " emptying it is taken off.",
        choices=(WARM, FLUSHED),
    ),
]


def tables_of(default: str, *, former: str) -> Opt:
    """Return the option --table that may be repeated, with what its help says of the default."""
    text = f"{_TABLE_HELP.format('')}, such as h200 (may be repeated; default: {default})."
    return Opt(help=text, metavar="TABLE", flag="--table", former=(former,))


# Length of the window of a trial of `tune`, s; chosen. At the power limit it does not do, and trials run on
# until they settle (docs/tuning.md).
TRIAL_WINDOW_S = 0.4


def window_of(default: str) -> Opt:
    """Return the option --window in seconds, with what its help says of the default."""
    return Opt(
        help=f"Seconds for which a kernel runs while its power is read (default: {default}).",
        low=0.01,
        high=60,
        flag="--window",
    )
