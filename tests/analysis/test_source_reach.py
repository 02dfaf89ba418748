"""From which duration on a source is believed, method by method."""

import math
from dataclasses import replace
from functools import cache

import pytest

from ptxbench.analysis.source_reach import source_reach, source_verdict, use_verdicts
from ptxbench.core.estimate import Estimate
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.call_cost import CallCost
from ptxbench.sensors.characterize.probe import SensorCharacterization
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.doctor_file import State


def probe(source=SourceName.USAGE, averaging_s=1.0, refresh_s=0.1, noise_w=0.5, idle_w=120.0, note=""):
    sensor = SensorDescription(source, refresh_s, averaging_s, 0.004, 0.001, "measured")
    nothing = Estimate(0.0, 0.0)
    return SensorCharacterization(
        sensor=sensor,
        refresh_s=Estimate(refresh_s, 0.0),
        averaging_s=Estimate(averaging_s, 0.0),
        lag_s=nothing,
        step_w=Estimate(500.0 - idle_w, 1.0),
        idle_w=Estimate(idle_w, 1.0),
        noise_w=noise_w,
        residual_w=1.0,
        explained=0.99,
        needed_s=1.2,
        cost=CallCost(1e-6, 1e-3, 1000, 0, 0.9),
        buffer=None,
        note=note,
    )


# Each is worked out once: several tests ask for the same.
reach_of = cache(source_reach)


def by_method(reach):
    return {method.method: method for method in reach.methods}


def test_the_mean_of_a_second_is_far_off_by_mtsm_at_three_seconds_and_the_corrected_one_is_not():
    found = by_method(reach_of(probe()))
    mtsm = found["mtsm"]
    # An even kernel's MTSM is low by q / T x (averaging / 2 + lag + half a refresh), q = 1 - idle / load.
    assert mtsm.long.bias == pytest.approx(-0.76 / 3 * (0.5 + 0.004 + 0.05), rel=0.02)
    assert mtsm.short.bias < -0.7
    assert 10 < mtsm.serves_from_s <= 30
    assert abs(found["corrected"].long.bias) < 0.001
    assert 0.1 < found["corrected"].serves_from_s < 0.5
    assert found["papi"].serves_from_s == 1.5
    assert "sma" not in found


def test_an_idle_gpu_that_draws_as_much_as_the_load_hides_the_running_mean():
    mtsm = by_method(reach_of(probe(idle_w=490.0)))["mtsm"]
    assert abs(mtsm.long.bias) < 0.01
    assert mtsm.serves_from_s <= 2.0


def test_noise_takes_a_longer_kernel():
    quiet, loud = (by_method(reach_of(probe(noise_w=w)))["corrected"] for w in (0.5, 20.0))
    assert loud.serves_from_s > 3 * quiet.serves_from_s


def test_a_counter_that_steps_ten_times_a_second_gives_no_answer_for_a_short_kernel():
    found = by_method(reach_of(probe(SourceName.COUNTER, averaging_s=0.0)))
    assert math.isnan(found["counter"].short.bias)
    assert math.isinf(found["counter"].short.error)
    assert found["counter"].long.error < 0.02


def test_the_line_names_each_method_with_its_error():
    one = probe()
    verdict = source_verdict(one, reach_of(one))
    assert verdict.state is State.OK
    assert verdict.text.startswith("nvidia-smi's number, a 1 s mean, new every 100 ms; ")
    assert "mtsm within 2% from 30 s on (75% low for 100 ms, 14% low for 3 s)" in verdict.text
    part = probe(SourceName.INSTANT, averaging_s=0.025, note="a value covers only 25% of the time")
    verdict = source_verdict(part, reach_of(part))
    assert verdict.state is State.NOTE
    assert verdict.text.endswith("25% of the time")
    assert source_verdict(replace(one, note="it gave no changing values"), None).state is State.DO_NOT_USE


def test_what_to_use_is_no_memory_power_and_no_last_reading():
    probes = [probe(), probe(SourceName.MEMORY, averaging_s=0.02, refresh_s=0.02)]
    steady, single = use_verdicts(probes, [reach_of(one) for one in probes])
    assert "usage, kernels of 1.2 s" in steady.text
    assert "corrected on usage" in single.text
