"""Fit the law of operands to what `measure_law.py` measured; write the page's tables and figure.

    python runners/fit_law.py FOLDER --print            # write nothing
    python runners/fit_law.py FOLDER [FOLDER ...]       # docs/operands.md must have the marks of the tables

Each FOLDER is of one board, with a table run for each part. Needs no GPU. How many bits of an instruction's
operands change is not taken from the name of the pattern: each kernel is assembled, and run by emulation on
the values that it was measured on. Exit codes: 0 done, 2 bad input.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from measure_law import ROWS_FILE, TENSOR_ROW, THREAD_ROWS
from page_blocks import table as markdown_table
from page_blocks import write_blocks
from PIL import Image

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import TARGET, render_module
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_info import GpuInfo, GpuKind, without_maker
from ptxbench.core.target import find_target
from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.activity import MOST_OPERANDS
from ptxbench.emulator.sass.launch import Launch, emulate
from ptxbench.emulator.sass.tally import Tally
from ptxbench.model.operand_law import Form, Law, Point, fit_laws
from ptxbench.report.figure import new_figure, picture_bytes
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.storage.atomic import write_bytes
from ptxbench.storage.own_catalogue import with_own
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / "docs" / "operands.md", ROOT / "docs" / "images" / "operands.png"
_TARGET, _THREADS, _PASSES = "sm_90a", 64, 3
# Opcodes of rows whose names do not tell.
_OPCODES = {
    "xor.b32": "LOP3 (2 words)",
    "lop3.b32:96": "LOP3 (3 words)",
    "mad.lo.u32": "IMAD",
    "law.add.u32": "IADD3",
    "fma.rn.f32": "FFMA",
    "fma.rn.f64": "DFMA",
    "fma.rn.f16x2": "HFMA2",
    "law.add.f32": "FADD",
    "mul.f32": "FMUL",
    "law.shr.b32": "SHF",
    "popc.b32": "POPC",
    "st.shared.b32": "STS",
    TENSOR_ROW: "HMMA.16816",
}
_LOGIC, _MULTIPLIERS = ("xor.b32", "law.add.u32", "law.shr.b32"), ("fma.rn.f32", "mad.lo.u32", "fma.rn.f64")


@dataclass(frozen=True)
class Changes:
    """Bits of an instruction's operands that change, all operands together.

    Attributes:
        halves: From lane i to lane i + 16.
        across: From lane i + 16 in the instruction before on the same unit to lane i.
        moved: Of a lane, from that instruction to this.
    """

    halves: float
    across: float
    moved: float


@dataclass(frozen=True)
class Board:
    """What was measured on one board.

    Attributes:
        name: GPU and board.
        gpu: The GPU.
        rows: Valid rows by instruction, operands and lanes.
        left_out: How many rows have no number.
    """

    name: str
    gpu: GpuInfo
    rows: Mapping[tuple[str, str, int], TableRow]
    left_out: int

    def warp_pj(self, instruction: str, operands: str, lanes: int = WARP) -> float:
        """Return the energy of a warp's instruction, pJ; NaN where it has no number."""
        row = self.rows.get((instruction, operands, lanes))
        return row.dynamic_pj * _executions(row) if row else float("nan")


def _executions(row: TableRow) -> int:
    """Return how many executions the energy of a row is one of, in a warp's instruction."""
    return row.lanes if row.unit == "thread" else 1


def read_board(folder: Path) -> Board:
    """Return what the runs in a folder hold.

    Raises:
        InputError: There is none, or they are of several boards.
    """
    found: dict[tuple[str, str, int], TableRow] = {}
    gpus, left_out = {}, 0
    for path in sorted(folder.glob("*/manifest.json")):
        with RunFolder.open(path.parent) as run:
            gpus[run.manifest.gpu.uuid_hash] = run.manifest.gpu
            for row in run.known_rows():
                if row.status.has_number:
                    found[row.instruction, row.operands, row.lanes] = row
                else:
                    left_out += 1
    if len(gpus) != 1:
        raise InputError(f"{folder} holds runs of {len(gpus)} boards: name the folder of one board")
    (gpu,) = gpus.values()
    kind = "" if gpu.kind is GpuKind.REAL else f", {gpu.kind.upper()}"
    return Board(f"{without_maker(gpu.name)} {gpu.uuid_hash[:4]}{kind}", gpu, found, left_out)


@cache
def changes(name: str, pattern: Pattern) -> Changes:
    """Return the bits that change of the operands of a row's own instructions."""
    row = find_instruction(name)
    image, kernel = _kernel(name)
    operands = operand_bytes(row, pattern, 1)
    nothing = np.zeros(_THREADS, np.uint64)
    # A store goes to the scratch memory: 64 words a thread are more than any row asks for.
    scratch = np.zeros(64 * _THREADS, np.uint64)
    arguments = [operands, nothing, scratch, nothing, np.uint32(_PASSES)]
    found = emulate(Launch(image, kernel, (1, 1, 1), (_THREADS, 1, 1), arguments))
    seen = np.zeros(len(Tally))
    for number, one in enumerate(found.instructions):
        if one.opcode in _own_opcodes(name):
            seen += found.tallies[:, number]
    pairs, lanes = max(seen[Tally.PAIRS], 1.0), max(seen[Tally.AFTER], 1.0)
    halves, across, moved = (
        float(seen[first : first + MOST_OPERANDS].sum())
        for first in (Tally.HALVES_A, Tally.ACROSS_A, Tally.MOVED_A)
    )
    return Changes(halves / pairs, across / pairs, moved / lanes)


@cache
def _kernel(name: str):  # type: ignore[no-untyped-def]
    row = find_instruction(name)
    ptx = render_module(row, find_target(_TARGET), row.forms(OptLevel.O3)[-1])
    image = assemble_ptx(ptx, _TARGET, OptLevel.O3).image
    return image, parse_listing(disassemble(image), TARGET)[TARGET]


def _own_opcodes(name: str) -> frozenset[str]:
    row = find_instruction(name)
    expected = row.expected(OptLevel.O3, _TARGET, row.forms(OptLevel.O3)[-1])
    return frozenset(opcode for names, _ in expected.counts for opcode in names.split("|"))


def points_of(board: Board, name: str) -> list[Point]:
    """Return a row's points, those on zeros left out: what never changes is told by what stands still."""
    random = changes(name, Pattern.RANDOM)
    found = []
    for (instruction, operands, lanes), row in board.rows.items():
        if instruction != name or operands == Pattern.ZEROS:
            continue
        own = changes(name, Pattern(operands))
        of_warp = _executions(row)
        found.append(
            Point(
                lanes,
                own.halves / random.halves,
                own.across / random.across,
                own.moved / random.moved,
                row.dynamic_pj * of_warp,
                row.dynamic_ci95_pj * of_warp,
            )
        )
    return found


def laws_of(board: Board) -> dict[str, dict[Form, Law]]:
    """Return the laws of every row of a board that has points enough."""
    found = {}
    for name in (*THREAD_ROWS, TENSOR_ROW):
        try:
            found[name] = fit_laws(points_of(board, name))
        except InputError as error:
            print(f"{board.name}: {name}: {error}", file=sys.stderr)
    return found


def law_table(board: Board, laws: Mapping[str, Mapping[Form, Law]]) -> str:
    """Return what each opcode costs by the form that fits it best."""
    rows = []
    for name, forms in laws.items():
        law = next(iter(forms.values()))
        terms = (f"{x:.3g} ± {half:.2g}" for x, half in zip(law.terms_pj, law.half_pj, strict=True))
        standing = board.warp_pj(name, Pattern.STILL_HALVES) - board.warp_pj(name, Pattern.ZEROS)
        rows.append(
            [
                _OPCODES[name],
                str(law.form),
                *(text.replace("nan ± nan", "-") for text in terms),
                f"{100 * law.share_at(1 / 16):.0f}%",
                f"{standing:.3g}",
                f"{law.rms_pct:.1f}",
                f"{law.misfit:.2g}",
            ]
        )
    head = [board.name, "form", "w pJ", "l pJ", "T pJ", "U pJ", "at 1/16", "standing pJ", "rms %", "p"]
    return markdown_table(head, rows, left=2)


def form_table(boards: Sequence[tuple[Board, Mapping[str, Mapping[Form, Law]]]]) -> str:
    """Return how far each form is off, by opcode and board."""
    rows = []
    for board, laws in boards:
        for name, forms in laws.items():
            errors = [f"{forms[form].rms_pct:.1f} ({forms[form].score:.0f})" for form in Form]
            rows.append([board.name, _OPCODES[name], *errors])
    return markdown_table(["board", "opcode", *(f"{form}, rms % (AIC)" for form in Form)], rows, left=2)


def lanes_table(board: Board) -> str:
    """Return what every other lane costs beside the first half of a warp, where all three are measured."""
    rows = []
    for name in ("law.fma.rn.f32", "law.mad.lo.u32"):
        for operands in (Pattern.RANDOM, Pattern.HALVES):
            whole, half = (board.warp_pj(f"{name}:every", operands, lanes) for lanes in (WARP, WARP // 2))
            odd = board.warp_pj(f"{name}:odd", operands)
            if all(np.isfinite([whole, half, odd])):
                figures = (f"{x:.0f}" for x in (whole, half, odd))
                rows.append([_OPCODES[name.removeprefix("law.")], operands, *figures])
    if not rows:
        return f"{board.name}: not measured yet.\n"
    head = [board.name, "operands", "32 lanes, pJ", "first 16, pJ", "every other, pJ"]
    return markdown_table(head, rows, left=2)


def picture(boards: Sequence[tuple[Board, Mapping[str, Mapping[Form, Law]]]], path: Path) -> None:
    """Draw what unlike halves cost, and what lanes do, for the first board of each GPU."""
    figure = new_figure(10, 4.2 * len(boards))
    axes = figure.subplots(len(boards), 3, squeeze=False)
    for (board, laws), (logic, multipliers, lanes) in zip(boards, axes, strict=True):
        _halves_axis(logic, board, laws, _LOGIC)
        _halves_axis(multipliers, board, laws, _MULTIPLIERS)
        for name in ("xor.b32", "fma.rn.f32", "fma.rn.f64"):
            xs = [1, 8, 16, 24, 32]
            lanes.plot(xs, [board.warp_pj(name, "random", n) for n in xs], "o-", label=_OPCODES[name])
        lanes.set_xlabel("active lanes")
        lanes.set_ylabel("pJ a warp instruction, random")
        for axis in (logic, multipliers, lanes):
            axis.set_ylim(bottom=0)
            axis.legend(frameon=False, fontsize=8)
        logic.set_title(board.name, loc="left", fontsize=10)
    whole = Image.open(io.BytesIO(picture_bytes(figure, "png")))
    small = io.BytesIO()
    # Few colours: a third of the bytes in the repository.
    whole.convert("RGB").quantize(32).save(small, "png", optimize=True)
    write_bytes(path, small.getvalue())


def _halves_axis(axis, board, laws, names) -> None:  # type: ignore[no-untyped-def]
    for name in names:
        if name not in laws:
            continue
        law = next(iter(laws[name].values()))
        base = board.warp_pj(name, Pattern.STILL_HALVES) / WARP
        patterns = [one for one in Pattern if one.is_still]
        random = changes(name, Pattern.RANDOM).halves
        xs = [changes(name, one).halves / random for one in patterns]
        ys = [board.warp_pj(name, one) / WARP - base for one in patterns]
        (line,) = axis.plot(xs, ys, "o", label=_OPCODES[name])
        grid = np.linspace(0, max(xs), 100)
        top = np.nanmax(ys)
        axis.plot(grid, top * np.array([law.share_at(x) for x in grid]), color=line.get_color(), lw=1)
    axis.set_xlabel("bits that differ between the halves,\nover those of random words")
    axis.set_ylabel("pJ a lane above equal halves, still")


def main() -> int:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="runs of one board")
    parser.add_argument("--print", action="store_true", dest="only_print", help="write nothing")
    arguments = parser.parse_args()
    try:
        with_own(ROWS_FILE, ())
        boards = [(board, laws_of(board)) for board in map(read_board, arguments.folders)]
        blocks = {
            "law": "\n".join(law_table(board, laws) for board, laws in boards),
            "forms": form_table(boards),
            "every-other": "\n".join(lanes_table(board) for board, _ in boards),
        }
        print("\n".join(blocks.values()))
        print("\n".join(f"{board.name}: {board.left_out} rows without a number" for board, _ in boards))
        if not arguments.only_print:
            picture(boards, PICTURE)
            write_blocks(PAGE, blocks)
    except (PtxbenchError, OSError) as error:
        print(f"fit_law: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
