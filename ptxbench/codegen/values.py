"""Generators of operand values, and floats as the bits of a PTX type.

A generator draws the slots of one role: x (where a chain begins), its partner w, loaded operands a, b, c
and d, the companions' factor m and addend n. Roles of an integer type get integers from every generator
of floats, so that a conversion's two sides have values of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.types import TYPES, PtxType

RECORDS = 4096
SETS = 4
CHAINS = 4

Slots = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
_Random = np.random.Generator

# On these grids every partial sum of four addends is exact in binary.
_SUM_BITS = {"f16": 8, "bf16": 5, "tf32": 8, "f32": 17, "f64": 48}
# Why a generator has no pattern zeros.
NEVER_ZERO = {"quotient": "0 / 0 takes another path"}
# Generators to which it matters whether integers are signed.
_BY_SIGN = ("quotient",)


def drawn_as(values: str, ptx_type: str) -> str:
    """Return what a generator draws for a type, by name: types for which it is the same have the same bits.

    Args:
        values: Name of the generator.
        ptx_type: PTX type of the role.
    """
    kind = TYPES[ptx_type]
    if kind.scalar or values in _BY_SIGN:
        return f"{values} {ptx_type}"
    return f"{values} {kind.bits} bits"


def encode(values: Floats, ptx_type: str, partner: Floats | None = None) -> Slots:
    """Return floats as the bits of a PTX type, one value an 8-byte slot.

    Args:
        values: Any shape.
        ptx_type: A floating-point type of one or two lanes.
        partner: The upper lanes of a type of two, same shape as `values`.
    """
    kind = TYPES[ptx_type]
    low = _ENCODERS[kind.scalar](values)
    if kind.lanes == 1:
        return low
    high = low if partner is None else _ENCODERS[kind.scalar](partner)
    return low | (high << np.uint64(16))


def _f32_bits(values: Floats) -> Slots:
    return values.astype(np.float32).view(np.uint32).astype(np.uint64)


def _bf16_bits(values: Floats) -> Slots:
    """Round the upper half of f32 to nearest, ties to even."""
    bits = _f32_bits(values)
    return (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)


_ENCODERS: dict[str, Callable[[Floats], Slots]] = {
    "f64": lambda values: values.astype(np.float64).view(np.uint64),
    "f32": _f32_bits,
    "tf32": lambda values: _f32_bits(values) & np.uint64(0xFFFFE000),
    "bf16": _bf16_bits,
    "f16": lambda values: values.astype(np.float16).view(np.uint16).astype(np.uint64),
}


def _words(kind: PtxType, rng: _Random, width: int) -> Slots:
    """Random bits of a type's width."""
    words = rng.integers(0, 1 << 64, (RECORDS, width), dtype=np.uint64)
    return words >> np.uint64(64 - kind.bits)


def _integer(role: str, ptx_type: str, rng: _Random, width: int) -> Slots:
    """Random words; the factors (a and m) odd, so that multiplying loses no bit."""
    return _words(TYPES[ptx_type], rng, width) | np.uint64(role in "am" and ptx_type != "pred")


def _odd(_role: str, ptx_type: str, rng: _Random, width: int) -> Slots:
    """Random odd words, and so never 0."""
    return _words(TYPES[ptx_type], rng, width) | np.uint64(1)


def _even(_role: str, ptx_type: str, rng: _Random, width: int) -> Slots:
    """Random even words: with them and an odd addend, a multiply-add is always odd, and so never 0."""
    return _words(TYPES[ptx_type], rng, width) & ~np.uint64(1)


def _shift(_role: str, ptx_type: str, rng: _Random, width: int) -> Slots:
    """Whole numbers from 1 to 15, which shift a word of any width and leave some of it."""
    del ptx_type
    return rng.integers(1, 16, (RECORDS, width), dtype=np.uint64)


def _index(_role: str, ptx_type: str, rng: _Random, width: int) -> Slots:
    """Whole numbers from 0 to 31: a lane, a bit's position."""
    del ptx_type
    return rng.integers(0, 32, (RECORDS, width), dtype=np.uint64)


def _small(_role: str, ptx_type: str, rng: _Random, width: int) -> Slots:
    """Whole numbers from 1 to 255, as integers or as floats."""
    values = rng.integers(1, 256, (RECORDS, width), dtype=np.uint64)
    return encode(values.astype(np.float64), ptx_type) if TYPES[ptx_type].scalar else values


def _floats(
    draw: Callable[[str, PtxType, _Random, int], Floats],
) -> Callable[[str, str, _Random, int], Slots]:
    """Make a generator of bits from one of floats; lanes are drawn apart."""

    def generate(role: str, ptx_type: str, rng: _Random, width: int) -> Slots:
        kind = TYPES[ptx_type]
        if not kind.scalar:
            return _integer(role, ptx_type, rng, width)
        lanes = [draw(role, kind, rng, width) for _ in range(kind.lanes)]
        return encode(lanes[0], ptx_type, lanes[-1])

    return generate


def _signs(rng: _Random, width: int) -> Floats:
    return rng.choice([-1.0, 1.0], (RECORDS, width))


def _cycle(role: str, _kind: PtxType, rng: _Random, width: int) -> Floats:
    """Factors (a and m) that alternate above and below 1 with a product under 1, and addends of 1 to 2.

    x = a x + b then tends to a cycle of SETS values: varied, finite, and never a fixed point.
    """
    values = _signs(rng, width) * rng.uniform(1.0, 2.0, (RECORDS, width))
    if role in "am":
        values[:, 1::2] /= 4.0
    return values


def _unit(_role: str, _kind: PtxType, rng: _Random, width: int) -> Floats:
    """Numbers from -1 to 1."""
    return rng.uniform(-1.0, 1.0, (RECORDS, width))


def _positive(_role: str, _kind: PtxType, rng: _Random, width: int) -> Floats:
    """Numbers from 1 to 2: all mantissas, one exponent."""
    return rng.uniform(1.0, 2.0, (RECORDS, width))


def _zero_sum(role: str, kind: PtxType, rng: _Random, width: int) -> Floats:
    """Addends (b) that sum to zero on a grid on which every partial sum is exact in binary."""
    bits = _SUM_BITS[kind.scalar]
    values = rng.integers(-(1 << bits), 1 << bits, (RECORDS, width)).astype(np.float64) * 2.0 ** (1 - bits)
    if role == "b":
        addends = values.reshape(RECORDS, SETS, CHAINS)
        addends[:, -1] = -addends[:, :-1].sum(axis=1)
    return values


def _exponent(role: str, _kind: PtxType, rng: _Random, width: int) -> Floats:
    """Factors (a and m) under 0.2 and addends under 0.8: |x| stays under 4 and 2**x between 1/16 and 16."""
    if role in "am":
        return _signs(rng, width) * rng.uniform(0.1, 0.2, (RECORDS, width))
    return rng.uniform(-0.8, 0.8, (RECORDS, width))


def _quotient(role: str, ptx_type: str, rng: _Random, width: int) -> Slots:
    """One dividend (b) for all sets of a chain: x = b / x then alternates between two values."""
    kind = TYPES[ptx_type]
    if kind.scalar:
        exponents = rng.integers(-8, 8, (RECORDS, width))
        slots = encode(rng.uniform(1.0, 2.0, (RECORDS, width)) * 2.0**exponents, ptx_type)
    else:
        # A signed dividend keeps its sign bit clear.
        bits = kind.bits - kind.signed
        low, high = (kind.bits // 4, kind.bits // 2) if role in "xw" else (bits - 2, bits)
        slots = rng.integers(1 << low, 1 << high, (RECORDS, width), dtype=np.uint64)
    return np.tile(slots[:, :CHAINS], SETS) if role == "b" else slots


def _none(_role: str, _type: str, _rng: _Random, width: int) -> Slots:
    """The kernel makes its own values."""
    return np.zeros((RECORDS, width), np.uint64)


GENERATORS: dict[str, Callable[[str, str, _Random, int], Slots]] = {
    "integer": _integer,
    "odd": _odd,
    "even": _even,
    "shift": _shift,
    "index": _index,
    "small": _small,
    "cycle": _floats(_cycle),
    "unit": _floats(_unit),
    "positive": _floats(_positive),
    "zero_sum": _floats(_zero_sum),
    "exponent": _floats(_exponent),
    "quotient": _quotient,
    "none": _none,
}
