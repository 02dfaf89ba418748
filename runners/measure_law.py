"""Measure what the data and the lanes of an instruction cost, for the law of operands (docs/operands.md).

    python runners/measure_law.py --gpu 0 --out runs/law
    python runners/measure_law.py --gpu 0 --out runs/law --resume     # what is left

A run of `ptxbench table` for each part, in order of worth: operands that change from copy to copy or stand
still, alike or unlike in the halves of a warp (core); halves that differ in a few bits (bits, bits-still);
fewer lanes (lanes); a tensor product (tensor); every other lane beside all or the first half of them (odd,
every); few lanes that stand still (still); stores of 16 bytes (stores). It has 250 rows of 1 to 2 s, and
ends by --limit-s.
`ptxbench report OUT/PART` opens each.
Exit codes: 0 all is measured, 1 some rows are left or failed, 2 bad input.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

ROWS_FILE = Path(__file__).parent / "law" / "rows.toml"
# One opcode each: logic, additions, multipliers, a shift, a count of bits, and a store.
THREAD_ROWS = (
    *("xor.b32", "fma.rn.f32", "mad.lo.u32", "law.add.u32", "fma.rn.f64", "fma.rn.f16x2"),
    *("law.add.f32", "mul.f32", "law.shr.b32", "popc.b32", "lop3.b32:96", "st.shared.b32"),
)
# A few bits that differ between the halves become all of them after a copy, but where all stands still.
_MOVES_BITS = ("law.shr.b32", "popc.b32")
TENSOR_ROW = "mma.m16n8k16.f32.f16.f16.f32"
_LANES = (24, 16, 8, 1)
_STILL = tuple(f"still:hamming:{bits}" for bits in (8, 4, 1, 2))
_MOVING = tuple(f"hamming:{bits}" for bits in (4, 1, 8, 2))
_AS_TABLES = ("--protocol=dynamic", "--opt-level=O3", "--max-repeats=3", "--check-linearity=none")
# What a process needs to begin and to write its last rows.
_GRACE_S = 15.0


@dataclass(frozen=True)
class Part:
    """One run of `ptxbench table`: every row under every condition.

    Attributes:
        name: Name of its folder.
        rows: Catalogue names.
        patterns: Operand patterns.
        lanes: Active lanes of each warp.
    """

    name: str
    rows: tuple[str, ...]
    patterns: tuple[str, ...]
    lanes: tuple[int, ...] = (32,)


PARTS = (
    Part("core", THREAD_ROWS, ("random", "zeros", "halves", "still", "still:halves")),
    Part("bits", tuple(row for row in THREAD_ROWS if row not in _MOVES_BITS), (*_STILL, *_MOVING)),
    Part("bits-still", _MOVES_BITS, _STILL),
    Part("lanes", (*THREAD_ROWS[:-1], "ld.shared.b32"), ("random",), _LANES),
    Part("tensor", (TENSOR_ROW,), ("random", "zeros", "uniform", "halves", *_MOVING)),
    Part("odd", ("law.fma.rn.f32:odd", "law.mad.lo.u32:odd"), ("random", "halves")),
    Part("every", ("law.fma.rn.f32:every", "law.mad.lo.u32:every"), ("random", "halves"), (32, 16)),
    Part("still", THREAD_ROWS[:-1], ("still",), (16, 1)),
    Part(
        "stores",
        ("st.shared.v4.b32", "st.global.v4.b32"),
        ("random", "zeros", "uniform", "halves", "still", "hamming:4"),
    ),
)


def main() -> int:
    """Measure part after part and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="the GPU, as `ptxbench gpus` counts")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--limit-s", type=float, default=420.0, help="stop after so many seconds")
    parser.add_argument("--resume", action="store_true", help="continue the runs in --out")
    parser.add_argument("--only", action="append", default=[], help="only this part (may be repeated)")
    parser.add_argument("--rows", type=int, default=len(THREAD_ROWS), help="only so many rows of each part")
    arguments = parser.parse_args()
    chosen = [part for part in PARTS if part.name in (arguments.only or [part.name])]
    unknown = set(arguments.only) - {part.name for part in chosen}
    begun = [part.name for part in chosen if (arguments.out / part.name).exists()]
    if unknown or (begun and not arguments.resume):
        names = ", ".join(part.name for part in PARTS)
        what = f"no part is called {sorted(unknown)[0]}, only {names}" if unknown else f"{begun[0]} is there"
        print(f"error: {what}; --resume continues what is in --out", file=sys.stderr)
        return 2
    end_s, codes = monotonic() + arguments.limit_s - _GRACE_S, []
    for part in chosen:
        left_s = end_s - monotonic()
        codes.append(
            1 if left_s <= 0 else measure(part, arguments.gpu, arguments.out, arguments.rows, left_s)
        )
        print(f"{part.name}: exit code {codes[-1]}, {max(end_s - monotonic(), 0):.0f} s left", flush=True)
    return int(any(codes))


def measure(part: Part, gpu: str, out: Path, rows: int, left_s: float) -> int:
    """Measure one part, or go on with it, for so many seconds at most; return the exit code.

    Args:
        part: The part.
        gpu: The GPU, as --gpu takes it.
        out: Folder of all parts.
        rows: How many of its rows.
        left_s: How long it may take.
    """
    folder = out / part.name
    command = [sys.executable, "-m", "ptxbench", "table", f"--gpu={gpu}", f"--out={folder}"]
    command.append(f"--budget-minutes={left_s / 60:.3f}")
    if (folder / "manifest.json").exists():
        command.append("--resume")
    else:
        command += [f"--operands={pattern}" for pattern in part.patterns]
        command += [f"--lanes={lanes}" for lanes in part.lanes]
        # The manifest keeps the command line: no path of this machine stands in it.
        command += [*_AS_TABLES, f"--catalogue={os.path.relpath(ROWS_FILE)}", "--", *part.rows[:rows]]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
