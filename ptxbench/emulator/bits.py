"""Integer and bit arithmetic of the reference: the semantics of PTX, in numpy, bit by bit.

Every register is an array of uint64 that holds the bits of one value a thread, the upper ones 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.types import TYPES, PtxType

Bits = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
_TYPE_NAMES = frozenset(TYPES) | {"u8", "s8", "b8"}
WORD = 0xFFFFFFFF
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
COMBINED: Mapping[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, f"__{name}__") for name in ("and", "or", "xor")
}


class UnknownInstructionError(ValueError):
    """The reference does not know what an instruction computes; its text names the opcode."""


@dataclass(frozen=True)
class Opcode:
    """A PTX opcode, taken apart.

    Attributes:
        text: As it is printed, such as "mad.lo.u32".
    """

    text: str

    @cached_property
    def base(self) -> str:
        """The first part: "mad"."""
        return self.text.partition(".")[0]

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types, in order."""
        return tuple(part for part in self.text.split(".")[1:] if part in _TYPE_NAMES)

    @cached_property
    def modifiers(self) -> frozenset[str]:
        """Everything else."""
        return frozenset(
            part for part in self.text.replace("::", "!").split(".")[1:] if part not in self.types
        )

    @property
    def type(self) -> str:
        """The last type, which is that of the sources.

        Raises:
            UnknownInstructionError: There is none.
        """
        if not self.types:
            raise UnknownInstructionError(self.text)
        return self.types[-1]

    @cached_property
    def kind(self) -> PtxType:
        """The last type, described."""
        return type_named(self.type)

    def only(self, *allowed: str) -> None:
        """Refuse an opcode with a modifier that the caller would leave out.

        Raises:
            UnknownInstructionError: There is another one.
        """
        if self.modifiers - set(allowed):
            raise UnknownInstructionError(self.text)

    def unknown(self) -> UnknownInstructionError:
        """Return the error that names this opcode."""
        return UnknownInstructionError(self.text)


def type_named(name: str) -> PtxType:
    """Return a PTX type, those of 8 bits included."""
    if name in TYPES:
        return TYPES[name]
    return PtxType(name, "b16", 8, signed=name == "s8")


def masked(bits: Bits, width: int) -> Bits:
    """Return the lowest `width` bits."""
    return bits & np.uint64((1 << width) - 1)


def signed(bits: Bits, width: int) -> Ints:
    """Return bits as two's complement numbers of `width` bits."""
    shift = np.uint64(64 - width)
    return (bits << shift).view(np.int64) >> np.int64(64 - width)


def unsigned(values: Ints, width: int) -> Bits:
    """Return two's complement numbers as `width` bits."""
    return masked(values.view(np.uint64), width)


def number(bits: Bits, kind: PtxType) -> npt.NDArray[np.int64] | Bits:
    """Return bits as numbers that compare as their type does."""
    return signed(bits, kind.bits) if kind.signed else bits


def multiply_high(a: Bits, b: Bits, kind: PtxType) -> Bits:
    """Return the upper half of a product of two numbers of 64 bits or fewer."""
    if kind.bits <= 32:
        product = (signed(a, kind.bits) * signed(b, kind.bits)).view(np.uint64) if kind.signed else a * b
        return masked(product >> np.uint64(kind.bits), kind.bits)
    half, low = np.uint64(32), np.uint64(WORD)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    upper = a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)
    if kind.signed:
        upper = upper - np.where(signed(a, 64) < 0, b, 0) - np.where(signed(b, 64) < 0, a, 0)
    return np.asarray(upper, np.uint64)


def _product(op: Opcode, a: Bits, b: Bits) -> tuple[Bits, int]:
    """Return the product of mul or mad, and the width that it has."""
    kind = op.kind
    if "wide" in op.modifiers:
        product = (signed(a, kind.bits) * signed(b, kind.bits)).view(np.uint64) if kind.signed else a * b
        return masked(product, 2 * kind.bits), 2 * kind.bits
    if "hi" in op.modifiers:
        return multiply_high(a, b, kind), kind.bits
    if "lo" not in op.modifiers:
        raise op.unknown()
    return masked(a * b, kind.bits), kind.bits


def _multiply(op: Opcode, a: Bits, b: Bits) -> Bits:
    op.only("lo", "hi", "wide")
    return _product(op, a, b)[0]


def _multiply_add(op: Opcode, a: Bits, b: Bits, c: Bits) -> Bits:
    op.only("lo", "hi", "wide")
    product, width = _product(op, a, b)
    return masked(product + c, width)


def _multiply_24(op: Opcode, a: Bits, b: Bits, c: Bits | None = None) -> Bits:
    op.only("lo", "hi")
    x, y = (masked(v, 24) for v in (a, b))
    if op.kind.signed:
        x, y = (signed(v, 24).view(np.uint64) for v in (x, y))
    product = x * y
    if "hi" in op.modifiers:
        product >>= np.uint64(16)
    return masked(product if c is None else product + c, 32)


def _saturated(op: Opcode, values: Ints) -> Bits:
    if op.type != "s32":
        raise op.unknown()
    return unsigned(np.clip(values, -(1 << 31), (1 << 31) - 1), 32)


def _lanes(op: Opcode, function: Callable[[Opcode, Bits, Bits], Bits], a: Bits, b: Bits) -> Bits:
    """Do an operation of two numbers of 16 bits on each half of a word."""
    single, half = Opcode(op.text.replace("16x2", "16")), np.uint64(16)
    low = function(single, masked(a, 16), masked(b, 16))
    return low | (function(single, a >> half, b >> half) << half)


def _add(op: Opcode, a: Bits, b: Bits) -> Bits:
    op.only("sat")
    if "sat" in op.modifiers:
        return _saturated(op, signed(a, 32) + signed(b, 32))
    return _lanes(op, _add, a, b) if op.kind.lanes == 2 else masked(a + b, op.kind.bits)


def _subtract(op: Opcode, a: Bits, b: Bits) -> Bits:
    op.only("sat")
    if "sat" in op.modifiers:
        return _saturated(op, signed(a, 32) - signed(b, 32))
    return masked(a - b, op.kind.bits)


def _extreme(op: Opcode, a: Bits, b: Bits) -> Bits:
    op.only("relu")
    if op.kind.lanes == 2:
        return _lanes(op, _extreme, a, b)
    first = number(a, op.kind) < number(b, op.kind)
    result = np.where(first == (op.base == "min"), a, b)
    if "relu" in op.modifiers:
        result = np.where(signed(result, op.kind.bits) < 0, np.uint64(0), result)
    return result


def _absolute(op: Opcode, a: Bits) -> Bits:
    op.only()
    return unsigned(np.abs(signed(a, op.kind.bits)), op.kind.bits)


def _negate(op: Opcode, a: Bits) -> Bits:
    op.only()
    return unsigned(-signed(a, op.kind.bits), op.kind.bits)


def _distance(op: Opcode, a: Bits, b: Bits, c: Bits) -> Bits:
    op.only()
    less = number(a, op.kind) < number(b, op.kind)
    return masked(np.where(less, b - a, a - b) + c, op.kind.bits)


def _quotient(op: Opcode, a: Bits, b: Bits) -> Bits:
    op.only()
    kind = op.kind
    zero = b == 0
    if kind.signed:
        x, y = signed(a, kind.bits), np.where(zero, 1, signed(b, kind.bits))
        size = np.abs(x).view(np.uint64) // np.abs(y).view(np.uint64)
        quotient = np.where((x < 0) != (y < 0), np.uint64(0) - size, size)
    else:
        quotient = a // np.where(zero, np.uint64(1), b)
    # What a division by 0 gives is not in the PTX manual; every GPU gives ones.
    quotient = np.where(zero, np.uint64((1 << 64) - 1), quotient)
    return masked(quotient if op.base == "div" else np.where(zero, a, a - quotient * b), kind.bits)


def _logic(op: Opcode, a: Bits, b: Bits) -> Bits:
    op.only("pred")
    return np.asarray(COMBINED[op.base](a, b), np.uint64)


def _invert(op: Opcode, a: Bits) -> Bits:
    op.only("pred")
    return masked(~a, op.kind.bits)


def _logic_not(op: Opcode, a: Bits) -> Bits:
    op.only()
    return np.asarray(a == 0, np.uint64)


INTEGER_OPERATIONS: dict[str, Callable[..., Bits]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "mad": _multiply_add,
    "mul24": _multiply_24,
    "mad24": _multiply_24,
    "min": _extreme,
    "max": _extreme,
    "abs": _absolute,
    "neg": _negate,
    "sad": _distance,
    "div": _quotient,
    "rem": _quotient,
    "and": _logic,
    "or": _logic,
    "xor": _logic,
    "not": _invert,
    "cnot": _logic_not,
}
