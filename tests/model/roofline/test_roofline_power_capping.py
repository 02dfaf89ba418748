"""A machine under a power limit runs at the clock that the limit leaves."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.model.clocks.law import PowerLaw
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.power_capping import lower_clock, trade_under_limit, under_limit
from ptxbench.model.roofline.tradeoff import TradeOff

F32 = RooflineMachine(1 / 60e12, 1 / 4e12, 7.2e-12, 130e-12, 131, cap_w=700, clock_exponent=1.8)


def test_under_its_limit_a_machine_is_that_of_the_equations():
    algorithm = Algorithm(1e11, 1e12)
    run = under_limit(F32, algorithm)
    assert run.clock == 1
    assert (run.time_s, run.energy_j) == pytest.approx((F32.time_s(algorithm), F32.energy_j(algorithm)))


def test_at_its_balance_it_meets_the_limit_and_is_slower_than_without_but_faster_than_if_work_waited():
    algorithm = Algorithm(1e12 * F32.time_balance, 1e12)
    run = under_limit(F32, algorithm)
    assert run.power_w == pytest.approx(700)
    assert replace(F32, cap_w=math.inf).time_s(algorithm) < run.time_s < F32.time_s(algorithm)
    # Flops alone follow the clock: 15 flop of 7.2 pJ at clock^1.8, 130 pJ, and constant power.
    flop_j = algorithm.flops * 7.2e-12 * run.clock**1.8
    assert run.energy_j == pytest.approx(flop_j + 130 + 131 * run.time_s)


@given(st.floats(0.1, 500), st.floats(0, 3), st.floats(140, 900))
def test_nothing_draws_more_than_the_limit_or_is_faster_than_without_one(intensity, gamma, limit_w):
    machine, algorithm = replace(F32, cap_w=limit_w, clock_exponent=gamma), Algorithm(1e12 * intensity, 1e12)
    run = under_limit(machine, algorithm)
    assert run.power_w <= limit_w * (1 + 1e-6)
    assert run.time_s >= replace(machine, cap_w=math.inf).time_s(algorithm) * (1 - 1e-9)
    assert 0 < run.clock <= 1


def test_bytes_on_the_chip_follow_the_clock_and_those_of_dram_do_not():
    algorithm = Algorithm(1e12 * F32.time_balance, 1e12)
    on_chip, dram = under_limit(F32, algorithm, on_chip=True), under_limit(F32, algorithm)
    assert on_chip.power_w == pytest.approx(dram.power_w) == pytest.approx(700)
    assert on_chip.clock > dram.clock
    work_j = (algorithm.flops * 7.2e-12 + 130) * on_chip.clock**1.8
    assert on_chip.energy_j == pytest.approx(work_j + 131 * on_chip.time_s)
    assert on_chip.time_s == pytest.approx(1e12 / 4e12 / on_chip.clock)


def test_a_trade_at_the_limit_is_of_the_clocks_that_it_leaves():
    trade = TradeOff(F32, 8.0, 1.5, 4.0)
    limited = trade_under_limit(trade)
    # Without a limit the present algorithm would draw 130 + 8 x 7.2 pJ in the time of a byte, and 131 W.
    assert limited.before_free_w == pytest.approx((130 + 8 * 7.2) * 4 + 131)
    assert (limited.before.power_w, limited.after.power_w) == pytest.approx((700, 700))
    assert limited.greenup == pytest.approx(limited.speedup)
    assert 1 < limited.greenup < trade.greenup
    free = replace(F32, cap_w=math.inf)
    same = trade_under_limit(TradeOff(free, 8.0, 1.5, 4.0))
    assert (same.speedup, same.greenup) == pytest.approx((trade.speedup, trade.greenup))


def test_a_lower_clock_saves_what_flops_cost_less_but_constant_power_costs_more():
    found = lower_clock(F32, PowerLaw(1.8, 0.25, 0.7), 1980.0)
    # 7.2 pJ a flop at 60 Tflop/s, and 131 W.
    full_w, share = 7.2 * 60 + 131, 0.7**1.8
    assert found.at_lowest
    assert found.clock_mhz.value == pytest.approx(0.7 * 1980)
    assert found.saved.value == pytest.approx(1 - (7.2 * 60 * share + 131 / 0.7) / full_w)
    assert found.slower == pytest.approx(1 / 0.7 - 1)
    assert found.held_mhz == 1980
    assert lower_clock(replace(F32, cap_w=400), PowerLaw(1.8, 0.25, 0.7), 1980.0).held_mhz < 1800
