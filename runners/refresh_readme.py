"""Write what pages show of the shipped tables, and draw the README's picture.

    python runners/refresh_readme.py            # prints the README's tables
    python runners/refresh_readme.py --write --plot docs/images/h200_energies.png

The starters: energies of the H200's table (`table-6eda`), latencies (protocol `arafa`) of the run `starters`.
The tensor products: the atlas of H100s. docs/accuracy.md has more of them, docs/howto/look_up.md an example
of `ptxbench cost`. Each is put between its marks. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from itertools import product
from pathlib import Path
from statistics import median

from page_blocks import write_blocks
from refresh_console import output_of

from ptxbench.catalogue.load import load_catalogue
from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import ARAFA, ARRAY_PATTERNS, DYNAMIC, OptLevel, Pattern
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.core.target import find_target
from ptxbench.core.threads import WARP
from ptxbench.experiment.plan import standard_names
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.report.cost import Cost, costs_text, find_costs
from ptxbench.report.plot import plot_energies
from ptxbench.report.summary import summary_table
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow
from ptxbench.storage.shipped import SHIPPED

_TENSOR = (
    "mma.m16n8k16.f32.f16.f16.f32",
    "mma.m16n8k8.f32.tf32.tf32.f32",
    "mma.m16n8k8.f64.f64.f64.f64",
    "wgmma.m64n256k16.f32.f16.f16",
    "wgmma.m64n256k16.f32.bf16.bf16",
    "wgmma.m64n256k32.f32.e4m3.e4m3",
)
_FLOPS = (
    "wgmma.m64n256k16.f32.f16.f16",
    "wgmma.m64n256k16.f16.f16.f16",
    "wgmma.m64n256k16.f32.bf16.bf16:a",
    "wgmma.m64n256k8.f32.tf32.tf32",
    "wgmma.m64n256k32.f32.e4m3.e4m3",
    "wgmma.m64n256k32.s32.s8.s8",
    "mma.m16n8k16.f32.f16.f16.f32",
    "mma.m16n8k16.f32.bf16.bf16.f32",
    "mma.m16n8k8.f32.tf32.tf32.f32",
    "mma.m16n8k32.s32.s8.s8.s32",
    "mma.m16n8k8.f64.f64.f64.f64",
)
# What one row is beside the work of one thread.
_ONE_IS = {
    "`fma.rn.f32`": ", 2 flops",
    "`fma.rn.f64`": ", 2 flops",
    "`fma.rn.f16x2`": ", 4 flops",
    "`ld.global.u32`": ", 4 bytes: a hit in L1, at the address that the load before gave",
}
# The instruction that the kernels of a roofline compute with.
_OF_ROOFLINE = {
    "mma-f16": "mma.m16n8k16.f32.f16.f16.f32",
    "mma-tf32": "mma.m16n8k8.f32.tf32.tf32.f32",
    "mma-f64": "mma.m16n8k4.f64.f64.f64.f64",
}
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "nvidia-h200"


def main() -> int:
    """Print, draw, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path, help="picture to write (.png, .svg, .pdf)")
    parser.add_argument("--write", action="store_true", help="write them into their pages")
    arguments = parser.parse_args()
    rows, info = readme_rows(RESULTS)
    if arguments.write:
        for (page, name), text in pages(rows).items():
            write_blocks(ROOT / page, {name: text})
    else:
        print(starter_table(rows), end="\n")
        print(tensor_table(), end="")
    if arguments.plot is not None:
        plot_energies(rows, info, arguments.plot)
    return 0


def pages(rows: Sequence[TableRow]) -> dict[tuple[str, str], str]:
    """Return what stands between the marks of a page, by page and name of the marks.

    Args:
        rows: Rows that the README shows.
    """
    return {
        ("README.md", "results"): starter_table(rows),
        ("README.md", "tensor"): tensor_table(),
        ("README.md", "known"): known(),
        ("README.md", "cost"): printed("cost", "fma.rn.f32", "--table", "h200"),
        ("README.md", "tensor-cost"): printed("cost", _TENSOR[3], "--table", "h100"),
        ("README.md", "verify"): printed("verify", "fma.rn.f32", "popc.b32", "--target", "sm_90a"),
        ("docs/index.md", "question"): question(),
        ("docs/accuracy.md", "tensor"): flop_table(),
        ("docs/accuracy.md", "imprecise"): imprecise_rows(),
        ("docs/accuracy.md", "coverage"): coverage_table(),
        ("studies/boards/accuracy.md", "tensor-roofline"): tensor_roofline_table(),
        ("docs/howto/look_up.md", "example"): cost_example(),
    }


def printed(*words: str) -> str:
    """Return what a command prints in a terminal, up to its first empty line, as a block of Markdown."""
    table, _, _ = output_of(*words).partition("\n\n")
    return f"```\n{table.rstrip()}\n```\n"


def known() -> str:
    """Return a sentence of how many instructions the shipped tables have an energy of, with other boards."""
    counts = []
    for name in SHIPPED:
        atlas = open_atlas(name)
        names = {row.instruction for row in atlas.rows if row.status.has_number}
        boards = len(atlas.spread.boards) if atlas.spread else 1
        counts.append(f"{len(names):,} instructions on `{name}` ({boards} boards)")
    return f"With all boards, `ptxbench cost` knows\n{' and '.join(counts)}.\n"


def question() -> str:
    """Return the first paragraph of the site: what it answers, by four rows."""
    h100, h200 = (open_atlas(name) for name in SHIPPED)
    single, double, zeros = (
        _at_o3(name, h200, operands).energy_pj
        for name, operands in (
            ("fma.rn.f32", Pattern.RANDOM),
            ("fma.rn.f64", Pattern.RANDOM),
            ("fma.rn.f32", Pattern.ZEROS),
        )
    )
    eight, sixteen = (_at_o3(name, h100, Pattern.RANDOM).pj_per_flop for name in (_TENSOR[5], _TENSOR[0]))
    text = (
        "**What does one instruction cost in energy?** On an H200, on random operands, a fused multiply-add"
        f" of 32 bits (`FFMA`) takes {single:.1f} pJ a thread, one of 64 bits (`DFMA`) {double:.1f} pJ; on an"
        f" H100 a tensor product takes {eight:.1f} (fp8) to {sixteen:.1f} pJ a flop (f16). On zeros `FFMA`"
        f" takes {zeros:.1f} pJ. Each number has a 95% interval, the machine code that really ran, and the"
        " boards that it was measured on."
    )
    return f"{textwrap.fill(text, 100, break_on_hyphens=False)}\n"


def starter_table(rows: Sequence[TableRow]) -> str:
    """Return the README's table of instructions, in Markdown, with what each row is the energy of."""
    lines = summary_table(rows).splitlines()
    found = []
    for line in lines:
        name, _, rest = line.removeprefix("| ").partition(" | ")
        per = {"instruction": "per", "---": "---"}.get(name) or f"thread{_ONE_IS.get(name, '')}"
        found.append(f"| {name} | {per} | {rest}")
    return "\n".join(found) + "\n"


def imprecise_rows() -> str:
    """Return how many rows of each shipped table are imprecise, and how alike rows of one opcode are."""
    lines = [
        "| table | rows with a number | imprecise | rows of one opcode |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in SHIPPED:
        rows = [row for row in open_atlas(name).rows if row.status.has_number]
        imprecise = sum(row.status is Status.IMPRECISE for row in rows)
        lines.append(f"| `{name}` | {len(rows):,} | {imprecise} | within {_opcode_scatter(rows):.1%} |")
    return "\n".join(lines) + "\n"


def _opcode_scatter(rows: Sequence[TableRow]) -> float:
    """Return within what of their opcode's median half of the rows lie whose copy is one opcode, at -O3."""
    wanted = OptLevel.O3, Pattern.RANDOM, WARP
    of_opcode: dict[str, list[float]] = {}
    for row in rows:
        if (row.opt_level, row.operands, row.lanes) == wanted and row.sass_per_ptx == 1:
            of_opcode.setdefault(row.sass, []).append(row.dynamic_pj)
    several = [energies for energies in of_opcode.values() if len(energies) > 1]
    return median(abs(one / median(energies) - 1) for energies in several for one in energies)


def coverage_table() -> str:
    """Return how many forms of each category have a number on each GPU, and on two boards, in Markdown.

    The last line has those that `ptxbench table --standard` measures.
    """
    target = find_target("sm_90a")
    heads = [f"{name.upper()} {what}" for name in SHIPPED for what in _COVERED]
    lines = [
        f"| category | can be measured at -O3 | {' | '.join(heads)} |",
        "| --- |" + " ---: |" * (1 + len(heads)),
    ]
    forms: dict[str, set[str]] = {}
    for row in load_catalogue():
        form = row.forms(OptLevel.O3)[-1]
        if row.exists_on(target) and not row.refusal(OptLevel.O3, target.name, form):
            forms.setdefault(row.category, set()).add(row.name)
    kinds = {category: set[str]() for category in forms}
    known = [_known(open_atlas(name)) for name in SHIPPED]
    for category, names in kinds.items():
        names |= {one.instruction for of_gpu in known for one in of_gpu if one.category == category}
    lines += [_covered(category, len(forms[category]), names, known) for category, names in kinds.items()]
    everything, first = set().union(*kinds.values()), set(standard_names(target))
    lines.append(_covered("all", sum(map(len, forms.values())), everything, known))
    lines.append(_covered(f"the first {len(first)}", len(first), first, known))
    return "\n".join(lines) + "\n"


def _covered(label: str, most: int, names: Collection[str], known: Sequence[Sequence[Cost]]) -> str:
    """Return a line of the coverage: how many of the names have a number, by GPU and kind of row."""
    counts = [
        len({one.instruction for one in of_gpu if one.instruction in names and fits(one)})
        for of_gpu in known
        for fits in _COVERED.values()
    ]
    return f"| {label} | {most:,} | {' | '.join(f'{count:,}' for count in counts)} |"


def _known(atlas: Atlas) -> list[Cost]:
    """Return the dynamic rows of a table that have a number."""
    costs = find_costs("*", [atlas])
    return [one for one in costs if one.protocol == DYNAMIC and Status(one.status).has_number]


def _at(level: OptLevel, boards: int) -> Callable[[Cost], bool]:
    """Return whether a row is of a level, on random operands, and of so many boards or more."""
    return lambda one: (one.opt_level, one.operands) == (level, Pattern.RANDOM) and one.boards >= boards


# What the columns of the coverage count.
_COVERED: dict[str, Callable[[Cost], bool]] = {
    "-O3": _at(OptLevel.O3, 1),
    "-O0": _at(OptLevel.O0, 1),
    "zeros": lambda one: one.operands == Pattern.ZEROS,
    "-O3, two boards": _at(OptLevel.O3, 2),
    "-O0, two boards": _at(OptLevel.O0, 2),
}


def tensor_roofline_table() -> str:
    """Return tensor products beside the flop of a roofline of the same instruction, in Markdown."""
    lines = [
        "| | row, pJ/flop | at MHz | at 1,980 MHz | roofline, pJ/flop |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for (kind, name), (gpu, home) in product(_OF_ROOFLINE.items(), SHIPPED.items()):
        run = ROOT / "results" / home.name / "roofline" / kind
        if not run.exists():
            continue
        cost, flops = _at_o3(name, open_atlas(gpu), Pattern.RANDOM), _operations(name)
        fitted = json.loads((run / "roofline.json").read_text(encoding="utf-8"))["energies"]
        flop = next(one["value"] for one in fitted if one["name"] == kind)
        cells = (
            f"{cost.energy_pj / flops:.3f} ± {cost.ci95_pj / flops:.3f}",
            f"{cost.clock_mhz:,.0f}",
            f"{cost.reference_pj / flops:.3f} ± {cost.reference_ci95_pj / flops:.3f}",
            f"{flop['value']:.3f} ± {flop['uncertainty']:.3f}",
        )
        lines.append(f"| {gpu.upper()}, `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cost_example() -> str:
    """Return what `ptxbench cost fma.rn.f32` prints on 100 columns, without the lines on where."""
    tables = [open_atlas(name) for name in SHIPPED]
    table, _, _ = costs_text(find_costs("fma.rn.f32", tables), tables, 100).partition("\n\n")
    return f"```\n{table}\n```\n"


def flop_table() -> str:
    """Return the page's table of the energy of an operation on H100s' tensor cores, in Markdown."""
    h100 = open_atlas("h100")
    lines = ["| | pJ a flop (an operation for s8) |", "| --- | ---: |"]
    for name in _FLOPS:
        cost = _at_o3(name, h100, Pattern.RANDOM)
        flop_pj = cost.energy_pj / _operations(name)
        lines.append(f"| `{name}` | {flop_pj:.3f} ± {flop_pj * cost.ci95_pj / cost.energy_pj:.3f} |")
    return "\n".join(lines) + "\n"


def _operations(name: str) -> int:
    """Return the multiplications and additions of a product of m x n x k, which its name has."""
    shape = re.search(r"\.m(\d+)n(\d+)k(\d+)", name)
    assert shape is not None  # noqa: S101 - of the names below
    return 2 * math.prod(map(int, shape.groups()))


def _at_o3(name: str, table: Atlas, operands: str) -> Cost:
    """Return what an instruction costs at -O3."""
    costs = find_costs(name, [table])
    wanted = OptLevel.O3, operands, WARP
    return next(cost for cost in costs if (cost.opt_level, cost.operands, cost.lanes) == wanted)


def readme_rows(results: Path) -> tuple[list[TableRow], GpuInfo]:
    """Return the rows that the README shows, and the GPU of their energies.

    Args:
        results: Folder with the runs.

    Raises:
        InputError: A run is not there or cannot be read.
    """
    h200 = open_atlas("h200")
    energies = _valid(h200.rows, DYNAMIC)
    with RunFolder.open(results / "starters") as folder:
        latencies = _valid(folder.known_rows(), ARAFA)
    chosen = []
    for of in (energies, latencies):
        chosen += [row for name in STARTERS for (at, _), row in of.items() if at == name]
    return chosen, h200.gpu


def tensor_table() -> str:
    """Return the README's table of tensor products on H100s, in Markdown."""
    h100 = open_atlas("h100")
    lines = [
        "| instruction | SASS at -O3 | per | pJ a flop | on zeros | pJ an instruction | at MHz |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name in _TENSOR:
        random, zeros = (_at_o3(name, h100, kind) for kind in ARRAY_PATTERNS)
        error = random.ci95_pj / random.energy_pj * random.pj_per_flop
        cells = (
            f"`{name}`",
            random.sass,
            random.unit,
            f"{random.pj_per_flop:.3f} ± {error:.2g}",
            f"{zeros.pj_per_flop:.3f}",
            f"{random.energy_pj:,.0f} ± {random.ci95_pj:,.0f}",
            f"{random.clock_mhz:,.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _valid(rows: Sequence[TableRow], protocol: str) -> dict[tuple[str, str], TableRow]:
    """Return the valid rows of a protocol, of whole warps on random operands, by instruction and level."""
    wanted = protocol, Status.OK, Pattern.RANDOM, WARP
    return {
        (row.instruction, row.opt_level): row
        for row in rows
        if (row.protocol, row.status, row.operands, row.lanes) == wanted
    }


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"refresh_readme: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
