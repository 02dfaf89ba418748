"""Whole numbers, logic and comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ptxbench.emulator.bits import COMBINED, COMPARISONS
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Read, Step
from ptxbench.sass.operand import Kind, Operand

_U32, _U64, _I32, _I64 = np.uint32, np.uint64, np.int32, np.int64
_HALF = _U64(32)
COMPARES: Mapping[str, Callable[[Any, Any], Any]] = {name.upper(): by for name, by in COMPARISONS.items()}
COMBINES: Mapping[str, Callable[[Array, Array], Array]] = {name.upper(): by for name, by in COMBINED.items()}
_HALVES: Mapping[str, Any] = {"U16": np.uint16, "S16": np.int16}
_BYTES: Mapping[str, Any] = {"U8": np.uint8, "S8": np.int8}
_SIDES = (Kind.PREDICATE, Kind.TRUE, Kind.UNIFORM_PREDICATE, Kind.UNIFORM_TRUE)


def _summands(i: Bound, operands: Sequence[Operand]) -> list[Read]:
    """Return how to read summands as 64 bits whose upper half takes the carry of a negated one."""

    def wide(operand: Operand) -> Read:
        read = i.word(Operand(operand.text.lstrip("-"), operand.kind, operand.name, suffix=operand.suffix))
        if operand.kind is Kind.IMMEDIATE:
            read = i.word(operand)
        if operand.text.startswith("~"):
            read = i.word(operand)
        elif operand.negative:
            # ~x + 1: of 0 that is 2^32, whose carry counts.
            return lambda: _U64(1 << 32) - read().astype(_U64)
        return lambda: read().astype(_U64)

    return [wide(one) for one in operands]


def add(i: Bound) -> Step:
    """IADD3, with or without carries."""
    words = i.only("X", "S32", "U32", "64")
    outs, ins = i.parted()
    if "64" in words:
        if len(outs) > 1 or "X" in words or len(ins) < 3:
            raise i.unknown()
        whole, pairs = i.pair_writer(outs[0]), [i.pair(one) for one in ins[:3]]
        return lambda active: whole(pairs[0]() + pairs[1]() + pairs[2](), active)
    write, carries = i.writer(outs[0]), [i.writer(one) for one in outs[1:]]
    if len(ins) < 3:
        raise i.unknown()
    if not carries and "X" not in words:
        a, b, c = (i.word(one) for one in ins[:3])
        if ins[2].lost:
            return lambda active: write(a() + b(), active)
        return lambda active: write(a() + b() + c(), active)
    terms = _summands(i, ins[:3])
    taken = [i.predicate(one) for one in ins[3:]] if "X" in words else []

    def step(active: Mask) -> None:
        total = terms[0]() + terms[1]() + terms[2]()
        for one in taken:
            total = total + one().astype(_U64)
        write(total.astype(_U32), active)
        carried = total >> _HALF
        for number, carry in enumerate(carries, 1):
            carry(carried >= number, active)

    return step


def add_two(i: Bound) -> Step:
    """VIADD."""
    i.only()
    a, b = (i.word(one) for one in i.operands[1:3])
    return i.to_word(lambda: a() + b())


def multiply_add(i: Bound) -> Step:
    """IMAD in its forms."""
    words = i.only("MOV", "SHL", "IADD", "U32", "X", "HI", "WIDE")
    outs, ins = i.parted()
    if len(ins) < 3:
        raise i.unknown()
    if words & {"WIDE", "HI"}:
        return _wide(i, words, outs, ins)
    if len(outs) > 1:
        raise i.unknown()
    c = i.word(ins[2])
    if "X" in words:
        carry = i.predicate(ins[3])
        carried = c
        c = lambda: carried() + carry().astype(_U32)  # noqa: E731
    if ins[0].lost or ins[1].lost:
        return i.to_word(c)
    a, b = i.word(ins[0]), i.word(ins[1])
    if ins[1].number == 1:
        return i.to_word(lambda: a() + c())
    if ins[2].lost and "X" not in words:
        return i.to_word(lambda: a() * b())
    return i.to_word(lambda: a() * b() + c())


def _wide(i: Bound, words: frozenset[str], outs: Sequence[Operand], ins: Sequence[Operand]) -> Step:
    if ins[0].negative or (ins[1].negative and ins[1].kind is not Kind.IMMEDIATE):
        raise i.unknown()
    a, b, c = i.word(ins[0]), i.word(ins[1]), i.pair(ins[2])
    carry_in = i.predicate(ins[3]) if "X" in words else None
    carry_out = i.writer(outs[1]) if len(outs) > 1 else None
    unsigned = "U32" in words

    def product() -> Array:
        if unsigned:
            return a().astype(_U64) * b().astype(_U64)
        return (a().view(_I32).astype(_I64) * b().view(_I32).astype(_I64)).view(_U64)

    write = i.writer(outs[0]) if "HI" in words else i.pair_writer(outs[0])

    def step(active: Mask) -> None:
        first, added = product(), c()
        total = first + added
        carried = total < first
        if carry_in is not None:
            extra = carry_in()
            more = total + extra.astype(_U64)
            carried, total = carried | (more < total), more
        write((total >> _HALF).astype(_U32) if "HI" in words else total, active)
        if carry_out is not None:
            carry_out(carried, active)

    return step


def compare(i: Bound) -> Step:
    """ISETP, of 32 bits or the upper half of 64."""
    words = i.only(*COMPARES, *COMBINES, "U32", "EX")
    how = next(iter(words & COMPARES.keys()), "")
    combine = COMBINES[next(iter(words & COMBINES.keys()), "AND")]
    outs, ins = i.operands[:2], i.operands[2:]
    if not how:
        raise i.unknown()
    a, b, other = i.word(ins[0]), i.word(ins[1]), i.predicate(ins[2])
    lower = i.predicate(ins[3]) if "EX" in words else None
    kind = _U32 if "U32" in words else _I32
    first, second = i.writer(outs[0]), i.writer(outs[1])
    both = not outs[1].lost
    plain = ins[2].lost and not ins[2].negative and combine is operator.and_
    strict = {"LE": "LT", "GE": "GT"}.get(how, how)

    def step(active: Mask) -> None:
        x, y = a().view(kind), b().view(kind)
        if lower is None:
            holds = COMPARES[how](x, y)
        elif how == "NE":
            holds = (x != y) | lower()
        elif how == "EQ":
            holds = (x == y) & lower()
        else:
            holds = COMPARES[strict](x, y) | ((x == y) & lower())
        rest = None if plain else other()
        if both:
            second(~holds if rest is None else combine(~holds, rest), active)
        first(holds if rest is None else combine(holds, rest), active)

    return step


def table(lut: int, values: Sequence[Array], ones: Array) -> Array:
    """Return what a table of truth makes of three words or predicates, bit by bit.

    f = f0 ^ (a & (f0 ^ f1)), where f0 and f1 are what the table says of b and c for either a.
    """
    a, b, c = values
    low = sum((lut >> n & 1) << n for n in range(4))
    differ = low ^ (lut >> 4)
    rest = _of_two(low, b, c, ones)
    turned = _of_two(differ, b, c, ones)
    if turned is None:
        return np.zeros_like(ones) if rest is None else rest
    turned = a if turned is ones else a & turned
    return turned if rest is None else rest ^ turned


def _of_two(four: int, b: Array, c: Array, ones: Array) -> Array | None:
    """Return a function of two by its four bits (b above c); None: 0."""
    if four == 0:
        return None
    if four == 0b1111:
        return ones
    simple: Mapping[int, Callable[[], Array]] = {
        0b1000: lambda: b & c,
        0b1110: lambda: b | c,
        0b0110: lambda: b ^ c,
        0b1100: lambda: b,
        0b1010: lambda: c,
        0b0100: lambda: b & ~c,
        0b0010: lambda: c & ~b,
        0b1101: lambda: b | ~c,
        0b1011: lambda: c | ~b,
    }
    found = simple.get(four)
    return found() if found is not None else ~simple[four ^ 0b1111]()


_ALL = np.full((1, 1), 0xFFFFFFFF, _U32)
_TRUE = np.ones((1, 1), bool)


def logic(i: Bound) -> Step:
    """LOP3."""
    words = i.only("LUT", "PAND")
    operands = i.operands
    outs = [operands[0]]
    if operands[0].kind in _SIDES:
        outs, operands = [operands[1], operands[0]], operands[1:]
    ins = operands[1:]
    lut = ins[3].number
    if lut is None:
        raise i.unknown()
    a, b, c = (i.word(one) for one in ins[:3])
    write = i.writer(outs[0])
    if len(outs) == 1:
        return lambda active: write(table(lut, (a(), b(), c()), _ALL), active)
    some, other = i.writer(outs[1]), i.predicate(ins[4])

    def step(active: Mask) -> None:
        result = table(lut, (a(), b(), c()), _ALL)
        write(result, active)
        found = result != 0
        some(found & other() if "PAND" in words else found | other(), active)

    return step


def predicate_logic(i: Bound) -> Step:
    """PLOP3."""
    i.only("LUT")
    ins = i.operands[2:]
    a, b, c = (i.predicate(one) for one in ins[:3])
    tables = [one.number for one in ins[3:5]]
    writes = [i.writer(one) for one in i.operands[:2]]

    def step(active: Mask) -> None:
        values = a(), b(), c()
        results = [table(lut or 0, values, _TRUE) for lut in tables]
        for write, result in zip(writes, results, strict=True):
            write(result, active)

    return step


def shift(i: Bound) -> Step:
    """SHF: a shift of two words as one, of which the upper or the lower is kept."""
    words = i.only("L", "R", "W", "U32", "S32", "U64", "S64", "HI")
    a, by, c = (i.word(one) for one in i.operands[1:4])
    amount = i.operands[2].number
    wide, left, high = bool(words & {"U64", "S64"}), "L" in words, "HI" in words
    wrapped, signed = "W" in words, bool(words & {"S32", "S64"})
    most = 63 if wide else 31
    if amount is not None and not signed and (wrapped or amount <= most) and 0 < amount & most < 32:
        n = _U32(amount & most)
        if i.operands[3].lost and left and not high:
            return i.to_word(lambda: a() << n)
        if i.operands[1].lost and not left and high:
            return i.to_word(lambda: c() >> n)
        back = _U32(32 - int(n))
        if left and high:
            return i.to_word(lambda: (c() << n) | (a() >> back))
        if not left and not high:
            return i.to_word(lambda: (a() >> n) | (c() << back))

    def compute() -> Array:
        n = by().astype(_U64)
        n = n & _U64(most) if wrapped else np.minimum(n, _U64(64 if wide else 32))
        whole = a().astype(_U64) | c().astype(_U64) << _HALF
        gone = n > 63
        n = np.minimum(n, _U64(63))
        if left:
            shifted = np.where(gone, _U64(0), whole << n)
        elif signed:
            shifted = (whole.view(_I64) >> n.astype(_I64)).view(_U64)
        else:
            shifted = np.where(gone, _U64(0), whole >> n)
        return (shifted >> _HALF if high else shifted).astype(_U32)

    return i.to_word(compute)


def shifted_add(i: Bound) -> Step:
    """LEA: (a << n) + b, or the upper half of that."""
    words = i.only("HI", "X", "SX32")
    outs, ins = i.parted()
    carry_out = i.writer(outs[1]) if len(outs) > 1 else None
    write = i.writer(outs[0])
    carry = i.predicate(ins[-1]) if "X" in words else None
    rest = ins[:-1] if carry is not None else ins
    high = "HI" in words
    by = rest[-1].number
    if by is None or len(rest) != (4 if high and "SX32" not in words else 3):
        raise i.unknown()
    a, b, n = i.word(rest[0]), _summands(i, rest[1:2])[0], _U64(by & 31)
    c = i.word(rest[2]) if high and "SX32" not in words else None

    def step(active: Mask) -> None:
        low = a()
        if not high:
            moved = (low << n.astype(_U32)).astype(_U64)
        elif c is None:
            moved = ((low.view(_I32).astype(_I64) << n.astype(_I64)).view(_U64) >> _HALF) & _U64(0xFFFFFFFF)
        else:
            whole = low.astype(_U64) | c().astype(_U64) << _HALF
            moved = (whole << n) >> _HALF
        total = moved + b()
        if carry is not None:
            total = total + carry().astype(_U64)
        write(total.astype(_U32), active)
        if carry_out is not None:
            carry_out(total >> _HALF != 0, active)

    return step


def extreme(i: Bound) -> Step:
    """VIMNMX, VIMNMX3, IMNMX and VIADDMNMX: the least or the most."""
    words = i.only("U32", "S32", "RELU", "U16x2", "S16x2")
    if words & {"U16x2", "S16x2"}:
        return _extreme_halves(i, np.uint16 if "U16x2" in words else np.int16)
    base = i.instruction.base.removeprefix("U")
    ins = i.operands[1:]
    count = 2 if base in ("VIMNMX", "IMNMX") else 3
    values, least = [i.word(one) for one in ins[:count]], i.predicate(ins[count])
    kind = _U32 if "U32" in words else _I32

    def compute() -> Array:
        numbers = [read() for read in values]
        if base == "VIADDMNMX":
            numbers = [numbers[0] + numbers[1], numbers[2]]
        typed = [one.view(kind) for one in numbers]
        low = high = typed[0]
        choose = least()
        if choose.all() or not choose.any():
            fold = np.minimum if choose.all() else np.maximum
            for one in typed[1:]:
                low = fold(low, one)
        else:
            for one in typed[1:]:
                low, high = np.minimum(low, one), np.maximum(high, one)
            low = np.where(choose, low, high)
        return (np.maximum(low, 0) if "RELU" in words else low).view(_U32)

    return i.to_word(compute)


def _extreme_halves(i: Bound, kind: type[np.unsignedinteger[Any] | np.signedinteger[Any]]) -> Step:
    """VIMNMX of the halves of a word."""
    if i.instruction.base != "VIMNMX" or "RELU" in i.words:
        raise i.unknown()
    a, b, least = i.word(i.operands[1]), i.word(i.operands[2]), i.predicate(i.operands[3])

    def compute() -> Array:
        x, y = (np.ascontiguousarray(one) for one in np.broadcast_arrays(a(), b()))
        x, y = x.view(kind), y.view(kind)
        choose = np.repeat(np.broadcast_to(least(), a().shape), 2, axis=1)
        return np.asarray(np.where(choose, np.minimum(x, y), np.maximum(x, y)).view(_U32))

    return i.to_word(compute)


def absolute(i: Bound) -> Step:
    """IABS."""
    i.only()
    a = i.word(i.operands[1])
    return i.to_word(lambda: np.abs(a().view(_I32)).view(_U32))


def ones(i: Bound) -> Step:
    """POPC."""
    i.only()
    a = i.word(i.operands[1])
    return i.to_word(lambda: np.bitwise_count(a()).astype(_U32))


def reverse(i: Bound) -> Step:
    """BREV."""
    i.only()
    a = i.word(i.operands[1])

    def compute() -> Array:
        x = a()
        for by, keep in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
            n, kept = _U32(by), _U32(keep)
            x = ((x >> n) & kept) | ((x & kept) << n)
        return np.asarray(x.byteswap())

    return i.to_word(compute)


def highest(i: Bound) -> Step:
    """FLO: the place of the highest one, or how far it is from the top; of 0 it is -1."""
    words = i.only("U32", "SH")
    outs, ins = i.parted()
    a, write = i.word(ins[0]), i.writer(outs[0])

    def compute() -> Array:
        x = a()
        if "U32" not in words:
            x = np.where(x.view(_I32) < 0, ~x, x)
        place = np.frexp(x.astype(np.float64))[1].astype(_I32) - 1
        if "SH" in words:
            place = 31 - place
        return np.where(x == 0, _I32(-1), place).astype(_I32).view(_U32)

    return lambda active: write(compute(), active)


def permute(i: Bound) -> Step:
    """PRMT: four bytes out of eight."""
    i.only()
    a, how, b = (i.word(one) for one in i.operands[1:4])

    def compute() -> Array:
        whole, selectors = a().astype(_U64) | b().astype(_U64) << _HALF, how()
        result = np.zeros(np.broadcast_shapes(whole.shape, selectors.shape), _U32)
        for place in range(4):
            chosen = selectors >> _U32(4 * place)
            byte = (whole >> ((chosen & _U32(7)).astype(_U64) * _U64(8))).astype(_U32) & _U32(0xFF)
            sign = np.where(byte & _U32(0x80), _U32(0xFF), _U32(0))
            result |= np.where(chosen & _U32(8), sign, byte) << _U32(8 * place)
        return result

    return i.to_word(compute)


def sign_extend(i: Bound) -> Step:
    """SGXT: the lowest bits, filled up with their sign or zeros."""
    words = i.only("U32", "W")
    a, b = (i.word(one) for one in i.operands[1:3])

    def compute() -> Array:
        width = b() & _U32(31) if "W" in words else np.minimum(b(), _U32(32))
        by = (_U32(32) - width).astype(_U64)
        whole = (a().astype(_U64) << by) & _U64(0xFFFFFFFF)
        if "U32" in words:
            return (whole >> by).astype(_U32)
        return (whole.astype(_U32).view(_I32).astype(_I64) >> by.astype(_I64)).astype(_I32).view(_U32)

    return i.to_word(compute)


def bit_mask(i: Bound) -> Step:
    """BMSK: so many ones from a place on."""
    words = i.only("W", "C")
    a, b = (i.word(one) for one in i.operands[1:3])

    def compute() -> Array:
        at, width = a(), b()
        if "W" in words:
            at, width = at & _U32(31), width & _U32(31)
        at, width = (np.minimum(one, _U32(32)).astype(_U64) for one in (at, width))
        return (((_U64(1) << width) - _U64(1)) << at).astype(_U32)

    return i.to_word(compute)


def dot(i: Bound) -> Step:
    """IDP: a sum and four products of bytes (4A), or two of a half and one of two bytes (2A, LO or HI)."""
    how, *names = i.words
    begin, count, firsts = 0, 4, _BYTES
    if how == "2A":
        begin, count, firsts = {"LO": 0, "HI": 2}[names.pop(0)], 2, _HALVES
    if how not in ("2A", "4A") or len(names) != 2:
        raise i.unknown()
    left, right = firsts[names[0]], _BYTES[names[1]]
    a, b, c = (i.word(one) for one in i.operands[1:4])

    def compute() -> Array:
        x, y = (np.ascontiguousarray(one) for one in np.broadcast_arrays(a(), b()))
        parts = x.view(left).reshape(*x.shape, count).astype(_I64)
        numbers = y.view(right).reshape(*y.shape, 4)[..., begin : begin + count].astype(_I64)
        return np.asarray((parts * numbers).sum(axis=-1).astype(_I32).view(_U32) + c())

    return i.to_word(compute)


STEPS: Mapping[str, Callable[[Bound], Step]] = {
    "IADD3": add,
    "VIADD": add_two,
    "IMAD": multiply_add,
    "ISETP": compare,
    "LOP3": logic,
    "PLOP3": predicate_logic,
    "SHF": shift,
    "LEA": shifted_add,
    "VIMNMX": extreme,
    "VIMNMX3": extreme,
    "IMNMX": extreme,
    "VIADDMNMX": extreme,
    "IABS": absolute,
    "POPC": ones,
    "BREV": reverse,
    "FLO": highest,
    "PRMT": permute,
    "SGXT": sign_extend,
    "BMSK": bit_mask,
    "IDP": dot,
}
