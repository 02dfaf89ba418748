"""What lanes of a warp tell each other: shuffles, votes, matches and reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Step

_U32, _I32 = np.uint32, np.int32
_LANES = np.arange(WARP, dtype=np.int64)
_BITS = (_U32(1) << np.arange(WARP, dtype=_U32)).astype(_U32)


def ballot(holds: Array) -> Array:
    """Return, for each warp, the lanes where something holds as bits of a word, shape (warps, 1)."""
    return np.bitwise_or.reduce(np.where(holds, _BITS, _U32(0)), axis=1, keepdims=True)


def among(active: Mask, warps: int) -> Array:
    """Return the lanes that take part."""
    return np.ones((warps, WARP), bool) if active is None else active


def _shuffle(i: Bound) -> Step:
    """SHFL; a lane that is not there gives its own value."""
    how = i.words[0] if i.words else ""
    if how not in ("BFLY", "UP", "DOWN", "IDX") or len(i.words) != 1:
        raise i.unknown()
    inside, to = i.writer(i.operands[0]), i.writer(i.operands[1])
    value, by, limits = (i.word(one) for one in i.operands[2:5])

    def step(active: Mask) -> None:
        limit, n = limits().astype(np.int64), by().astype(np.int64) & 31
        clamp, segment = limit & 31, limit >> 8 & 31
        low, high = _LANES & segment, (_LANES & segment) | (clamp & ~segment & 31)
        if how == "UP":
            source = _LANES - n
            valid = source >= high
        elif how == "DOWN":
            source = _LANES + n
            valid = source <= high
        elif how == "BFLY":
            source = _LANES ^ n
            valid = source <= high
        else:
            source = low | (n & ~segment)
            valid = source <= high
        words = np.broadcast_to(value(), (i.registers.warps, WARP))
        source = np.broadcast_to(np.where(valid, source, _LANES), words.shape)
        to(np.take_along_axis(words, source, axis=1), active)
        inside(np.broadcast_to(valid, words.shape), active)

    return step


def _vote(i: Bound) -> Step:
    """VOTE and VOTEU: the lanes where a predicate holds, and whether any or all do."""
    words = i.only("ANY", "ALL", "EQ", "U32")
    # Where there is no register among the results, there is but the predicate.
    operands = i.operands
    outs, condition = operands[:-1], i.predicate(operands[-1])
    to = i.writer(outs[0])
    some = i.writer(outs[1]) if len(outs) > 1 else None
    warps = i.registers.warps

    def step(active: Mask) -> None:
        there = among(active, warps)
        holds = condition() & there
        full, have = ballot(there), ballot(holds)
        outcome = have != 0 if "ANY" in words else have == full
        if "EQ" in words:
            outcome = (have == full) | (have == 0)
        if some is None:
            to(outcome, active)
        else:
            to(have, active)
            some(outcome, active)

    return step


def _reduce(i: Bound) -> Step:
    """REDUX: one value of all lanes that take part."""
    words = i.only("SUM", "MIN", "MAX", "AND", "OR", "XOR", "S32")
    how = next((one for one in i.words if one != "S32"), "AND")
    kind = _I32 if "S32" in words else _U32
    whole: Mapping[str, tuple[np.ufunc, int]] = {
        "SUM": (np.add, 0),
        "MIN": (np.minimum, np.iinfo(kind).max),
        "MAX": (np.maximum, np.iinfo(kind).min),
        "AND": (np.bitwise_and, -1 if kind is _I32 else 0xFFFFFFFF),
        "OR": (np.bitwise_or, 0),
        "XOR": (np.bitwise_xor, 0),
    }
    fold, neutral = whole[how]
    value, write, warps = i.word(i.operands[1]), i.writer(i.operands[0]), i.registers.warps

    def step(active: Mask) -> None:
        words = np.where(among(active, warps), value().view(kind), kind(neutral))
        write(fold.reduce(words, axis=1, keepdims=True).astype(kind).view(_U32), active)

    return step


def _match(i: Bound) -> Step:
    """MATCH: the lanes that have the same word."""
    if set(i.words) - {"ANY", "U32"} or "ANY" not in i.words:
        raise i.unknown()
    outs = [one for one in i.operands if one.kind.name in ("REGISTER", "ZERO")]
    value, write, warps = i.word(outs[1]), i.writer(outs[0]), i.registers.warps

    def step(active: Mask) -> None:
        words, there = np.broadcast_to(value(), (warps, WARP)), among(active, warps)
        same = (words[:, :, None] == words[:, None, :]) & there[:, None, :]
        write(np.bitwise_or.reduce(np.where(same, _BITS, _U32(0)), axis=2), active)

    return step


STEPS: Mapping[str, Callable[[Bound], Step]] = {
    "SHFL": _shuffle,
    "VOTE": _vote,
    "VOTEU": _vote,
    "REDUX": _reduce,
    "MATCH": _match,
}
