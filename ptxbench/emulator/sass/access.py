"""What accesses of memory ask for: sectors and lines of L1, passes of shared memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.lanes import Array
from ptxbench.emulator.sass.tally import Tallies, Tally
from ptxbench.sass.program import SassInstruction

_SECTOR, _LINE, _BANKS = 5, 7, 32
_SHARED = ("LDS", "STS", "ATOMS", "LDSM")
_FAR = np.int64(1) << 62


def distinct(numbers: Array, lanes: Array) -> Array:
    """Return how many distinct numbers each warp has among its lanes that take part."""
    placed = np.sort(np.where(lanes, numbers, _FAR), axis=1)
    new = np.empty(placed.shape, bool)
    new[:, 0] = True
    np.not_equal(placed[:, 1:], placed[:, :-1], out=new[:, 1:])
    return np.asarray((new & (placed != _FAR)).sum(axis=1))


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
    placed = np.sort(np.where(lanes, words, _FAR), axis=1)
    new = np.ones(placed.shape, bool)
    np.not_equal(placed[:, 1:], placed[:, :-1], out=new[:, 1:])
    new &= placed != _FAR
    warps = len(placed)
    bank = np.arange(warps)[:, None] * _BANKS + (placed & (_BANKS - 1))
    found = np.bincount(bank[new], minlength=warps * _BANKS).reshape(warps, _BANKS)
    return np.asarray(found.max(axis=1))


class Accesses:
    """Adds up what accesses ask for."""

    def __init__(self, tallies: Tallies, numbers: Mapping[int, int]) -> None:
        self._tallies, self._numbers = tallies, numbers

    def exchanged(self, instruction: SassInstruction, warps: int) -> None:
        """Take a shuffle, which goes through shared memory's data path."""
        self._tallies[Tally.PASSES, self._numbers[instruction.address]] += warps

    def touched(self, instruction: SassInstruction, address: Array, width: int, lanes: Array) -> None:
        """Take an access: byte addresses of shape (warps, 32), bytes of a lane, and lanes that take part."""
        number = self._numbers[instruction.address]
        tallies = self._tallies
        tallies[Tally.REQUESTS, number] += lanes.any(axis=1).sum()
        if instruction.base in _SHARED or (instruction.base == "LDGSTS" and address.max() < 1 << 32):
            tallies[Tally.PASSES, number] += bank_passes(address, width, lanes).sum()
            return
        tallies[Tally.SECTORS, number] += _blocks_touched(address, width, lanes, _SECTOR)
        tallies[Tally.LINES, number] += _blocks_touched(address, width, lanes, _LINE)


def _blocks_touched(address: Array, width: int, lanes: Array, shift: int) -> float:
    # Accesses are aligned, so that a lane's lies within one sector.
    assert width <= WARP  # noqa: S101
    return float(distinct(address >> shift, lanes).sum())
