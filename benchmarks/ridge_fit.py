"""The ridge point by ptxbench and by the `energy` module of Kernel Tuner, from the same simulated samples.

    python benchmarks/ridge_fit.py [--scatter 0.001] [--seeds 5]
    python benchmarks/ridge_fit.py --samples FILE.csv [--cap-w 250]

The samples have a hidden ridge point, like those of a kernel that loads the GPU at 28 SM clocks from 345 to
1965 MHz. With --samples both get the samples of that file instead: columns clock_mhz and power_w, or energy_j
and time_ms; a column `workload` names the kernel. Kernel Tuner is optional (pip install kernel-tuner);
without it its column says so.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ptxbench.model.clocks.ridge import PowerCurve, PowerSample, fit_ridge

CLOCKS_MHZ = range(345, 1966, 60)
RIDGES_MHZ = (600, 800, 1000, 1200, 1400)


def draw_samples(ridge_mhz: float, beta_per_mhz: float, scatter: float, seed: int) -> list[PowerSample]:
    """Return power at every clock, with relative normal scatter."""
    rng = np.random.default_rng(seed)
    curve = PowerCurve(80, 0.12, ridge_mhz, beta_per_mhz)
    return [
        PowerSample(clock, curve.power_w(clock) * (1 + scatter * rng.standard_normal()))
        for clock in CLOCKS_MHZ
    ]


def ptxbench_mhz(samples: Sequence[PowerSample]) -> float:
    """Return the ridge point that ptxbench finds, NaN where it says that there is none."""
    return fit_ridge(samples).ridge_mhz.value


def kernel_tuner_mhz(samples: Sequence[PowerSample]) -> float:
    """Return the ridge point that Kernel Tuner finds, NaN where its fit raises or it is not installed."""
    try:
        from kernel_tuner.energy.energy import fit_power_frequency_model
    except ImportError:
        return math.nan
    try:
        found = fit_power_frequency_model(
            [sample.clock_mhz for sample in samples], [sample.power_w for sample in samples]
        )
    except (RuntimeError, ValueError):
        return math.nan
    return float(found[0])


def found_text(find: Callable[[Sequence[PowerSample]], float], draws: Sequence[Sequence[PowerSample]]) -> str:
    """Return the mean of what was found and how many draws gave none."""
    found = np.array([find(samples) for samples in draws])
    good = found[np.isfinite(found)]
    none = f", {len(found) - len(good)} of {len(found)} without" if len(good) < len(found) else ""
    return f"{good.mean():.0f}{none}" if len(good) else "none"


def read_workloads(path: Path) -> Mapping[str, Sequence[PowerSample]]:
    """Return the samples of each workload in a file."""
    found: dict[str, list[PowerSample]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            power_w = (
                float(row["power_w"])
                if "power_w" in row
                else 1e3 * float(row["energy_j"]) / float(row["time_ms"])
            )
            found[row.get("workload", path.stem)].append(PowerSample(float(row["clock_mhz"]), power_w))
    return found


def compare_file(path: Path, cap_w: float) -> None:
    """Print what both find in each workload of a file."""
    print(f"{'workload':40}  ptxbench MHz         Kernel Tuner MHz")
    for name, samples in read_workloads(path).items():
        ridge = fit_ridge(samples, cap_w).ridge_mhz
        ours = f"{ridge.value:.0f} ± {ridge.uncertainty:.0f}"
        print(f"{name:40}  {ours:19}  {found_text(kernel_tuner_mhz, [samples])}")


def main() -> None:
    """Print one row a hidden ridge point and slope."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scatter", type=float, default=0.001, help="relative scatter of the powers")
    parser.add_argument("--seeds", type=int, default=5, help="draws of the scatter")
    parser.add_argument("--samples", type=Path, help="CSV file of samples, in place of simulated ones")
    parser.add_argument("--cap-w", type=float, default=math.inf, help="power limit of its GPU, W")
    options = parser.parse_args()
    if options.samples is not None:
        compare_file(options.samples, options.cap_w)
        return
    print("hidden MHz  beta 1/MHz  ptxbench MHz        Kernel Tuner MHz")
    for beta_per_mhz in (1 / 3000, 1 / 1500, 1 / 600):
        for ridge_mhz in RIDGES_MHZ:
            draws = [
                draw_samples(ridge_mhz, beta_per_mhz, options.scatter, seed) for seed in range(options.seeds)
            ]
            ours, theirs = found_text(ptxbench_mhz, draws), found_text(kernel_tuner_mhz, draws)
            print(f"{ridge_mhz:10}  {beta_per_mhz:10.5f}  {ours:18}  {theirs}")


if __name__ == "__main__":
    main()
