"""The fit on an A100 that others set and measured finds the ridge that its voltage shows."""

import csv
import math
from collections import defaultdict
from pathlib import Path

import pytest

from ptxbench.model.clocks.ridge import PowerSample, fit_ridge, read_power_samples

DATA = Path(__file__).parents[1] / "data"
STEP_MHZ, WORKLOAD_STEP_MHZ = 15, 90
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


def test_idle_power_alone_shows_the_ridge_of_the_voltage(voltage_ridge_mhz):
    found = fit_ridge(
        [PowerSample(float(r["clock_mhz"]), float(r["power_w"])) for r in rows("a100_idle.csv")]
    )
    assert found.found
    assert found.ridge_mhz.value == pytest.approx(voltage_ridge_mhz, abs=STEP_MHZ)


@pytest.mark.parametrize("name", sorted(workloads()))
def test_the_power_of_a_workload_shows_it_too(name, voltage_ridge_mhz):
    points = workloads()[name]
    found = fit_ridge([PowerSample(mhz, 1e3 * joules / ms) for mhz, joules, ms in points], LIMIT_W)
    assert found.found
    # Its clocks lie six times as far apart.
    assert abs(found.ridge_mhz.value - voltage_ridge_mhz) < found.ridge_mhz.uncertainty
    assert found.ridge_mhz.uncertainty < WORKLOAD_STEP_MHZ
    least_mhz = min(points, key=lambda point: point[1])[0]
    assert found.search_mhz[0] <= least_mhz <= found.search_mhz[1]


def test_pairs_that_a_power_limit_made_on_an_h100_are_not_taken_for_a_flat_voltage():
    kept = Path(__file__).parents[3] / "results" / "nvidia-h100" / "ridge-bf16" / "samples.csv"
    found = fit_ridge(read_power_samples(kept))
    assert not found.found
    assert "no ridge can be told within [1772, 1875] MHz" in found.verdict
    assert math.isnan(found.best_clock_mhz.value)
