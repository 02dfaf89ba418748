"""Kernels at once: what they share on a simulated chip, and the order of the driver's calls on a real one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from ptxbench.devices.concurrent_streams import ConcurrentStreams
from ptxbench.devices.simulated.concurrent_kernels import CountedKernel, plan_round
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.timing import Grid
from ptxbench.devices.simulated.whole_kernel import plan_counted_kernel

FLOATS = CountedKernel((("FFMA", 4000.0),), "random", 4 * 132 * 8, 256, 8, 32, 0)
# Every MUFU takes a sub-partition eight cycles, and leaves the issue free for seven.
SPECIAL = replace(FLOATS, executed=(("MUFU", 500.0),), pattern="zeros")


def cycles(*kernels: CountedKernel) -> float:
    return plan_round(kernels, H200).phase.cycles


@pytest.mark.parametrize("blocks", [1, 132, 132 * 8, 132 * 8 + 1, 5000])
def test_a_kernel_alone_takes_what_it_always_takes(blocks: int) -> None:
    kernel = replace(FLOATS, blocks=blocks)
    waves = plan_counted_kernel(dict(kernel.executed), Grid(blocks, 256, 8), "random", H200)
    found = plan_round([kernel], H200)
    assert found.phase.cycles == pytest.approx(sum(wave.cycles for wave in waves))
    assert found.phase.energy_j == pytest.approx(sum(wave.energy_j for wave in waves))
    assert found.end_cycles == (pytest.approx(found.phase.cycles),)


def test_arrays_that_l2_does_not_hold_take_the_time_of_reading_them() -> None:
    read = replace(FLOATS, executed=(("LDG.E", 64.0), ("FFMA", 4000.0)))
    found = [plan_round([replace(read, array_bytes=n), FLOATS], H200).phase for n in (1 << 20, 256 << 20)]
    assert [one.memory_s for one in found] == [0, (256 << 20) / H200.chip.dram_bytes_per_s]


def test_energy_adds_up_and_time_is_between_the_longest_and_the_sum() -> None:
    both, each = plan_round([FLOATS, SPECIAL], H200), [plan_round([one], H200) for one in (FLOATS, SPECIAL)]
    assert both.phase.energy_j == pytest.approx(sum(one.phase.energy_j for one in each))
    longest, total = max(one.phase.cycles for one in each), sum(one.phase.cycles for one in each)
    assert longest <= both.phase.cycles <= total * (1 + 1e-9)
    assert max(both.end_cycles) == both.phase.cycles


def test_kernels_of_different_pipes_hide_behind_each_other_and_those_of_one_pipe_do_not() -> None:
    # Half of the SM is left by blocks that shared memory limits.
    half = replace(FLOATS, shared_bytes=57_000, blocks_per_sm=4)
    other, same = replace(SPECIAL, blocks_per_sm=8), replace(FLOATS, blocks_per_sm=8)
    assert cycles(half, other) < 0.75 * (cycles(half) + cycles(other))
    assert cycles(half, same) == pytest.approx(cycles(half) + cycles(same), rel=0.02)


def test_a_kernel_that_fills_the_chip_lets_the_next_in_when_it_ends() -> None:
    first, second = plan_round([FLOATS, SPECIAL], H200).end_cycles
    assert first == pytest.approx(cycles(FLOATS))
    assert second == pytest.approx(cycles(FLOATS) + cycles(SPECIAL))


def test_a_kernel_of_few_blocks_piles_up_behind_one_that_fills_the_chip_and_not_before_it() -> None:
    few = replace(FLOATS, blocks=132)
    in_turn = cycles(FLOATS) + cycles(few)
    behind, before = cycles(FLOATS, few), cycles(few, FLOATS)
    # Eight blocks of 256 threads on each of some SMs, where one on each of all would do.
    assert behind > cycles(FLOATS) + 1.9 * cycles(few)
    assert before <= in_turn * (1 + 1e-9)


def test_each_stream_waits_for_its_round_and_the_next_round_for_all() -> None:
    calls: list[tuple[object, ...]] = []
    made = iter(range(100, 200))

    def call(function: str, *arguments: object) -> object:
        calls.append((function, *arguments))
        if function in ("cuEventCreate", "cuStreamCreate"):
            return next(made)
        return 2.0 if function == "cuEventElapsedTime" else None

    streams = ConcurrentStreams(call)
    for _ in range(2):
        streams.play([partial(call, "launch", name) for name in "ab"])
    begin, first, first_end, second, second_end = 100, 101, 102, 103, 104
    round_ = [
        ("cuEventRecord", begin, 0),
        ("cuStreamWaitEvent", first, begin, 0),
        ("launch", "a", first),
        ("cuEventRecord", first_end, first),
        ("cuStreamWaitEvent", second, begin, 0),
        ("launch", "b", second),
        ("cuEventRecord", second_end, second),
        ("cuStreamWaitEvent", 0, first_end, 0),
        ("cuStreamWaitEvent", 0, second_end, 0),
    ]
    assert [one for one in calls if not str(one[0]).endswith("Create")] == 2 * round_
    # Nothing but these calls puts the streams in order.
    assert all(one[1] == 1 for one in calls if one[0] == "cuStreamCreate")
    assert streams.ends_s() == (0.002, 0.002)
    streams.play([partial(call, "launch", "c")])
    assert len(streams.ends_s()) == 1
