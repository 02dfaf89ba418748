"""Set the energy model beside models that know less, on the validation kernels.

    python runners/compare_nulls.py --validation RUN/validation --table RUN [--also RUN/suite]

Needs no GPU: it works everything out from what `validate_kernels.py` measured and counted, and a table. It
prints a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.null_models import compare_with_nulls
from ptxbench.model.solved import read_solved


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--validation", type=Path, required=True, help="what measure and count wrote")
    parser.add_argument("--table", type=Path, required=True, help="run folder of the same kind of GPU")
    parser.add_argument(
        "--also", type=Path, action="append", default=[], help="more such folders, to fit to as well"
    )
    arguments = parser.parse_args()
    energies = read_solved(arguments.table).opcode_energies
    found = compare_with_nulls(arguments.validation, energies, arguments.also)
    print("| model | mean absolute error, % | worst, % | larger than the table's by, % (95%) |")
    print("| --- | ---: | ---: | ---: |")
    print(f"| {found.table.name} | {found.table.mean_absolute_pct:.1f} | {found.table.worst_pct:.1f} | |")
    for null in found.nulls:
        low, high = found.difference_pct(null)
        print(f"| {null.name} | {null.mean_absolute_pct:.1f} | {null.worst_pct:.1f} |", end="")
        print(f" {low:+.1f} to {high:+.1f} |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_nulls: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
