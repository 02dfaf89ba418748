"""Find out which reading of NVML to believe on a GPU: the worked example of the public API.

    python runners/compare_sampling.py --gpu 0 --out results/nvidia-h200

Measures what the power sources are like (one minute), then compares every method on every source (five
minutes), and keeps both below --out. `ptxbench sensor` and `ptxbench methods` do the same.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxbench.errors import PtxbenchError
from ptxbench.gpu.select import open_gpu
from ptxbench.measure.sampling import Progress, measure_methods
from ptxbench.measure.sense import sense


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, required=True, help="holds sensor/ and methods/ afterwards")
    arguments = parser.parse_args()
    gpu = open_gpu(arguments.gpu)
    try:
        found, _ = sense(gpu, arguments.out / "sensor")
        compared, _ = measure_methods(gpu, arguments.out / "methods", found.sensors, _say)
    finally:
        gpu.close()
    for sensor in found.sensors:
        print(
            f"{sensor.source}: refresh {1e3 * sensor.refresh_s:.1f} ms,"
            f" averaging {1e3 * sensor.averaging_s:.1f} ms ({sensor.shape}), lag {1e3 * sensor.lag_s:.1f} ms"
        )
    for point in compared.points:
        if point.answered:
            print(
                f"{point.kind} {point.duration_s:.3g} s, {point.method} on {point.source}:"
                f" {point.bias_pct:+.1f}%, foretold {point.predicted_pct:+.1f}%"
            )
    for sentence in (*compared.recommendations, *compared.notes):
        print(sentence)
    return 0


def _say(progress: Progress) -> None:
    print(f"{progress.done}/{progress.total} {progress.name}", file=sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_sampling: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
