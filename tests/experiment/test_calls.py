"""Functions called in rounds, and the verdict on them, against hidden truth: noise and a simulated GPU."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.called import drawing
from fakes.simulated_step import ReplayingGpu

from ptxbench.experiment.calls.outputs import NOTHING, difference, first_difference, fresh_inputs
from ptxbench.experiment.calls.rounds import RoundMeasurement, RoundSettings
from ptxbench.experiment.calls.verdict import Verdict, judge
from ptxbench.experiment.calls.window import CallWindow, mean_of, quantile

TEN_S = RoundSettings(budget_s=10.0)


def noisy(random, ratio=1.0, rounds=11, scatter=0.005, drift=0.02):
    """Return windows of two functions whose energies drift together, and scatter apart."""
    course = 1 + drift * np.linspace(0, 1, rounds)
    energies = (300 * course * f * (1 + scatter * random.standard_normal(rounds)) for f in (1.0, ratio))
    return [[CallWindow(n, 1e-3, w, 0.1, 1980.0) for n, w in enumerate(one)] for one in energies]


def verdicts(ratio, scatter, times=20, seed=0):
    random = np.random.default_rng(seed)
    return [judge(*noisy(random, ratio, scatter=scatter)).verdict for _ in range(times)]


@pytest.mark.parametrize(("scatter", "told"), [(0.0005, 0.0), (0.003, 0.01), (0.005, 0.025), (0.02, 0.07)])
def test_a_thing_is_hardly_ever_told_from_itself(scatter, told):
    found = np.array([v is not Verdict.UNDECIDED for v in verdicts(1.0, scatter, times=400)])
    assert found.mean() <= told
    # Of 20 comparisons at most one: nearly always up to the scatter that H100s have.
    at_most_one = np.mean(found.reshape(-1, 20).sum(axis=1) <= 1)
    assert at_most_one >= (0.92 if scatter <= 0.005 else 0.6)


@pytest.mark.parametrize(("ratio", "verdict"), [(1.02, Verdict.MORE), (0.98, Verdict.LESS)])
def test_two_percent_are_found_in_what_scatters_by_half_a_percent(ratio, verdict):
    assert np.mean([v is verdict for v in verdicts(ratio, 0.005, times=200)]) >= 0.99


def test_the_interval_holds_the_truth():
    random = np.random.default_rng(5)
    found = [judge(*noisy(random, 1.03, scatter=0.01)).energy for _ in range(400)]
    inside = np.mean([one.low <= 1.03 <= one.high for one in found])
    assert inside >= 0.93


def test_of_several_functions_each_interval_is_wider():
    windows = noisy(np.random.default_rng(1))
    alone, among = (judge(*windows, pairs).energy for pairs in (1, 4))
    assert among.high - among.low > 1.1 * (alone.high - alone.low)
    assert among.value == alone.value


def test_clocks_that_moved_are_refused():
    first, other = noisy(np.random.default_rng(2), ratio=0.5)
    slow = [replace(one, clock_mhz=1900.0) for one in other]
    told = judge(first, slow)
    assert told.verdict is Verdict.REFUSED
    assert "1900 and 1980 MHz" in told.reason
    # At the limit each runs at the clock that its power lets it have.
    assert judge(first, [replace(one, at_limit=True) for one in slow]).verdict is Verdict.LESS
    first[3] = replace(first[3], clock_mhz=1700.0)
    assert "1700 to 1980 MHz" in judge(first, other).reason


def test_windows_that_do_not_count_leave_their_round_out():
    first, other = noisy(np.random.default_rng(3), ratio=0.5)
    other[0] = replace(other[0], reason="the power still changed by +3.0%", power_w=9000.0)
    assert judge(first, other).rounds == len(first) - 1
    lost = [replace(one, reason="no power") for one in other[:-2]] + other[-2:]
    told = judge(first, lost)
    assert told.verdict is Verdict.UNDECIDED
    assert told.reason == "2 round(s) count, 3 are needed: no power"


@pytest.mark.parametrize(("change", "verdict"), [(0.0, Verdict.UNDECIDED), (0.03, Verdict.MORE)])
def test_on_a_simulated_gpu_2_percent_are_found_in_ten_seconds(change, verdict):
    gpu = ReplayingGpu(3)
    begun_ns = gpu.clock.now_ns()
    calls = [drawing(gpu, power_w) for power_w in (300.0, 300.0 * (1 + change))]
    found = RoundMeasurement(gpu, calls, TEN_S).run()
    assert (gpu.clock.now_ns() - begun_ns) * 1e-9 < 10.5
    told = judge(*found.windows)
    assert told.verdict is verdict
    # 3% of what it adds to the static power are 2% of all.
    assert told.energy.value == pytest.approx(1 + 0.7 * change, abs=0.003)
    assert found.objection == found.short == ""
    first = mean_of([one.energy_j for one in found.windows[0]], [one.error_j for one in found.windows[0]])
    assert 0 < first.ci95 < 0.01 * first.mean


def test_at_the_power_limit_windows_are_long_and_a_small_budget_says_what_is_enough():
    gpu = ReplayingGpu(1)
    found = RoundMeasurement(gpu, [drawing(gpu, 800.0), drawing(gpu, 820.0)], TEN_S).run()
    assert all(one.at_limit for windows in found.windows for one in windows)
    assert "give it" in found.short
    told = judge(*found.windows)
    assert told.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("power_w", [620.0, 700.0])
def test_a_time_too_short_for_three_rounds_at_the_power_limit_is_given_to_one_that_settles(power_w):
    gpu = ReplayingGpu(1)
    (windows,) = RoundMeasurement(gpu, [drawing(gpu, power_w)], RoundSettings(budget_s=5.0)).run().windows
    assert [one.reason for one in windows] == [""]
    assert windows[0].power_w == pytest.approx(gpu.info.power_limit_w, rel=0.005)


def test_what_pauses_let_pass_above_the_limit_is_not_its_power():
    class Pausing(ReplayingGpu):
        def run_calls(self, call, times):
            self.clock.sleep_s(0.03)
            return super().run_calls(call, times)

    gpu = Pausing(1)
    found = RoundMeasurement(gpu, [drawing(gpu, 650.0)], TEN_S).run()
    (windows,) = found.windows
    counted = [one.power_w for one in windows if one.counts]
    assert len(counted) >= 2
    assert max(counted) < 1.01 * gpu.info.power_limit_w


def test_what_windows_take_beside_their_calls_is_part_of_the_budget():
    class Slow(ReplayingGpu):
        def run_calls(self, call, times):
            self.clock.sleep_s(1.0)
            return super().run_calls(call, times)

    gpu = Slow(1)
    begun_ns = gpu.clock.now_ns()
    RoundMeasurement(gpu, [drawing(gpu, 300.0)] * 3, RoundSettings(budget_s=8.0)).run()
    assert (gpu.clock.now_ns() - begun_ns) * 1e-9 < 8.2


def test_a_wait_for_the_host_is_said():
    class Late(ReplayingGpu):
        queued_s = 0.0

        def run_calls(self, call, times):
            return replace(super().run_calls(call, times), queued_s=self.queued_s)

    gpu = Late(1)
    for gpu.queued_s, said in ((0.0, True), (0.5, False), (math.nan, False)):
        found = RoundMeasurement(gpu, [drawing(gpu, 300.0)], RoundSettings(budget_s=1.0)).run()
        assert all(("waited for the host" in one.note) is said for one in found.windows[0])


def test_the_order_of_a_round_is_drawn():
    order = []

    class Watched(ReplayingGpu):
        def run_calls(self, call, times):
            order.append(call)
            return super().run_calls(call, times)

    gpu = Watched(0)
    calls = [drawing(gpu, 300.0), drawing(gpu, 300.0)]
    RoundMeasurement(gpu, calls, RoundSettings(budget_s=5.0, window_s=0.3)).run()
    firsts = order[::2]
    assert 0 < firsts.count(calls[0]) < len(firsts)
    assert all(set(order[n : n + 2]) == set(calls) for n in range(0, len(order), 2))


def test_quantiles_and_a_mean_of_one():
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0], 0.25) == 1.25
    assert math.isnan(quantile([], 0.5))
    assert mean_of([5.0], [1.0]).ci95 == pytest.approx(1.96, abs=0.01)
    assert math.isnan(mean_of([]).mean)


def test_results_are_compared_by_their_type():
    right = np.linspace(-1, 1, 100, dtype=np.float32)
    assert difference(right, right * (1 + 1e-4)) == ""
    off = right.copy()
    off[7] = 3.0
    said = difference((right, right), (right, off))
    assert said.startswith("1 of 100 values of result[1] differ, first [7]: 3 where")
    assert "values of result[0]" not in said
    assert difference(right.astype(np.float16), (right * 1.005).astype(np.float16)) == ""
    assert "differ" in difference(right.astype(np.float64), right.astype(np.float64) * (1 + 1e-6))
    assert difference(right, right * 1.05, max_difference=0.1) == ""
    assert "shape" in difference(right, right[:50])
    assert "gave 1 arrays" in difference((right, 2.0), (right,))
    assert "differ" in difference(np.arange(4), np.arange(4) + 1)
    assert difference(None, None) == NOTHING


def test_what_is_not_a_number_must_be_so_in_both():
    right = np.array([1.0, np.nan, np.inf])
    assert difference(right, right.copy()) == ""
    assert "1 of 3" in difference(right, np.array([1.0, np.nan, 5.0]))
    assert "1 of 3" in difference(right, np.array([np.nan, np.nan, np.inf]))


def test_fresh_inputs_find_what_is_right_for_one_input_alone():
    def inputs(seed):
        return (np.random.default_rng(seed).standard_normal(8),)

    answer = inputs(1)[0] ** 2
    assert "differ" in first_difference(lambda x: x**2, lambda x: answer, inputs)
    assert first_difference(lambda x: x**2, lambda x: x * x, inputs) == ""


def test_a_function_that_writes_nothing_does_not_inherit_the_results_of_the_reference():
    out = np.zeros(4)

    def reference():
        out[:] = 3.0
        return out

    assert "differ" in first_difference(reference, lambda: out, None)


def test_functions_that_write_into_their_inputs_are_compared_by_these():
    def inputs(seed):
        return np.full(4, float(seed)), np.zeros(4)

    def double(x, y):
        y[:] = 2 * x

    assert first_difference(double, lambda x, y: np.add(x, x, out=y), inputs) == ""
    assert "result[1] differ" in first_difference(double, lambda x, y: None, inputs)


def test_inputs_without_a_seed_are_drawn_from_seeded_libraries():
    def inputs():
        return [np.random.standard_normal(3)]

    one, again, other = (fresh_inputs(inputs, seed)[0] for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).all()
