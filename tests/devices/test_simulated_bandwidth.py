"""Arrays that L2 does not hold take the time of moving each byte once on the simulated GPU."""

from dataclasses import replace

import pytest

from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.timing import Grid
from ptxbench.devices.simulated.whole_kernel import plan_counted_kernel

# A thread loads and stores one f32, 2^26 threads: 512 MiB.
EXECUTED = {"LDG.E": 1.0, "STG.E": 1.0, "FADD": 1.0, "EXIT": 1.0}
GRID = Grid(1 << 18, 256, 8)
ARRAYS = 2 * 4 << 26


def memory_s(executed=EXECUTED, array_bytes=ARRAYS, profile=H200):
    return sum(one.memory_s for one in plan_counted_kernel(executed, GRID, "random", profile, array_bytes))


def test_each_byte_of_large_arrays_is_moved_once():
    assert memory_s() == pytest.approx(ARRAYS / H200.chip.dram_bytes_per_s)
    # What is loaded three times comes from a cache; what is never loaded is not moved.
    assert memory_s({**EXECUTED, "LDG.E": 3.0}) == pytest.approx(memory_s())
    assert memory_s({"LDG.E": 1.0, "EXIT": 1.0}) == pytest.approx(memory_s() / 2)


def test_arrays_that_l2_holds_take_no_time_of_their_own():
    assert memory_s(array_bytes=H200.chip.l2_bytes) == 0.0


def test_a_slower_memory_takes_longer():
    slow = replace(H200, chip=replace(H200.chip, dram_bytes_per_s=1e12))
    assert memory_s(profile=slow) == pytest.approx(memory_s() * H200.chip.dram_bytes_per_s / 1e12)
