"""Eq. 6 of Guerreiro et al. (2015) and MTSM corrected, on a simulated slow sensor with known energy.

    python benchmarks/capacitance.py [--seeds 8]

Kernels of even power, 0.2 to 5 s long. The errors are against the energy that the simulated GPU drew, times
the sensor's hidden gain: mean and standard deviation over seeds, which set the phase of the sensor and its
noise. C is what the sensor's description says (half of its averaging), what a fit to the 5 s kernel of the
same board finds, or what Burtscher et al. (2014) found for a K20c.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import find_profile
from ptxbench.energy.capacitance import capacitance_j, fit_capacitance
from ptxbench.energy.corrected import corrected_j
from ptxbench.energy.methods import mtsm_j
from ptxbench.energy.reading import EnergyReading
from ptxbench.experiment.load import prepare_load
from ptxbench.sensors.trace import KernelWindow, Series

SLOW_SENSOR = find_profile("slow-sensor")

LENGTHS_S = (0.2, 0.5, 1.0, 2.0, 5.0)
BESIDE_S = 3.0
K20C_S = 0.833


def errors_of(seed: int) -> tuple[dict[str, list[float]], float]:
    """Return the errors of each method by length on one board, and the C that its longest kernel gives."""
    gpu = SimulatedGpu(SLOW_SENSOR, seed=seed)
    (sensor,), (spec,) = gpu.sensors, SLOW_SENSOR.sensors
    load = prepare_load(gpu)
    # The sensor still remembers the load that was calibrated.
    gpu.clock.sleep_s(BESIDE_S)
    recorded: list[tuple[Series, KernelWindow, float]] = []
    for length_s in LENGTHS_S:
        launch = replace(load.launch(f"{length_s} s", length_s), before_s=BESIDE_S, after_s=BESIDE_S)
        run = gpu.run(launch)
        series = run.trace.of(sensor.source)
        if series is None:
            raise ValueError(f"nothing was read of {sensor.source}")
        drawn_j = gpu._physics.energy_j(run.window.end_ns) - gpu._physics.energy_j(run.window.start_ns)
        recorded.append((series, run.window, spec.gain * drawn_j))
    fitted_s = fit_capacitance(recorded[-1][0], recorded[-1][1], sensor).value
    methods: dict[str, Callable[[Series, KernelWindow], EnergyReading]] = {
        "MTSM, Eq. 2 of Arafa et al.": mtsm_j,
        "Eq. 6, C of the description": lambda series, window: capacitance_j(series, window, sensor),
        "Eq. 6, C fitted": lambda series, window: capacitance_j(series, window, sensor, fitted_s),
        f"Eq. 6, C = {K20C_S} s": lambda series, window: capacitance_j(series, window, sensor, K20C_S),
        "MTSM corrected": lambda series, window: corrected_j(series, window, sensor),
    }
    found = {
        name: [method(series, window).energy_j / true_j - 1 for series, window, true_j in recorded]
        for name, method in methods.items()
    }
    return found, fitted_s


def main() -> None:
    """Print a table of errors by method and length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    seeds = range(parser.parse_args().seeds)
    every = [errors_of(seed) for seed in seeds]
    fitted_s = np.array([constant_s for _, constant_s in every])
    print("SIMULATED: a slow sensor of hidden gain; error in percent, mean and deviation over seeds")
    print(f"C fitted: {fitted_s.mean():.3f} s, deviation {fitted_s.std(ddof=1):.3f} s")
    print("| method | " + " | ".join(f"{length_s:g} s" for length_s in LENGTHS_S) + " |")
    print("| --- |" + " ---: |" * len(LENGTHS_S))
    for name in every[0][0]:
        errors = 100 * np.array([found[name] for found, _ in every])
        cells = zip(errors.mean(axis=0), errors.std(axis=0, ddof=1), strict=True)
        print(f"| {name} | " + " | ".join(f"{mean:.1f} ± {spread:.1f}" for mean, spread in cells) + " |")


if __name__ == "__main__":
    main()
