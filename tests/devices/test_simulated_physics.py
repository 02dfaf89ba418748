"""The simulated board against an independent integration of its differential equation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from ptxbench.devices.simulated.governor import dynamic_factor
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.physics import Phase, Physics
from ptxbench.devices.simulated.profile import Board, Profile

_START_NS = 5_000_000_000
_HZ = H200.chip.clock_mhz * 1e6


# The cap of H200 acts over about a second; most of these tests are about one that holds at every moment.
_AT_ONCE = replace(H200, board=replace(H200.board, regulators=()))


def _profile(**board: float) -> Profile:
    return replace(_AT_ONCE, board=replace(_AT_ONCE.board, **board))


def _work(dynamic_w: float, duration_s: float) -> Phase:
    return Phase(cycles=duration_s * _HZ, energy_j=dynamic_w * duration_s)


def _settled_c(board: Board, dynamic_w: float) -> float:
    """Fixed point of temperature = coolant + resistance x power(temperature), by iteration."""
    temperature_c = board.coolant_c
    for _ in range(200):
        static_w = board.static_w + board.static_slope_w_per_k * (temperature_c - board.static_at_c)
        temperature_c = board.coolant_c + board.thermal_resistance_k_per_w * (static_w + dynamic_w)
    return temperature_c


def _integrate(board: Board, phases: list[tuple[float, float]]) -> tuple[float, float]:
    """Temperature and energy after (dynamic W, seconds) phases, from the heat balance itself."""
    capacity_j_per_k = board.time_constant_s / board.thermal_resistance_k_per_w
    state = [_settled_c(board, 0.0), 0.0]
    for dynamic_w, duration_s in phases:

        def slope(_: float, y: list[float], dynamic_w: float = dynamic_w) -> list[float]:
            power_w = dynamic_w + board.static_w + board.static_slope_w_per_k * (y[0] - board.static_at_c)
            loss_w = (y[0] - board.coolant_c) / board.thermal_resistance_k_per_w
            return [(power_w - loss_w) / capacity_j_per_k, power_w]

        done = solve_ivp(slope, (0, duration_s), state, rtol=1e-10, atol=1e-10)
        state = list(done.y[:, -1])
    return state[0], state[1]


_BOARDS = st.builds(
    lambda static_w, slope, resistance, constant_s: _profile(
        static_w=static_w,
        static_slope_w_per_k=slope,
        thermal_resistance_k_per_w=resistance,
        time_constant_s=constant_s,
        power_cap_w=1e9,
    ),
    st.floats(20, 200),
    st.floats(0, 1.5),
    st.floats(0.03, 0.2),
    st.floats(1, 60),
)
_PHASES = st.lists(st.tuples(st.floats(0, 600), st.floats(0.01, 60)), min_size=1, max_size=5)


@settings(max_examples=settings.default.max_examples // 2)
@given(_BOARDS, _PHASES)
def test_energy_and_temperature_match_a_numeric_integration(
    profile: Profile, phases: list[tuple[float, float]]
) -> None:
    physics = Physics(profile, _START_NS)
    end_ns = physics.run(_START_NS, [_work(*phase) for phase in phases])[-1]
    temperature_c, energy_j = _integrate(profile.board, phases)
    assert physics.energy_j(end_ns) == pytest.approx(energy_j, rel=1e-6)
    assert physics.temperature_c(end_ns) == pytest.approx(temperature_c, rel=1e-6)


@pytest.mark.parametrize("window_s", [0.02, 0.4, 1.0])
def test_mean_power_matches_brute_force_across_steps(window_s: float) -> None:
    physics = Physics(H200, _START_NS)
    end_ns = physics.run(_START_NS, [_work(300, 0.21), _work(40, 0.13), _work(410, 0.3)])[-1]
    newest_ns = end_ns + 50_000_000
    oldest_ns = newest_ns - round(window_s * 1e9)
    step_ns = 20_000
    moments_ns = range(oldest_ns + step_ns // 2, newest_ns, step_ns)
    brute_w = np.mean([physics.power_w(at_ns) for at_ns in moments_ns])
    assert physics.mean_power_w(oldest_ns, newest_ns) == pytest.approx(brute_w, rel=1e-4)


def test_mean_over_nothing_is_the_power_at_that_moment() -> None:
    physics = Physics(H200, _START_NS)
    physics.run(_START_NS, [_work(300, 1.0)])
    at_ns = _START_NS + 500_000_000
    assert physics.mean_power_w(at_ns, at_ns) == physics.power_w(at_ns)
    assert physics.power_w(at_ns) > 400


@pytest.mark.parametrize("dynamic_w", [0.0, 400.0])
def test_settles_where_the_coolant_takes_what_the_board_draws(dynamic_w: float) -> None:
    physics = Physics(H200, _START_NS)
    end_ns = physics.run(_START_NS, [_work(dynamic_w, 2000)])[0] - 1
    power_w, board = physics.power_w(end_ns), H200.board
    rise_k = physics.temperature_c(end_ns) - board.coolant_c
    assert rise_k == pytest.approx(board.thermal_resistance_k_per_w * power_w, rel=1e-9)
    over_k = physics.temperature_c(end_ns) - board.static_at_c
    assert power_w - dynamic_w == pytest.approx(board.static_w + board.static_slope_w_per_k * over_k)


def test_waits_at_the_static_power_of_its_profile() -> None:
    physics = Physics(H200, _START_NS)
    assert physics.temperature_c(_START_NS) == pytest.approx(40, abs=0.1)
    assert physics.power_w(_START_NS + 10**12) == pytest.approx(125.5, abs=0.1)
    assert physics.mean_power_w(_START_NS - 10**9, _START_NS) == pytest.approx(physics.power_w(_START_NS))


def test_leakage_lengthens_the_time_constant() -> None:
    profile = _profile(static_slope_w_per_k=2.0, thermal_resistance_k_per_w=0.1, time_constant_s=10)
    physics = Physics(profile, _START_NS)
    cold_c = physics.temperature_c(_START_NS)
    end_ns = physics.run(_START_NS, [_work(200, 1000)])[0]
    hot_c = physics.temperature_c(end_ns)
    after_ns = end_ns + round(10 / (1 - 2.0 * 0.1) * 1e9)
    left = (physics.temperature_c(after_ns) - cold_c) / (hot_c - cold_c)
    assert left == pytest.approx(math.exp(-1), rel=1e-6)


def test_work_under_the_cap_takes_its_cycles_at_the_full_clock() -> None:
    physics = Physics(H200, _START_NS)
    ends_ns = physics.run(_START_NS, [_work(300, 1.5), _work(0, 0.25)])
    assert ends_ns == (_START_NS + 1_500_000_000, _START_NS + 1_750_000_000)
    assert physics.clock_mhz(_START_NS) == H200.chip.clock_mhz
    assert not physics.throttled(_START_NS)


def test_the_cap_holds_costs_time_and_is_used_up() -> None:
    physics = Physics(_AT_ONCE, _START_NS)
    end_ns = physics.run(_START_NS, [_work(900, 2.0)])[0]
    moments_ns = np.linspace(_START_NS, end_ns - 1, 5000).astype(int)
    powers_w = np.array([physics.power_w(int(at_ns)) for at_ns in moments_ns])
    clocks_mhz = np.array([physics.clock_mhz(int(at_ns)) for at_ns in moments_ns])
    assert powers_w.max() <= 700
    # One step of the clock is 15 MHz of 1980, and power goes with its third power at most.
    assert powers_w.min() > 700 - 900 * 3 * 15 / 1980
    assert all(physics.throttled(int(at_ns)) for at_ns in moments_ns)
    assert not physics.throttled(end_ns)
    elapsed_s = (end_ns - _START_NS) * 1e-9
    assert elapsed_s * clocks_mhz.mean() == pytest.approx(2.0 * 1980, rel=1e-3)
    assert elapsed_s > 2.2


def test_a_lower_clock_has_a_lower_voltage() -> None:
    physics = Physics(_profile(static_slope_w_per_k=0.0, power_cap_w=400), _START_NS)
    end_ns = physics.run(_START_NS, [_work(500, 0.5)])[0]
    fraction = physics.clock_mhz(_START_NS) / H200.chip.clock_mhz
    dynamic_j = physics.energy_j(end_ns) - 125.5 * (end_ns - _START_NS) * 1e-9
    assert fraction < 0.9
    assert dynamic_j == pytest.approx(250 * (0.5 + 0.5 * fraction) ** 2, rel=1e-6)
    assert dynamic_factor(1.0) == 1.0


def test_the_cap_is_met_only_once_the_board_is_warm() -> None:
    profile = _profile(power_cap_w=530, static_slope_w_per_k=1.0)
    physics = Physics(profile, _START_NS)
    end_ns = physics.run(_START_NS, [_work(390, 60)])[0]
    assert not physics.throttled(_START_NS + 1_000_000_000)
    assert physics.throttled(end_ns - 1)
    assert physics.power_w(end_ns - 1) <= 530


def test_the_floor_of_the_clock_is_kept_even_over_the_cap() -> None:
    physics = Physics(_profile(power_cap_w=126), _START_NS)
    end_ns = physics.run(_START_NS, [_work(500, 0.05)])[0]
    assert physics.clock_mhz(end_ns - 1) == H200.chip.clock_floor_mhz
    assert physics.power_w(end_ns - 1) > 126


def _means_w(physics: Physics, *spans_s: tuple[float, float]) -> list[float]:
    return [
        physics.mean_power_w(_START_NS + round(begin * 1e9), _START_NS + round(end * 1e9))
        for begin, end in spans_s
    ]


@pytest.mark.parametrize("dynamic_w", [650.0, 780.0])
def test_the_cap_of_a_board_acts_over_about_a_second_as_that_of_an_h100(dynamic_w: float) -> None:
    physics = Physics(H200, _START_NS)
    end_ns = physics.run(_START_NS, [_work(dynamic_w, 8.0)])[0]
    held_w, low_w, risen_w, late_w = _means_w(physics, (0.3, 0.6), (0.85, 0.95), (1.3, 1.5), (4, 8))
    assert 735 < held_w < 800
    assert 480 < low_w < 600
    assert 705 < risen_w < 780
    assert late_w == pytest.approx(700, rel=0.003)
    assert physics.clock_mhz(end_ns - 1) < H200.chip.clock_mhz


def test_power_under_the_cap_is_not_held_down_but_for_a_while_behind_what_was_over_it() -> None:
    physics = Physics(H200, _START_NS)
    end_ns = physics.run(_START_NS, [_work(500, 2.0)])[0]
    assert not any(physics.throttled(int(ns)) for ns in np.linspace(_START_NS, end_ns - 1, 500))
    over_ns = physics.run(end_ns, [_work(780, 0.5)])[0]
    behind_ns = physics.run(over_ns, [_work(550, 3.0)])[0]
    moments_ns = np.linspace(over_ns, behind_ns - 1, 600)
    held = np.array([physics.throttled(int(ns)) for ns in moments_ns])
    assert held.any()
    assert not held[(moments_ns - over_ns) > 1.2e9].any()


def test_a_longer_recording_of_the_same_work_begins_alike() -> None:
    short, long = Physics(H200, _START_NS), Physics(H200, _START_NS)
    short.run(_START_NS, [_work(700, 1.0)])
    long.run(_START_NS, [_work(700, 0.5)] * 4)
    assert _means_w(short, (0.0, 0.9)) == pytest.approx(_means_w(long, (0.0, 0.9)), rel=2e-3)
