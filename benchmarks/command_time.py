"""CPU time of look-ups, estimates and pages beside that of a Python which only imports numpy. Needs no GPU.

    python benchmarks/command_time.py

Look-ups, both estimates of the README, and pages of kept runs are made so many times in processes of their
own; the least of each counts, with the assembler that an estimate of a PTX file calls. Exit codes: 0 done,
1 a command failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTS = ROOT / "results/nvidia-h200/validation/counts/counts-93-95-97-99-101-103-105-107-109-110.csv"
KERNEL = ROOT / "tests" / "model" / "kernels" / "elementwise.ptx"
_PTXBENCH = (sys.executable, "-m", "ptxbench")
_COST, _ESTIMATE = (*_PTXBENCH, "cost"), (*_PTXBENCH, "estimate")
_TABLE = ("--table", "h200", "--json")
H100 = ROOT / "results" / "nvidia-h100"
# Becomes the name of a new file.
_PAGE = "PAGE"
COMMANDS = {
    "import numpy": (sys.executable, "-c", "import numpy"),
    "cost, a name": (*_COST, "fma.rn.f32"),
    "cost, SASS": (*_COST, "FFMA"),
    "estimate, counts by ncu": (*_ESTIMATE, "stencil7", "--ncu", str(COUNTS), *_TABLE),
    "estimate, a PTX file": (
        *(*_ESTIMATE, str(KERNEL), "--grid", "1056", "--block", "256", "--trips", "0=4096"),
        *_TABLE,
    ),
    "tune report": (*_PTXBENCH, "tune", "report", str(H100 / "tunings" / "nbody")),
    "tune report, a page": (*_PTXBENCH, "tune", "report", str(H100 / "tunings" / "nbody"), "--out", _PAGE),
    "run --from, a page": (*_PTXBENCH, "run", "--from", str(H100 / "programs" / "fma"), "--html", _PAGE),
    "roofline show": (*_PTXBENCH, "roofline", "show", str(H100 / "roofline" / "f32")),
    "roofline show, a page": (
        *_PTXBENCH,
        "roofline",
        "show",
        str(H100 / "roofline" / "f32"),
        "--html",
        _PAGE,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="runs of each command (default: 5)")
    repeats = parser.parse_args().repeats
    numpy_s = 0.0
    for name, command in COMMANDS.items():
        least_s = min(cpu_s(command) for _ in range(repeats))
        numpy_s = numpy_s or least_s
        print(f"{name:24s} {least_s:6.3f} s of CPU, {least_s / numpy_s:5.1f} times `import numpy`")
    return 0


def cpu_s(command: Sequence[str]) -> float:
    """Return the CPU time of a command and of what it calls, s.

    Raises:
        CalledProcessError: It failed.
    """
    with tempfile.TemporaryDirectory(prefix="ptxbench-time-") as folder:
        words = [f"{folder}/page.html" if word == _PAGE else word for word in command]
        before = os.times()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError:
        sys.exit(1)
