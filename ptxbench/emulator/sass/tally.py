"""What a run counts of each instruction."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Tally(IntEnum):
    """What is counted.

    ISSUED: executions by a warp; what a guard turns off is issued, too. THREADS: by lanes that took part.
    REQUESTS: accesses of memory by a warp. SECTORS and LINES: distinct 32 and 128 bytes of global or local
    memory that these ask for. PASSES: what shared memory hands out, 128 bytes each, bank conflicts included.
    LOOKED: executions by a lane whose operands were looked at. PAIRS: lanes i below 16 of these of which lane
    i + 16 takes part, too. HALVES: bits in which the words that these two read differ, HALVES_RESULT: that
    they write. ONES: bits set of the words read. PORTS: bits of these that differ from what the warp had last
    in the same place, of the instructions looked at. FLIPS: bits that a result changes in its register.
    READ_FIRST and WRITTEN_FIRST: sectors of global memory that a block reads or writes for the first time.
    MISSED: sectors that L1 did not hold (see `FirstLevel`).
    READ_BY_ANY and WRITTEN_BY_ANY: that no block of the sample had read or written before.
    """

    ISSUED = 0
    THREADS = 1
    REQUESTS = 2
    SECTORS = 3
    LINES = 4
    PASSES = 5
    LOOKED = 6
    PAIRS = 7
    HALVES = 8
    HALVES_RESULT = 9
    ONES = 10
    PORTS = 11
    FLIPS = 12
    READ_FIRST = 13
    WRITTEN_FIRST = 14
    MISSED = 15
    READ_BY_ANY = 16
    WRITTEN_BY_ANY = 17


Tallies = npt.NDArray[np.float64]


def no_tallies(instructions: int) -> Tallies:
    """Return nothing counted, shape (kinds, instructions)."""
    return np.zeros((len(Tally), instructions))
