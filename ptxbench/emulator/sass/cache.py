"""What L1 still holds of what a block read: lines of four sectors, the least recently used of them gone.

A line is gone when as many others were brought in since it was last touched as fit beside it. That is least
recently used but for lines that are touched again and again. Each block has its share of the SM's L1.
"""

from __future__ import annotations

import numpy as np

from ptxbench.core.threads import LINE_BYTES, SECTOR_BYTES
from ptxbench.emulator.sass.lanes import Array

_SECTORS = LINE_BYTES // SECTOR_BYTES


class FirstLevel:
    """The share of L1 of each block of a sample."""

    def __init__(self, blocks: int, sectors: int, lines: int) -> None:
        """Begin with nothing held.

        Args:
            blocks: Blocks of the sample.
            sectors: Sectors of global memory.
            lines: Lines that a block's share holds.
        """
        self._lines, self._each = lines, sectors // _SECTORS + 1
        # When a line was last touched, by how many were brought in until then; 0: never.
        self._touched = np.zeros(blocks * self._each, np.int32)
        self._sectors = np.zeros(blocks * self._each, np.uint8)
        self._brought = np.ones(blocks, np.int32)

    def read(self, blocks: Array, sectors: Array) -> int:
        """Return how many sectors an access must get from L2.

        Args:
            blocks: Block of each lane that reads.
            sectors: The sector that it reads.
        """
        places = np.unique(blocks * (self._each * _SECTORS) + sectors)
        lines, bits = places // _SECTORS, np.uint8(1) << (places % _SECTORS).astype(np.uint8)
        begins = np.flatnonzero(np.diff(lines, prepend=-1))
        own, wanted = lines[begins], np.bitwise_or.reduceat(bits, begins)
        block = own // self._each
        now = self._brought[block]
        held = (self._touched[own] > 0) & (now - self._touched[own] < self._lines)
        have = np.where(held, self._sectors[own], np.uint8(0))
        self._sectors[own] = have | wanted
        if not held.all():
            self._brought += np.bincount(block[~held], minlength=len(self._brought)).astype(np.int32)
        self._touched[own] = self._brought[block]
        return int(np.bitwise_count(wanted & ~have).sum())
