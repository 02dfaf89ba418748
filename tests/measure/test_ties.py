import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.measure.ties import tie

NOISE, SPREAD = 0.001, 0.01


def tied(*visits):
    """Kernels "0", "1"... each given by the stretches that it was in."""
    names = [str(k) for k, stretches in enumerate(visits) for _ in stretches]
    stretch = np.array([s for stretches in visits for s in stretches])
    return tie(names, stretch, np.ones(len(names), dtype=bool), NOISE, SPREAD)


def errors(*visits):
    ties = tied(*visits)
    return [ties.error({str(k): 1.0}) for k in range(len(visits))]


def test_what_two_kernels_share_cancels_in_their_difference():
    ties = tied([0, 0], [0, 0], [1, 1])
    assert ties.error({"0": 1.0}) > 0.2 * SPREAD
    assert ties.error({"0": 1.0, "1": -1.0}) == pytest.approx(0.0, abs=1e-9)
    assert ties.error({"0": 2.0}) == pytest.approx(2 * ties.error({"0": 1.0}))


def test_of_a_kernel_that_is_not_known_only_the_spread_is():
    assert tied([0, 0], [0, 0]).error({"0": 1.0, "other": 3.0}) == pytest.approx(3 * SPREAD)


def test_a_trial_that_does_not_tell_ties_nothing():
    names, stretch = ["a", "a", "b", "b", "c", "c"], np.array([0, 0, 1, 1, 0, 1])
    all_tell = tie(names, stretch, np.ones(6, dtype=bool), NOISE, SPREAD)
    silent = tie(names, stretch, np.array([True] * 4 + [False] * 2), NOISE, SPREAD)
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
    ties = tie([str(k) for k in kernel], stretch, np.ones(len(kernel), dtype=bool), NOISE, SPREAD)
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


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=6))
def test_an_error_is_never_over_the_spread_of_the_levels(visits):
    used = sorted({s for stretches in visits for s in stretches})
    told = errors(*([used.index(s) for s in stretches] for stretches in visits))
    assert all(0 <= error <= 1.5 * SPREAD for error in told)
