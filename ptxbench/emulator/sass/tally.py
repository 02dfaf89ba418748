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
    SEEN: executions by a warp whose operands were looked at. PAIRS: lanes i below 16 of these of which lane
    i + 16 takes part, too. HALVES_*: bits in which an operand of these two differs. AFTER: lanes of which the
    instruction before it on the same unit was seen. MOVED_*: bits of an operand that changed since then.
    ACROSS_*: bits in which an operand of lanes i below 16 differs from what lanes i + 16 had in it.
    READ_FIRST and WRITTEN_FIRST: sectors of global memory that a block reads or writes for the first time.
    READ_BY_ANY and WRITTEN_BY_ANY: that no block of the sample had read or written before.
    """

    ISSUED = 0
    THREADS = 1
    REQUESTS = 2
    SECTORS = 3
    LINES = 4
    PASSES = 5
    SEEN = 6
    PAIRS = 7
    AFTER = 8
    HALVES_A = 9
    HALVES_B = 10
    HALVES_C = 11
    HALVES_RESULT = 12
    MOVED_A = 13
    MOVED_B = 14
    MOVED_C = 15
    MOVED_RESULT = 16
    READ_FIRST = 17
    WRITTEN_FIRST = 18
    READ_BY_ANY = 19
    WRITTEN_BY_ANY = 20
    ACROSS_A = 21
    ACROSS_B = 22
    ACROSS_C = 23
    ACROSS_RESULT = 24


Tallies = npt.NDArray[np.float64]


def no_tallies(instructions: int) -> Tallies:
    """Return nothing counted, shape (kinds, instructions)."""
    return np.zeros((len(Tally), instructions))
