import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.analysis.hmm import WRONG_SHARE, LevelPrior, likelihood_of_no_level, smooth

PRIOR = LevelPrior(jump=0.06, spread=0.012, creep=0.02)


def smoothed(looks, error=0.001, counts=None, apart=None):
    return smoothed_together([looks], [error], counts, apart)[0]


def smoothed_together(series, errors, counts=None, apart=None):
    series = np.asarray(series, dtype=float)
    n = series.shape[1]
    return smooth(
        series,
        np.tile(np.asarray(errors)[:, None], n),
        np.ones(n, dtype=bool) if counts is None else np.asarray(counts),
        np.zeros(n, dtype=bool) if apart is None else np.asarray(apart),
        np.full(series.shape, WRONG_SHARE),
        PRIOR,
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
    wrong = np.full(60, WRONG_SHARE)
    assert smoothed(stepped).log_likelihood > likelihood_of_no_level(stepped, error, wrong) + 50
    assert smoothed(noise).log_likelihood < likelihood_of_no_level(noise, error, wrong)


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


FIELDS = ("others", "others_error", "mean", "error", "wrong", "log_likelihood")


def test_series_that_are_smoothed_together_come_out_as_each_alone():
    steps = np.repeat([0.01, -0.012, 0.0, 0.004], 12)
    series, errors = [noisy(steps), noisy(-steps, seed=2)], [0.001, 0.004]
    counts, apart = np.arange(48) != 20, np.isin(np.arange(48), (5, 30, 31))
    together = smoothed_together(series, errors, counts, apart)
    for looks, error, found in zip(series, errors, together, strict=True):
        alone = smoothed(looks, error, counts, apart)
        for name in FIELDS:
            assert getattr(found, name) == pytest.approx(getattr(alone, name), rel=1e-9, abs=1e-12)


def test_stretches_on_both_sides_of_a_pause_come_out_as_runs_of_their_own():
    looks = noisy(np.repeat([0.01, -0.012, 0.0], 13))
    whole = smoothed(looks, apart=np.isin(np.arange(39), (7, 30)))
    parts = [smoothed(part) for part in np.split(looks, [7, 30])]
    for name in FIELDS[:-1]:
        expected = np.concatenate([getattr(part, name) for part in parts])
        assert getattr(whole, name) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert whole.log_likelihood == pytest.approx(sum(part.log_likelihood for part in parts))


def test_the_likelihood_is_that_of_all_levels_that_three_looks_may_have_had():
    """Summed over every path of levels, one by one."""
    looks, error = np.array([0.004, 0.005, -0.009]), 0.002
    levels = np.arange(-0.05, 0.0401, 0.001)
    wide = 4 * error + 0.006
    likely = [
        0.9 * np.exp(-0.5 * ((look - levels) / error) ** 2) / error
        + 0.1 * np.exp(-0.5 * ((look - levels) / wide) ** 2) / wide
        for look in looks
    ]
    anywhere = np.exp(-0.5 * (levels / 0.012) ** 2)
    anywhere /= anywhere.sum()
    steps = np.abs(np.subtract.outer(np.arange(len(levels)), np.arange(len(levels))))
    follows = 0.94 * (0.96 * (steps == 0) + 0.02 * (steps == 1)) + 0.06 * anywhere
    paths = np.einsum("a,a,ab,b,bc,c->", anywhere, likely[0], follows, likely[1], follows, likely[2])
    assert smoothed(looks, error).log_likelihood == pytest.approx(np.log(paths), rel=1e-9)
