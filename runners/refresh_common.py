"""Write which SASS opcodes real kernels execute most, by which runs measure the commonest first.

    python runners/refresh_common.py results/nvidia-h200/validation/counts

The folder holds CSVs of ncu with executed opcodes (docs/howto/estimate.md). Every kernel counts as much as
every other, and one that was launched more than once counts once. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from ptxbench.catalogue.common import FILE
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.model.ncu import ProfiledLaunch, read_launches, work_of
from ptxbench.storage.atomic import write_text

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "ptxbench" / "catalogue" / "data" / FILE
# What is executed less is no common opcode.
_LEAST_PERCENT = 0.05
_HEAD = """\
# Share of each SASS opcode in what {kernels} kernels execute, the mean over the kernels: those of {name}.
# Written by runners/refresh_common.py; opcodes under {least} percent are left out.
opcode,percent
"""


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("counts", type=Path, help="folder with CSVs of ncu")
    parser.add_argument("--out", type=Path, default=SHIPPED)
    arguments = parser.parse_args()
    folder = arguments.counts.resolve()
    kernels, shares = shares_of(folder)
    name = folder.relative_to(ROOT).as_posix() if folder.is_relative_to(ROOT) else folder.name
    head = _HEAD.format(kernels=kernels, name=name, least=_LEAST_PERCENT)
    lines = [f"{opcode},{percent:.3f}" for opcode, percent in shares.items() if percent >= _LEAST_PERCENT]
    write_text(arguments.out, head + "\n".join(lines) + "\n")
    return 0


def shares_of(folder: Path) -> tuple[int, dict[str, float]]:
    """Return how many kernels a folder's CSVs hold, and each opcode's mean share in percent, largest first.

    Raises:
        InputError: There is no CSV, or one cannot be read.
    """
    launches: dict[str, tuple[ProfiledLaunch, Path]] = {}
    for path in sorted(folder.glob("*.csv")):
        for launch in read_launches(path):
            launches.setdefault(launch.kernel, (launch, path))
    if not launches:
        raise InputError(
            f"{folder} has no CSV of ncu; give the folder that `validate_kernels.py count` wrote"
        )
    shares: dict[str, float] = defaultdict(float)
    for launch, path in launches.values():
        opcodes = dict(work_of([launch], launch.kernel, path).opcodes)
        executed = sum(opcodes.values())
        for opcode, n in opcodes.items():
            shares[opcode] += 100 * n / executed / len(launches)
    largest = sorted(shares.items(), key=lambda one: one[1], reverse=True)
    return len(launches), dict(largest)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"refresh_common: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
