"""The ridge point of a hidden voltage curve is found within a clock step, or said not to be there."""

import math

import numpy as np
import pytest

from ptxbench.core.errors import InputError
from ptxbench.model.clocks.law import VoltageLaw
from ptxbench.model.clocks.ridge import (
    PowerCurve,
    PowerSample,
    Voltage,
    fit_ridge,
    fitted_cap_w,
    power_samples_csv,
    read_power_samples,
    voltage_ridge_mhz,
)

STEP_MHZ = 15
CLOCKS = np.arange(345, 1981, 8 * STEP_MHZ)


def hidden(ridge_mhz, beta=1 / 1500):
    return PowerCurve(80, 0.12, ridge_mhz, beta)


def samples(curve, scatter=0.0, seed=0, clocks=CLOCKS):
    rng = np.random.default_rng(seed)
    return [PowerSample(float(c), curve.power_w(float(c)) * (1 + scatter * rng.normal())) for c in clocks]


@pytest.mark.parametrize("ridge_mhz", [600, 800, 1000, 1200, 1400])
@pytest.mark.parametrize("scatter", [0.0, 0.001])
def test_the_hidden_ridge_is_found_within_one_clock_step(ridge_mhz, scatter):
    curve = hidden(ridge_mhz)
    found = fit_ridge(samples(curve, scatter))
    assert found.found
    assert found.ridge_mhz.value == pytest.approx(ridge_mhz, abs=STEP_MHZ)
    assert abs(found.ridge_mhz.value - ridge_mhz) <= found.ridge_mhz.uncertainty
    truth_mhz = curve.best_clock_mhz(345, 1980)
    assert found.best_clock_mhz.value == pytest.approx(truth_mhz, abs=STEP_MHZ)
    assert found.search_mhz[0] <= truth_mhz <= found.search_mhz[1]


def test_intervals_hold_the_hidden_ridge():
    held = []
    for seed in range(10):
        found = fit_ridge(samples(hidden(1000), 0.004, seed))
        held.append(abs(found.ridge_mhz.value - 1000) <= found.ridge_mhz.uncertainty)
    assert np.mean(held) >= 0.9


def test_the_linear_law_is_kept_unless_the_samples_reject_it():
    line, bend = hidden(1000), PowerCurve(80, 0.12, 1000, 0, kappa_per_mhz2=5e-7)
    kept = [fit_ridge(samples(line, 0.004, seed)) for seed in range(6)]
    assert sum(found.voltage is Voltage.LINEAR for found in kept) >= 5
    assert all(found.curve.kappa_per_mhz2 == 0 for found in kept if found.voltage is Voltage.LINEAR)
    for seed in range(3):
        found = fit_ridge(samples(bend, 0.004, seed))
        assert found.voltage is Voltage.QUADRATIC
        assert abs(found.kappa_per_mhz2.value - 5e-7) <= found.kappa_per_mhz2.uncertainty
        assert abs(found.idle_w.value - 80) <= found.idle_w.uncertainty < 20


def test_a_bend_too_small_to_be_seen_is_within_the_intervals():
    bend = PowerCurve(80, 0.12, 1000, 1 / 2000, kappa_per_mhz2=1.5e-7)
    best_mhz = bend.best_clock_mhz(CLOCKS[0], CLOCKS[-1])
    for seed in range(4):
        found = fit_ridge(samples(bend, 0.01, seed))
        assert abs(found.ridge_mhz.value - 1000) <= found.ridge_mhz.uncertainty
        assert abs(found.best_clock_mhz.value - best_mhz) <= found.best_clock_mhz.uncertainty


def test_samples_that_no_law_fits_give_no_clock_rather_than_a_false_one():
    # A GPU that heats up half-way through the sweep: 8% more power above 1100 MHz than the clock explains.
    warm = [
        PowerSample(one.clock_mhz, one.power_w * (1.08 if 700 < one.clock_mhz < 1300 else 1))
        for one in samples(hidden(1000), 0.002, clocks=np.arange(345, 1981, 60))
    ]
    found = fit_ridge(warm)
    assert "power bends with the clock as no voltage" in found.verdict
    assert math.isnan(found.ridge_mhz.value)
    assert math.isnan(found.best_clock_mhz.value)
    with pytest.raises(InputError, match=r"the samples tell no voltage: .* bends"):
        VoltageLaw(found, 1980)


def test_the_error_of_the_voltage_law_holds_the_energy_at_other_clocks():
    bend = PowerCurve(80, 0.12, 1000, 0, kappa_per_mhz2=5e-7)
    held = []
    for seed in range(5):
        law = VoltageLaw(fit_ridge(samples(bend, 0.004, seed)), 1905)
        for mhz in (600, 1200, 1500):
            truth = (bend.voltage(mhz) / bend.voltage(1905)) ** 2
            error = law.error(mhz / 1905)
            assert error < 0.05
            held.append(abs(law.scale(mhz / 1905) - truth) <= 1.96 * error)
    assert np.mean(held) >= 0.9


def test_a_constant_voltage_has_no_ridge_and_the_highest_clock_is_best():
    found = fit_ridge(samples(hidden(5000), 0.002))
    assert not found.found
    assert "no ridge within [345, 1905] MHz: power is a straight line" in found.verdict
    assert math.isnan(found.ridge_mhz.value)
    assert found.voltage is Voltage.FLAT
    assert found.best_clock_mhz.value == found.range_mhz[1]
    # The clocks come in steps.
    assert found.best_clock_mhz.uncertainty >= STEP_MHZ


def test_a_voltage_that_rises_everywhere_is_told_from_a_ridge():
    found = fit_ridge(samples(hidden(100), 0.001))
    assert not found.found
    assert "the voltage rises, and may rise over the whole range" in found.verdict


@pytest.mark.hostile
@pytest.mark.parametrize(
    "power_w",
    [lambda f: 300 - 0.05 * f, lambda f: 300 + 0 * f, lambda f: 200 + ((f - 1100) / 50) ** 2],
    ids=["falls", "level", "falls and rises"],
)
def test_power_that_does_not_rise_with_the_clock_gives_no_best_clock(power_w):
    noise_w = np.random.default_rng(1).normal(0, 0.5, len(CLOCKS))
    found = fit_ridge(
        [PowerSample(float(c), float(power_w(c) + w)) for c, w in zip(CLOCKS, noise_w, strict=True)]
    )
    assert not found.found
    assert "power does not rise with the clock" in found.verdict
    assert math.isnan(found.best_clock_mhz.value)
    with pytest.raises(InputError, match=r"the samples tell no voltage: .* does not rise"):
        VoltageLaw(found, 1980)


def test_samples_at_the_power_limit_are_left_out():
    curve = PowerCurve(80, 0.12, 1000, 1 / 1500, cap_w=300)
    found = fit_ridge(samples(curve, clocks=np.arange(345, 1981, 60)), cap_w=300)
    assert found.near_cap > 0
    assert found.ridge_mhz.value == pytest.approx(1000, abs=STEP_MHZ)
    assert found.curve.power_w(1980) == 300


def test_energy_never_falls_below_the_ridge():
    curve = hidden(1000)
    energies = [curve.relative_energy(clock) for clock in (400, 600, 800, 1000)]
    assert energies == sorted(energies, reverse=True)
    assert curve.best_clock_mhz(345, 1980) >= 1000


def test_eq_3_is_continuous_at_the_ridge():
    curve = hidden(1000)
    assert curve.voltage(999.999) == pytest.approx(curve.voltage(1000.001), abs=1e-5)
    assert curve.voltage(1000) == 1


def test_too_few_clocks_are_refused_with_their_number():
    with pytest.raises(InputError, match="3 clocks below the power limit are too few"):
        fit_ridge(samples(hidden(1000), clocks=[400, 900, 1500]))
    with pytest.raises(InputError, match=r"\(14 more lie at the power limit\)"):
        fit_ridge(samples(PowerCurve(80, 0.12, 1000, 0, 50)), cap_w=50)


@pytest.mark.parametrize("bad", [math.nan, -1.0, 0.0, math.inf])
def test_a_sample_that_is_no_number_is_named(bad):
    with pytest.raises(InputError, match="power_w of sample 2 is"):
        fit_ridge([PowerSample(400, 100), PowerSample(500, bad)])


@pytest.mark.parametrize("scatter", [0.0, 0.002])
def test_the_limit_is_fitted_where_power_no_longer_rises(scatter):
    curve = PowerCurve(80, 0.12, 1000, 1 / 1500, cap_w=330)
    drawn = samples(curve, scatter, clocks=np.arange(345, 1981, 4 * STEP_MHZ))
    assert fitted_cap_w(drawn) == pytest.approx(330, rel=0.002)
    found = fit_ridge(drawn, fitted_cap_w(drawn))
    assert found.ridge_mhz.value == pytest.approx(1000, abs=2 * STEP_MHZ)


@pytest.mark.parametrize("curve", [hidden(1000), hidden(5000), hidden(100)])
def test_no_limit_is_fitted_where_power_rises_everywhere(curve):
    assert fitted_cap_w(samples(curve, 0.002, clocks=np.arange(345, 1981, STEP_MHZ))) == math.inf


@pytest.mark.parametrize(("free", "level"), [(3, 8), (12, 1)])
def test_no_limit_is_told_by_few_clocks_below_it_or_one_at_it(free, level):
    curve = hidden(1000)
    below = samples(curve, clocks=np.linspace(400.0, 1200.0, free))
    cap_w = below[-1].power_w * 1.05
    at_it = [PowerSample(1260.0 + 60 * n, cap_w) for n in range(level)]
    assert fitted_cap_w([*below, *at_it]) == math.inf


def test_voltages_that_were_read_tell_a_ridge_by_themselves(tmp_path):
    curve = hidden(1000)
    read = [
        PowerSample(one.clock_mhz, np.float64(one.power_w), 700 * curve.voltage(one.clock_mhz))
        for one in samples(curve)
    ]
    path = tmp_path / "samples.csv"
    path.write_text(power_samples_csv(read))
    # 945 MHz is the last of these clocks below the ridge.
    assert fit_ridge(read_power_samples(path)).voltage_ridge_mhz == 945
    path.write_text(power_samples_csv(samples(curve)))
    assert math.isnan(fit_ridge(read_power_samples(path)).voltage_ridge_mhz)
    assert math.isnan(voltage_ridge_mhz([PowerSample(mhz, 100, 700) for mhz in range(400, 1400, 100)]))
