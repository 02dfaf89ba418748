import numpy as np
import pytest

from ptxbench.analysis.large_steps import large_steps

KERNELS = 12


def run(levels, shared=2, rounds=3, seed=1):
    """Trials of stretches at these levels: each runs kernels of its own, and so many that all of them run."""
    random = np.random.default_rng(seed)
    log_power, kernel, apart, at = [], [], [], []
    for number, level in enumerate(levels):
        own = [*range(shared), *range(KERNELS * (number + 1), KERNELS * (number + 2))]
        for trial in range(rounds * len(own)):
            kernel.append(own[trial % len(own)])
            log_power.append(5.5 + 0.03 * kernel[-1] % 1 + level + random.normal(0, 0.002))
            apart.append(trial == 0)
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
