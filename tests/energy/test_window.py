"""The energy of a window, against readings worked out from a known power."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.power import sensor, series, window
from scipy.signal import lfilter

from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.energy.window import (
    _gap_j,
    _per_time_error,
    blur_s,
    context_s,
    counted,
    noise_w_of,
    unresolved,
    window_energy,
)
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
WHOLE = sensor(refresh_s=0.1, averaging_s=0.1, lag_s=0.004)


def power(*parts):
    """Power in steps of (from, W), on the grid."""
    drawn_w = np.zeros(len(GRID_S))
    for start_s, watts in parts:
        drawn_w[round(start_s / STEP_S) :] = watts
    return drawn_w


def read(drawn_w, what, phase=0.3, noise_w=0.0, stamp_late_s=None, seed=1):
    """Readings of a power source."""
    rng = np.random.default_rng(seed)
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
    value_w = value_w + noise_w * rng.standard_normal(len(made_s))
    if what.source is SourceName.SAMPLES:
        late_s = np.zeros(len(made_s)) if stamp_late_s is None else stamp_late_s(rng, len(made_s))
        return series(made_s + late_s + 0.003, value_w, what.source, stamp_s=made_s + late_s)
    poll_s = np.arange(0.6, 7.9, 0.005)
    held = np.clip(np.searchsorted(made_s, poll_s, side="right") - 1, 0, None)
    return series(poll_s, value_w[held], what.source)


def truth_j(drawn_w, start_s, end_s):
    return float(drawn_w[round(start_s / STEP_S) : round(end_s / STEP_S)].sum() * STEP_S)


def late(rng, count):
    """Stamps as an H100's: most at once, one in six a tick late."""
    return np.where(rng.random(count) < 1 / 6, 0.009, np.abs(rng.normal(0, 0.0007, count)))


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
    rng = np.random.default_rng(5)
    edges_s = 3.0 + np.cumsum(rng.uniform(0.02, 0.06, 24))
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
    rng = np.random.default_rng(1)
    held, widths = [], []
    for phase in np.linspace(0.02, 0.98, 40):
        whole = read(drawn_w, LOW_PASS, phase, noise_w=0.5, seed=int(100 * phase))
        found = window_energy(whole.select(rng.random(len(whole)) > share), window(3.0, 4.0), LOW_PASS)
        held.append(abs(found.energy_j - truth_j(drawn_w, 3.0, 4.0)) <= COVERAGE_FACTOR * found.error_j)
        widths.append(found.error_j)
    assert np.mean(held) >= 0.9
    assert np.median(widths) > 1.5 * window_energy(whole, window(3.0, 4.0), LOW_PASS).error_j


def test_a_gap_is_as_unsure_as_the_power_that_changes_over_it():
    fast = sensor(refresh_s=0.02, averaging_s=0.016, lag_s=0.004, source=SourceName.SAMPLES)
    whole = read(power((0, 100.0), (3.5, 300.0)), fast)
    missing = (whole.stamp_ns > 3_450_000_000) & (whole.stamp_ns < 3_550_000_000)
    values = values_of(whole.select(~missing), window(3.0, 4.0), fast)
    first, last = np.searchsorted(values.newest_s, [0.0, 1.0])
    # One step of 200 W, over five values that are missing; other steps are 0.
    step_w = np.hypot(200.0, 200.0 / np.sqrt(last - first))
    assert missing.sum() == 5
    assert _gap_j(values, first, last) == pytest.approx(step_w * 0.1 / np.sqrt(12), rel=1e-6)


def test_an_error_of_a_values_time_counts_by_its_base_and_by_what_its_neighbours_say():
    # Energy above a base that rises by 250 W/s, of values that count until halfway to the next.
    at_s = np.arange(-1, 5) * 0.02
    power_w = np.array([0.0, 60.0, 95.0, 80.0, 40.0, 0.0])

    def above_j(times_s):
        rest_w = power_w - 250.0 * times_s
        rest_w[[0, -1]] = 0.0
        return float((rest_w * np.gradient(times_s)).sum())

    shift_s = 1e-6 * np.eye(len(at_s))[1:-1]
    slopes_w = [(above_j(at_s + one) - above_j(at_s - one)) / 2e-6 for one in shift_s]
    rest_w = (power_w - 250.0 * at_s)[1:-1]
    expected_w = float(np.sqrt(np.square(slopes_w).sum()))
    assert _per_time_error(rest_w, np.full(4, 250.0 * 0.02)) == pytest.approx(expected_w, rel=1e-6)


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


def test_the_power_beside_is_that_of_the_nearest_value():
    # Two values before the window and two after it are of another load than the third.
    drawn_w = power((0, 120.0), (2.75, 250.0), (3.0, 480.0), (3.5, 300.0), (3.75, 120.0))
    error, half = errors(drawn_w, WHOLE, 3.0, 3.5, noise_w=0.5)
    assert np.abs(error).max() < 0.003
    assert np.mean(np.abs(error) <= half) == 1.0


@pytest.mark.parametrize(
    ("what", "length_s", "after_w", "half"),
    [
        (LOW_PASS, 0.35, 120.0, 0.0032),
        (LOW_PASS, 1.0, 300.0, 0.0011),
        (replace(LOW_PASS, origin="documented"), 1.0, 300.0, 0.0114),
        (PART, 0.35, 120.0, 0.102),
        (PART, 1.0, 300.0, 0.0283),
        (replace(PART, origin="documented"), 1.05, 120.0, 0.0491),
        (WHOLE, 1.0, 120.0, 0.0031),
        (SLOW, 0.5, 120.0, 0.0186),
        (SLOW, 1.0, 300.0, 0.0104),
    ],
)
def test_the_interval_of_a_step_of_power_has_its_usual_width(what, length_s, after_w, half):
    drawn_w = power((0, 120.0), (3.0, 480.0), (3.0 + length_s, after_w))
    error, found = errors(drawn_w, what, 3.0, 3.0 + length_s, noise_w=0.5)
    assert np.mean(np.abs(error) <= found) >= 0.92
    assert found.mean() == pytest.approx(half, rel=0.1)


@pytest.mark.parametrize(("what", "half"), [(LOW_PASS, 0.00065), (PART, 0.0014), (SLOW, 0.015)])
def test_the_interval_of_even_power_is_that_of_the_noise(what, half):
    error, found = errors(power((0, 300.0)), what, 3.0, 4.0, noise_w=0.5)
    assert np.mean(np.abs(error) <= found) >= 0.92
    assert found.mean() == pytest.approx(half, rel=0.2)


@pytest.mark.parametrize("what", [LOW_PASS, PART, WHOLE, SLOW])
def test_what_must_be_recorded_beside_a_window_is_enough(what):
    drawn_w = power((0, 120.0), (3.0, 480.0), (4.0, 120.0))
    beside_s = context_s(what)
    for phase in np.linspace(0.02, 0.98, 25):
        whole = read(drawn_w, what, phase, noise_w=0.5)
        at_s = whole.time_ns * 1e-9
        recorded = whole.select((at_s >= 3.0 - beside_s) & (at_s <= 4.0 + beside_s))
        found = window_energy(recorded, window(3.0, 4.0), what)
        assert found.status is Status.OK
        assert found.energy_j == pytest.approx(480.0, rel=0.002)


@pytest.mark.parametrize(("from_s", "until_s", "where"), [(3.2, 9, "before"), (0, 3.5, "after")])
def test_without_a_value_beside_the_window_there_is_no_energy(from_s, until_s, where):
    whole = read(power((0, 120.0), (3.0, 480.0), (4.0, 120.0)), LOW_PASS)
    at_s = whole.time_ns * 1e-9
    found = window_energy(whole.select((at_s > from_s) & (at_s < until_s)), window(3.0, 4.0), LOW_PASS)
    assert found.status is Status.WINDOW_TOO_SHORT
    assert f"no value of samples speaks of the time {where} the window" in found.reason
    assert np.isnan(found.energy_j)


def test_readings_that_failed_or_went_backwards_give_no_energy():
    whole, when = read(power((0, 120.0)), LOW_PASS), window(3.0, 4.0)
    failed = window_energy(replace(whole, code=np.full(len(whole), 15)), when, LOW_PASS)
    assert (failed.status, "15" in failed.reason) == (Status.SENSOR_STALE, True)
    back = whole.stamp_ns.copy()
    back[100:] -= 2_000_000_000
    assert window_energy(replace(whole, stamp_ns=back), when, LOW_PASS).status is Status.SENSOR_STALE


def test_an_energy_that_is_smaller_than_its_error_is_no_number():
    quiet = read(power((0, 5.0)), LOW_PASS, noise_w=0.5)
    assert window_energy(quiet, window(3.0, 3.1), LOW_PASS).energy_j == pytest.approx(0.5, rel=0.2)
    loud = window_energy(read(power((0, 5.0)), LOW_PASS, noise_w=100.0), window(3.0, 3.1), LOW_PASS)
    assert (loud.status, np.isnan(loud.energy_j)) == (Status.WINDOW_TOO_SHORT, True)
    assert "0.1 s is too short for samples, which refreshes every 0.02 s" in loud.reason


@pytest.mark.parametrize(
    ("what", "least_s"),
    [
        # Two steps of the counter, half of what a long mean averages over, and three looks at a source that
        # misses three quarters of the time.
        (sensor(refresh_s=0.1, source=SourceName.COUNTER), 0.2),
        (SLOW, 0.5),
        (PART, 0.3),
    ],
)
def test_the_shortest_window_that_a_source_resolves(what, least_s):
    assert unresolved(1.01 * least_s, what) == ""
    reason = unresolved(0.99 * least_s, what)
    assert f"{0.99 * least_s:.3g} s is too short for {what.source}" in reason
    at_s = np.arange(0.6, 7.9, 0.005)
    found = window_energy(series(at_s, 120.0 * at_s, what.source), window(3.0, 3.0 + 0.99 * least_s), what)
    assert (found.status, found.reason) == (Status.WINDOW_TOO_SHORT, reason)


@pytest.mark.parametrize("sides", [1, 2])
def test_a_load_that_is_known_to_change_beside_may_have_drawn_any_power_seen_there(sides):
    whole = read(power((0, 120.0), (3.0, 480.0), (4.0, 120.0)), WHOLE)
    apart, beside = (window_energy(whole, window(3.0, 4.0), WHOLE, n) for n in (0, sides))
    assert beside.energy_j == apart.energy_j
    # Half of 360 W, for half of what a value averages over and the uncertain phase of its refresh.
    more_j = sides * 180.0 * (0.05 + 0.1 / np.sqrt(12))
    assert np.sqrt(beside.error_j**2 - apart.error_j**2) == pytest.approx(more_j, rel=1e-3)


def test_a_change_of_the_load_blurs_the_edge_for_a_refresh_and_what_a_value_reaches_back():
    assert blur_s(SLOW) == pytest.approx(1.1)
    assert blur_s(LOW_PASS) == pytest.approx(0.04)


@pytest.mark.parametrize("what", [LOW_PASS, WHOLE])
def test_the_noise_of_single_values_is_found_also_where_the_load_changes(what):
    drawn_w = power((0, 120.0), (3.0, 480.0), (5.0, 200.0))
    found = [noise_w_of(read(drawn_w, what, noise_w=2.0, seed=seed), what) for seed in range(20)]
    assert np.mean(found) == pytest.approx(2.0 * (1.36**0.5 if what is LOW_PASS else 1.0), rel=0.2)


def test_the_noise_is_unknown_without_three_values_and_at_least_that_of_the_steps_of_the_source():
    whole = read(power((0, 120.0)), WHOLE)
    coarse = replace(WHOLE, quantum=6.0)
    assert noise_w_of(whole, coarse) == pytest.approx(6.0 / np.sqrt(12))
    few = np.arange(len(whole))
    assert noise_w_of(whole.select(few < 2), coarse) == np.inf
    assert noise_w_of(whole.select(few < 3), coarse) < np.inf


def test_noise_that_is_known_from_elsewhere_counts_where_the_load_changes_all_the_time():
    steps = [(3.0 + 0.02 * n, 480.0 if n % 3 else 200.0) for n in range(50)]
    whole = read(power((0, 120.0), *steps, (4.0, 120.0)), LOW_PASS, noise_w=0.5)
    alone, known = (window_energy(whole, window(3.0, 4.0), LOW_PASS, 0, n) for n in (np.inf, 0.5))
    assert known.energy_j == pytest.approx(alone.energy_j, rel=0.01)
    assert known.error_j <= alone.error_j


@pytest.mark.parametrize(("factor", "disagrees"), [(1.0, False), (0.999, False), (0.9, True), (1.1, True)])
def test_a_counter_that_says_another_power_is_noticed(factor, disagrees):
    at_s = np.arange(0.6, 7.9, 0.005)
    counter = series(at_s, 300.0 * factor * np.floor(at_s / 0.1) * 0.1, SourceName.COUNTER)
    found = counted(counter, read(power((0, 300.0)), LOW_PASS), window(3.0, 4.0), LOW_PASS)
    assert found.power_w == pytest.approx(300.0 * factor, rel=1e-3)
    assert found.difference_w == pytest.approx(300.0 * (1 - factor), abs=0.5)
    assert found.disagrees is disagrees


def test_no_counter_step_on_a_side_of_the_window_is_no_comparison():
    at_s = np.arange(0.6, 7.9, 0.005)
    counter = series(at_s, 300.0 * np.floor(at_s / 0.1) * 0.1, SourceName.COUNTER)
    source, when = read(power((0, 300.0)), LOW_PASS), window(3.0, 4.0)
    for kept in (at_s > 3.2, at_s < 3.8):
        assert counted(counter.select(kept), source, when, LOW_PASS) is None


def test_a_counter_is_compared_between_the_steps_next_to_the_window_alone():
    drawn_w = power((0, 100.0), (2.9, 400.0), (4.1, 100.0))
    at_s = np.arange(0.5, 7.0, 0.005)
    drawn_j = np.concatenate(([0.0], np.cumsum(drawn_w) * STEP_S))
    stepped_j = np.interp(np.floor(at_s / 0.1) * 0.1, np.append(GRID_S, 8.0), drawn_j)
    counter = series(at_s, stepped_j, SourceName.COUNTER)
    found = counted(counter, read(drawn_w, LOW_PASS), window(3.0, 4.0), LOW_PASS)
    assert found.power_w == pytest.approx(400.0, rel=0.02)
    assert not found.disagrees
