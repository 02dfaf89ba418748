"""Set the energy model beside models that know less, on the validation kernels.

    python runners/compare_baselines.py --validation FOLDER [--validation FOLDER] --table RUN [--keep]

Needs no GPU: it works everything out from what `validate_kernels.py` measured and counted, and a table. All
models are fitted to the fit kernels of every FOLDER, and judged by the judged kernels of each. Prints a
Markdown table of each. `--keep` writes the baselines beside the table (baselines.json), for `ptxbench
estimate --explain`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from baseline_models import BaselineComparison, fit_baselines

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.atlas import open_atlas
from ptxbench.model.baselines import FILE
from ptxbench.storage.document import write_beside

# What the kernels of a folder are called.
_SETS = {"validation": "library", "suite": "suite"}


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--validation", type=Path, action="append", required=True, help="what measure and count wrote"
    )
    parser.add_argument("--table", type=Path, required=True, help="run folder of the same kind of GPU")
    parser.add_argument("--keep", action="store_true", help="write baselines.json beside the table")
    parser.add_argument(
        "--counts-of", type=Path, help="results of a GPU of the same target, for sessions without counts"
    )
    arguments = parser.parse_args()
    folders, counts_of = arguments.validation, arguments.counts_of
    models = fit_baselines(folders, open_atlas(arguments.table).opcode_energies, counts_of)
    judged = [(_SETS.get(one.name, one.name), models.judged_by(one, counts_of)) for one in folders]
    for name, found in judged:
        print(f"\n{name}: {len(found.kernels)} judged cases\n")
        _print(found)
    if arguments.keep:
        write_beside(arguments.table / FILE, models.kept(judged))
    return 0


def _print(found: BaselineComparison) -> None:
    print("| model | mean absolute error, % | worst, % | larger than the table's by, % (95%) |")
    print("| --- | ---: | ---: | ---: |")
    print(f"| {found.table.name} | {found.table.mean_absolute_pct:.1f} | {found.table.worst_pct:.1f} | |")
    for baseline in found.baselines:
        low, high = found.difference_pct(baseline)
        print(f"| {baseline.name} | {baseline.mean_absolute_pct:.1f} | {baseline.worst_pct:.1f} |", end="")
        print(f" {low:+.1f} to {high:+.1f} |")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_baselines: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
