"""What L1 still holds of what a block read."""

import numpy as np
import pytest

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import BlockNeeds, lines_of_a_block
from ptxbench.emulator.sass.cache import FirstLevel

LINES, SECTORS = 8, 1 << 12


def reads(level, sectors, block=0):
    sectors = np.asarray(sectors, np.int64)
    return level.read(np.full(len(sectors), block, np.int64), sectors)


def lines(first, count):
    return range(4 * first, 4 * (first + count), 4)


def test_a_sector_is_brought_once_and_a_line_by_sectors():
    level = FirstLevel(1, SECTORS, LINES)
    assert reads(level, [0, 0, 1]) == 2
    assert reads(level, [0, 1, 2, 3]) == 2
    assert reads(level, [0, 1, 2, 3]) == 0


def test_what_is_read_again_and_again_stays_where_it_fits():
    level = FirstLevel(1, SECTORS, LINES)
    assert [reads(level, lines(0, LINES)) for _ in range(3)] == [LINES, 0, 0]
    # One line more, in turn: the least recently used is always the next.
    level = FirstLevel(1, SECTORS, LINES)
    in_turn = [sum(reads(level, lines(n, 1)) for n in range(LINES + 1)) for _ in range(3)]
    assert in_turn == [LINES + 1] * 3


def test_a_line_that_is_touched_stays_while_others_go():
    level = FirstLevel(1, SECTORS, LINES)
    reads(level, lines(0, 2))
    for n in range(2, 2 + 4 * LINES):
        assert reads(level, [0, *lines(n, 1)]) == 1
    assert reads(level, lines(1, 1)) == 1


def test_each_block_has_its_own_share():
    level = FirstLevel(2, SECTORS, LINES)
    assert reads(level, lines(0, 4)) == reads(level, lines(0, 4), block=1) == 4
    reads(level, lines(100, LINES), block=1)
    assert reads(level, lines(0, 4)) == 0
    assert reads(level, lines(0, 4), block=1) == 4


@pytest.mark.parametrize(
    ("capability", "blocks", "registers", "shared", "lines"),
    [
        (90, 132, 32, 0, 2048),
        (90, 8 * 132, 32, 0, 2048 // 8),
        (90, 8 * 132, 128, 0, 2048 // 2),
        (90, 132, 32, 100_000, (256 - 100) * 8),
        # SMs of others hold fewer threads, and have less L1 and fewer sizes of shared memory.
        (80, 8 * 132, 32, 0, 192 * 8 // 8),
        (80, 132, 32, 130_000, (192 - 132) * 8),
        (86, 8 * 132, 32, 0, 128 * 8 // 6),
        (86, 132, 32, 0, 1024),
        (89, 8 * 132, 32, 40_000, (128 - 100) * 8 // 2),
    ],
)
def test_blocks_of_an_sm_share_what_shared_memory_leaves(capability, blocks, registers, shared, lines):
    needs = BlockNeeds(256, registers, shared)
    assert lines_of_a_block(sm_facts(f"sm_{capability}"), needs, blocks, sms=132) == lines


def test_where_the_sms_are_not_known_each_is_full():
    assert lines_of_a_block(sm_facts("sm_90"), BlockNeeds(256, 32, 0), 132) == 2048 // 8
