"""Algorithms 1 to 4 of Guerreiro et al. (2015), on costs that are written down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.tune.blocks.guerreiro import (
    Choice,
    ConcurrentCost,
    ordered_distributions,
    tune_blocks,
)


def alone(cost: Callable[[int], float]) -> Callable[[Choice, int], ConcurrentCost]:
    """What runs one kernel, whose costs are by the index of its distribution."""
    return lambda choice, _: ConcurrentCost(cost(choice[0]), (1.0,))


@dataclass(frozen=True)
class Blocks:
    threads: int
    occupancy: float


def test_the_highest_occupancy_and_then_the_largest_block_come_first() -> None:
    sizes = [Blocks(64, 0.5), Blocks(128, 1.0), Blocks(256, 1.0), Blocks(512, 0.9), Blocks(1024, 0.8)]
    assert [one.threads for one in ordered_distributions(sizes)] == [256, 128, 512]


def test_where_no_occupancy_is_high_the_highest_is_tried() -> None:
    sizes = [Blocks(64, 0.25), Blocks(128, 0.5), Blocks(256, 0.5), Blocks(1024, 0.0)]
    assert [one.threads for one in ordered_distributions(sizes)] == [256, 128]
    assert ordered_distributions([Blocks(64, 0.0)]) == ()


@pytest.mark.parametrize(
    ("costs", "chosen", "iterations"),
    [
        # Table IV, StreamCluster by time: 1024, 512, 256, 128 threads on the K20c, and on the GTX680.
        ([4.0, 3.0, 2.0, 1.0], 3, 4),
        ([1.0, 2.0, 0.5], 0, 2),
        ([3.0, 1.0, 2.0, 0.5], 1, 3),
        ([1.0], 0, 1),
        # The text goes on "as long as the time is reduced": an equal one ends it.
        ([2.0, 2.0, 1.0], 0, 2),
        # What does not run is passed over.
        ([math.inf, 3.0, math.inf, 2.0, 2.5], 3, 5),
    ],
)
def test_algorithm_1(costs: list[float], chosen: int, iterations: int) -> None:
    found = tune_blocks([len(costs)], alone(costs.__getitem__))
    assert (found.choice, found.cost, found.iterations) == ((chosen,), costs[chosen], iterations)
    assert found.clock_mhz == 0


def test_patience_passes_one_size_that_is_no_better() -> None:
    costs = [2.0, 3.0, 1.0, 1.5, 1.2, 0.5]
    assert tune_blocks([6], alone(costs.__getitem__)).choice == (0,)
    found = tune_blocks([6], alone(costs.__getitem__), patience=2)
    assert (found.choice, found.iterations) == ((2,), 5)


def test_algorithm_2_goes_on_with_lower_clocks_where_the_blocks_change() -> None:
    clocks = [500, 1000, 750, 250]
    # Large blocks: best at 1000. Small ones: best at 500, and cheaper everywhere.
    costs = {
        (0, 1000): 10.0,
        (0, 750): 11.0,
        (1, 1000): 9.0,
        (1, 750): 8.0,
        (1, 500): 7.0,
        (1, 250): 9.0,
        (0, 500): 12.0,
    }
    found = tune_blocks([2], lambda choice, clock: ConcurrentCost(costs[choice[0], clock], (1.0,)), clocks)
    # All of the table, no run twice; the listing's step 21 would have ended at (1, 1000).
    assert (found.choice, found.clock_mhz, found.cost, found.iterations) == ((1,), 500, 7.0, 7)


def test_algorithm_2_ends_at_the_lowest_clock() -> None:
    run = lambda choice, clock: ConcurrentCost(clock + 10 * choice[0], (1.0,))  # noqa: E731
    found = tune_blocks([2], run, [300, 200, 100])
    assert (found.choice, found.clock_mhz, found.iterations) == ((0,), 100, 4)


def test_algorithm_3_takes_the_longest_kernel_first_and_restarts() -> None:
    made = []
    # Table IV, Lud & MatrixMul on the K20c: 16x16 and 32x32 after three runs.
    costs = {(0, 0): 5.0, (0, 1): 6.0, (1, 0): 4.0, (1, 1): 4.5}

    def run(choice: Choice, _: int) -> ConcurrentCost:
        made.append(choice)
        return ConcurrentCost(costs[choice], (2.0, 1.0))

    found = tune_blocks((2, 2), run)
    assert (found.choice, found.cost, found.iterations) == ((1, 0), 4.0, 3)
    assert made == [(0, 0), (1, 0), (1, 1)]


def test_algorithm_3_ends_where_the_choices_go_round() -> None:
    # Each kernel wants what the other does not have, and begins at the first distribution each time.
    costs = {(0, 0): 3.0, (1, 0): 2.0, (1, 1): 1.0, (0, 1): 0.5}
    found = tune_blocks((2, 2), lambda choice, _: ConcurrentCost(costs[choice], (2.0, 1.0)))
    assert (found.choice, found.cost) == ((0, 1), 0.5)
    assert found.iterations <= 4


@given(st.permutations(range(3 * 2 * 3 * 2)))
def test_with_four_kernels_no_neighbour_in_the_order_is_better(order: list[int]) -> None:
    """Table IV ends with four kernels at once: where it ends, each kernel's own search ends, too."""
    counts = (3, 2, 3, 2)
    costs = dict(zip(itertools.product(*map(range, counts)), map(float, order), strict=True))
    run = lambda choice, _: ConcurrentCost(costs[choice], (4.0, 3.0, 2.0, 1.0))  # noqa: E731
    found = tune_blocks(counts, run)
    assert found.cost == costs[found.choice] <= costs[0, 0, 0, 0]
    assert found.iterations <= len(costs)
    again = [
        tune_blocks([count], alone(lambda n, at=at: costs[(*found.choice[:at], n, *found.choice[at + 1 :])]))
        for at, count in enumerate(counts)
    ]
    ends = tuple(one.choice[0] for one in again) == found.choice
    # Or its choices went round, and it is the cheapest run.
    assert ends or found.iterations > sum(counts) - len(counts)


def test_algorithm_4_sets_one_clock_for_all_kernels() -> None:
    def run(choice: Choice, clock: int) -> ConcurrentCost:
        cost = abs(clock - 600) / 100 + sum((one - 1) ** 2 for one in choice)
        return ConcurrentCost(cost, (1.0, 3.0, 2.0))

    found = tune_blocks((3, 3, 2), run, [1000, 800, 600, 400])
    assert (found.choice, found.clock_mhz, found.cost) == ((1, 1, 1), 600, 0.0)
    assert found.iterations < 3 * 3 * 2 * 4


@given(st.data())
def test_whatever_the_costs_they_end_and_return_a_run_that_was_made(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    clocks = data.draw(st.lists(st.integers(100, 105), min_size=1, max_size=3, unique=True))
    cost = st.floats(0, 10) | st.just(math.inf)
    table = {
        (choice, clock): ConcurrentCost(data.draw(cost), tuple(data.draw(st.floats(0, 1)) for _ in counts))
        for choice in itertools.product(*map(range, counts))
        for clock in clocks
    }
    made = []

    def run(choice: Choice, clock: int) -> ConcurrentCost:
        made.append((choice, clock))
        return table[choice, clock]

    found = tune_blocks(counts, run, clocks)
    assert len(made) == len(set(made)) == found.iterations
    assert (found.choice, found.clock_mhz) in made
    assert found.cost == table[found.choice, found.clock_mhz].cost
    assert found.cost <= table[(0,) * len(counts), max(clocks)].cost
