"""Set instructions, flops and bytes of every measured GPU beside published figures.

    python runners/compare_costs.py            # prints the tables
    python runners/compare_costs.py --write    # puts them into docs/published.md, between their marks

Twenty instructions stand beside Table I of Arafa et al. (2020). The dynamic energies are those of `ptxbench
cost` (-O3, random operands, mean of the boards). Eq. 1 is that of the runs `table1*` below results/ at -O0
(runners/table_one.py), beside the paper's MTSM of two GPUs. A flop and a byte stand beside Choi et al.
(2012), those of DRAM by the kept rooflines, too. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from page_blocks import write_blocks
from refresh_roofline import kept_rooflines
from table_one import eq1_rows

from ptxbench.catalogue.arafa import load_arafa_table
from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.threads import WARP
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.report.cost import Cost, find_costs
from ptxbench.report.text import number
from ptxbench.storage.schema import PJ_PER_NJ, TableRow
from ptxbench.storage.shipped import SHIPPED

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "published.md"
NAMES = (
    *(
        "add.u32",
        "mad.lo.u32",
        "xor.b32",
        "shl.b32",
        "abs.s32",
        "clz.b32",
        "popc.b32",
        "bfind.u32",
        "sad.u32",
    ),
    *("mul24.lo.u32", "cnot.b32", "div.u32", "rem.u32", "add.f32", "fma.rn.f32", "div.rn.f32", "add.f64"),
    *("add.f16", "rcp.approx.ftz.f32", "ex2.approx.ftz.f32"),
)
PUBLISHED = ("volta", "turing")
# Table I is in uJ.
_NJ_PER_UJ = 1e3
_SECOND_HAND = "GH200, second-hand, not checked"
_DRAM, _ONE_MORE = "DRAM at work included, pJ/byte", "DRAM, one more byte, pJ"
_DRAM_ROW, _DRAM_BYTES = "ld.global.v4.b32:hbm", 16
# What it is, the row and its flops or bytes, and who published what of it.
_UNITS = (
    (
        *("f32 FMA, pJ/flop", "fma.rn.f32", 2, "43.2, 99.7"),
        "Choi et al., GTX 680 (28 nm) and GTX 580 (40 nm), Table 4",
    ),
    ("f64 FMA, pJ/flop", "fma.rn.f64", 2, "262.9, 212", "the same"),
    ("f64 FMA, pJ/flop", "fma.rn.f64", 2, "23.6", _SECOND_HAND),
    (_DRAM, "", 0, "437.5, 513", "Choi et al., Table 4"),
    (_ONE_MORE, "", 0, "94", f"HBM of {_SECOND_HAND}"),
    ("L2, pJ/byte", "ld.global.cg.v4.b32:l2", 16, "195, 257", "Choi et al., Table 5"),
    ("L2, pJ/byte", "ld.global.cg.v4.b32:l2", 16, "39", _SECOND_HAND),
    ("L1, pJ/byte", "ld.global.b32:l1", 4, "149", "Choi et al., GTX 580, Table 5"),
    ("L1, pJ/byte", "ld.global.b32:l1", 4, "11.6", _SECOND_HAND),
    ("shared memory, pJ/byte", "ld.shared.b32:shared", 4, "51", "Choi et al., GTX 680, Table 5"),
)


def main() -> int:
    """Print the tables, or write them into their page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write them into {PAGE.relative_to(ROOT)}")
    if parser.parse_args().write:
        write_blocks(PAGE, blocks())
    else:
        print("\n".join(blocks().values()))
    return 0


def blocks() -> dict[str, str]:
    """Return the tables as Markdown, by the names of their marks."""
    tables = [open_atlas(name) for name in SHIPPED]
    return {"twenty": twenty(tables), "units": units(tables)}


def units(tables: Sequence[Atlas]) -> str:
    """Return what a flop and a byte cost, beside what others published."""
    of_dram = {one.name: dram_byte_pj(one) for one in tables}
    heads = ("what", *(one.name.upper() for one in tables), "published", "source")
    lines = [f"| {' | '.join(heads)} |", "| --- | ---: | ---: | ---: | --- |"]
    for what, name, count, published, source in _UNITS:
        own = (
            f"{min(found):.0f} to {max(found):.0f}"
            if (found := of_dram[one.name].get(what))
            else f"{_at_o3(name, one).energy_pj / count:.1f}"
            for one in tables
        )
        lines.append(f"| {' | '.join((what, *own, published, source))} |")
    return "\n".join(lines) + "\n"


def dram_byte_pj(one: Atlas) -> dict[str, list[float]]:
    """Return what a byte of DRAM costs on random operands, with the power of DRAM at work and without, pJ."""
    kept = [
        kept
        for kept in kept_rooflines()
        if kept.has_third and kept.product == one.name.upper() and kept.document["pattern"] == Pattern.RANDOM
    ]
    row_pj = _at_o3(_DRAM_ROW, one).energy_pj / _DRAM_BYTES
    return {
        _DRAM: [*(of.quantity("average_byte_pj")["value"] for of in kept), row_pj],
        _ONE_MORE: [
            energy["value"]["value"]
            for of in kept
            for energy in of.document["energies"]
            if energy["name"] == "dram"
        ],
    }


def twenty(tables: Sequence[Atlas]) -> str:
    """Return twenty instructions beside Table I."""
    eq1 = {t.name: eq1_rows(t.name) for t in tables}
    heads = (
        *(f"{t.name.upper()}, pJ" for t in tables),
        *(f"{name.upper()} by Eq. 1, nJ" for name in eq1),
        *(f"{at.capitalize()} by Eq. 1, nJ" for at in PUBLISHED),
    )
    lines = [f"| instruction | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for name in NAMES:
        cells = (
            *(number(_at_o3(name, one).boards_pj) for one in tables),
            *(_mtsm(of_gpu.get((name, OptLevel.O0))) for of_gpu in eq1.values()),
            *(number(_published_nj(name, at)) for at in PUBLISHED),
        )
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _at_o3(name: str, one: Atlas) -> Cost:
    """Return what an instruction costs at -O3 on random operands."""
    wanted = OptLevel.O3, Pattern.RANDOM, WARP
    return next(c for c in find_costs(name, [one]) if (c.opt_level, c.operands, c.lanes) == wanted)


def _mtsm(row: TableRow | None) -> str:
    return number(row.mtsm_pj / PJ_PER_NJ if row else math.nan)


def _published_nj(name: str, architecture: str) -> float:
    """Return what Table I has for an instruction at -O0 by MTSM, nJ."""
    paper = find_instruction(name).paper
    for one in load_arafa_table():
        if (one.row, one.optimization, one.architecture) == (paper, OptLevel.O0, architecture):
            return _NJ_PER_UJ * one.mtsm_uj
    return math.nan


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_costs: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
