import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_session import Hidden, Session

from ptxbench.core.errors import InputError
from ptxbench.meter.alignment import Basis, align, halves
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.coarse import best_match
from ptxbench.meter.host import log_from_csv
from ptxbench.meter.line import fit_line
from ptxbench.meter.readers import read_meter
from ptxbench.meter.sync_pulse import align_by_bursts, burst_pattern

CAPTURES = Path(__file__).parents[2] / "hw_validation" / "captures"
SESSION = Session(Hidden(averaging_s=0.1), kernels=12)
CAPTURE, LOG = SESSION.capture(), SESSION.log()


def found(capture=CAPTURE, log=LOG):
    return align(capture, log.windows, log.series, log.begin_ns)


def test_offset_and_drift_are_found():
    alignment = found()
    assert alignment.offset_ms.value == pytest.approx(337.0, abs=0.25)
    assert alignment.drift_ppm.value == pytest.approx(42.0, abs=alignment.drift_ppm.uncertainty)
    assert abs(alignment.offset_ms.value - 337.0) < alignment.offset_ms.uncertainty
    assert alignment.edges == 24
    assert alignment.basis is Basis.WINDOWS
    assert alignment.correlation > 0.95
    assert not alignment.rivals


def test_long_session_gives_the_drift_within_5_ppm():
    session = Session(Hidden(drift_ppm=-230.0, clock_offset_s=-41.5), kernels=60)
    log = session.log()
    alignment = found(session.capture(), log)
    assert alignment.drift_ppm.value == pytest.approx(-230.0, abs=1.0)
    assert alignment.offset_ms.value == pytest.approx(-41_500.0, abs=0.1)


@settings(max_examples=max(1, settings.default.max_examples // 12))
@given(shift_ns=st.integers(-(10**17), 10**17))
def test_a_shift_of_the_meters_clock_shifts_the_offset_and_nothing_else(shift_ns):
    base, epoch = found(), SESSION.epoch_ns
    # By a clock that does not count from 1970 any shift is possible.
    moved = replace(CAPTURE, time_ns=CAPTURE.time_ns - epoch + shift_ns)
    shifted = found(moved)
    assert shifted.offset_ns - (shift_ns - epoch) == pytest.approx(base.offset_ns, abs=2_000)
    assert shifted.drift == pytest.approx(base.drift, abs=1e-9)


def test_alignment_maps_meter_times_to_host_times():
    alignment = found()
    host_s = np.array([0.5, 3.0, 7.25])
    meter_ns = SESSION.epoch_ns + np.round(1e9 * (0.337 + (1 + 42e-6) * host_s)).astype(np.int64)
    host_ns = SESSION.epoch_ns + np.round(1e9 * host_s).astype(np.int64)
    assert alignment.to_host_s(meter_ns) == pytest.approx(alignment.host_s(host_ns), abs=3e-4)


def test_kernels_of_unlike_power_and_hardly_a_gap_are_placed_by_the_sensor_and_their_steps():
    session = Session(Hidden(averaging_s=0.1, drift_ppm=0.0), kernels=20, gap_s=0.03, idle_w=200.0)
    log = session.log()
    assert found(session.capture(), log).offset_ms.value == pytest.approx(337.0, abs=0.3)


def test_periodic_load_without_its_ends_is_called_ambiguous():
    log = log_from_csv(CAPTURES / "a100_square_50ms/nvml.csv", CAPTURES / "a100_square_50ms/windows.csv")
    capture = read_meter(CAPTURES / "a100_square_50ms/meter.csv.gz")
    assert not found(capture, log).rivals
    middle = capture.between(*(int(capture.time_ns[0] + x * 1e9) for x in (3.0, 5.0)))
    assert found(middle, log).rivals > 10


@pytest.mark.parametrize(
    ("name", "edges", "least_ms", "most_ms"),
    [("a100_square_50ms", 152, 0.0, 0.4), ("rtx3090_step_6s", 2, 1.0, 1.5)],
)
def test_real_captures_align_without_help_and_their_halves_agree(name, edges, least_ms, most_ms):
    log = log_from_csv(CAPTURES / name / "nvml.csv", CAPTURES / name / "windows.csv")
    capture = read_meter(CAPTURES / name / "meter.csv.gz")
    # The true offset is not known; the one found by hand was 0.
    alignment = found(capture, log)
    assert least_ms < alignment.offset_ms.value < most_ms
    assert alignment.edges == edges
    first, second = halves(capture, log.windows, alignment)
    assert first.edges + second.edges == edges
    assert abs(first.offset_ns - second.offset_ns) < 2e6
    moved = replace(capture, time_ns=capture.time_ns - capture.time_ns[0] + 123)
    again = found(moved, log)
    assert again.offset_ns + int(capture.time_ns[0]) - 123 == pytest.approx(alignment.offset_ns, abs=20_000)


@pytest.mark.parametrize("part", [(0.0, 0.5), (0.5, 1.0)])
def test_half_of_a_real_capture_gives_the_same_offset_by_itself(part):
    log = log_from_csv(CAPTURES / "a100_square_50ms/nvml.csv", CAPTURES / "a100_square_50ms/windows.csv")
    capture = read_meter(CAPTURES / "a100_square_50ms/meter.csv.gz")
    begin_ns, length_ns = int(capture.time_ns[0]), int(capture.time_ns[-1] - capture.time_ns[0])
    cut = capture.between(*(begin_ns + int(x * length_ns) for x in part))
    assert found(cut, log).offset_ms.value == pytest.approx(found(capture, log).offset_ms.value, abs=0.5)


def test_load_that_dies_away_in_stairs_is_aligned_by_its_end():
    # The last blocks of a kernel end one after the other; the end is the last step down.
    time_s = np.arange(0.0, 4.0, 2e-4)
    power_w = np.select(
        [time_s < 1.0, time_s < 2.9, time_s < 2.96, time_s < 3.0], [60.0, 400.0, 300.0, 200.0], 80.0
    )
    power_w += np.random.default_rng(0).normal(0, 2, len(time_s))
    capture = MeterCapture(np.round(1e9 * (time_s + 0.020)).astype(np.int64), power_w, ("board",), "test")
    one = replace(LOG.windows[0], start_ns=1_000_000_000, end_ns=3_000_000_000)
    alignment = align(capture, [one], (), 0)
    assert alignment.offset_ms.value == pytest.approx(20.0, abs=0.3)
    first, second = halves(capture, [one], alignment)
    assert abs(first.offset_ns - second.offset_ns) < 1e6


def test_captures_of_other_days_are_refused():
    with pytest.raises(InputError, match=r"48\.0 h apart"):
        found(replace(CAPTURE, time_ns=CAPTURE.time_ns + 48 * 3600 * 10**9 + 20 * 10**9))


def test_power_that_does_not_follow_the_kernels_is_refused():
    noise_w = np.random.default_rng(0).normal(100, 3, len(CAPTURE))
    with pytest.raises(InputError, match="does not follow the kernels"):
        found(replace(CAPTURE, power_w=noise_w))


def test_whole_match_wins_over_a_perfect_one_of_a_small_part():
    rng = np.random.default_rng(0)
    template = np.repeat(rng.integers(0, 2, 40), 10).astype(float)
    # The template's last quarter stands alone at the begin; all of it, with noise, further on.
    signal = np.concatenate(
        [template[300:], np.zeros(200), template + rng.normal(0, 0.2, 400), np.zeros(100)]
    )
    found = best_match(signal, template, np.ones(400), -400, len(signal))
    assert found.lag == 300
    assert 0.85 < found.correlation < 0.97


def test_line_through_sample_intervals_is_better_than_half_a_sample():
    rng = np.random.default_rng(3)
    time_s = np.sort(rng.uniform(-20, 20, 40))
    truth_s = 2e-3 + 50e-6 * time_s
    period_s = 1e-3
    late_s = np.floor((time_s + truth_s) / period_s) * period_s + period_s / 2 - time_s
    line = fit_line(time_s, late_s, np.arange(40) % 2 == 0, period_s)
    assert abs(line.offset_s - 2e-3) < line.offset_half_s < 0.1e-3
    assert abs(line.drift - 50e-6) < line.drift_half_s < 8e-6


def test_line_is_not_bent_by_one_wrong_edge():
    time_s = np.linspace(-10, 10, 30)
    late_s = 1e-3 + 20e-6 * time_s + np.random.default_rng(1).normal(0, 1e-4, 30)
    late_s[3] += 8e-3
    line = fit_line(time_s, late_s, np.arange(30) % 2 == 0, 2e-4)
    assert line.offset_s == pytest.approx(1e-3, abs=1e-4)
    assert line.drift == pytest.approx(20e-6, abs=2e-5)


def test_two_edges_make_no_drift_but_an_uncertainty():
    line = fit_line(np.array([-3.0, 3.0]), np.array([1e-3, 2e-3]), np.array([True, False]), 2e-4)
    assert (line.drift, line.offset_s) == (0.0, pytest.approx(1.5e-3))
    assert line.offset_half_s > 0.5e-3
    assert line.drift_half_s > 1e-3 / 6


def test_burst_has_one_place_to_fit():
    chips = 2.0 * burst_pattern(6).chips - 1
    assert len(chips) == 63
    correlation = [float(np.dot(chips, np.roll(chips, lag))) for lag in range(63)]
    assert correlation[0] == 63
    assert set(correlation[1:]) == {-1.0}


def burst_capture(windows, offset_s, seed=0):
    rng = np.random.default_rng(seed)
    edges_s = np.array([[w.start_ns, w.end_ns] for w in windows]).ravel() / 1e9
    time_s = np.arange(edges_s[0] - 3.0, edges_s[-1] + 3.0, 5e-4)
    power_w = np.where(np.searchsorted(edges_s, time_s) % 2 == 1, 250.0, 70.0) + rng.normal(0, 5, len(time_s))
    return MeterCapture(np.round(1e9 * (time_s + offset_s)).astype(np.int64), power_w, ("board",), "test")


@pytest.mark.parametrize("ahead_s", [3, 777])
def test_two_bursts_give_the_offset_at_any_time_between_and_the_drift(ahead_s):
    ppm = -120.0
    marks = tuple(w for at_s in (50, 250) for w in burst_pattern(5, 0.06).windows(at_s * 10**9))
    plain = burst_capture(marks, 0.0)
    # The meter's clock runs fast by so much from host time 0 on, and is seconds ahead there.
    meter_ns = np.round(plain.time_ns * (1 + ppm * 1e-6)).astype(np.int64) + ahead_s * 10**9
    capture = replace(plain, time_ns=meter_ns)
    for at_s in (51, 300):
        found = align_by_bursts(capture, marks, at_s * 10**9)
        assert found.reference_ns == at_s * 10**9
        assert found.offset_ms.value == pytest.approx(1e3 * ahead_s + 1e-3 * ppm * at_s, abs=0.3)
        assert found.drift_ppm.value == pytest.approx(ppm, abs=1.0)
        assert found.edges == 4 * len(marks) // 2


def test_between_two_bursts_the_offset_is_known_best_and_beyond_them_worse():
    marks = tuple(w for at_s in (50, 250) for w in burst_pattern(5, 0.06).windows(at_s * 10**9))
    capture = burst_capture(marks, 3.0)
    found = [align_by_bursts(capture, marks, round(at_s * 1e9)) for at_s in (50.9, 150.9, 250.9, 450.9)]
    first, middle, last, beyond = (one.offset_uncertainty_ns for one in found)
    # Two errors that are independent: their mean has half of their sum of squares, twice the way has
    # (-1, 2) of them.
    assert middle == pytest.approx(math.hypot(first, last) / 2, rel=0.02)
    assert beyond == pytest.approx(math.hypot(first, 2 * last), rel=0.02)
    assert found[0].drift_uncertainty == pytest.approx(math.hypot(first, last) / 200e9, rel=0.02)


def test_one_burst_tells_no_drift():
    marks = burst_pattern(5, 0.06).windows(50 * 10**9)
    assert align_by_bursts(burst_capture(marks, 3.0), marks, 50 * 10**9) is None


@pytest.mark.parametrize(("order", "chips"), [(3, 7), (12, 4095)])
def test_the_shortest_and_the_longest_burst(order, chips):
    pattern = burst_pattern(order, 0.001)
    assert (len(pattern.chips), pattern.chip_ns) == (chips, 1_000_000)
    windows = pattern.windows(10**9)
    assert sum(w.end_ns - w.start_ns for w in windows) == (chips + 1) // 2 * 1_000_000
    assert all(w.elapsed_s == (w.end_ns - w.start_ns) / 1e9 for w in windows)


@pytest.mark.parametrize("noise", [0.02, 2.0])
@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_another_place_that_fits_as_well_is_a_rival_also_where_none_fits_well(noise, repeats):
    rng = np.random.default_rng(4)
    template = np.repeat(rng.normal(size=40), 10)
    once = rng.normal(0, noise, 1500)
    once[400:800] += template
    signal = np.concatenate((np.tile(once, repeats), rng.normal(0, noise, 1500)))
    found = best_match(signal, template, np.ones(400), 0, len(signal) - 400)
    assert found.lag % 1500 == 400
    assert (found.correlation > 0.99) is (noise < 1)
    assert found.rivals == repeats - 1


def test_a_ripple_on_the_best_place_is_no_place_of_its_own():
    at = np.arange(400)
    template = np.sin(2 * np.pi * at / 400) + 0.05 * np.sign(np.sin(2 * np.pi * (at + 0.5) / 8))
    signal = np.concatenate((np.zeros(600), template, np.zeros(600)))
    found = best_match(signal, template, np.ones(400), 0, 1200)
    assert (found.lag, found.rivals) == (600, 0)
