"""What a launch executes and moves, by what a sample of its blocks did."""

import numpy as np
import pytest

from ptxbench.emulator.sass.launch import Emulated
from ptxbench.emulator.sass.machine import Sample
from ptxbench.emulator.sass.tally import Tally, no_tallies
from ptxbench.model.emulated_work import work_of
from ptxbench.model.work import Level
from ptxbench.sass.program import SassInstruction

BLOCKS, SAMPLE, L2 = 1000, 8, 5e7
LOAD = SassInstruction(0, "", "LDG.E", "R0, desc[UR6][R2.64]")


def run_of(touched, *, again=1):
    """Return a run in which each block of the sample reads some sectors, `again` times."""
    tallies = no_tallies(1)
    each = np.mean([len(one) for one in touched])
    tallies[Tally.ISSUED] = tallies[Tally.REQUESTS] = again * SAMPLE * each / 4
    tallies[Tally.THREADS] = 32 * tallies[Tally.ISSUED]
    tallies[Tally.SECTORS] = again * SAMPLE * each
    tallies[Tally.LINES] = tallies[Tally.REQUESTS]
    tallies[Tally.READ_FIRST] = tallies[Tally.MISSED] = sum(map(len, touched))
    tallies[Tally.READ_BY_ANY] = len(set().union(*touched))
    sample = Sample((BLOCKS, 1, 1), (256, 1, 1), tuple((n, 0, 0) for n in range(SAMPLE)))
    return Emulated((LOAD,), tallies, BLOCKS / SAMPLE, sample, (), 1, {})


def moved(found, array_bytes=1e12):
    return dict(work_of("k", found, array_bytes, L2).work.bytes_moved)


def test_blocks_that_read_their_own_move_all_of_it_from_dram():
    own = moved(run_of([set(range(10_000 * n, 10_000 * (n + 1))) for n in range(SAMPLE)]))
    assert own[Level.DRAM] == own[Level.L1] == own[Level.CROSSBAR] == 32 * 10_000 * BLOCKS


def test_what_all_blocks_read_is_in_l2():
    same = work_of("k", run_of([set(range(10_000))] * SAMPLE), 1e12, L2)
    assert dict(same.work.bytes_moved)[Level.DRAM] == 0
    assert dict(same.cold.bytes_moved)[Level.DRAM] == pytest.approx(32 * 10_000, rel=0.01)


def test_overlap_tells_the_size_of_what_blocks_read_at_random():
    random = np.random.default_rng(1)
    size = 4_000_000
    found = run_of([set(random.integers(0, size, 20_000).tolist()) for _ in range(SAMPLE)])
    # 1,000 blocks of 20,000 touch nearly all of it.
    assert moved(found)[Level.DRAM] == pytest.approx(32 * size, rel=0.05)


def test_no_more_is_moved_than_the_arrays_hold():
    found = run_of([set(range(10_000 * n, 10_000 * (n + 1))) for n in range(SAMPLE)])
    assert moved(found, array_bytes=1e8)[Level.DRAM] == 1e8


def test_what_l1_did_not_hold_comes_from_l2():
    found = run_of([set(range(100 * n, 100 * (n + 1))) for n in range(SAMPLE)], again=9)
    assert moved(found)[Level.CROSSBAR] == moved(found)[Level.L1] / 9
    found.tallies[Tally.MISSED] *= 4
    assert moved(found)[Level.CROSSBAR] == moved(found)[Level.L1] * 4 / 9
