"""CPU time of finding what the rows of a run share, the drift of all trials above all. Needs no GPU.

    python benchmarks/drift_time.py
    python benchmarks/drift_time.py results/nvidia-h200/table-6eda-repeat

It prints seconds, and how many passes of the smoother over all trials once they are worth, which hardly
depends on the machine. One thread of BLAS serves best: `OPENBLAS_NUM_THREADS=1`. Exit codes: 0 done, 2 the
run has no records.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ptxbench.analysis.hmm import WRONG_SHARE, LevelPrior, smooth
from ptxbench.analysis.loop_energy import RunCalibration, shared_by
from ptxbench.core.errors import PtxbenchError
from ptxbench.storage.run_folder import RunFolder

RUN = Path(__file__).resolve().parents[1] / "results" / "nvidia-h200" / "table-6eda"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", default=RUN, help="folder of a run with its records")
    path = parser.parse_args().run
    with RunFolder.open(path) as run:
        records, gpu = run.records(), run.manifest.gpu
    found: list[RunCalibration] = []
    whole_s = cpu_s(lambda: found.append(shared_by(records, gpu)))
    trials = len(found[0].drift.level)
    print(f"{path.name}: {len(records)} trials, {trials} of them with a drift level")
    smooth_s = min(cpu_s(lambda: smooth_once(max(trials, 2))) for _ in range(5))
    print(f"what its rows share: {whole_s:.2f} s of CPU, {whole_s / smooth_s:.0f} times the smoother")
    return 0


def smooth_once(trials: int) -> None:
    """Smooth looks of which none tells of a level."""
    looks = np.zeros((1, trials))
    counts, apart = np.ones(trials, dtype=bool), np.zeros(trials, dtype=bool)
    smooth(
        looks,
        looks + 0.001,
        counts,
        apart,
        looks + WRONG_SHARE,
        LevelPrior(jump=0.06, spread=0.012, creep=0.02),
    )


def cpu_s(work: Callable[[], None]) -> float:
    """Return the CPU time of a piece of work, s."""
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"drift_time: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
