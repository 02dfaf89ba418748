"""The energy of a window, against readings worked out from a known power."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.power import sensor, series, window
from scipy.signal import lfilter

from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.energy.window import context_s, counted, window_energy
from ptxbench.energy.window_values import values_of
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import ALIKE, Shape
from ptxbench.sensors.known_sensors import sensor_for

STEP_S = 1e-4
GRID_S = np.arange(0.0, 8.0, STEP_S)
LOW_PASS = replace(
    sensor(refresh_s=0.02, averaging_s=0.0272, lag_s=0.0035, source=SourceName.SAMPLES),
    shape=Shape.EXPONENTIAL,
    origin=ALIKE,
)
PART = sensor(refresh_s=0.1, averaging_s=0.025, lag_s=0.004, source=SourceName.INSTANT)
SLOW = sensor(refresh_s=0.1, averaging_s=1.0, lag_s=0.004)


def power(*parts):
    """Power in steps of (from, W), on the grid."""
    drawn_w = np.zeros(len(GRID_S))
    for start_s, watts in parts:
        drawn_w[round(start_s / STEP_S) :] = watts
    return drawn_w


def read(drawn_w, what, phase=0.3, noise_w=0.0, stamp_late_s=None, seed=1):
    """Readings of a power source."""
    chance = np.random.default_rng(seed)
    made_s = np.arange(0.6 + phase * what.refresh_s, 7.9, what.refresh_s)
    newest_s = made_s - what.lag_s
    if what.shape is Shape.EXPONENTIAL:
        decay = np.exp(-STEP_S / (what.averaging_s / 2))
        seen_w = lfilter([1 - decay], [1, -decay], drawn_w, zi=[drawn_w[0] * decay])[0]
        value_w = np.interp(newest_s, GRID_S + STEP_S, seen_w)
    else:
        drawn_j = np.concatenate(([0.0], np.cumsum(drawn_w) * STEP_S))
        until_j = lambda t: np.interp(t, np.append(GRID_S, 8.0), drawn_j)  # noqa: E731
        value_w = (until_j(newest_s) - until_j(newest_s - what.averaging_s)) / what.averaging_s
    value_w = value_w + noise_w * chance.standard_normal(len(made_s))
    if what.source is SourceName.SAMPLES:
        late_s = np.zeros(len(made_s)) if stamp_late_s is None else stamp_late_s(chance, len(made_s))
        return series(made_s + late_s + 0.003, value_w, what.source, stamp_s=made_s + late_s)
    poll_s = np.arange(0.6, 7.9, 0.005)
    held = np.clip(np.searchsorted(made_s, poll_s, side="right") - 1, 0, None)
    return series(poll_s, value_w[held], what.source)


def truth_j(drawn_w, start_s, end_s):
    return float(drawn_w[round(start_s / STEP_S) : round(end_s / STEP_S)].sum() * STEP_S)


def late(chance, count):
    """Stamps as an H100's: most at once, one in six a tick late."""
    return np.where(chance.random(count) < 1 / 6, 0.009, np.abs(chance.normal(0, 0.0007, count)))


def errors(drawn_w, what, start_s, end_s, **words):
    """Errors and 95% half-widths over the phases of the refresh, as fractions of the truth."""
    true_j = truth_j(drawn_w, start_s, end_s)
    found = [
        window_energy(
            read(drawn_w, what, phase, seed=int(100 * phase), **words), window(start_s, end_s), what
        )
        for phase in np.linspace(0.02, 0.98, 25)
    ]
    assert all(one.status is Status.OK for one in found)
    return (
        np.array([one.energy_j / true_j - 1 for one in found]),
        COVERAGE_FACTOR * np.array([one.error_j for one in found]) / true_j,
    )


@pytest.mark.parametrize("length_s", [0.1, 0.2, 0.5, 2.0])
def test_late_stamps_do_not_move_the_energy(length_s):
    drawn_w = power((0, 120.0), (3.0, 480.0), (3.0 + length_s, 120.0))
    error, half = errors(drawn_w, LOW_PASS, 3.0, 3.0 + length_s, noise_w=0.5, stamp_late_s=late)
    assert np.mean(np.abs(error) <= half) >= 0.92
    assert np.abs(error).max() < 0.003 / length_s
    assert half.mean() < 0.003 / length_s


@pytest.mark.parametrize("gap_s", [0.06, 0.1, 0.3])
def test_what_a_low_pass_remembers_of_the_load_beside_is_taken_out(gap_s):
    # Without it, another load 60 to 100 ms away is off by 2 to 8% in a window of 0.2 s.
    parts = (0, 120.0), (3.0 - gap_s - 0.5, 520.0), (3.0 - gap_s, 120.0), (3.0, 480.0)
    drawn_w = power(*parts, (3.2, 120.0), (3.2 + gap_s, 600.0), (4.5, 120.0))
    error, half = errors(drawn_w, LOW_PASS, 3.0, 3.2, noise_w=0.5)
    assert np.abs(error).max() < 0.006
    assert np.mean(np.abs(error) <= half) >= 0.92


@pytest.mark.parametrize("side_s", [-0.012, 0.012])
def test_a_load_that_does_not_change_with_the_window_is_in_the_interval(side_s):
    drawn_w = power((0, 120.0), (3.0 + side_s, 480.0), (3.5, 120.0))
    error, half = errors(drawn_w, LOW_PASS, 3.0, 3.5, noise_w=0.5)
    assert np.mean(np.abs(error) <= half) >= 0.9


@pytest.mark.parametrize("what", [LOW_PASS, PART], ids=["low-pass", "part"])
def test_bursts_within_the_window_are_in_the_interval(what):
    chance = np.random.default_rng(5)
    edges_s = 3.0 + np.cumsum(chance.uniform(0.02, 0.06, 24))
    parts = [(at_s, 500.0 if i % 2 else 120.0) for i, at_s in enumerate(edges_s) if at_s < 3.9]
    drawn_w = power((0, 120.0), *parts, (4.0, 120.0))
    error, half = errors(drawn_w, what, 3.0, 4.0, noise_w=0.5)
    assert np.mean(np.abs(error) <= half) >= 0.9


def test_a_long_mean_that_still_changes_is_not_taken_for_the_power_beside():
    # The load began half a second before the window: the mean of a second has half of it.
    drawn_w = power((0, 100.0), (2.5, 400.0), (5.0, 100.0))
    error, half = errors(drawn_w, SLOW, 3.0, 5.0, noise_w=0.3)
    assert np.mean(np.abs(error) <= half) >= 0.9
    assert np.abs(error).max() < 0.04


def test_a_value_that_a_polled_source_did_not_make_anew_is_in_the_interval():
    # The value of just before the load stands for two refreshes: half of the load's begin is missing.
    drawn_w = power((0, 120.0), (3.0, 480.0), (4.0, 120.0))
    held = []
    for phase in np.linspace(0.02, 0.98, 25):
        whole = read(drawn_w, PART, phase, noise_w=0.5)
        value = whole.value.copy()
        changes = np.flatnonzero(np.diff(value)) + 1
        missed = changes[np.searchsorted(whole.end_ns[changes], 3_000_000_000)]
        until = changes[np.searchsorted(changes, missed) + 1]
        value[missed:until] = value[missed - 1]
        found = window_energy(replace(whole, value=value), window(3.0, 4.0), PART)
        held.append(abs(found.energy_j - truth_j(drawn_w, 3.0, 4.0)) <= COVERAGE_FACTOR * found.error_j)
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_readings_that_are_missing_widen_the_interval_as_much_as_is_needed(share):
    drawn_w = power((0, 120.0), (3.0, 480.0), (3.6, 250.0), (4.0, 120.0))
    chance = np.random.default_rng(1)
    held, widths = [], []
    for phase in np.linspace(0.02, 0.98, 40):
        whole = read(drawn_w, LOW_PASS, phase, noise_w=0.5, seed=int(100 * phase))
        found = window_energy(whole.select(chance.random(len(whole)) > share), window(3.0, 4.0), LOW_PASS)
        held.append(abs(found.energy_j - truth_j(drawn_w, 3.0, 4.0)) <= COVERAGE_FACTOR * found.error_j)
        widths.append(found.error_j)
    assert np.mean(held) >= 0.9
    assert np.median(widths) > 1.5 * window_energy(whole, window(3.0, 4.0), LOW_PASS).error_j


def test_two_samples_hardly_apart_are_one():
    drawn_w = power((0, 120.0), (3.0, 480.0), (3.5, 120.0))
    whole = read(drawn_w, LOW_PASS, noise_w=0.5)
    stamp_ns = whole.stamp_ns.copy()
    at = int(np.searchsorted(stamp_ns, 3_020_000_000))
    stamp_ns[at] = stamp_ns[at + 1] - 1000
    found = window_energy(replace(whole, stamp_ns=stamp_ns), window(3.0, 3.5), LOW_PASS)
    assert found.energy_j == pytest.approx(240.0, rel=0.05)


def test_a_sharpened_value_speaks_of_its_refresh_alone():
    drawn_w = power((0, 120.0), (3.0, 480.0))
    values = values_of(read(drawn_w, LOW_PASS), window(3.0, 4.0), LOW_PASS)
    alone = values.newest_s - values.reach_s >= 0
    assert values.power_w[alone] == pytest.approx(480.0, abs=0.5)
    assert values.power_w[values.newest_s <= 0] == pytest.approx(120.0, abs=0.5)


def test_less_must_be_recorded_beside_a_window_where_the_sensor_is_known():
    known, documented = (sensor_for(SourceName.SAMPLES, target) for target in ("sm_90", "sm_100"))
    assert known.origin == ALIKE
    assert documented.origin == "documented"
    assert context_s(known) < context_s(documented) < 0.15


def test_nothing_is_compared_with_a_counter_that_fell():
    drawn_w = power((0, 300.0))
    at_s = np.arange(0.6, 7.9, 0.005)
    energy_j = 300.0 * np.floor(at_s / 0.1) * 0.1
    counter = series(at_s, energy_j, SourceName.COUNTER)
    source, what = read(drawn_w, LOW_PASS), window(3.0, 4.0)
    found = counted(counter, source, what, LOW_PASS)
    assert found.power_w == pytest.approx(300.0)
    assert not found.disagrees
    fallen = replace(counter, value=np.where(at_s < 3.5, energy_j, energy_j - 900.0))
    assert counted(fallen, source, what, LOW_PASS) is None
