"""Write the figures of docs/findings.md from kept runs.

    python runners/refresh_findings.py            # prints the tables
    python runners/refresh_findings.py --write

Boards and rows are those of the shipped tables, readings those of `results/*/methods`, kernels of a language
model those of `results/nvidia-h100/profiles/decode`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from page_blocks import table, write_blocks
from refresh_console import output_of

from ptxbench.core.condition import DYNAMIC, OptLevel, Pattern
from ptxbench.core.demangle import shortened
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.report.cost import Cost, find_costs
from ptxbench.storage.board_spread import BoardFactor
from ptxbench.storage.shipped import SHIPPED

# Rows of full warps by protocol `dynamic`, by table.
Rows: TypeAlias = dict[str, list[Cost]]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "findings.md"
RESULTS = ROOT / "results"
DECODE = RESULTS / "nvidia-h100" / "profiles" / "decode"
_UNITS = {
    "f32": "f32 multiply-add, a flop",
    "f64": "f64 multiply-add, a flop",
    "f16x2": "f16x2 multiply-add, a flop",
    "mma-f16": "f16 tensor product (mma), a flop",
    "shared": "shared memory, a byte of a load",
    "l1": "L1, a byte of a load",
    "l2": "L2, a byte of a load",
    "dram": "DRAM, a byte of a load",
}
_OPERANDS = ("add.u32", "xor.b32", "mul.f32", "fma.rn.f32", "fma.rn.f64", "fma.rn.f16x2")
_PATTERNS = (Pattern.ZEROS, Pattern.UNIFORM, Pattern.HALVES, Pattern.RANDOM)
# Ways of reading: method, source, and what it is called.
_WAYS = {
    ("mtsm", "usage"): "mean of the readings of nvidia-smi's power",
    ("papi", "usage"): "last reading of it, times the time",
    ("mtsm", "samples"): "mean of the driver's 20 ms samples",
    ("counter", "counter"): "energy counter, between its steps",
    ("corrected", "samples"): "samples, corrected for their averaging",
}
_LENGTHS_S = (0.1, 0.3, 1.0, 3.0)
_KERNELS, _LONGEST_NAME = 8, 48
# It ran a sparse product before its rows, which raises all that a GPU draws (docs/accuracy.md).
_SPARSE_FIRST = "table-46fd"
# A kernel below it draws little more than the board does without one.
_QUIET_W = 180


def main() -> int:
    """Print or write the tables; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write them into docs/findings.md")
    if parser.parse_args().write:
        write_blocks(PAGE, blocks())
    else:
        print("\n".join(blocks().values()))
    return 0


def blocks() -> dict[str, str]:
    """Return the tables of the page in Markdown, by the names of their marks."""
    atlases = {name: open_atlas(name) for name in SHIPPED}
    rows = {
        name: [one for one in find_costs("*", [atlas]) if one.protocol == DYNAMIC and one.lanes == WARP]
        for name, atlas in atlases.items()
    }
    return {
        "boards": boards(atlases, rows),
        "costs": costs(atlases),
        "operands": operands(rows),
        "readings": readings(),
        "decode": decode(),
    }


def factors(atlas: Atlas) -> list[float]:
    """Return the factor of each board whose rows tell it, and that did not run a sparse product first."""
    return [one.factor for one in _spread(atlas) if one.rows and one.run != _SPARSE_FIRST]


def _spread(atlas: Atlas) -> tuple[BoardFactor, ...]:
    assert atlas.spread is not None  # noqa: S101 - shipped tables have several boards
    return tuple(atlas.spread.boards)


def boards(atlases: dict[str, Atlas], rows_of: Rows) -> str:
    """Return how boards of one model differ: by a factor each, and by what is left of a row."""
    rows = []
    for name, atlas in atlases.items():
        found = factors(atlas)
        scatters = [row.boards_scatter for row in rows_of[name] if row.boards > 2]
        left = [one for one in scatters if not math.isnan(one)]
        ends = f"{min(found):.3f} to {max(found):.3f}", f"{max(found) / min(found) - 1:.0%}"
        rows.append((f"{name.upper()}", f"{len(found)}", *ends, f"{median(left):.2%}", f"{len(left):,}"))
    heads = "boards", "factor", "end to end", "a row scatters by, median", "rows of three boards or more"
    (sparse,) = (one for one in _spread(atlases["h200"]) if one.run == _SPARSE_FIRST)
    lone = {name: sum(not one.rows for one in _spread(atlas)) for name, atlas in atlases.items()}
    without = " and ".join(f"{count} of the {name.upper()}s" for name, count in lone.items() if count)
    return (
        f"{table(('GPU', *heads), rows)}\nLeft out: {without} without a row by which to tell the factor,"
        " and an H200\nthat ran a [sparse product](accuracy.md#sparse-products) first and draws"
        f" {sparse.factor - 1:.0%} more.\n"
    )


def costs(atlases: dict[str, Atlas]) -> str:
    """Return what a flop and a byte of a load cost on each GPU, pJ."""
    rows = []
    for unit, text in _UNITS.items():
        found = [atlas.unit_energy(unit) for atlas in atlases.values()]
        cells = [f"{one.value_pj:.3g} ± {one.ci95_pj:.2g}" if one else "" for one in found]
        rows.append((text, *cells))
    return table(("what", *(f"{name.upper()}, pJ" for name in atlases)), rows)


def operands(rows_of: Rows) -> str:
    """Return what values cost, pJ of one thread at -O3: zeros, all lanes alike, halves alike, random."""
    rows = []
    for name in _OPERANDS:
        at = OptLevel.O3
        found = {
            one.operands: one for one in rows_of["h200"] if (one.instruction, one.opt_level) == (name, at)
        }
        if all(pattern in found for pattern in _PATTERNS):
            rows.append((f"`{name}`", *(f"{found[pattern].energy_pj:.3g}" for pattern in _PATTERNS)))
    heads = "instruction", "zeros", "all lanes equal", "lanes i and i + 16 equal", "random"
    others, tensor = (over_zeros(rows_of, is_tensor=is_tensor) for is_tensor in (False, True))
    shown = table(heads, rows)
    return (
        f"{shown}\nOf {len(others) + len(tensor)} rows at -O3 with both, random operands take up to"
        f" {max(others):.1f} times as much as zeros\n(median {median(others):.1f}), and up to"
        f" {max(tensor):.1f} times on tensor cores (median {median(tensor):.1f}).\n"
    )


def over_zeros(rows_of: Rows, *, is_tensor: bool) -> list[float]:
    """Return how many times as much as zeros random operands take, of each row of each GPU that has both."""
    found = []
    for every in rows_of.values():
        rows = {
            (one.instruction, one.operands): one.energy_pj
            for one in every
            if (one.opt_level, one.status) == (OptLevel.O3, Status.OK)
            and ("mma" in one.instruction) == is_tensor
        }
        names = dict.fromkeys(name for name, _ in rows)
        pairs = [(rows.get((name, Pattern.RANDOM)), rows.get((name, Pattern.ZEROS))) for name in names]
        found += [of_random / of_zeros for of_random, of_zeros in pairs if of_random and of_zeros]
    return found


def readings() -> str:
    """Return by how many percent ways of reading are off, by the length of the kernel."""
    rows = []
    for gpu in ("h100", "h200"):
        paths = sorted((RESULTS / f"nvidia-{gpu}").glob("methods*/methods.json"))
        points = [one for path in paths for one in json.loads(path.read_text(encoding="utf-8"))["points"]]
        for way, text in _WAYS.items():
            cells = [_bias(points, way, length_s) for length_s in _LENGTHS_S]
            if any(cells):
                rows.append((f"{gpu.upper()}, {text}", *cells))
    return table(("way", *(f"{length_s:g} s" for length_s in _LENGTHS_S)), rows)


def _bias(points: Sequence[dict[str, Any]], way: tuple[str, str], length_s: float) -> str:
    """Return the mean of all runs of all boards."""
    found = [
        (one["bias_pct"], one["answered"])
        for one in points
        if (one["method"], one["source"], one["kind"]) == (*way, "constant")
        and one["requested_s"] == length_s
        and one["bias_pct"] is not None
    ]
    runs = sum(answered for _, answered in found)
    return f"{sum(bias * answered for bias, answered in found) / runs:+.1f}%" if runs else ""


def decode() -> str:
    """Return what the kernels of a step of decoding draw, the largest first."""
    document = json.loads(output_of("report", str(DECODE), "--json"))
    rows = [
        (
            f"`{shortened(one['name'], _LONGEST_NAME)}`",
            f"{one['calls']}",
            f"{one['power_w']:.0f}",
            f"{one['share']:.1%}",
        )
        for one in document["rows"]
        if one["type"] == "kernel"
    ]
    step = document["step"]
    whole = ("the whole step", "", f"{step['power_w']:.0f}", "100%")
    quiet = [one for one in document["rows"] if one["power_w"] is not None and one["power_w"] < _QUIET_W]
    time, joules = sum(one["time_s"] for one in quiet) / step["time_s"], sum(one["share"] for one in quiet)
    shown = table(("kernel", "calls", "W", "share of the joules"), [*rows[:_KERNELS], whole])
    return (
        f"{shown}\nKernels and gaps that draw less than {_QUIET_W} W take {time:.0%} of the time and"
        f" {joules:.0%} of the joules.\nThe idle board draws {document['idle_w']:.0f} W.\n"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"refresh_findings: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
