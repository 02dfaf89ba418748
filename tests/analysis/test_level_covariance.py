import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxbench.analysis.level_covariance import level_covariance, powers_by_levels

NOISE, SPREAD = 0.001, 0.01


def tied(*visits):
    """Kernels "0", "1"... each given by the stretches that it was in."""
    names = [str(k) for k, stretches in enumerate(visits) for _ in stretches]
    stretch = np.array([s for stretches in visits for s in stretches])
    return level_covariance(names, stretch, np.ones(len(names), dtype=bool), NOISE, SPREAD)


def errors(*visits):
    ties = tied(*visits)
    return [ties.error({str(k): 1.0}) for k in range(len(visits))]


def test_what_two_kernels_share_cancels_in_their_difference():
    ties = tied([0, 0], [0, 0], [1, 1])
    assert ties.error({"0": 1.0}) > 0.2 * SPREAD
    assert ties.error({"0": 1.0, "1": -1.0}) == pytest.approx(0.0, abs=1e-9)
    assert ties.error({"0": 2.0}) == pytest.approx(2 * ties.error({"0": 1.0}))


def test_the_scatter_of_a_kernel_s_trials_shows_what_levels_raise_its_variance_by():
    visits = [0, 1], [0, 1, 1], [1], [2, 0, 1, 2]
    ties = tied(*visits)
    for number, stretches in enumerate(visits):
        n = len(stretches)
        of_trials = ties.covariance[np.ix_(stretches, stretches)]
        # The sample variance of n values whose covariance this is, over n: the variance of their mean by it.
        variance = (np.trace(of_trials) - of_trials.sum() / n) / (n - 1) if n > 1 else 0.0
        assert ties.shown[number] == pytest.approx(variance / n, abs=1e-18)


def test_of_a_kernel_that_is_not_known_only_the_spread_is():
    assert tied([0, 0], [0, 0]).error({"0": 1.0, "other": 3.0}) == pytest.approx(3 * SPREAD)


def test_a_trial_that_does_not_tell_ties_nothing():
    names, stretch = ["a", "a", "b", "b", "c", "c"], np.array([0, 0, 1, 1, 0, 1])
    all_tell = level_covariance(names, stretch, np.ones(6, dtype=bool), NOISE, SPREAD)
    silent = level_covariance(names, stretch, np.array([True] * 4 + [False] * 2), NOISE, SPREAD)
    apart = {"a": 1.0, "b": -1.0}
    assert silent.error(apart) > 5 * all_tell.error(apart)


def test_kernels_that_were_always_together_are_tied_exactly():
    assert errors([0, 1, 2], [0, 1, 2], [0, 1, 2]) == pytest.approx([0.0] * 3, abs=1e-12)


def test_a_kernel_that_was_always_alone_is_off_by_its_level():
    alone = errors([0, 0], [0, 0], [0, 0], [1, 1])
    assert alone[3] > 0.5 * SPREAD
    assert alone[3] > 2 * alone[0]


def test_one_that_goes_between_ties_the_others():
    apart = errors([0, 0], [1, 1])
    tied = errors([0, 0], [1, 1], [0, 1])
    assert tied[0] < 0.2 * apart[0]
    assert 0.3 * NOISE < tied[0] < NOISE


def test_the_errors_are_those_of_many_made_up_runs():
    random = np.random.default_rng(4)
    kernel = np.repeat(np.arange(6), 4)
    stretch = np.unique(random.integers(0, 5, len(kernel)), return_inverse=True)[1]
    ties = level_covariance(
        [str(k) for k in kernel], stretch, np.ones(len(kernel), dtype=bool), NOISE, SPREAD
    )
    told = [ties.error({str(k): 1.0}) for k in range(6)]
    counts = np.zeros((6, stretch.max() + 1))
    np.add.at(counts, (kernel, stretch), 1.0)
    off = []
    for _ in range(3000):
        level = random.normal(0, SPREAD, stretch.max() + 1)
        looks = level[stretch] + random.normal(0, NOISE, len(kernel))
        # Least squares for kernels and levels, with levels around zero.
        design = np.hstack([np.eye(6)[kernel], np.eye(len(level))[stretch]]) / NOISE
        ridge = np.hstack([np.zeros((len(level), 6)), np.eye(len(level)) / SPREAD])
        found = np.linalg.lstsq(
            np.vstack([design, ridge]), np.concatenate([looks / NOISE, np.zeros(len(level))]), rcond=None
        )[0][6:]
        shares = counts / counts.sum(1, keepdims=True) - counts.sum(0) / counts.sum()
        off.append(shares @ (found - level))
    assert told == pytest.approx(np.std(off, axis=0), rel=0.06)


def test_what_trials_at_unlike_levels_show_by_their_scatter_is_not_counted_again():
    ties = tied([0, 0], [1, 1], [0, 1])
    # Both trials of kernels 0 and 1 are off alike; those of kernel 2 are off unlike.
    assert ties.hidden_error({"0": 1.0}) == ties.error({"0": 1.0})
    assert ties.hidden_error({"2": 1.0}) < 0.5 * ties.error({"0": 1.0})
    assert ties.hidden_error({"other": 3.0}) == pytest.approx(3 * SPREAD)


def test_scatter_and_hidden_error_make_the_error_of_many_made_up_runs():
    """The mean of a kernel's corrected trials is off by as much as its scatter and the rest say together."""
    random = np.random.default_rng(5)
    kernel = np.repeat(np.arange(8), 3)
    stretch = np.unique(random.integers(0, 6, len(kernel)), return_inverse=True)[1]
    tells = np.ones(len(kernel), dtype=bool)
    ties = level_covariance([str(k) for k in kernel], stretch, tells, NOISE, SPREAD)
    hidden = np.array([ties.hidden_error({str(k): 1.0}) for k in range(8)])
    spread = np.linalg.cholesky(ties.covariance)
    share = np.bincount(stretch) / len(stretch)
    off, shown = [], []
    for _ in range(4000):
        level = spread @ random.normal(0, 1, len(spread))
        left = (level - share @ level)[stretch].reshape(8, 3) + random.normal(0, NOISE, (8, 3))
        off.append(left.mean(1))
        shown.append(left.var(1, ddof=1) / 3)
    said, true = np.sqrt(np.mean(shown, axis=0) + hidden**2), np.std(off, axis=0)
    some = hidden > 0
    assert 0 < np.count_nonzero(some) < len(some)
    assert said[some] == pytest.approx(true[some], rel=0.05)
    # Where scatter says more than all, nothing is taken back.
    assert np.all((said[~some] > 0.95 * true[~some]) & (said[~some] < 1.15 * true[~some]))


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=6))
def test_an_error_is_never_over_the_spread_of_the_levels(visits):
    used = sorted({s for stretches in visits for s in stretches})
    told = errors(*([used.index(s) for s in stretches] for stretches in visits))
    assert all(0 <= error <= 1.5 * SPREAD for error in told)


BATCH, COMMON, ROUNDS, GAP = 10, 2, 4, 0.03


def two_batches(seed):
    """Own powers, and trials of two batches at levels apart that have only two kernels in common."""
    random = np.random.default_rng(seed)
    own = random.uniform(4.0, 6.0, 2 * BATCH + COMMON)
    common = np.arange(2 * BATCH, len(own))
    ran = [np.concatenate([np.arange(BATCH) + first, common]) for first in (0, BATCH)]
    kernel = np.concatenate([np.tile(batch, ROUNDS) for batch in ran])
    stretch = np.repeat([0, 1], len(kernel) // 2)
    noise = random.normal(0.0, NOISE, len(kernel))
    return own, kernel, stretch, own[kernel] + GAP * (stretch - 0.5) + noise


def powers(log_power, kernel, stretch, guess=None):
    """Found from a first guess: if no other, what each kernel drew on the mean, as if no batch were off."""
    guess = np.bincount(kernel, log_power) / np.bincount(kernel) if guess is None else guess
    errors = np.full(len(kernel), NOISE)
    return powers_by_levels(log_power, errors, kernel, stretch, guess, np.zeros(2), GAP / 2)


def between_batches(log_own):
    return float(np.mean(log_own[BATCH : 2 * BATCH]) - np.mean(log_own[:BATCH]))


@pytest.mark.parametrize("seed", range(5))
def test_batches_at_levels_apart_are_brought_together_by_two_kernels_that_both_ran(seed):
    own, kernel, stretch, log_power = two_batches(seed)
    off = powers(log_power, kernel, stretch) - own
    # Eight trials in each batch tell how far the batches are apart: half a trial's noise.
    assert abs(between_batches(off)) < 4 * 0.5 * NOISE
    within = [off[:BATCH], off[BATCH : 2 * BATCH]]
    assert max(np.ptp(batch) for batch in within) < 5 * NOISE


@pytest.mark.parametrize("seed", range(5))
def test_a_trial_that_saw_two_levels_does_not_move_a_batch(seed):
    _, kernel, stretch, log_power = two_batches(seed)
    astray = log_power.copy()
    astray[np.flatnonzero((kernel == 2 * BATCH) & (stretch == 1))[0]] -= GAP / 2
    clean, found = (powers(logs, kernel, stretch) for logs in (log_power, astray))
    # A mean of all eight would move by an eighth of what the trial is off.
    assert abs(between_batches(found - clean)) < 0.4 * GAP / 2 / 8


def test_a_kernel_without_trials_keeps_its_first_guess():
    own, kernel, stretch, log_power = two_batches(0)
    guess = np.append(own, 7.25)
    found = powers(log_power, kernel, stretch, guess)
    assert found[-1] == 7.25
    assert found[:-1] == pytest.approx(powers(log_power, kernel, stretch, own))


@given(st.lists(st.floats(-2.0, 2.0), min_size=2 * BATCH + COMMON, max_size=2 * BATCH + COMMON))
@settings(max_examples=settings.default.max_examples // 2)
def test_how_much_a_kernel_draws_does_not_change_what_is_found_of_the_others(shifts):
    _, kernel, stretch, log_power = two_batches(1)
    more = np.array(shifts)
    shifted = powers(log_power + more[kernel], kernel, stretch)
    assert shifted - more == pytest.approx(powers(log_power, kernel, stretch), abs=1e-9)
