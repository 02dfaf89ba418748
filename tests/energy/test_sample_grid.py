"""Samples whose stamps are late are placed on the even grid on which they were made."""

import numpy as np
import pytest

from ptxbench.energy.sample_grid import made

REFRESH_NS = 20_000_000
START_NS = 10**12 + 7_000_000


def stamps(count=120, late_ms=0.0, seed=1):
    """Times of even samples, and their stamps: most within 1 ms, one in six a tick of 10 ms late."""
    rng = np.random.default_rng(seed)
    true_ns = START_NS + REFRESH_NS * np.arange(count)
    late_s = np.abs(rng.normal(0, 0.0007, count))
    late_s[rng.random(count) < 1 / 6] = 0.009
    return true_ns, true_ns + np.round((late_s + late_ms / 1e3) * 1e9).astype(np.int64)


def off_ms(found, true_ns):
    return (found.at_ns - true_ns) / 1e6


@pytest.mark.parametrize("seed", range(5))
def test_late_stamps_are_put_back_on_the_grid(seed):
    true_ns, stamp_ns = stamps(seed=seed)
    found = made(stamp_ns, 0.02)
    assert np.abs(off_ms(found, true_ns)).max() < 1.2
    assert np.std(off_ms(found, true_ns)) < found.error_s * 1e3 < 1.5


def test_exact_stamps_stay_and_are_known_exactly():
    true_ns, _ = stamps()
    found = made(true_ns, 0.02)
    assert found.at_ns.tolist() == true_ns.tolist()
    assert found.error_s < 1e-6


def test_samples_that_are_missing_leave_the_others_where_they_are():
    true_ns, stamp_ns = stamps()
    kept = np.random.default_rng(3).random(len(true_ns)) > 0.4
    assert np.abs(off_ms(made(stamp_ns[kept], 0.02), true_ns[kept])).max() < 1.2


def test_stamps_on_no_grid_stay_and_are_known_by_their_scatter():
    rng = np.random.default_rng(2)
    stamp_ns = np.cumsum(np.round(rng.uniform(0.012, 0.031, 300) * 1e9).astype(np.int64))
    found = made(stamp_ns, 0.02)
    assert found.at_ns.tolist() == stamp_ns.tolist()
    assert 0.003 < found.error_s < 0.01


def test_another_refresh_than_the_described_one_moves_nothing():
    true_ns = START_NS + 16_667_000 * np.arange(200)
    assert made(true_ns, 0.02).at_ns.tolist() == true_ns.tolist()


def test_two_clocks_that_drift_apart_are_followed():
    count = 3000
    true_ns, stamp_ns = stamps(count)
    drift_ns = np.round(2e-4 * REFRESH_NS * np.arange(count)).astype(np.int64)
    assert np.abs(off_ms(made(stamp_ns + drift_ns, 0.02), true_ns + drift_ns)).max() < 2.5


@pytest.mark.parametrize("stamp_ns", [[], [START_NS]])
def test_too_few_stamps_for_a_grid_stay(stamp_ns):
    assert made(np.array(stamp_ns, dtype=np.int64), 0.02).at_ns.tolist() == stamp_ns
