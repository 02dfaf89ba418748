"""MTSM corrected, against readings worked out from a known power."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.power import sensor, series, window
from scipy.signal import fftconvolve

from ptxbench.core.status import Status
from ptxbench.energy.corrected import corrected_j
from ptxbench.energy.methods import counter_j, mtsm_j
from ptxbench.energy.reading import EnergyReading, disagreements
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import Shape

START_S = 5.0
SLOW = sensor(refresh_s=0.1, averaging_s=1.0, lag_s=0.03)
FAST = sensor(refresh_s=0.02, averaging_s=0.016, lag_s=0.004, source=SourceName.SAMPLES)
PART = sensor(refresh_s=0.1, averaging_s=0.025, lag_s=0.004, source=SourceName.INSTANT)
LOW_PASS = replace(sensor(refresh_s=0.02, averaging_s=0.0276, lag_s=0.003), shape=Shape.EXPONENTIAL)
SENSORS = pytest.mark.parametrize(
    "what", [SLOW, FAST, PART, LOW_PASS], ids=["slow", "fast", "part", "low-pass"]
)

CELL_S = 2e-4
GRID_S = np.arange(0, 20, CELL_S)


def even(length_s, power_w=500.0):
    return lambda t: np.full_like(t, power_w)


def ramp(length_s):
    return lambda t: 200 + 300 * t / length_s


def burst(length_s):
    return lambda t: np.where(np.floor(t / (length_s / 9)) % 2 == 0, 500.0, 120.0)


def readings(
    what, load, length_s, end_s=8.0, phase=0.3, before_w=120.0, after_w=120.0, noise_w=0.0, begin_s=3.0
):
    """What a sensor says of a kernel that draws `load` for `length_s`, and what that kernel really took."""
    inside = (GRID_S >= START_S) & (START_S + length_s > GRID_S)
    power_w = np.where(GRID_S < START_S, before_w, after_w)
    power_w = np.where(inside, load(length_s)(GRID_S - START_S), power_w)
    if what.shape is Shape.EXPONENTIAL:
        tau_s = what.averaging_s / 2
        weight = np.exp(-np.arange(0, 12 * tau_s, CELL_S) / tau_s)
    else:
        weight = np.ones(max(1, round(what.averaging_s / CELL_S)))
    filtered_w = fftconvolve(power_w, weight / weight.sum())[: len(GRID_S)]
    made_s = np.arange(begin_s - what.refresh_s, end_s, what.refresh_s) + phase * what.refresh_s
    value_w = np.interp(made_s - what.lag_s, GRID_S + CELL_S, filtered_w)
    value_w = value_w + noise_w * np.random.default_rng(round(1e6 * phase)).standard_normal(len(value_w))
    true_j = float(power_w[inside].sum()) * CELL_S
    if what.source is SourceName.SAMPLES:
        kept = made_s >= begin_s
        return series(made_s[kept] + 5e-3, value_w[kept], what.source, made_s[kept]), true_j
    poll_s = np.arange(begin_s, end_s, 1e-3)
    latest = np.searchsorted(made_s, poll_s, side="right") - 1
    # A sensor's last digits always move.
    value_w = value_w + 1e-6 * np.arange(len(value_w))
    return series(poll_s, value_w[latest], what.source), true_j


def energies(what, load, length_s, **more):
    """Corrected energies over every phase of the refresh, relative to the truth."""
    result = []
    for phase in (np.arange(20) + 0.5) / 20:
        recorded, true_j = readings(what, load, length_s, phase=phase, **more)
        found = corrected_j(recorded, window(START_S, START_S + length_s), what)
        assert found.status is Status.OK
        result.append(found.energy_j / true_j)
    return np.array(result)


def test_an_energy_of_less_than_a_joule_is_one():
    assert energies(FAST, lambda _: lambda t: np.full_like(t, 3.0), 0.3, before_w=1.0, after_w=1.0) == (
        pytest.approx(1.0, abs=0.02)
    )


@SENSORS
@pytest.mark.parametrize("load", [even, ramp, burst])
@pytest.mark.parametrize("length_s", [0.09, 0.2, 1.5])
def test_energy_is_right_on_the_mean_over_phases_for_power_of_any_form(what, load, length_s):
    ratios = energies(what, load, length_s)
    assert ratios.mean() == pytest.approx(1.0, abs=0.004)
    # A running mean over whole refreshes sees every moment as often, and is right at every phase.
    if what is SLOW:
        assert ratios == pytest.approx(1.0, abs=0.01)


def test_mtsm_of_the_same_readings_is_far_off():
    recorded, true_j = readings(SLOW, even, 0.5)
    assert mtsm_j(recorded, window(5.0, 5.5)).energy_j < 0.7 * true_j
    assert corrected_j(recorded, window(5.0, 5.5), SLOW).energy_j == pytest.approx(true_j, rel=0.005)


def test_elapsed_counts_and_so_does_each_figure_of_the_sensor():
    recorded, true_j = readings(SLOW, even, 0.5)
    exact = corrected_j(recorded, window(5.0, 5.5), SLOW).energy_j
    for change in ({"averaging_s": 0.8}, {"lag_s": 0.3}):
        # The area needs averaging and lag only to know where it ends.
        assert corrected_j(recorded, window(5.0, 5.5), replace(SLOW, **change)).energy_j != exact
    assert exact == pytest.approx(true_j, rel=0.005)


def test_power_that_differs_before_and_after_the_kernel_is_told_apart():
    for load in (even, ramp):
        assert energies(SLOW, load, 0.4, before_w=90.0, after_w=140.0).mean() == pytest.approx(1.0, abs=0.003)


@pytest.mark.parametrize("length_s", [0.3, 0.7, 2.5])
@SENSORS
def test_a_recording_without_the_tail_takes_the_kernel_for_even(what, length_s):
    ratios = energies(what, even, length_s, end_s=START_S + length_s + 0.003)
    assert ratios == pytest.approx(1.0, abs=0.01)


def test_error_holds_the_truth_as_often_as_it_says():
    # The noise here is each value's own; running means that overlap are taken to share theirs.
    for what, length_s, least in ((SLOW, 0.4, 1 / math.sqrt(10) - 0.1), (FAST, 0.3, 0.6), (PART, 0.15, 0.6)):
        off = []
        for phase in (np.arange(50) + 0.5) / 50:
            recorded, true_j = readings(what, even, length_s, phase=phase, noise_w=4.0)
            found = corrected_j(recorded, window(START_S, START_S + length_s), what)
            off.append((found.energy_j - true_j) / found.error_j)
        assert least < np.std(off) < 1.3
        assert np.mean(np.abs(off) < 1.96) > 0.9


def test_error_without_the_tail_holds_the_truth_too():
    off = []
    for phase in (np.arange(50) + 0.5) / 50:
        recorded, true_j = readings(FAST, even, 0.5, phase=phase, noise_w=4.0, end_s=5.503)
        found = corrected_j(recorded, window(5.0, 5.5), FAST)
        off.append((found.energy_j - true_j) / found.error_j)
    assert 0.6 < np.std(off) < 1.4


def test_error_is_unknown_where_nothing_shows_the_noise():
    recorded, _ = readings(SLOW, even, 0.5, begin_s=4.95, end_s=5.503)
    found = corrected_j(recorded, window(5.0, 5.5), SLOW)
    assert found.status is Status.OK
    assert math.isnan(found.error_j)


def test_a_kernel_that_can_hide_between_two_values_is_refused():
    recorded, _ = readings(PART, even, 0.07)
    found = corrected_j(recorded, window(5.0, 5.07), PART)
    assert found.status is Status.WINDOW_TOO_SHORT
    assert "between two values" in found.reason
    assert math.isnan(found.energy_j)


def test_a_recording_that_begins_with_the_kernel_is_refused():
    recorded, _ = readings(FAST, even, 0.5, begin_s=5.05)
    found = corrected_j(recorded, window(5.0, 5.5), FAST)
    assert found.status is Status.WINDOW_TOO_SHORT
    assert "no value of samples speaks of the time before the kernel" in found.reason
    failed = series([1.0, 2.0], [math.nan] * 2, code=[15, 15])
    assert corrected_j(failed, window(1.0, 1.5), SLOW).status is Status.SENSOR_STALE


# The counter -----------------------------------------------------------------------------------

COUNTER = sensor(refresh_s=0.1, lag_s=0.004, source=SourceName.COUNTER)


def counted(length_s, end_s=8.0, phase=0.3, poll_s=1e-3, quantum_j=1e-3, begin_s=4.0):
    made_s = np.arange(begin_s - 0.1, end_s, 0.1) + 0.1 * phase
    seen_s = made_s - COUNTER.lag_s
    energy_j = 700 + 120 * seen_s + 380 * np.clip(seen_s - START_S, 0, length_s)
    energy_j = np.floor(energy_j / quantum_j) * quantum_j
    read_s = np.arange(begin_s, end_s, poll_s)
    return series(
        read_s, energy_j[np.searchsorted(made_s, read_s, side="right") - 1], COUNTER.source, call_s=poll_s
    )


@pytest.mark.parametrize("length_s", [0.01, 0.05, 0.3, 2.0])
def test_counter_needs_no_step_within_the_kernel(length_s):
    true_j = 500 * length_s
    for phase in (0.1, 0.5, 0.9):
        found = corrected_j(counted(length_s, phase=phase), window(5.0, 5.0 + length_s), COUNTER)
        assert found.energy_j == pytest.approx(true_j, abs=4 * found.error_j)
        assert found.error_j < 0.12


def test_quantum_of_the_counter_is_in_its_error():
    fine = corrected_j(counted(0.3), window(5.0, 5.3), COUNTER)
    coarse_j = 2.0
    coarse = corrected_j(
        counted(0.3, quantum_j=coarse_j), window(5.0, 5.3), replace(COUNTER, quantum=coarse_j)
    )
    assert coarse.error_j > fine.error_j + 0.4
    assert coarse.energy_j == pytest.approx(150, abs=3 * coarse.error_j)
    plain = counter_j(counted(2.0), window(5.0, 7.0))
    assert counter_j(counted(2.0), window(5.0, 7.0), quantum_j=50.0).error_j > plain.error_j + 10
    assert plain.energy_j == pytest.approx(1000, abs=3 * plain.error_j)


def test_counter_without_steps_beside_the_kernel_falls_back_to_those_within():
    recorded = counted(2.0, begin_s=4.95, end_s=7.003)
    kernel = window(5.0, 7.0)
    assert corrected_j(recorded, kernel, COUNTER) == counter_j(recorded, kernel, COUNTER.quantum)


# Two sources -----------------------------------------------------------------------------------


def test_sources_that_differ_by_more_than_their_errors_are_named():
    close = {"samples": EnergyReading(100.0, 5, error_j=1.0), "usage": EnergyReading(102.5, 5, error_j=1.0)}
    assert disagreements(close) == ()
    far = close | {"counter": EnergyReading(110.0, 5, error_j=0.5), "sma": EnergyReading(300.0, 5)}
    sentences = disagreements(far)
    assert len(sentences) == 2
    assert sentences[0].startswith("samples gives 100 J and counter 110 J, +10%")
    assert "2.2%" in sentences[0]
    # Errors of a twentieth of a percent are not "0.0%".
    long = {name: EnergyReading(joules, 1, error_j=0.1) for name, joules in (("a", 500.0), ("b", 500.6))}
    assert disagreements(long)[0].endswith("+0.12%, where their errors allow 0.055%")
    assert disagreements({"a": EnergyReading(math.nan, 0, error_j=0.1), **close}) == ()


def test_a_source_that_went_backwards_gives_no_energy():
    time_s = np.arange(0, 20, 0.02)
    stamp_s = np.where(time_s < 10, time_s, time_s - 3)
    samples = series(time_s, np.full(len(time_s), 300.0), SourceName.SAMPLES, stamp_s=stamp_s)
    counter = series(time_s, np.where(time_s < 10, 1e6, 0) + 300 * time_s, SourceName.COUNTER)
    for readings, what in ((samples, FAST), (counter, sensor(refresh_s=0.02, source=SourceName.COUNTER))):
        result = corrected_j(readings, window(5, 15), what)
        assert result.status is Status.SENSOR_STALE
        assert math.isnan(result.energy_j)


@pytest.mark.parametrize(
    ("before", "after", "known"),
    [(1, 1, False), (2, 1, False), (2, 2, True), (3, 1, True), (1, 3, True), (1, 2, False)],
)
def test_the_error_is_known_from_two_degrees_of_freedom_of_what_was_read_beside_the_kernel(
    before, after, known
):
    made_s = START_S + FAST.lag_s + 0.001 + 0.02 * np.arange(-before, 25 + 1 + after)
    value_w = np.where(made_s < START_S + 0.004, 120.0, 500.0) + np.sin(np.arange(len(made_s)))
    readings = series(made_s + 0.003, value_w, FAST.source, stamp_s=made_s)
    end_s = float(made_s[-after] - FAST.lag_s - FAST.memory_s) - 1e-4
    found = corrected_j(readings, window(START_S + 0.0015, end_s), FAST)
    assert found.status is Status.OK
    assert math.isfinite(found.error_j) is known


def test_readings_that_do_not_tell_an_energy_give_none():
    # A second's mean, read until a tenth of a second after the begin of a kernel that hardly draws more.
    found = [
        corrected_j(
            readings(SLOW, even, 0.1, end_s=5.2, phase=phase, noise_w=30.0)[0], window(START_S, 5.1), SLOW
        )
        for phase in np.linspace(0.05, 0.95, 19)
    ]
    assert all(one.energy_j > 0 for one in found if one.status is Status.OK)
    untold = [one for one in found if one.status is Status.WINDOW_TOO_SHORT]
    assert untold
    assert all(math.isnan(one.energy_j) and "do not tell its energy" in one.reason for one in untold)
