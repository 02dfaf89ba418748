import numpy as np
import pytest
from fakes.measuring import trial

from ptxbench.analysis.large_steps import large_steps, lowerings
from ptxbench.storage.schema import Role

KERNELS = 12


def run(levels, shared=2, rounds=3, seed=1):
    """Trials of stretches at these levels: each runs kernels of its own, and so many that all of them run."""
    random = np.random.default_rng(seed)
    log_power, kernel, apart, at = [], [], [], []
    for number, level in enumerate(levels):
        own = [*range(shared), *range(KERNELS * (number + 1), KERNELS * (number + 2))]
        for turn in range(rounds * len(own)):
            kernel.append(own[turn % len(own)])
            log_power.append(5.5 + 0.03 * kernel[-1] % 1 + level + random.normal(0, 0.002))
            apart.append(turn == 0)
            at.append(level)
    numbers = np.unique(kernel, return_inverse=True)[1]
    return np.array(log_power), numbers, np.ones(len(kernel), bool), np.array(apart), np.array(at)


@pytest.mark.parametrize("levels", [[0.0, 0.1, 0.1], [0.06, 0.0, 0.06, 0.0], [0.0, 0.05, 0.1]])
def test_levels_far_apart_are_found_above_the_lowest(levels):
    *trials, at = run(levels)
    np.testing.assert_allclose(large_steps(*trials), at, atol=0.004)


def test_what_drift_makes_all_the_time_is_left_to_it():
    *trials, _ = run([0.0, 0.02, -0.01, 0.01])
    assert not large_steps(*trials).any()


@pytest.mark.parametrize("shared", [0, 1])
def test_one_kernel_alone_tells_nothing(shared):
    *trials, _ = run([0.0, 0.1], shared)
    assert not large_steps(*trials).any()


def test_a_stretch_that_shares_no_kernel_is_as_the_one_before():
    log_power, kernel, counts, apart, _ = run([0.0, 0.1, 0.0])
    second = np.cumsum(apart) == 2
    counts[second & (kernel < 2)] = False
    found = large_steps(log_power, kernel, counts, apart)
    assert not found.any()
    log_power[np.cumsum(apart) == 3] += 0.1
    found = large_steps(log_power, kernel, counts, apart)
    np.testing.assert_allclose(found[np.cumsum(apart) == 3], 0.1, atol=0.004)
    assert not found[second].any()


def test_no_trial_that_tells_anything():
    log_power, kernel, counts, apart, _ = run([0.0, 0.1])
    assert not large_steps(log_power, kernel, np.zeros_like(counts), apart).any()


def trials(number, static_w, dynamic):
    """Trials of a level: asleep at three temperatures, and three kernels that draw more."""
    asleep = [(Role.STATIC, "static", 0.0, temperature_c) for temperature_c in (40.0, 44.0, 48.0)]
    busy = [(Role.TARGET, f"k{w:.0f}", w * dynamic, 45.0 + w / 40) for w in (60.0, 200.0, 400.0)]
    return [
        trial(
            role,
            number,
            trial_id=f"{name}/O3/dynamic/random/{role}/{number}{place}",
            steady_power_w=static_w + 0.7 * (temperature_c - 45.0) + dynamic_w,
            temperature_c=temperature_c,
        )
        for place, (role, name, dynamic_w, temperature_c) in enumerate(asleep + busy)
    ]


def test_static_and_dynamic_power_each_have_a_factor_of_their_own():
    low, high = trials(1, 120.0, 1.0), trials(2, 134.0, 1.15)
    found = lowerings([*low, *high], np.repeat([0.0, 0.12], 6), 60.0)
    assert set(found) == {one.trial_id for one in high}
    for one, at_low in zip(high, low, strict=True):
        assert found[one.trial_id].of(one.steady_power_w) == pytest.approx(at_low.steady_power_w)


def test_where_no_kernel_slept_at_a_level_all_that_the_supply_feeds_has_one_factor():
    low, high = trials(1, 120.0, 1.0), trials(2, 134.0, 1.15)[3:]
    found = lowerings([*low, *high], np.array([0.0] * 6 + [0.12] * 3), 60.0)
    for one in high:
        expected = 60.0 + (one.steady_power_w - 60.0) * np.exp(-0.12)
        assert found[one.trial_id].of(one.steady_power_w) == pytest.approx(expected)
