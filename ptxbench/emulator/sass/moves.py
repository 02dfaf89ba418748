"""Moves, choices, predicates as words, and what only waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Step

_U32 = np.uint32
_WAITS = (
    *("NOP", "YIELD", "NANOSLEEP", "MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "DEPBAR", "LDGDEPBAR", "FENCE"),
    *("PREEXIT", "ACQBULK"),
)


def move(i: Bound) -> Step:
    """MOV, UMOV and what copies a word to the uniform datapath."""
    outs, ins = i.parted()
    value = i.word(ins[0])
    if i.instruction.base == "R2UR":
        i.only()
        write, valid = i.writer(outs[0]), np.arange(WARP)

        def step(active: Mask) -> None:
            words = value()
            if active is None or words.shape[-1] == 1:
                write(words[:, :1], active)
                return
            first = np.where(active, valid, WARP).min(axis=1, keepdims=True)
            write(np.take_along_axis(words, np.minimum(first, WARP - 1), axis=1), active)

        return step
    i.only("64")
    if "64" in i.words:
        both = i.pair(ins[0])
        write_pair = i.pair_writer(outs[0])
        return lambda active: write_pair(both(), active)
    return i.to_word(value)


def choose(i: Bound) -> Step:
    """SEL and FSEL; the latter takes signs of floats."""
    i.only("FTZ")
    read = i.single if i.instruction.base == "FSEL" else i.word
    a, b = (read(one) for one in i.operands[1:3])
    where = i.predicate(i.operands[3])
    return i.to_word(lambda: np.where(where(), a(), b()).view(_U32))


def gather_predicates(i: Bound) -> Step:
    """P2R: predicates as bits of a word."""
    i.only("B1", "B2", "B3")
    if i.words or len(i.operands) < 4:
        raise i.unknown()
    base, kept = i.word(i.operands[2]), i.word(i.operands[3])
    held = i.registers.predicates

    def compute() -> Array:
        bits = sum((held[n].astype(_U32) << _U32(n) for n in range(7)), start=np.zeros((1, 1), _U32))
        return (base() & ~kept()) | (bits & kept())

    return i.to_word(compute)


def scatter_predicates(i: Bound) -> Step:
    """R2P: bits of a word as predicates."""
    i.only()
    value, kept = i.word(i.operands[1]), i.operands[2].number
    held = i.registers.predicates
    if kept is None:
        raise i.unknown()

    def step(active: Mask) -> None:
        word = value()
        for n in range(7):
            if kept >> n & 1:
                np.copyto(held[n], (word >> _U32(n)) & _U32(1) != 0, where=True if active is None else active)

    return step


def nothing(_: Bound) -> Step:
    """Return what only waits or hints, and computes nothing."""
    return lambda _: None


STEPS: Mapping[str, Callable[[Bound], Step]] = {
    "MOV": move,
    "R2UR": move,
    "SEL": choose,
    "FSEL": choose,
    "P2R": gather_predicates,
    "R2P": scatter_predicates,
    **dict.fromkeys(_WAITS, nothing),
}
