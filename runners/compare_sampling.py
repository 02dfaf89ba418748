"""Find out which reading of NVML to believe on a GPU: the worked example of the public API.

    python runners/compare_sampling.py --gpu 0 --out results/nvidia-h200/methods

Measures what the power sources are like (one minute) unless --sensor names a folder that says so, then
compares every method on every source (six minutes). --out holds the readings, methods.json and
methods.png. `ptxbench doctor sensor` and `ptxbench doctor methods` do the same. --without names such a folder
of another board, and leaves out the runs that it has.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.select import open_gpu
from ptxbench.experiment.sampling import Progress, measure_methods
from ptxbench.experiment.sensor_choice import sensors_for
from ptxbench.experiment.sensor_study import sense
from ptxbench.report.figure import new_figure
from ptxbench.report.methods_plot import plot_methods
from ptxbench.storage import codec
from ptxbench.storage.codec import Place
from ptxbench.storage.recording import Recording


def main() -> int:
    """Measure, print, draw, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, required=True, help="new folder for the comparison")
    parser.add_argument(
        "--sensor", type=Path, help="folder of `ptxbench doctor sensor` (default: measured into OUT-sensor)"
    )
    parser.add_argument("--without", type=Path, help="folder of another board, whose runs are left out")
    arguments = parser.parse_args()
    without = _names(arguments.without) if arguments.without else set()
    new_figure(1, 1)  # a missing matplotlib is said before anything is measured
    gpu = open_gpu(arguments.gpu)
    try:
        path = arguments.sensor or sense(gpu, arguments.out.with_name(arguments.out.name + "-sensor"))[1]
        sensors = sensors_for(path, gpu)
        compared, folder = measure_methods(gpu, arguments.out, sensors, _say, without=without)
    finally:
        gpu.close()
    plot_methods(compared, folder / "methods.png")
    for sensor in sensors:
        print(
            f"{sensor.source}: refresh {1e3 * sensor.refresh_s:.1f} ms,"
            f" averaging {1e3 * sensor.averaging_s:.1f} ms ({sensor.shape}), lag {1e3 * sensor.lag_s:.1f} ms"
        )
    for point in compared.points:
        if point.answered:
            print(
                f"{point.kind} {point.duration_s:.3g} s, {point.method} on {point.source}:"
                f" {point.bias_pct:+.1f}%, predicted {point.predicted_pct:+.1f}%"
            )
    for sentence in (*compared.recommendations, *compared.notes):
        print(sentence)
    return 0


def _names(folder: Path) -> set[str]:
    path = folder / "recordings.json"
    return {one.name for one in codec.decode_list(Recording, codec.read_json(path), Place(path))}


def _say(progress: Progress) -> None:
    print(f"{progress.done}/{progress.total} {progress.name}", file=sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_sampling: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        kept = "stopped; see what was recorded with: ptxbench doctor methods --gpu replay:OUT"
        print(f"compare_sampling: {kept}", file=sys.stderr)
        sys.exit(130)
