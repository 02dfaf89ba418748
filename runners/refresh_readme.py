"""Print the README's table and draw its picture, from committed runs of a real GPU.

    python runners/refresh_readme.py --plot docs/images/h200_energies.png

The starters: energies of the run `table-6eda`, latencies (protocol `arafa`) of the run `starters`.
Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import ARAFA, DYNAMIC
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.report.plot import plot_energies
from ptxbench.report.summary import summary_table
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow

RESULTS = Path(__file__).parents[1] / "results" / "nvidia-h200"


def main() -> int:
    """Print, draw, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path, help="picture to write (.png, .svg, .pdf)")
    arguments = parser.parse_args()
    rows, info = readme_rows(RESULTS)
    print(summary_table(rows), end="")
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
