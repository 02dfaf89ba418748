"""Orders of chance: nothing is lost, neighbours mostly stay together, and none always do."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ptxbench.experiment.order import runs_by_chance


@given(st.integers(0, 100), st.integers(0, 1000))
def test_every_kernel_runs_once(kernels, seed):
    ordered = list(range(kernels))
    assert sorted(runs_by_chance(ordered, random.Random(seed))) == ordered


@given(st.integers(24, 100), st.integers(0, 1000))
def test_most_kernels_follow_their_neighbour(kernels, seed):
    order = runs_by_chance(list(range(kernels)), random.Random(seed))
    together = sum(later == earlier + 1 for earlier, later in pairwise(order))
    assert together >= kernels * 3 / 4


@given(st.integers(2, 100))
def test_none_always_follows_the_same_one(kernels):
    orders = [runs_by_chance(list(range(kernels)), random.Random(seed)) for seed in range(60)]
    for kernel in range(1, kernels):
        assert (
            len({order[order.index(kernel) - 1] for order in orders if order[0] != kernel}) > 1
            or kernels == 2
        )
    assert len({order[0] for order in orders}) > 1
