"""CPU time of `ptxbench cost` and `estimate` beside that of a Python which only imports numpy. Needs no GPU.

    python benchmarks/estimate_time.py

Look-ups, and both estimates of the README, are run so many times in processes of their own; the least of
each counts, with the assembler that the last one calls. Exit codes: 0 done, 1 a command failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTS = ROOT / "results/nvidia-h200/validation/counts/counts-93-95-97-99-101-103-105-107-109-110.csv"
KERNEL = ROOT / "tests" / "model" / "kernels" / "elementwise.ptx"
_COST = (sys.executable, "-m", "ptxbench", "cost")
_ESTIMATE = (sys.executable, "-m", "ptxbench", "estimate")
_TABLE = ("--table", "h200", "--json")
COMMANDS = {
    "import numpy": (sys.executable, "-c", "import numpy"),
    "cost, a name": (*_COST, "fma.rn.f32"),
    "cost, SASS": (*_COST, "FFMA"),
    "estimate, counts by ncu": (*_ESTIMATE, "stencil7", "--ncu", str(COUNTS), *_TABLE),
    "estimate, a PTX file": (
        *(*_ESTIMATE, str(KERNEL), "--grid", "1056", "--block", "256", "--trips", "0=4096"),
        *_TABLE,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="runs of each command (default: 5)")
    repeats = parser.parse_args().repeats
    numpy_s = 0.0
    for name, command in COMMANDS.items():
        times_s = [cpu_s(command) for _ in range(repeats)]
        least_s = min(times_s)
        numpy_s = numpy_s or least_s
        print(f"{name:24s} {least_s:6.3f} s of CPU, {least_s / numpy_s:5.1f} times `import numpy`")
    return 0


def cpu_s(command: Sequence[str]) -> float:
    """Return the CPU time of a command and of what it calls, s.

    Raises:
        CalledProcessError: It failed.
    """
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError:
        sys.exit(1)
