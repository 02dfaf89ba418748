"""Shifts, tables and bit fields of the reference."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ptxbench.emulator.bits import WORD, Bits, Opcode, masked, signed, unsigned

_PACKED = re.compile(r"cvt\.pack\.sat\.(?P<sign>[us])(?P<width>16|8|4|2)\.s32(?P<upper>\.b32)?")


def _table(op: Opcode, a: Bits, b: Bits, c: Bits, table: Bits) -> Bits:
    op.only()
    result = np.zeros_like(a)
    for case in range(8):
        chosen = [v if case >> place & 1 else ~v for v, place in ((a, 2), (b, 1), (c, 0))]
        on = (table >> np.uint64(case)) & np.uint64(1) != 0
        result |= np.where(on, chosen[0] & chosen[1] & chosen[2], 0).astype(np.uint64)
    return masked(result, 32)


def _shift(op: Opcode, a: Bits, b: Bits) -> Bits:
    op.only()
    width = op.kind.bits
    far = b >= np.uint64(width)
    by = np.where(far, np.uint64(0), b)
    if op.base == "shl":
        return np.where(far, np.uint64(0), masked(a << by, width))
    if not op.kind.signed:
        return np.where(far, np.uint64(0), a >> by)
    by = np.where(far, np.uint64(width - 1), b)
    return unsigned(signed(a, width) >> by.view(np.int64), width)


def _funnel(op: Opcode, low: Bits, high: Bits, by: Bits) -> Bits:
    op.only("l", "r", "wrap", "clamp")
    places = by & np.uint64(31) if "wrap" in op.modifiers else np.minimum(by, np.uint64(32))
    both = (high << np.uint64(32)) | low
    if "l" in op.modifiers:
        return (both << places) >> np.uint64(32)
    return masked(both >> places, 32)


_MODES = {"f4e": 1, "b4e": 2, "rc8": 3, "ecl": 4, "ecr": 5, "rc16": 6}


def _permute(op: Opcode, a: Bits, b: Bits, control: Bits) -> Bits:
    op.only(*_MODES)
    both, result = (b << np.uint64(32)) | a, np.zeros_like(a)
    mode = next(iter(op.modifiers), "")
    c = control & np.uint64(3)
    for byte in range(4):
        place = np.uint64(byte)
        if not mode:
            choice = (control >> np.uint64(4 * byte)) & np.uint64(15)
        else:
            choice = {
                "f4e": c + place,
                "b4e": (c - place) & np.uint64(7),
                "rc8": c,
                "ecl": np.maximum(c, place),
                "ecr": np.minimum(c, place),
                "rc16": (c & np.uint64(1)) * np.uint64(2) + (place & np.uint64(1)),
            }[mode]
        value = (both >> (np.uint64(8) * (choice & np.uint64(7)))) & np.uint64(255)
        sign = np.where(value >= 128, np.uint64(255), np.uint64(0))
        value = np.where(choice >= 8, sign, value)
        result |= value << np.uint64(8 * byte)
    return result


def _extract(op: Opcode, a: Bits, begin: Bits, length: Bits) -> Bits:
    op.only()
    width = op.kind.bits
    begin, length = begin & np.uint64(255), length & np.uint64(255)
    value = np.where(begin >= width, np.uint64(0), a >> np.minimum(begin, np.uint64(63)))
    ones = _ones(length)
    if not op.kind.signed:
        return value & ones
    top = np.minimum(begin + length - np.uint64(1), np.uint64(width - 1))
    negative = (length > 0) & ((a >> np.minimum(top, np.uint64(63))) & np.uint64(1) != 0)
    inside = _ones(np.minimum(length, np.where(begin >= width, np.uint64(0), np.uint64(width) - begin)))
    return masked((value & ones) | np.where(negative, ~inside, np.uint64(0)), width)


def _insert(op: Opcode, a: Bits, b: Bits, begin: Bits, length: Bits) -> Bits:
    op.only()
    begin, length = begin & np.uint64(255), length & np.uint64(255)
    far, by = begin >= op.kind.bits, np.minimum(begin, np.uint64(63))
    field = np.where(far, np.uint64(0), _ones(length) << by)
    return masked((b & ~field) | ((a << by) & field), op.kind.bits)


def _ones(length: Bits) -> Bits:
    """Return words whose lowest `length` bits are set."""
    short = np.minimum(length, np.uint64(63))
    return np.where(length >= 64, np.uint64((1 << 64) - 1), (np.uint64(1) << short) - np.uint64(1))


# Of each pair of neighbours the lower one: bits, then pairs of bits, and so on to halves of a word.
_LOWER = [
    (n, np.uint64(sum(((1 << n) - 1) << at for at in range(0, 64, 2 * n)))) for n in (1, 2, 4, 8, 16, 32)
]


def _reverse(op: Opcode, a: Bits) -> Bits:
    op.only()
    for n, lower in _LOWER:
        a = ((a >> np.uint64(n)) & lower) | ((a & lower) << np.uint64(n))
    return a >> np.uint64(64 - op.kind.bits)


def _set_bits(bits: Bits) -> Bits:
    """Return how many bits are set."""
    return np.bitwise_count(bits).astype(np.uint64)


def _count(op: Opcode, a: Bits) -> Bits:
    op.only()
    return _set_bits(masked(a, op.kind.bits))


def _highest(bits: Bits, width: int) -> Bits:
    """Return the place of the highest bit that is set, plus 1; 0 where none is."""
    bits = masked(bits, width)
    for n, _ in _LOWER:
        bits = bits | (bits >> np.uint64(n))
    return _set_bits(bits)


def _leading_zeros(op: Opcode, a: Bits) -> Bits:
    op.only()
    return np.uint64(op.kind.bits) - _highest(a, op.kind.bits)


def _find(op: Opcode, a: Bits) -> Bits:
    op.only("shiftamt")
    width = op.kind.bits
    if op.kind.signed:
        a = np.where(signed(a, width) < 0, masked(~a, width), a)
    place = _highest(a, width)
    none = np.uint64(WORD)
    found = np.uint64(width) - place if "shiftamt" in op.modifiers else place - np.uint64(1)
    return np.where(place == 0, none, found)


def _dot(op: Opcode, a: Bits, b: Bits, c: Bits) -> Bits:
    op.only("lo", "hi")
    total = signed(c, 32)
    first, second = op.types
    for k in range(4 if op.base == "dp4a" else 2):
        place = k if op.base == "dp4a" else k + 2 * ("hi" in op.modifiers)
        width = 8 if op.base == "dp4a" else 16
        x = masked(a >> np.uint64(width * k), width)
        y = masked(b >> np.uint64(8 * place), 8)
        left = signed(x, width) if first == "s32" else x.view(np.int64)
        total = total + left * (signed(y, 8) if second == "s32" else y.view(np.int64))
    return unsigned(total, 32)


def _reach(op: Opcode, bits: Bits) -> Bits:
    """Return a position or length in a word of 32 bits, clamped to 32 or wrapped below it."""
    op.only("clamp", "wrap")
    word = masked(bits, 32)
    return masked(word, 5) if "wrap" in op.modifiers else np.minimum(word, np.uint64(32))


def _size_extend(op: Opcode, a: Bits, length: Bits) -> Bits:
    kept = _reach(op, length)
    low = a & _ones(kept)
    negative = (kept > 0) & ((low >> (np.maximum(kept, np.uint64(1)) - np.uint64(1))) > 0)
    extended = low | (masked(~np.zeros_like(a), 32) & ~_ones(kept))
    return np.where(negative, extended, low) if op.kind.signed else low


def _mask(op: Opcode, begin: Bits, length: Bits) -> Bits:
    return masked(_ones(_reach(op, length)) << _reach(op, begin), 32)


def pack(op: Opcode, a: Bits, b: Bits, c: Bits | None = None) -> Bits:
    """Return what cvt.pack.sat makes of two signed words: a above b, each saturated, and c above both.

    Raises:
        UnknownInstructionError: The opcode is no such form.
    """
    form = _PACKED.fullmatch(op.text)
    if not form or (c is None) != (form["upper"] is None):
        raise op.unknown()
    width = int(form["width"])
    low, high = (
        (0, (1 << width) - 1) if form["sign"] == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    )
    upper, lower = (unsigned(np.clip(signed(masked(v, 32), 32), low, high), width) for v in (a, b))
    rest = np.zeros_like(a) if c is None else c << np.uint64(2 * width)
    return masked(rest | (upper << np.uint64(width)) | lower, 32)


FIELD_OPERATIONS: dict[str, Callable[..., Bits]] = {
    "lop3": _table,
    "shl": _shift,
    "shr": _shift,
    "shf": _funnel,
    "prmt": _permute,
    "bfe": _extract,
    "bfi": _insert,
    "brev": _reverse,
    "popc": _count,
    "clz": _leading_zeros,
    "bfind": _find,
    "szext": _size_extend,
    "bmsk": _mask,
    "dp4a": _dot,
    "dp2a": _dot,
}
