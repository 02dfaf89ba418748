"""Fit the law of operands to what `measure_law.py` measured; write the page's tables and figure.

    python runners/fit_law.py FOLDER --print            # write nothing
    python runners/fit_law.py FOLDER [FOLDER ...]       # docs/operands.md must have the marks of the tables

Each FOLDER is of one board, with a table run for each part; one of them must have its records. Needs no GPU.
How many bits change is not taken from the name of the pattern: the loops of each row, its own and that of
its companions, are assembled and run by emulation on the values that they were measured on. Exit codes: 0
done, 2 bad input.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
from measure_law import ROWS_FILE, TENSOR_ROW, THREAD_ROWS
from operand_law import LoopBits, LoopPoint, OperandLaw, fit_law, rms_pct
from page_blocks import table as markdown_table
from page_blocks import write_blocks
from PIL import Image

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.alike import refuse_alike
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import InputError, NotMeasurableError, PtxbenchError
from ptxbench.core.gpu_info import GpuInfo, GpuKind, without_maker
from ptxbench.core.target import find_target
from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.launch import Argument, Launch, emulate
from ptxbench.emulator.sass.tally import Tally
from ptxbench.report.figure import new_figure, picture_bytes
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.storage.atomic import write_bytes
from ptxbench.storage.own_catalogue import with_own
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TableRow

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / "docs" / "operands.md", ROOT / "docs" / "images" / "operands.png"
# The loops of every row have as many copies.
_TOLD_FJ = 25
_LANES = (1, 8, 16, 24, 32)
_TARGET, _THREADS, _PASSES, _COPIES = "sm_90a", 128, (2, 5), 64
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
    "st.shared.v4.b32": "STS.128",
    "st.global.v4.b32": "STG.128, its address",
    "ld.shared.b32": "LDS",
    TENSOR_ROW: "HMMA.16816",
}
WHOLE = "whole numbers and logic"
CLASSES: Mapping[str, tuple[str, ...]] = {
    WHOLE: ("xor.b32", "lop3.b32:96", "law.add.u32", "law.shr.b32", "popc.b32", "mad.lo.u32"),
    "f32": ("fma.rn.f32", "mul.f32", "law.add.f32"),
    "f64": ("fma.rn.f64",),
    "f16": ("fma.rn.f16x2",),
}


@dataclass(frozen=True)
class Fitted:
    """The law of a class of opcodes on one board, and the loops that it is of."""

    points: tuple[LoopPoint, ...]
    law: OperandLaw


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


Boards = Sequence[tuple[Board, Mapping[str, Fitted]]]


def cycles_of(folders: Sequence[Path]) -> dict[str, float]:
    """Return the cycles that a copy of a row takes of a GPU, by the runs that have their records."""
    found: dict[str, list[float]] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*/records.parquet"))):
        with RunFolder.open(path.parent) as run:
            for one in run.records():
                if one.role is Role.TARGET and one.repeat >= 0:
                    copies = one.grid * one.block / WARP * one.iterations * one.copies
                    found.setdefault(one.instruction, []).append(
                        one.elapsed_s * 1e6 * one.sm_clock_mhz / copies
                    )
    return {name: median(values) for name, values in found.items()}


@cache
def bits_of(name: str, pattern: Pattern, role: Role) -> LoopBits:
    """Return the bits of a copy of a loop: of the row's own instructions, or of what is subtracted."""
    row = find_instruction(name)
    image = _image(name)
    kernel = parse_listing(disassemble(image), role)[role]
    nothing = np.zeros(_THREADS, np.uint64)
    # A store goes to the scratch memory: 64 words a thread are more than any row asks for.
    operands, scratch = operand_bytes(row, pattern, 1), np.zeros(64 * _THREADS, np.uint64)
    seen = []
    for passes in _PASSES:
        arguments: list[Argument] = [operands, nothing, scratch, nothing, np.uint32(passes)]
        found = emulate(Launch(image, kernel, (1, 1, 1), (_THREADS, 1, 1), arguments))
        tallies = found.tallies.sum(axis=1)
        seen.append(tallies[[Tally.HALVES, Tally.HALVES_RESULT, Tally.PORTS, Tally.FLIPS, Tally.ONES]])
    # What stands before the loop is in both.
    each = (seen[1] - seen[0]) / ((_PASSES[1] - _PASSES[0]) * _COPIES * _THREADS / WARP)
    return LoopBits(each[0] + each[1], *each[2:])


@cache
def _image(name: str) -> bytes:
    row = find_instruction(name)
    ptx = render_module(row, find_target(_TARGET), row.forms(OptLevel.O3)[-1])
    return assemble_ptx(ptx, _TARGET, OptLevel.O3).image


def _refused(name: str, operands: str) -> bool:
    """Return whether a row has such operands no longer: its values were not what the pattern says."""
    try:
        refuse_alike(find_instruction(name), Pattern(operands))
    except NotMeasurableError:
        return True
    return False


def points_of(board: Board, name: str, cycles: Mapping[str, float]) -> list[LoopPoint]:
    """Return the loops of a row on each kind of operands.

    The loop of the row itself takes its power without the static one, for as long as its cycles take. What
    the row's energy leaves of that is the loop of its companions; of bare chains it is too little to tell.
    """
    whole = {
        operands: row
        for (own, operands, lanes), row in board.rows.items()
        if own == name and lanes == WARP and not _refused(name, operands)
    }
    if Pattern.ZEROS not in whole or name not in cycles:
        return []
    energies = {
        operands: (row.power_w - row.static_w) * cycles[name] / row.clock_mhz * 1e6
        for operands, row in whole.items()
    }
    loops = {Role.TARGET: energies}
    if find_instruction(name).family != "arithmetic":
        loops[Role.OVERHEAD] = {o: energy - board.warp_pj(name, o) for o, energy in energies.items()}
    return [
        LoopPoint(name, bits_of(name, Pattern(operands), role), energy, found[Pattern.ZEROS])
        for role, found in loops.items()
        for operands, energy in found.items()
        if operands != Pattern.ZEROS
    ]


def laws_of(board: Board, cycles: Mapping[str, float]) -> dict[str, Fitted]:
    """Return the law of each class of which a board has points enough."""
    found = {}
    for kind, names in CLASSES.items():
        points = [point for name in names for point in points_of(board, name, cycles)]
        try:
            found[kind] = Fitted(tuple(points), fit_law(points))
        except InputError as error:
            print(f"{board.name}: {kind}: {error}", file=sys.stderr)
    return found


def law_table(boards: Boards) -> str:
    """Return what a bit costs by class and board."""
    rows = []
    for board, laws in boards:
        for kind, one in laws.items():
            law = one.law
            # What goes together in all loops is not told apart.
            terms = (
                f"{x:.0f} ± {half:.0f}" if half < max(x, _TOLD_FJ) else "-"
                for x, half in zip(law.terms_fj, law.half_fj, strict=True)
            )
            worst = 100 * np.abs(law.residuals).max()
            rows.append(
                [
                    board.name,
                    kind,
                    str(len(one.points)),
                    *terms,
                    f"{rms_pct(law.residuals):.1f}",
                    f"{worst:.0f}",
                ]
            )
    head = ["board", "class", "loops", "h fJ", "p fJ", "f fJ", "o fJ", "off, rms %", "worst %"]
    return markdown_table(head, rows, left=2)


def left_out_table(boards: Boards) -> str:
    """Return how far the law of the other rows is off the loops of each row of whole numbers."""
    with_law = [(board, laws[WHOLE]) for board, laws in boards if WHOLE in laws]
    rows = []
    for name in CLASSES[WHOLE]:
        figures = []
        for _, one in with_law:
            own = np.array([point.loop == name for point in one.points])
            figures.append(f"{rms_pct(np.array(one.law.left_out)[own]):.1f}" if own.any() else "-")
        rows.append([_OPCODES[name], *figures])
    return markdown_table(["row left out", *(f"{board.name}, rms %" for board, _ in with_law)], rows)


def fewer_table(board: Board) -> str:
    """Return what fewer lanes cost, and a lane up to the 16th and beyond; "" where they are not measured."""
    rows = []
    for name in (*THREAD_ROWS, "ld.shared.b32"):
        energies = {n: board.warp_pj(name, Pattern.RANDOM, n) for n in _LANES}
        if not np.isfinite(energies[24]):
            continue
        still = {n: board.warp_pj(name, Pattern.STILL, n) for n in (1, 16)}
        slopes = (
            (energies[16] - energies[1]) / 15,
            (energies[24] - energies[16]) / 8,
            (still[16] - still[1]) / 15,
        )
        rows.append([_OPCODES[name], *(f"{x:.0f}" for x in energies.values()), *(f"{x:.1f}" for x in slopes)])
    if not rows:
        return ""
    head = [board.name, *(f"{n} lanes, pJ" if n > 1 else "1 lane, pJ" for n in _LANES)]
    head += ["a lane to 16", "a lane beyond", "a still lane to 16"]
    return markdown_table(head, rows).replace(" nan ", " - ")


def operands_table(boards: Boards, name: str, patterns: Sequence[str]) -> str:
    """Return what a row costs on some kinds of operands."""
    rows = []
    for board, _ in boards:
        energies = [board.warp_pj(name, one) for one in patterns]
        if np.isfinite(energies[0]):
            rows.append([board.name, *(f"{x:.0f}" for x in energies)])
    return markdown_table([f"{_OPCODES[name]}, pJ", *patterns], rows)


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
        return ""
    head = [board.name, "operands", "32 lanes, pJ", "first 16, pJ", "every other, pJ"]
    return markdown_table(head, rows, left=2)


def picture(boards: Boards, path: Path) -> None:
    """Draw what loops take above zeros against the law, and what lanes do."""
    with_laws = [(board, laws) for board, laws in boards if laws]
    figure = new_figure(5 * len(with_laws) + 5, 4.6)
    axes = figure.subplots(1, len(with_laws) + 1)
    for axis, (board, laws) in zip(axes, with_laws, strict=False):
        for (kind, one), mark in zip(laws.items(), "os^D", strict=False):
            above = np.array([point.energy_pj - point.zeros_pj for point in one.points])
            off = np.array([point.energy_pj for point in one.points]) * one.law.residuals
            axis.plot(above - off, above, mark, ms=4, label=kind, alpha=0.7)
        axis.axline((0, 0), slope=1, color="0.6", lw=1)
        axis.set_xlabel("the law, pJ a copy of the loop in a warp")
        axis.set_ylabel("measured above zeros, pJ")
        axis.set_title(board.name, loc="left", fontsize=10)
    lanes = axes[-1]
    board = max((board for board, _ in boards), key=lambda one: len({n for _, _, n in one.rows}))
    for name in ("xor.b32", "fma.rn.f32", "fma.rn.f64", "popc.b32"):
        xs = [1, 8, 16, 24, 32]
        lanes.plot(xs, [board.warp_pj(name, "random", n) for n in xs], "o-", ms=4, label=_OPCODES[name])
    lanes.set_xlabel("active lanes")
    lanes.set_ylabel("pJ a warp instruction, random")
    lanes.set_ylim(bottom=0)
    lanes.set_title(board.name, loc="left", fontsize=10)
    for axis in axes:
        axis.legend(frameon=False, fontsize=8)
    whole = Image.open(io.BytesIO(picture_bytes(figure, "png")))
    small = io.BytesIO()
    # Few colours: a third of the bytes in the repository.
    whole.convert("RGB").quantize(32).save(small, "png", optimize=True)
    write_bytes(path, small.getvalue())


def main() -> int:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="runs of one board")
    parser.add_argument("--print", action="store_true", dest="only_print", help="write nothing")
    arguments = parser.parse_args()
    try:
        with_own(ROWS_FILE, ())
        cycles = cycles_of(arguments.folders)
        boards = [(board, laws_of(board, cycles)) for board in map(read_board, arguments.folders)]
        blocks = {
            "law": law_table(boards),
            "left-out": left_out_table(boards),
            "fewer": "\n".join(filter(None, (fewer_table(board) for board, _ in boards))),
            "every-other": "\n".join(filter(None, (lanes_table(board) for board, _ in boards))),
            "tensor": operands_table(
                boards, TENSOR_ROW, ("zeros", "uniform", "halves", "hamming:1", "hamming:8", "random")
            ),
            "stores": operands_table(
                boards, "st.shared.b32", ("zeros", "halves", "hamming:1", "hamming:8", "still", "random")
            ),
            "wide-stores": "\n".join(
                operands_table(boards, name, ("zeros", "uniform", "halves", "hamming:4", "still", "random"))
                for name in ("st.shared.v4.b32", "st.global.v4.b32")
            ),
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
