import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.power import sensor, series, window
from hypothesis import assume, given
from hypothesis import strategies as st

from ptxbench.core.status import Status
from ptxbench.energy.methods import collector_j, counter_j, difference_j, median_j, mtsm_j, papi_j, sma_j
from ptxbench.energy.steady import fresh, steady_power_w
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Series

POWER_METHODS = [sma_j, papi_j, mtsm_j]
COUNTER = sensor(source=SourceName.COUNTER)
powers_w = st.floats(1, 1000)
times_s = st.lists(st.floats(1, 9), min_size=1, max_size=60, unique=True).map(sorted)


def polled(power_at, refresh_s=0.1, poll_s=0.001, end_s=6.0, phase_s=0.0, source=SourceName.USAGE) -> Series:
    """A cached sensor: `power_at` is asked once a refresh, polls repeat what it said."""
    time_s = np.arange(0, end_s, poll_s)
    refreshed_s = np.floor((time_s - phase_s) / refresh_s + 1e-9) * refresh_s + phase_s
    asked_s, which = np.unique(refreshed_s, return_inverse=True)
    return series(time_s, np.array([power_at(t) for t in asked_s])[which], source)


def counted(power_at, quantum_j=1e-3, phase_s=0.0, poll_s=0.001, call_s=0.0) -> Series:
    """An energy counter that steps every 100 ms and counts in whole quanta."""
    edge_s = np.arange(6001) * 1e-3
    energy_j = np.concatenate(([0], np.cumsum([power_at(t) for t in edge_s[:-1]]) * 1e-3))

    def at(t):
        return math.floor(np.interp(t, edge_s, energy_j) / quantum_j + 1e-6) * quantum_j

    base = polled(at, phase_s=phase_s, poll_s=poll_s, source=SourceName.COUNTER)
    return replace(base, begin_ns=base.begin_ns - round(call_s * 1e9))


def step(before_w, during_w, start_s=1.0, end_s=5.0):
    return lambda t: during_w if start_s <= t < end_s else before_w


def running_mean(power_at, length_s):
    return lambda t: float(np.mean([power_at(t - back) for back in np.linspace(0, length_s, 200)]))


# Eq. 2, SMA and PAPI-style ---------------------------------------------------------------------


@given(powers_w, times_s, st.floats(0.1, 10))
def test_constant_power_gives_power_times_time_however_it_is_sampled(power_w, time_s, elapsed_s):
    readings = series(time_s, [power_w] * len(time_s))
    for method in POWER_METHODS:
        result = method(readings, window(0, 10, elapsed_s))
        assert result.status is Status.OK
        assert result.energy_j == pytest.approx(power_w * elapsed_s, rel=1e-12)


@given(times_s, st.data())
def test_mtsm_is_equation_2(time_s, data):
    value_w = data.draw(st.lists(powers_w, min_size=len(time_s), max_size=len(time_s)))
    kernel = window(3, 6, elapsed_s=2.5)
    inside_w = [w for t, w in zip(time_s, value_w, strict=True) if 3 <= t < 6]
    assume(inside_w)
    result = mtsm_j(series(time_s, value_w), kernel)
    assert result.readings == len(inside_w)
    assert result.energy_j == pytest.approx(2.5 / len(inside_w) * sum(inside_w))


@given(times_s, st.integers(2, 5), st.data())
def test_mtsm_does_not_change_when_every_reading_is_polled_more_often(time_s, repeats, data):
    value_w = data.draw(st.lists(powers_w, min_size=len(time_s), max_size=len(time_s)))
    once = mtsm_j(series(time_s, value_w), window(0, 10))
    often = mtsm_j(series(np.repeat(time_s, repeats), np.repeat(value_w, repeats)), window(0, 10))
    assert often.energy_j == pytest.approx(once.energy_j)
    assert often.readings == once.readings * repeats


def test_mtsm_counts_only_calls_that_lie_wholly_in_the_window():
    readings = series([1.0, 1.2, 1.4, 2.1], [900, 100, 200, 800], call_s=0.1)
    assert mtsm_j(readings, window(1.0, 2.0)).energy_j == pytest.approx(150.0)


def test_the_drivers_stamp_decides_over_the_time_of_the_call():
    late = series([9.0] * 4, [900, 100, 200, 800], SourceName.SAMPLES, stamp_s=[0.5, 1.2, 1.8, 2.5])
    assert mtsm_j(late, window(1.0, 2.0)).energy_j == pytest.approx(150.0)
    assert papi_j(late, window(1.0, 2.0)).energy_j == pytest.approx(200.0)


def test_failed_readings_do_not_enter_the_mean():
    readings = series([1, 2, 3], [100, math.nan, 200], code=[0, 15, 0])
    assert mtsm_j(readings, window(0, 4, 1.0)).energy_j == pytest.approx(150.0)
    assert sma_j(readings, window(0, 4, 1.0)).status is Status.OK


def test_papi_takes_the_last_reading_up_to_the_end():
    readings = series([1, 2, 3], [100, 200, 300])
    assert papi_j(readings, window(0, 2, 0.5)).energy_j == pytest.approx(100.0)
    assert papi_j(readings, window(0, 2.5, 0.5)).energy_j == pytest.approx(100.0)
    assert papi_j(readings, window(0, 1.9, 0.5)).energy_j == pytest.approx(50.0)


def test_papi_is_not_valid_where_the_reading_at_the_end_failed():
    result = papi_j(series([1, 2], [100, math.nan], code=[0, 15]), window(0, 3))
    assert result.status is Status.SENSOR_STALE
    assert "15" in result.reason
    assert math.isnan(result.energy_j)


def test_sma_reads_every_15_ms_and_knows_no_window():
    time_s = np.arange(0, 3.0, 0.001)
    power_w = np.where((time_s >= 1) & (time_s < 2), 400.0, 100.0)
    result = sma_j(series(time_s, power_w), window(1, 2))
    assert result.readings == 200
    assert result.energy_j == pytest.approx(200.0, rel=0.01)


def test_sma_is_not_weighted_by_how_often_a_part_was_polled():
    time_s = np.concatenate((np.arange(0, 1, 1e-4), np.arange(1, 2, 1e-2)))
    power_w = np.where(time_s < 1, 100.0, 300.0)
    assert sma_j(series(time_s, power_w), window(0, 2, 1.0)).energy_j == pytest.approx(200.0, rel=0.02)


def test_sma_leaves_out_what_the_driver_buffered_before_the_recording():
    stamp_s = [1.0, 1.5, 2.0, 2.1, 2.2]
    buffered = series([2.2] * 5, [900, 900, 100, 100, 100], SourceName.SAMPLES, stamp_s, call_s=0.2)
    assert sma_j(buffered, window(2.0, 2.2, 1.0)).energy_j == pytest.approx(100.0)


@pytest.mark.parametrize("method", POWER_METHODS)
def test_joules_are_refused_as_watts(method):
    result = method(series([1], [5], SourceName.COUNTER), window(0, 2))
    assert result.status is Status.NOT_SUPPORTED
    assert math.isnan(result.energy_j)


@pytest.mark.parametrize("method", [*POWER_METHODS, counter_j])
@pytest.mark.parametrize("code", [[], [3, 3]])
def test_no_reading_is_never_a_zero(method, code):
    source = SourceName.COUNTER if method is counter_j else SourceName.USAGE
    result = method(series([1.0, 1.5][: len(code)], [math.nan] * len(code), source, code=code), window(0, 2))
    assert math.isnan(result.energy_j)
    assert result.status in (Status.SENSOR_STALE, Status.WINDOW_TOO_SHORT)
    assert result.reason
    assert result.readings == 0


def test_a_window_between_two_readings_is_too_short_for_mtsm():
    result = mtsm_j(series([1.0, 2.0], [100, 100]), window(1.2, 1.3))
    assert result.status is Status.WINDOW_TOO_SHORT
    assert math.isnan(result.energy_j)


# The energy counter ------------------------------------------------------------------------------


@given(
    power_w=st.integers(50, 700), quantum_j=st.sampled_from([1e-3, 0.5, 1.0]), phase_s=st.floats(0, 0.0999)
)
def test_the_counter_is_right_within_a_quantum_and_a_poll(power_w, quantum_j, phase_s):
    readings = counted(step(80, power_w), quantum_j, phase_s)
    result = counter_j(readings, window(1.0, 5.0))
    # The 1 ms between two polls moves either edge by at most that.
    allowed_j = (quantum_j + power_w * 0.001) * 4.0 / 3.7
    assert result.energy_j == pytest.approx(power_w * 4.0, abs=allowed_j)
    assert 39 <= result.readings <= 41


def test_the_counter_takes_nothing_from_outside_the_window():
    noisy_outside = counter_j(counted(step(5000, 300), phase_s=0.05), window(1.0, 5.0))
    assert noisy_outside.energy_j == pytest.approx(1200.0, rel=1e-3)


def test_a_30_ms_window_reads_neither_0_nor_700_w():
    result = counter_j(counted(step(80, 700)), window(2.08, 2.11))
    assert result.status is Status.WINDOW_TOO_SHORT
    assert (math.isnan(result.energy_j), result.readings) == (True, 1)


def test_counter_j_refuses_watts():
    assert counter_j(series([1], [5]), window(0, 2)).status is Status.NOT_SUPPORTED


def test_the_counters_first_reading_is_no_edge():
    readings = series([1.0, 1.1, 1.2, 1.3], [10, 10, 20, 20], SourceName.COUNTER)
    assert counter_j(readings, window(0.5, 2)).readings == 1


def test_a_slow_call_makes_the_counters_power_less_sure():
    figures = sensor(source=SourceName.COUNTER)
    quick = steady_power_w(counted(step(80, 400)), window(1, 5), figures)
    slow = steady_power_w(counted(step(80, 400), call_s=0.004), window(1, 5), figures)
    assert quick.power_w == pytest.approx(400.0, rel=1e-3)
    assert slow.standard_error_w > 3 * quick.standard_error_w > 0


def test_a_counter_with_lag_counts_from_later():
    figures = sensor(source=SourceName.COUNTER, lag_s=1.0)
    late = counted(step(80, 400, start_s=1.9))
    assert steady_power_w(late, window(1, 4), figures).power_w == pytest.approx(400.0, rel=1e-3)


def test_a_counter_that_stands_still_is_stale():
    readings = series(np.arange(0, 6, 0.01), np.full(600, 7.0), SourceName.COUNTER)
    result = steady_power_w(readings, window(1, 5), sensor(source=SourceName.COUNTER))
    assert result.status is Status.SENSOR_STALE
    assert math.isnan(result.power_w)


# Fresh readings ----------------------------------------------------------------------------------


@given(
    values_w=st.lists(st.integers(100, 103), min_size=1, max_size=30),
    polls=st.integers(1, 50),
    phase=st.floats(0, 1),
)
def test_each_refresh_counts_once_also_to_the_same_value(values_w, polls, phase):
    refresh_s = 0.1
    time_s = (np.arange(len(values_w) * polls) + phase) * refresh_s / polls
    reduced = fresh(series(time_s, np.repeat(values_w, polls)), refresh_s)
    if polls >= 3:
        assert reduced.value.tolist() == values_w
    # With one or two polls a refresh, the end of a run cannot be told that finely.
    assert abs(len(reduced) - len(values_w)) <= len(values_w) / 2


def test_polling_jitter_is_no_refresh():
    time_s = [0.000, 0.050, 0.104, 0.105, 0.180, 0.206, 0.207, 0.260]
    assert fresh(series(time_s, [1, 1, 1, 2, 2, 2, 3, 3]), 0.1).value.tolist() == [1, 2, 3]


def test_new_stamps_are_fresh_and_old_ones_are_not():
    readings = series([1, 1, 2, 2], [5, 5, 5, 6], SourceName.SAMPLES, stamp_s=[0.1, 0.2, 0.2, 0.3])
    assert fresh(readings, 0.02).value.tolist() == [5, 5, 6]


def test_fresh_leaves_out_failed_readings():
    readings = series([0, 0.1, 0.2], [1, math.nan, 2], code=[0, 3, 0])
    assert fresh(readings, 0.1).value.tolist() == [1, 2]
    assert len(fresh(readings.select(np.zeros(3, dtype=bool)), 0.1)) == 0


def test_without_a_refresh_period_every_reading_is_fresh():
    assert len(fresh(series([0, 1, 2], [5, 5, 5]), 0.0)) == 3


# Steady power ------------------------------------------------------------------------------------


@given(
    before_w=st.floats(0, 1000),
    power_w=st.floats(1, 1000),
    phase_s=st.floats(0, 0.0999),
    averaging_s=st.sampled_from([0.0, 0.025, 0.3, 1.0]),
    lag_s=st.sampled_from([0.0, 0.05, 0.25]),
)
def test_steady_power_holds_nothing_of_what_was_before(before_w, power_w, phase_s, averaging_s, lag_s):
    assume(abs(before_w - power_w) > 0.1)
    drawn = running_mean(step(before_w, power_w, end_s=9.0), averaging_s)
    readings = polled(lambda t: drawn(t - lag_s), phase_s=phase_s, poll_s=0.01)
    result = steady_power_w(readings, window(1, 5), sensor(averaging_s=averaging_s, lag_s=lag_s))
    assert result.status is Status.OK
    assert result.power_w == pytest.approx(power_w, rel=1e-9)
    assert mtsm_j(readings, window(1, 5)).energy_j / 4 != pytest.approx(power_w, rel=1e-9) or lag_s == 0


def test_steady_power_takes_nothing_from_after_the_end():
    readings = polled(step(100, 400))
    assert steady_power_w(readings, window(1, 4.999), sensor()).power_w == pytest.approx(400.0)


def test_the_mean_is_over_refreshes_not_over_polls():
    time_s = np.concatenate((np.arange(1.0, 1.1, 0.0005), np.arange(1.1, 1.8, 0.02)))
    level_w = 100.0 + 10 * np.floor((time_s - 1.0) / 0.1 + 1e-9)
    result = steady_power_w(series(time_s, level_w), window(0.8, 1.8), sensor())
    assert (result.power_w, result.readings) == (pytest.approx(135.0), 8)


def test_the_standard_error_is_that_of_the_fresh_readings_widened_by_overlap():
    noise_w = np.random.default_rng(1).normal(0, 5, 200)
    readings = polled(lambda t: 300 + noise_w[round(t / 0.1)])
    apart = steady_power_w(readings, window(1, 5), sensor(averaging_s=0.0))
    inside_w = 300 + noise_w[11:50]
    assert apart.readings == pytest.approx(39, abs=1)
    assert apart.standard_error_w == pytest.approx(inside_w.std(ddof=1) / math.sqrt(39), rel=0.1)
    overlapping = steady_power_w(readings, window(1, 5), sensor(averaging_s=0.9))
    inside_w = 300 + noise_w[20:50]
    expected_w = inside_w.std(ddof=1) * math.sqrt(9 / 30)
    assert overlapping.standard_error_w == pytest.approx(expected_w, rel=0.1)


def test_the_standard_error_is_never_under_the_quantums_own():
    result = steady_power_w(polled(step(100, 400)), window(1, 5), sensor(quantum=6.0))
    assert result.standard_error_w == pytest.approx(6.0 / math.sqrt(12))


def regulated(low_s, **figures):
    """A kernel from 1 s on whose power lies 1% lower at first, and a source of a GPU that regulates 0.2 s."""
    readings = polled(lambda t: 100 if t < 1 else 396 if t < 1 + low_s else 400, refresh_s=0.01)
    return readings, replace(sensor(refresh_s=0.01, **figures), regulation_s=0.2)


def test_steady_power_is_read_behind_the_gpus_regulation():
    readings, figures = regulated(0.15)
    assert steady_power_w(readings, window(1, 2), figures).power_w == pytest.approx(400.0)
    # Fourteen of 98 readings, else.
    unknown = steady_power_w(readings, window(1, 2), replace(figures, regulation_s=0.0))
    assert unknown.power_w == pytest.approx(400 - 4 * 14 / 98, abs=0.05)
    assert unknown == steady_power_w(readings, window(1, 2), sensor(refresh_s=0.01))


def test_the_regulation_is_waited_for_as_far_as_half_the_kernel_is_left():
    readings, figures = regulated(0.045)
    short = steady_power_w(readings, window(1, 1.1), figures)
    assert (short.status, short.power_w) == (Status.OK, pytest.approx(400.0))
    assert short.readings == pytest.approx(5, abs=1)


def test_a_sensor_that_takes_longer_than_the_regulation_is_waited_for():
    figures = replace(sensor(averaging_s=1.0), regulation_s=0.2)
    assert steady_power_w(polled(step(100, 400)), window(1, 1.5), figures).status is Status.WINDOW_TOO_SHORT


@pytest.mark.parametrize("end_s", [1.05, 1.5, 2.1, 2.19])
def test_a_kernel_shorter_than_its_sensor_is_too_short(end_s):
    result = steady_power_w(polled(step(100, 400)), window(1, end_s), sensor(averaging_s=1.0))
    assert result.status is Status.WINDOW_TOO_SHORT
    assert math.isnan(result.power_w)
    assert math.isnan(result.standard_error_w)
    assert "1.3 s" in result.reason


def test_a_window_of_the_length_that_the_reason_asks_for_is_enough():
    result = steady_power_w(polled(step(100, 400)), window(1, 2.3), sensor(averaging_s=1.0))
    assert result.status is Status.OK


def test_polls_too_rare_for_two_settled_readings_are_too_short():
    result = steady_power_w(series([0.5, 2.5, 4.5], [100, 400, 400]), window(1, 3), sensor())
    assert (result.status, result.readings) == (Status.WINDOW_TOO_SHORT, 1)
    assert math.isnan(result.power_w)


def test_a_sensor_that_stopped_moving_is_stale():
    result = steady_power_w(polled(lambda _t: 250.0), window(1, 5), sensor())
    assert result.status is Status.SENSOR_STALE
    assert math.isnan(result.power_w)


def test_a_steady_value_that_came_with_the_kernel_is_not_stale():
    result = steady_power_w(polled(step(249.0, 250.0)), window(1, 5), sensor())
    assert (result.status, result.power_w) == (Status.OK, 250.0)


def test_equal_samples_with_new_stamps_are_not_stale():
    stamp_s = np.arange(0, 5, 0.02)
    readings = series(stamp_s, np.full(250, 130.0), SourceName.SAMPLES, stamp_s=stamp_s)
    result = steady_power_w(readings, window(1, 4), sensor(refresh_s=0.02, averaging_s=0.02))
    assert (result.status, result.power_w) == (Status.OK, 130.0)
    assert result.readings == pytest.approx(148, abs=2)


def test_reads_that_all_failed_are_stale_with_their_code():
    readings = series(np.arange(0, 6, 0.1), np.full(60, math.nan), code=np.full(60, 15))
    result = steady_power_w(readings, window(1, 5), sensor())
    assert result.status is Status.SENSOR_STALE
    assert "15" in result.reason


def test_samples_that_stopped_before_the_kernel_are_stale():
    readings = series([0.1, 0.2], [100, 101], SourceName.SAMPLES, stamp_s=[0.1, 0.2])
    assert steady_power_w(readings, window(1, 5), sensor()).status is Status.SENSOR_STALE


@pytest.mark.parametrize("until_s", [2.5, 4.0, 4.9])
def test_a_value_from_before_that_was_held_far_into_the_kernel_is_stale(until_s):
    """A sensor hangs as the kernel begins, and wakes up within it: its old value must not enter the mean."""
    good = polled(lambda t: 500.0 + t if t >= until_s else 100.0)
    result = steady_power_w(good, window(1, 5), sensor())
    assert result.status is Status.SENSOR_STALE
    assert "from before the kernel" in result.reason
    assert math.isnan(result.power_w)


def test_an_old_value_that_was_gone_when_the_sensor_had_settled_does_no_harm():
    late = polled(lambda t: 500.0 + t if t >= 1.6 else 100.0)
    assert steady_power_w(late, window(1, 5), sensor(averaging_s=1.0)).status is Status.OK


@pytest.mark.parametrize("method", POWER_METHODS)
def test_time_stamps_that_jump_back_give_no_energy(method):
    stamp_s = np.concatenate([np.arange(0, 3, 0.02), np.arange(1, 3, 0.02)])
    readings = series(np.linspace(0, 5, len(stamp_s)), np.full(len(stamp_s), 300.0), stamp_s=stamp_s)
    result = method(readings, window(0.5, 4))
    assert (result.status, math.isnan(result.energy_j)) == (Status.SENSOR_STALE, True)
    assert "jumped back by 1.98 s" in result.reason
    assert steady_power_w(readings, window(0.5, 4), sensor(refresh_s=0.02)).status is Status.SENSOR_STALE


def falling(at_s, by_j=1e6):
    readings = counted(step(100, 300))
    return replace(
        readings, value=np.where(readings.end_ns >= at_s * 1e9, readings.value - by_j, readings.value)
    )


def test_a_counter_that_falls_within_the_kernel_gives_neither_energy_nor_power():
    for result in (
        counter_j(falling(3.0), window(1, 5)),
        steady_power_w(falling(3.0), window(1, 5), COUNTER),
    ):
        assert result.status is Status.SENSOR_STALE
        assert "fell from" in result.reason


@pytest.mark.parametrize("at_s", [0.5, 5.5])
def test_a_counter_that_falls_beside_the_kernel_is_as_good_as_ever(at_s):
    there, here = counter_j(falling(9.0), window(1, 5)), counter_j(falling(at_s), window(1, 5))
    assert (here.status, here.energy_j) == (Status.OK, pytest.approx(there.energy_j, rel=1e-9))


# Ways of other tools -----------------------------------------------------------------------------


def test_a_collector_takes_a_reading_every_100_ms_from_the_begin_on():
    ramp = polled(lambda t: 100 * t, refresh_s=0.001)
    found = collector_j(ramp, window(1.0, 2.0))
    # At 1.0, 1.1, ... 2.0 s.
    assert found.readings == 11
    assert found.energy_j == pytest.approx(150.0, rel=1e-3)


def test_a_running_mean_makes_a_collector_miss_half_of_a_second_and_more():
    mean = polled(running_mean(step(100, 600, 2.0, 3.0), 1.0))
    assert collector_j(mean, window(2.0, 3.0)).energy_j == pytest.approx(350, abs=40)
    assert collector_j(mean, window(2.0, 2.3)).energy_j == pytest.approx(0.3 * 170, abs=0.3 * 40)


def test_a_median_does_not_see_a_ramp_of_less_than_half_the_window():
    late = polled(step(100, 600, 1.05, 5.0), refresh_s=0.02)
    assert median_j(late, window(1.0, 2.0)).energy_j == pytest.approx(600.0)
    assert median_j(polled(step(100, 600, 1.6, 5.0), refresh_s=0.02), window(1.0, 2.0)).energy_j == 100.0


def test_a_median_counts_a_value_that_stays_every_10_ms():
    # 200 W stay for 0.2 s, 20 readings; then 15 values follow each other in 15 ms.
    time_s = np.arange(0, 0.215, 0.001)
    found = median_j(series(time_s, np.where(time_s < 0.2, 200.0, 300.0 + time_s)), window(0, 0.215))
    assert (found.readings, found.energy_j) == (35, pytest.approx(200.0 * 0.215))


def test_a_counter_that_was_not_renewed_gives_nothing_for_a_short_window():
    readings = counted(step(100, 600, 1.0, 2.0))
    assert difference_j(readings, window(1.01, 1.09)).energy_j == 0.0
    assert difference_j(readings, window(1.0, 2.0)).energy_j == pytest.approx(600.0, rel=0.01)


def test_tools_have_no_energy_of_what_was_not_read():
    late = series([3.0, 3.1], [100.0, 100.0])
    counter = series([3.0, 3.1], [1.0, 2.0], SourceName.COUNTER)
    assert collector_j(late, window(1.0, 2.0)).status is Status.WINDOW_TOO_SHORT
    assert median_j(late, window(1.0, 2.0)).status is Status.WINDOW_TOO_SHORT
    assert difference_j(counter, window(1.0, 2.0)).status is Status.WINDOW_TOO_SHORT
    assert difference_j(late, window(1.0, 2.0)).status is Status.NOT_SUPPORTED
    assert collector_j(counter, window(1.0, 2.0)).status is Status.NOT_SUPPORTED
