"""The fit on an A100 that others set and measured finds the ridge that its voltage shows."""

import csv
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from ptxbench.core.gpu_settings import evenly
from ptxbench.model.clocks.ridge import PowerSample, Voltage, fit_ridge, read_power_samples

DATA = Path(__file__).parents[1] / "data"
WORKLOAD_STEP_MHZ = 90
LIMIT_W = 250


def rows(name):
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def voltage_ridge_mhz():
    """The highest clock at the lowest voltage."""
    table = [(float(r["clock_mhz"]), float(r["voltage_mv"])) for r in rows("a100_idle.csv")]
    lowest = min(mv for _, mv in table)
    return max(mhz for mhz, mv in table if mv == lowest)


def workloads():
    found = defaultdict(list)
    for r in rows("a100_workloads.csv"):
        found[r["workload"]].append((float(r["clock_mhz"]), float(r["energy_j"]), float(r["time_ms"])))
    return found


def test_idle_power_is_not_that_of_a_kernel_and_no_clock_is_told():
    # It rises by leakage, too: the quadratic law alone would say 753 +- 75 MHz.
    found = fit_ridge(
        [PowerSample(float(r["clock_mhz"]), float(r["power_w"])) for r in rows("a100_idle.csv")]
    )
    assert "no ridge can be told within [210, 1410] MHz: power bends with the clock as no" in found.verdict
    assert found.misfit_probability < 0.01
    assert math.isnan(found.ridge_mhz.value)
    assert math.isnan(found.best_clock_mhz.value)


def published_voltage():
    table = [(float(r["clock_mhz"]), float(r["voltage_mv"])) for r in rows("a100_idle.csv")]
    clocks, millivolts = zip(*table, strict=True)
    return np.array(clocks), np.array(millivolts) / min(millivolts)


def quadratic_voltage():
    clocks, _ = published_voltage()
    return clocks, 1 + 0.29 * (np.maximum(0, clocks - 1020) / 390) ** 2


@pytest.mark.parametrize(
    ("voltage", "best_mhz"), [(published_voltage, 1020), (quadratic_voltage, 1083)], ids=["A100", "quadratic"]
)
def test_intervals_hold_the_ridge_and_the_best_clock_of_a_voltage_that_bends(voltage, best_mhz):
    clocks, relative = voltage()
    clocks, relative = evenly(tuple(clocks), 28), evenly(tuple(relative), 28)
    powers = np.array([55 + 0.10 * f * v**2 for f, v in zip(clocks, relative, strict=True)])
    held = []
    for seed in range(6):
        scatter = 1 + 0.005 * np.random.default_rng(seed).normal(size=len(powers))
        found = fit_ridge([PowerSample(f, float(p)) for f, p in zip(clocks, powers * scatter, strict=True)])
        assert found.voltage is Voltage.QUADRATIC
        assert found.linear_probability < 0.001
        held.append(
            (
                abs(found.ridge_mhz.value - 1020) <= found.ridge_mhz.uncertainty,
                abs(found.best_clock_mhz.value - best_mhz) <= found.best_clock_mhz.uncertainty,
            )
        )
        assert found.ridge_mhz.uncertainty < 130
        assert found.best_clock_mhz.uncertainty < 80
    assert np.mean(held, axis=0) == pytest.approx(1, abs=0.17)


@pytest.mark.parametrize("name", sorted(workloads()))
def test_the_power_of_a_workload_shows_it_too(name, voltage_ridge_mhz):
    points = workloads()[name]
    found = fit_ridge([PowerSample(mhz, 1e3 * joules / ms) for mhz, joules, ms in points], LIMIT_W)
    assert found.found
    assert abs(found.ridge_mhz.value - voltage_ridge_mhz) < found.ridge_mhz.uncertainty
    # Its clocks lie six times as far apart.
    assert abs(found.ridge_mhz.value - voltage_ridge_mhz) < WORKLOAD_STEP_MHZ
    # Eight clocks do not tell a voltage that rises in a line from one that bends.
    assert found.linear_probability > 0.05
    least_mhz = min(points, key=lambda point: point[1])[0]
    assert found.search_mhz[0] <= least_mhz <= found.search_mhz[1]


def test_pairs_that_a_power_limit_made_on_an_h100_are_not_taken_for_a_flat_voltage():
    kept = Path(__file__).parents[3] / "results" / "nvidia-h100" / "ridge-bf16" / "samples.csv"
    found = fit_ridge(read_power_samples(kept))
    assert not found.found
    assert "no ridge can be told within [1772, 1875] MHz" in found.verdict
    assert math.isnan(found.best_clock_mhz.value)
