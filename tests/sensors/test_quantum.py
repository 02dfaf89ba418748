import numpy as np
import pytest

from ptxbench.sensors.characterize.quantum import RESOLUTION, find_quantum


def read(true_w, step_w, rng=None):
    """Round to the sensor's step, then to the thousandths that NVML gives."""
    return np.round(np.round(true_w / step_w) * step_w, 3)


@pytest.mark.parametrize("step_w", [0.01, 0.1, 0.3217, 1.0, 5.0])
def test_step_is_found_among_noisy_values(step_w):
    rng = np.random.default_rng(3)
    true_w = np.concatenate([rng.normal(120, 4 * step_w, 400), rng.normal(500, 6 * step_w, 400)])
    assert find_quantum(read(true_w, step_w)) == pytest.approx(step_w, rel=0.01)


def test_step_is_found_where_single_steps_are_rare():
    rng = np.random.default_rng(4)
    assert find_quantum(read(rng.uniform(100, 600, 300), 0.05)) == pytest.approx(0.05, rel=0.02)


@pytest.mark.parametrize("values", [[], [5.0], [5.0] * 100, np.random.default_rng(5).uniform(100, 600, 500)])
def test_nothing_coarser_than_nvmls_own_resolution(values):
    assert find_quantum(np.round(np.asarray(values, dtype=float), 3)) == RESOLUTION


def test_few_and_distant_values_divide_nothing_by_nothing():
    with np.errstate(all="raise"):
        assert find_quantum(np.cumsum(np.random.default_rng(6).uniform(40, 60, 14)).round(3)) == RESOLUTION


@pytest.mark.parametrize("multiples", [(2, 3), (3, 4), (4, 6, 9)])
def test_a_step_is_found_that_no_two_neighbouring_values_are_apart_by(multiples):
    gaps = np.tile(multiples, 30) * 0.25
    step_w = 0.25 * np.gcd.reduce(multiples)
    assert find_quantum(100 + np.cumsum(gaps)) == pytest.approx(step_w, rel=1e-6)


def test_the_largest_step_that_fits_is_taken():
    assert find_quantum(100 + 0.5 * np.arange(40)) == pytest.approx(0.5)
    # Half of a step fits as well as the step.
    assert find_quantum(100 + np.cumsum(np.tile([2, 4], 20) * 0.5)) == pytest.approx(1.0)


@pytest.mark.parametrize(("values", "step_w"), [(10, RESOLUTION), (11, 0.5)])
def test_ten_gaps_tell_a_step_and_nine_do_not(values, step_w):
    assert find_quantum(100 + 0.5 * np.arange(values)) == pytest.approx(step_w)
