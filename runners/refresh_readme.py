"""Print the README's tables and draw its picture, from committed runs of real GPUs.

    python runners/refresh_readme.py --plot docs/images/h200_energies.png

The starters: energies of the run `table-6eda`, latencies (protocol `arafa`) of the run `starters`. The tensor
products: the atlas of H100s.
Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import ARAFA, ARRAY_PATTERNS, DYNAMIC, OptLevel
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.model.atlas import open_atlas
from ptxbench.report.cost import find_costs
from ptxbench.report.plot import plot_energies
from ptxbench.report.summary import summary_table
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow

_TENSOR = (
    "mma.m16n8k16.f32.f16.f16.f32",
    "mma.m16n8k8.f32.tf32.tf32.f32",
    "mma.m16n8k8.f64.f64.f64.f64",
    "wgmma.m64n256k16.f32.f16.f16",
    "wgmma.m64n256k16.f32.bf16.bf16",
    "wgmma.m64n256k32.f32.e4m3.e4m3",
)
RESULTS = Path(__file__).parents[1] / "results" / "nvidia-h200"


def main() -> int:
    """Print, draw, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path, help="picture to write (.png, .svg, .pdf)")
    arguments = parser.parse_args()
    rows, info = readme_rows(RESULTS)
    print(summary_table(rows), end="\n")
    print(tensor_table(), end="")
    if arguments.plot is not None:
        plot_energies(rows, info, arguments.plot)
    return 0


def readme_rows(results: Path) -> tuple[list[TableRow], GpuInfo]:
    """Return the rows that the README shows, and the GPU of their energies.

    Args:
        results: Folder with the runs.

    Raises:
        InputError: A run is not there or cannot be read.
    """
    energies, gpu = _valid(results / "table-6eda", DYNAMIC)
    latencies, _ = _valid(results / "starters", ARAFA)
    chosen = []
    for of in (energies, latencies):
        chosen += [row for name in STARTERS for (at, _), row in of.items() if at == name]
    return chosen, gpu


def tensor_table() -> str:
    """Return the README's table of tensor products on H100s, in Markdown."""
    h100 = open_atlas("h100")
    lines = [
        "| instruction | SASS at -O3 | executed by a | pJ a flop | on zeros | pJ an instruction | at MHz |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name in _TENSOR:
        at_o3 = [
            cost for cost in find_costs(name, [h100]) if (cost.opt_level, cost.lanes) == (OptLevel.O3, WARP)
        ]
        random, zeros = (next(c for c in at_o3 if c.operands == kind) for kind in ARRAY_PATTERNS)
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


def _valid(run: Path, protocol: str) -> tuple[dict[tuple[str, str], TableRow], GpuInfo]:
    """Return the valid rows of a run by instruction and level, and its GPU."""
    with RunFolder.open(run) as folder:
        rows = [r for r in folder.rows() if r.protocol == protocol and r.status is Status.OK]
        return {(r.instruction, r.opt_level): r for r in rows}, folder.manifest.gpu


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"refresh_readme: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
