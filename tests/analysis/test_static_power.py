import math
from dataclasses import replace

import numpy as np
import pytest
from fakes import run as fake
from fakes.measuring import hot_trial, trial
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.analysis.loop_energy import pass_energy_pj, shared_by
from ptxbench.analysis.static_power import StaticPower, fit_static
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role


def asleep(temperature_c, power_w, **change):
    return trial(Role.STATIC, temperature_c=temperature_c, steady_power_w=power_w, **change)


def test_a_line_through_sleeping_trials():
    temperature_c = np.linspace(35, 60, 6)
    fit = fit_static([asleep(t, 125.5 + 0.35 * (t - 40)) for t in temperature_c])
    for t in (30.0, 40.0, 65.0):
        assert fit.at(t) == pytest.approx(125.5 + 0.35 * (t - 40))
        assert fit.error_at(t) == pytest.approx(0, abs=1e-6)


def test_its_error_is_that_of_the_noise_and_grows_with_the_distance():
    rng = np.random.default_rng(1)
    temperature_c = np.linspace(35, 60, 12)
    fits = [
        fit_static([asleep(t, 120 + 0.3 * t + rng.normal(0, 1.0)) for t in temperature_c]) for _ in range(300)
    ]
    for t in (47.5, 60.0):
        scatter = np.std([fit.at(t) for fit in fits])
        assert np.mean([fit.error_at(t) for fit in fits]) == pytest.approx(scatter, rel=0.15)
    assert fits[0].error_at(60.0) > 1.3 * fits[0].error_at(47.5)


@pytest.mark.parametrize("temperature_c", [(40.0, 41.0, 40.0), (40.0, 60.0), (math.nan,) * 3])
def test_one_temperature_or_two_trials_or_no_thermometer_give_a_constant(temperature_c):
    fit = fit_static([asleep(t, 120.0 + n) for n, t in enumerate(temperature_c)])
    n = len(temperature_c)
    assert fit.slope_w_per_c == 0
    for t in (20.0, 90.0, math.nan):
        assert fit.at(t) == pytest.approx(120 + (n - 1) / 2)
        assert fit.error_at(t) == pytest.approx(np.std(range(n), ddof=1) / math.sqrt(n))


def test_three_trials_have_a_slope_and_one_degree_of_freedom():
    fit = fit_static([asleep(t, 120.0 + 0.5 * t) for t in (40.0, 45.0, 50.0)])
    assert (fit.slope_w_per_c, fit.degrees) == (pytest.approx(0.5), 1)


def test_each_session_takes_a_degree_of_freedom_and_the_slope_one():
    records = asleep_in([session_of(3), session_of(4, DROP_W), session_of(5, 3 * DROP_W)])
    assert fit_static(records).degrees == 12 - 3 - 1


def test_its_error_is_known_with_the_degrees_of_freedom_that_the_fit_leaves():
    assert fit_static([asleep(t, t) for t in (40.0, 45.0, 50.0, 55.0)]).degrees == 2
    assert fit_static([asleep(40.0, w) for w in (119.0, 120.0, 121.0)]).degrees == 2


@pytest.mark.parametrize("range_c", [0.0, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("n", [2, 3, 6])
def test_whole_degrees_are_in_the_error_whether_the_scatter_shows_them_or_not(range_c, n):
    """Rounds somewhere within `range_c` degrees; static power is taken at what the thermometer reads."""
    line = StaticPower(120.0, 45.0, 0.5, 0.0, 0.0)
    rng = np.random.default_rng(6)
    squares, told = [], []
    for _ in range(3000):
        true_c = rng.uniform(40, 50) + rng.uniform(0, range_c, n)
        read_c = np.round(true_c)
        off_w = line.slope_w_per_c * (true_c - read_c)
        squares.append(off_w.mean() ** 2)
        told.append(off_w.var(ddof=1) / n + line.reading_error(read_c.tolist()).standard_error ** 2)
    # Rounds within a degree that read alike are taken to be off alike: too much, never too little.
    assert np.mean(squares) <= 1.05 * np.mean(told)
    if range_c == 0:
        assert np.mean(squares) == pytest.approx(np.mean(told), rel=0.05)


def test_a_line_without_a_slope_and_a_gpu_without_a_thermometer_have_no_error_of_reading():
    assert StaticPower(120.0, 45.0, 0.0, 0.0, 0.0).reading_error([45.0, 45.0]).ci95 == 0
    assert StaticPower(120.0, math.nan, 0.0, 1.0, 0.0).reading_error([math.nan, math.nan]).ci95 == 0


def test_without_a_sleeping_trial_nothing_is_known():
    others = [
        trial(Role.TARGET),
        asleep(40.0, 999.0, repeat=-1),
        asleep(40.0, 999.0, status=Status.SENSOR_STALE),
    ]
    assert math.isnan(fit_static(others).at(40.0))
    assert math.isnan(fit_static(others).error_at(40.0))
    one = [*others, asleep(40.0, 120.0)]
    assert fit_static(one).at(40.0) == 120.0
    assert math.isnan(fit_static(one).error_at(40.0))
    assert fit_static([replace(others[0], role=Role.STATIC), *one]).at(40.0) == 120.0


PAUSE_S = 300.0
DROP_W = 7.0


def asleep_in(sessions, pause_s=PAUSE_S):
    """Sleeping trials of a second each, by session, given as temperatures with powers."""
    records, now_s = [], 1000.0
    for session in sessions:
        for temperature_c, power_w in session:
            times = {"start_ns": round(now_s * 1e9), "end_ns": round((now_s + 1) * 1e9)}
            records.append(asleep(temperature_c, power_w, trial_id=f"static/{len(records)}", **times))
            now_s += 1.0
        now_s += pause_s
    return records


def line_w(temperature_c, drop_w=0.0):
    return 120.0 + 0.35 * (temperature_c - 45.0) - drop_w


def session_of(n, drop_w=0.0):
    return [(t, line_w(t, drop_w)) for t in np.linspace(40.0, 52.0, n)]


def test_a_session_after_a_pause_at_another_static_power_has_a_line_of_its_own():
    records = asleep_in([session_of(6), session_of(3, DROP_W)])
    fit = fit_static(reversed(records))
    before, behind = records[0].start_ns, records[-1].start_ns
    assert len(fit.sessions) == 2
    for t in (35.0, 60.0):
        assert fit.at(t, before) == pytest.approx(line_w(t))
        assert fit.at(t, behind) == pytest.approx(line_w(t, DROP_W))
        # Two thirds of the trials are of the first.
        assert fit.at(t) == pytest.approx(line_w(t, DROP_W / 3))
        assert fit.error_at(t, before) == pytest.approx(0.0, abs=1e-6)
    assert fit.shift_w(before) - fit.shift_w(behind) == pytest.approx(DROP_W)
    assert fit.shift_w(None) == 0.0


def test_a_session_begins_with_its_first_trial_which_need_not_sleep():
    records = asleep_in([session_of(4), session_of(4, DROP_W)])
    begin_ns = records[4].start_ns - 20_000_000_000
    early = trial(Role.TARGET, start_ns=begin_ns, end_ns=begin_ns + 1)
    fit = fit_static([*records, early])
    assert fit.at(45.0, begin_ns) == pytest.approx(line_w(45.0, DROP_W))
    assert fit.at(45.0, begin_ns - 1) == pytest.approx(line_w(45.0))


def test_the_error_of_each_session_is_that_of_its_own_trials():
    rng = np.random.default_rng(2)
    clean = asleep_in([session_of(12), session_of(4, 20.0)])
    fits = [
        fit_static([replace(r, steady_power_w=r.steady_power_w + rng.normal(0, 1.0)) for r in clean])
        for _ in range(300)
    ]
    errors = []
    for when_ns in (clean[0].start_ns, clean[-1].start_ns):
        scatter = np.std([fit.at(46.0, when_ns) for fit in fits])
        errors.append(np.mean([fit.error_at(46.0, when_ns) for fit in fits]))
        assert errors[-1] == pytest.approx(scatter, rel=0.15)
    assert errors[1] > 1.5 * errors[0]


def test_sessions_that_differ_by_chance_share_a_line():
    rng = np.random.default_rng(3)
    clean = asleep_in([session_of(6), session_of(6), session_of(6)])
    fits = [
        fit_static([replace(r, steady_power_w=r.steady_power_w + rng.normal(0, 1.0)) for r in clean])
        for _ in range(400)
    ]
    assert sum(len(fit.sessions) > 0 for fit in fits) <= 4


@pytest.mark.parametrize(
    ("trials", "lines"),
    [((5, 2), [7]), ((2, 5), [7]), ((5, 2, 5), [5, 7]), ((5, 5, 2), [5, 7]), ((3, 3), [3, 3])],
)
def test_a_session_with_fewer_than_three_sleeping_trials_joins_another(trials, lines):
    drops_w = np.repeat([0.0, DROP_W], [1, len(trials) - 1])
    records = asleep_in([session_of(n, drop_w) for n, drop_w in zip(trials, drops_w, strict=True)])
    fit = fit_static(records)
    shifts = [round(fit.shift_w(r.start_ns), 6) for r in records]
    assert [shifts.count(shift) for shift in dict.fromkeys(shifts)] == lines


@pytest.mark.parametrize(("pause_s", "sessions"), [(9.5, 0), (10.5, 2)])
def test_ten_seconds_without_a_trial_part_two_sessions(pause_s, sessions):
    # From the end of one trial to the begin of the next: how long a trial takes is no pause.
    records = asleep_in([session_of(5), session_of(5, DROP_W)], pause_s=pause_s)
    long = [replace(r, start_ns=r.start_ns - 400_000_000) for r in records]
    late = [replace(r, start_ns=r.start_ns + 400_000_000) for r in long]
    assert len(fit_static(late).sessions) == sessions


def test_a_session_holds_from_its_first_trial_on():
    records = asleep_in([session_of(5), session_of(5, DROP_W)])
    fit = fit_static(records)
    begin_ns = records[5].start_ns
    assert fit.shift_w(begin_ns - 1) == pytest.approx(DROP_W / 2)
    assert fit.shift_w(begin_ns) == pytest.approx(-DROP_W / 2)
    # Before the run nothing is known of either.
    assert fit.shift_w(records[0].start_ns - 1) == 0.0


def test_what_changes_without_a_pause_begins_no_session():
    fit = fit_static(asleep_in([session_of(5), session_of(5, DROP_W)], pause_s=5.0))
    assert fit.sessions == ()
    assert fit.error_at(46.0) > 0.5


@given(
    slope=st.floats(0.1, 1.0),
    sessions=st.lists(
        st.tuples(st.floats(-30.0, 30.0), st.lists(st.integers(35, 70), min_size=3, max_size=6)),
        min_size=2,
        max_size=4,
    ),
)
def test_parallel_lines_without_noise_give_every_trial_back(slope, sessions):
    told = [[(float(t), 120.0 + slope * t + shift) for t in (30, *spread)] for shift, spread in sessions]
    records = asleep_in(told)
    fit = fit_static(records)
    for r in records:
        assert fit.at(r.temperature_c, r.start_ns) == pytest.approx(r.steady_power_w, abs=1e-6)


def test_a_kernel_costs_the_same_in_a_session_whose_every_power_is_lower():
    sleeping = asleep_in([session_of(4), session_of(4, DROP_W)])
    targets = []
    for n, (slept, drop_w) in enumerate(zip(sleeping, np.repeat([0.0, DROP_W], 4), strict=True)):
        # Each round ends with the sleep.
        times = {"start_ns": slept.start_ns - 2_000_000_000, "end_ns": slept.start_ns - 1_000_000_000}
        target = hot_trial(Role.TARGET, 1500.0, n, temperature_c=45.0, **times)
        targets.append(replace(target, steady_power_w=target.steady_power_w - drop_w))
    common = shared_by([*targets, *sleeping], fake.GPU)
    energies_pj = [pass_energy_pj(target, common) for target in targets]
    assert energies_pj == pytest.approx([1500.0] * 8)
