"""The clock term from trials that the GPU slowed down, and a kernel's time from issue intervals."""

from dataclasses import replace

import pytest
from fakes.measuring import STATIC_W, hot_trial, trial
from fakes.run import GPU, row

from ptxbench.analysis.loop_energy import shared_by
from ptxbench.catalogue.architecture import sm_facts
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.status import Status
from ptxbench.model.clocks.power_capping import clock_exponent
from ptxbench.model.fit_time import TimedKernel, level_rates, tensor_rates
from ptxbench.model.terms import LevelRate, TensorRate, TimeTerms
from ptxbench.model.throughput import issue_cycles, modelled_time_s, moved_time_s
from ptxbench.model.work import KernelWork, Level
from ptxbench.storage.schema import Role

GAMMA = 1.8


def trials(*slowed_mhz):
    sleeping = [trial(Role.STATIC, n, steady_power_w=STATIC_W) for n in range(3)]
    free = [hot_trial(Role.TARGET, 800.0, n, grid=66) for n in range(3)]
    slow = [
        hot_trial(
            Role.TARGET, 800.0 * (mhz / 1980) ** GAMMA, 10 + n, sm_clock_mhz=mhz, status=Status.THROTTLED
        )
        for n, mhz in enumerate(slowed_mhz)
    ]
    return [*sleeping, *free, *slow]


def test_gamma_comes_back_from_kernels_that_ran_at_several_clocks():
    records = trials(1900.0, 1750.0, 1500.0)
    found = clock_exponent(records, shared_by(records, GPU))
    assert found.gamma == pytest.approx(GAMMA, abs=1e-6)
    assert found.trials == 3
    assert found.error < 1e-6
    assert found.lowest_ratio == pytest.approx(1500 / 1980)


@pytest.mark.parametrize("slowed_mhz", [(), (1500.0, 1400.0), (1979.0, 1975.0, 1970.0, 1965.0)])
def test_without_enough_slowed_trials_there_is_none(slowed_mhz):
    records = trials(*slowed_mhz)
    assert clock_exponent(records, shared_by(records, GPU)) is None


# What the guide tells goes before the table's intervals.
CYCLES = {"FFMA": 0.3, "LOP3.LUT": 0.25, "SHFL": 1.0}
HOPPER = sm_facts("sm_90a")


def time_s(blocks=132, threads=1024, **counts):
    opcodes = [(opcode.replace("_", "."), n) for opcode, n in counts.items()]
    return modelled_time_s(opcodes, blocks, threads, 132, 1000.0, CYCLES, HOPPER)


def test_the_busiest_pipe_of_the_busiest_sm_sets_the_time():
    # 32 warps, one cycle for four FFMA.
    assert time_s(FFMA=1e6) == pytest.approx(32 * 0.25e6 / 1e9)
    # Two pipes work side by side, but all is issued one after the other.
    assert time_s(FFMA=1e6, DFMA=1e6) == pytest.approx(32 * 0.5e6 / 1e9)
    assert time_s(FFMA=1e6, MUFU_EX2=1e6) == pytest.approx(32 * 2e6 / 1e9)
    # One block more than there are SMs doubles the work of one of them.
    assert time_s(blocks=133, FFMA=1e6) == pytest.approx(2 * time_s(FFMA=1e6))
    # Comparisons and logic share a pipe that takes one in half a cycle, whatever a loop's row says.
    assert time_s(LOP3_LUT=1e6, FSETP_GT_AND=1e6) == pytest.approx(32 * 1e6 / 1e9)
    assert time_s(IMAD=1e6) == pytest.approx(time_s(LOP3_LUT=1e6))
    # An opcode without an interval goes like its next of kin.
    assert time_s(SHFL_IDX=1e6) == pytest.approx(time_s(SHFL=1e6)) == pytest.approx(32 * 1e6 / 1e9)


TIME = TimeTerms(
    (LevelRate(Level.DRAM, 4e12), LevelRate(Level.L2, 8e12)),
    (TensorRate("HMMA.F32", 1024.0),),
    1.2,
    0.9,
    3.0,
    9,
)


def test_multiply_adds_over_their_rate_are_the_time_of_tensor_cores():
    def seconds(opcode):
        return modelled_time_s([(opcode, 1e6)], 132, 1024, 132, 1000.0, CYCLES, HOPPER, TIME)

    # 32 warps, 2048 multiply-adds each, 1024 a cycle; operands twice as wide take twice as long.
    assert seconds("HMMA.16816.F32") == pytest.approx(32 * 2e6 / 1e9)
    assert seconds("HMMA.16816.F32.TF32") == pytest.approx(32 * 4e6 / 1e9)


def test_the_slowest_memory_level_bounds_the_time():
    assert moved_time_s([(Level.DRAM, 4e9), (Level.L2, 4e9), (Level.L1, 1e15)], TIME) == pytest.approx(1e-3)
    assert moved_time_s([(Level.DRAM, 4e9)], None) == 0.0


def test_rates_are_the_best_that_a_kernel_reached_at_the_full_clock():
    slow, fast = (
        TimedKernel(
            KernelWork("k", (("HMMA.16816.F32", 32e6),), ((Level.DRAM, 1e9), (Level.L2, 1e9)), time_s),
            0.5,
            10,
        )
        for time_s in (2e-3, 1e-3)
    )
    rates = {one.level: one.bytes_per_s for one in level_rates([slow, fast])}
    assert rates == {Level.DRAM: pytest.approx(1e12), Level.L2: pytest.approx(2e12)}
    (rate,) = tensor_rates([slow, fast], 1000.0)
    assert rate.per_cycle == pytest.approx(32e6 * 64 / (1e-3 * 0.5e9 * 10))


def test_intervals_come_from_rows_of_one_opcode_at_o3():
    base = replace(row(), protocol=DYNAMIC, status=Status.OK, opt_level="O3", sass="FFMA", issue_cycles=0.33)
    rows = [
        base,
        replace(base, sass="FFMA*0.5", issue_cycles=0.13),
        replace(base, sass="FFMA MOV", issue_cycles=9.0),
        replace(base, sass="DFMA", opt_level="O0", issue_cycles=9.0),
    ]
    assert issue_cycles(rows) == {"FFMA": pytest.approx(0.26)}
