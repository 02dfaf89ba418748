"""What accesses of memory ask for: sectors and lines of L1, passes of shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

import numpy as np

from ptxbench.core.threads import BANKS, LINE_BYTES, SECTOR_BYTES
from ptxbench.emulator.sass.cache import FirstLevel
from ptxbench.emulator.sass.lanes import Array
from ptxbench.emulator.sass.tally import Tallies, Tally
from ptxbench.sass.program import SassInstruction

# As powers of two.
_SECTOR, _LINE = SECTOR_BYTES.bit_length() - 1, LINE_BYTES.bit_length() - 1
_FAR = np.int64(1) << 62


class Space(Enum):
    """What an access is of."""

    GLOBAL = auto()
    SHARED = auto()
    LOCAL = auto()


def distinct(numbers: Array, lanes: Array) -> Array:
    """Return how many distinct numbers each warp has among its lanes that take part."""
    return np.asarray(_firsts(numbers, lanes)[1].sum(axis=1))


def _firsts(numbers: Array, lanes: Array) -> tuple[Array, Array]:
    """Return the numbers of each row in order, and which of them are the first of their kind in it."""
    placed = np.sort(np.where(lanes, numbers, _FAR), axis=1)
    new = placed != _FAR
    new[:, 1:] &= placed[:, 1:] != placed[:, :-1]
    return placed, new


def bank_passes(address: Array, width: int, lanes: Array) -> Array:
    """Return the passes of shared memory that each warp's access takes: distinct words in its fullest bank.

    Of 8 and 16 bytes a lane, either half of the warp goes by itself.
    """
    words = address >> 2
    if width > 4:
        warps = len(words)
        words = (words[:, :, None] + np.arange(width // 4)).reshape(2 * warps, -1)
        lanes = np.repeat(lanes, width // 4, axis=1).reshape(2 * warps, -1)
        return np.asarray(_fullest(words, lanes).reshape(warps, 2).sum(axis=1))
    return _fullest(words, lanes)


def _fullest(words: Array, lanes: Array) -> Array:
    """Return the distinct words in the fullest bank of each row."""
    placed, new = _firsts(words, lanes)
    warps = len(placed)
    bank = np.arange(warps)[:, None] * BANKS + (placed & (BANKS - 1))
    found = np.bincount(bank[new], minlength=warps * BANKS).reshape(warps, BANKS)
    return np.asarray(found.max(axis=1))


class Accesses:
    """Adds up what accesses ask for."""

    def __init__(
        self,
        tallies: Tallies,
        numbers: Mapping[int, int],
        block_of: Array,
        blocks: int,
        global_bytes: int,
        l1_lines: int,
    ) -> None:
        """Begin with nothing touched.

        Args:
            tallies: What is counted of each instruction.
            numbers: Number of each instruction by its address.
            block_of: Block of each warp.
            blocks: Blocks of the sample.
            global_bytes: Bytes of global memory.
            l1_lines: Lines of L1 that a block has.
        """
        self._tallies, self._numbers = tallies, numbers
        sectors = (global_bytes >> _SECTOR) + 1
        self._sectors = sectors
        self._begins = (block_of.astype(np.int64) * sectors)[:, None]
        self._block_of = block_of[:, None].astype(np.int64)
        self._l1 = FirstLevel(blocks, sectors, l1_lines)
        # Of blocks and of any: read, and written.
        self._of_block = np.zeros((2, blocks * sectors), bool)
        self._of_any = np.zeros((2, sectors), bool)

    def exchanged(self, instruction: SassInstruction, warps: int) -> None:
        """Take a shuffle, which goes through shared memory's data path."""
        self._tallies[Tally.PASSES, self._numbers[instruction.address]] += warps

    def touched(
        self, instruction: SassInstruction, address: Array, width: int, lanes: Array, space: Space
    ) -> None:
        """Take an access.

        Args:
            instruction: Which.
            address: Byte addresses, shape (warps, 32); of global memory from its begin.
            width: Bytes of a lane.
            lanes: Lanes that take part.
            space: What it accesses.
        """
        number = self._numbers[instruction.address]
        tallies = self._tallies
        tallies[Tally.REQUESTS, number] += lanes.any(axis=1).sum()
        if space is Space.SHARED:
            tallies[Tally.PASSES, number] += bank_passes(address, width, lanes).sum()
        elif space is Space.LOCAL:
            # The driver lays the stacks of a warp's lanes side by side.
            size = lanes.sum(axis=1) * width
            tallies[Tally.SECTORS, number] += (-(-size >> _SECTOR)).sum()
            tallies[Tally.LINES, number] += (-(-size >> _LINE)).sum()
        else:
            tallies[Tally.SECTORS, number] += distinct(address >> _SECTOR, lanes).sum()
            tallies[Tally.LINES, number] += distinct(address >> _LINE, lanes).sum()
            written = instruction.base.startswith(("ST", "RED", "ATOM"))
            self._first(number, address >> _SECTOR, lanes, written=written)
            if not written and lanes.any():
                block = np.broadcast_to(self._block_of, lanes.shape)[lanes]
                tallies[Tally.MISSED, number] += self._l1.read(block, (address >> _SECTOR)[lanes])

    def _first(self, number: int, sectors: Array, lanes: Array, *, written: bool) -> None:
        """Count what is touched for the first time."""
        by_block, by_any = self._of_block[int(written)], self._of_any[int(written)]
        places = (sectors + self._begins)[lanes]
        fresh = places[~by_block[places]]
        if not len(fresh):
            return
        by_block[fresh] = True
        fresh = np.unique(fresh)
        own = np.unique(fresh % self._sectors)
        unseen = own[~by_any[own]]
        by_any[unseen] = True
        first, any_first = (
            (Tally.WRITTEN_FIRST, Tally.WRITTEN_BY_ANY) if written else (Tally.READ_FIRST, Tally.READ_BY_ANY)
        )
        self._tallies[first, number] += len(fresh)
        self._tallies[any_first, number] += len(unseen)
