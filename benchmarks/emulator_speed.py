"""How fast the emulator is: instructions of a warp a second, of a block of 256 threads.

    python benchmarks/emulator_speed.py [--blocks 1]

Needs nvcc of the assembler's CUDA version and no GPU; takes minutes. Kernels are those of the instruction
suite, each on its first kind of data. 64 passes of each loop are run, and operands are looked at, as for an
estimate.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from time import process_time

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "runners"))

from fit_emulation import TARGET, launch_of
from suite_split import SuiteKernel, read_split

from ptxbench.emulator.sass.launch import emulate
from ptxbench.emulator.sass.tally import Tally

THREADS = 256


def speed(one: SuiteKernel, folder: Path, blocks: int) -> tuple[float, float]:
    """Return the instructions of a warp a second and the CPU seconds of a kernel's sample.

    Args:
        one: The kernel.
        folder: Folder of cubins.
        blocks: Blocks of the sample.
    """
    launch = launch_of(one, one.data[0], folder)
    begin_s = process_time()
    found = emulate(launch, blocks, 64)
    passed_s = process_time() - begin_s
    issued = float(found.tallies[Tally.ISSUED].sum())
    # Passes that were left out are counted as issued, and were not carried out.
    done = min(issued, found.steps * found.sample.warps * blocks)
    return done / passed_s, passed_s


def main() -> int:
    """Run every kernel of 256 threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=1, help="blocks of a sample")
    blocks = parser.parse_args().blocks
    speeds = []
    with tempfile.TemporaryDirectory() as folder:
        for one in (one for one in read_split() if one.threads == THREADS):
            per_s, passed_s = speed(one, Path(folder), blocks)
            speeds.append(per_s)
            print(f"{one.case}: {per_s:,.0f} a second, {passed_s:.1f} s of CPU ({TARGET})", flush=True)
    low, middle = np.percentile(speeds, 10), np.median(speeds)
    print(f"{len(speeds)} kernels: median {middle:,.0f}, a tenth below {low:,.0f}, least {min(speeds):,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
