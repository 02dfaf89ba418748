"""Set twenty instructions on every measured GPU beside the figures of Table I of Arafa et al. (2020).

    python runners/compare_costs.py            # prints the table
    python runners/compare_costs.py --write    # puts it into docs/published.md, between its marks

The dynamic energies are those of `ptxbench cost` (-O3, random operands, mean of the boards). Eq. 1 is that
of the runs `table1*` below results/ at -O0 (runners/table_one.py), beside the paper's MTSM of two GPUs. Exit
codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from page_blocks import with_block
from table_one import eq1_rows

from ptxbench.catalogue.arafa import load_arafa_table
from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.threads import WARP
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.report.cost import find_costs
from ptxbench.report.text import number
from ptxbench.storage.atomic import write_text
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


def main() -> int:
    """Print the table, or write it into its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write it into {PAGE.relative_to(ROOT)}")
    if parser.parse_args().write:
        write_text(PAGE, with_table(PAGE.read_text(encoding="utf-8"), table()))
    else:
        print(table())
    return 0


def with_table(page: str, text: str) -> str:
    """Return a page with the table between its marks."""
    return with_block(page, "twenty", f"{text}\n")


def table() -> str:
    """Return the table as Markdown."""
    tables = [open_atlas(name) for name in SHIPPED]
    eq1 = {t.name: eq1_rows(t.name) for t in tables}
    heads = (
        *(f"{t.name.upper()}, pJ" for t in tables),
        *(f"{name.upper()} by Eq. 1, nJ" for name in eq1),
        *(f"{at.capitalize()} by Eq. 1, nJ" for at in PUBLISHED),
    )
    lines = [f"| instruction | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for name in NAMES:
        cells = (
            *(number(_dynamic_pj(name, one)) for one in tables),
            *(_mtsm(of_gpu.get((name, OptLevel.O0))) for of_gpu in eq1.values()),
            *(number(_published_nj(name, at)) for at in PUBLISHED),
        )
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _dynamic_pj(name: str, one: Atlas) -> float:
    """Return the mean of the boards at -O3 on random operands."""
    costs = find_costs(name, [one])
    of_row = [
        c.boards_pj for c in costs if c.opt_level == OptLevel.O3 and (c.operands, c.lanes) == ("random", WARP)
    ]
    return of_row[0] if of_row else math.nan


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
