import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.analysis.hmm import likelihood_of_no_level, smooth


def smoothed(looks, error=0.001, counts=None, apart=None):
    looks = np.asarray(looks, dtype=float)
    return smooth(
        looks,
        np.full(len(looks), error),
        np.ones(len(looks), dtype=bool) if counts is None else np.asarray(counts),
        np.zeros(len(looks), dtype=bool) if apart is None else np.asarray(apart),
    )


def noisy(levels, error=0.001, seed=1):
    return np.asarray(levels) + np.random.default_rng(seed).normal(0, error, len(levels))


def test_a_level_is_found_better_than_one_look_tells_it():
    levels = np.repeat([0.01, -0.012, 0.0], 12)
    found = smoothed(noisy(levels))
    inner = np.ones(36, dtype=bool)
    inner[[0, 11, 12, 23, 24, 35]] = False
    assert np.sqrt(np.mean((found.mean - levels)[inner] ** 2)) < 0.0006
    assert found.error[inner].max() < 0.0012
    assert np.sqrt(np.mean((found.others - levels)[inner] ** 2)) < 0.0008


def test_of_a_jump_nobody_knows_before_or_after_where_it_is():
    found = smoothed(noisy(np.repeat([0.01, -0.01], 10)))
    # Without its own look the trial beside a jump may be at either level.
    assert found.others_error[[9, 10]].min() > 0.003
    assert found.error.max() < 0.001


def test_a_look_that_fits_no_level_is_wrong_and_changes_nothing():
    looks = noisy(np.zeros(20))
    looks[10] = 0.006
    found = smoothed(looks)
    assert found.wrong[10] > 0.9
    assert np.delete(found.wrong, 10).max() < 0.3
    assert abs(found.mean[10]) < 0.001


def test_a_look_says_nothing_of_itself_to_the_level_by_the_others():
    looks = noisy(np.zeros(15))
    moved = looks.copy()
    moved[7] += 0.002
    assert smoothed(looks).others[7] == smoothed(moved).others[7]
    assert smoothed(looks).mean[7] != smoothed(moved).mean[7]


def test_what_does_not_count_is_told_by_its_neighbours():
    looks = noisy(np.full(15, 0.01))
    looks[5] = np.nan_to_num(np.nan)
    counts = np.arange(15) != 5
    found = smoothed(looks, counts=counts)
    assert found.mean[5] == pytest.approx(0.01, abs=0.001)
    assert found.wrong[5] == 1.0


def test_behind_a_pause_the_level_may_be_any():
    levels = np.repeat([0.005, 0.002], 8)
    together, apart = smoothed(levels), smoothed(levels, apart=np.arange(16) == 8)
    assert apart.others_error[8] > together.others_error[8] or apart.error[7] < together.error[7]
    # One alone has nothing but itself.
    assert smoothed([0.004]).others[0] == pytest.approx(0.0, abs=1e-3)


def test_steps_are_likelier_with_levels_and_noise_is_likelier_without():
    error = np.full(60, 0.001)
    stepped, noise = noisy(np.repeat([0.008, -0.008, 0.008], 20)), noisy(np.zeros(60))
    assert smoothed(stepped).log_likelihood > likelihood_of_no_level(stepped, error) + 50
    assert smoothed(noise).log_likelihood < likelihood_of_no_level(noise, error)


@pytest.mark.parametrize("away", [0.2, -1.0])
def test_a_long_while_beyond_the_grid_is_no_less_finite(away):
    found = smoothed(np.full(100, away))
    for values in (found.others, found.mean, found.others_error, found.error, found.wrong):
        assert np.isfinite(values).all()
    assert np.isfinite(found.log_likelihood)


@given(st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=30), st.floats(1e-4, 0.02))
def test_anything_gives_finite_levels_within_the_grid(looks, error):
    found = smoothed(looks, error)
    for values in (found.others, found.mean, found.others_error, found.error):
        assert np.isfinite(values).all()
    assert np.abs(found.mean).max() <= 0.05
    assert ((found.wrong >= 0) & (found.wrong <= 1 + 1e-12)).all()
