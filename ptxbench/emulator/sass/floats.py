"""Floating-point arithmetic of 32 and 64 bits, and special functions within their error."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ptxbench.emulator.sass.integer import COMBINES, COMPARES
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Read, Step
from ptxbench.emulator.sass.rounding import (
    flushed,
    fused_double,
    fused_single,
    product_double,
    single,
    sum_double,
    sum_error,
)
from ptxbench.sass.operand import Operand

ROUNDINGS = ("RN", "RZ", "RM", "RP")
_U32, _U64 = np.uint32, np.uint64
_F32, _F64 = np.float32, np.float64


def rounding_of(words: frozenset[str]) -> str:
    """Return the rounding among modifiers."""
    return next((one for one in ROUNDINGS if one in words), "RN")


def _source(i: Bound, operand: Operand, words: frozenset[str]) -> Read:
    read = i.single(operand)
    return (lambda: flushed(read())) if "FTZ" in words else read


def _finished(words: frozenset[str], compute: Callable[[], Array]) -> Callable[[], Array]:
    flush, saturate = "FTZ" in words, "SAT" in words

    def finish() -> Array:
        value = compute()
        if flush:
            value = flushed(value)
        if saturate:
            value = np.where(np.isnan(value), _F32(0), np.clip(value, _F32(0), _F32(1)))
        return value

    return finish if flush or saturate else compute


def _single(i: Bound, count: int, function: Callable[..., Array]) -> Step:
    words = i.only(*ROUNDINGS, "FTZ", "SAT")
    values = [_source(i, one, words) for one in i.operands[1 : 1 + count]]
    rounding = rounding_of(words)
    return i.to_single(_finished(words, lambda: function(*(read() for read in values), rounding)))


def _add(a: Array, b: Array, rounding: str) -> Array:
    if rounding == "RN":
        return a + b
    x, y = a.astype(_F64), b.astype(_F64)
    return single(x + y, sum_error(x, y, x + y), rounding)


def _multiply(a: Array, b: Array, rounding: str) -> Array:
    return a * b if rounding == "RN" else single(a.astype(_F64) * b, None, rounding)


def _double(i: Bound, function: Callable[..., Array]) -> Step:
    rounding = rounding_of(i.only(*ROUNDINGS))
    values = [i.double(one) for one in i.operands[1:]]
    return i.to_double(lambda: function(*(read().copy() for read in values), rounding))


def compared(name: str, x: Array, y: Array) -> Array:
    """Return the outcome of a comparison of floats, such as "GEU": or one is no number."""
    if name in ("NUM", "NAN"):
        nothing = np.isnan(x) | np.isnan(y)
        return nothing if name == "NAN" else ~nothing
    if name in ("T", "F"):
        return np.full(np.broadcast_shapes(x.shape, y.shape), name == "T")
    outcome: Array = COMPARES[name[:2]](x, y)
    if name.endswith("U"):
        return outcome | np.isnan(x) | np.isnan(y)
    return outcome & ~(np.isnan(x) | np.isnan(y)) if name == "NE" else outcome


FLOAT_COMPARES = (*COMPARES, *(f"{name}U" for name in COMPARES), "NUM", "NAN", "T", "F")


def comparison_of(words: frozenset[str]) -> tuple[str, Callable[[Array, Array], Array]]:
    """Return the comparison among modifiers, and what makes one of its outcome and another predicate."""
    return next(iter(words & set(FLOAT_COMPARES))), COMBINES[next(iter(words & COMBINES.keys()))]


def _compare(i: Bound) -> Step:
    words = i.only(*FLOAT_COMPARES, *COMBINES, "FTZ")
    how, combine = comparison_of(words)
    reader = i.double if i.instruction.base == "DSETP" else lambda one: _source(i, one, words)
    a, b = (reader(one) for one in i.operands[2:4])
    other = i.predicate(i.operands[4])
    first, second = i.writer(i.operands[0]), i.writer(i.operands[1])

    def step(active: Mask) -> None:
        x = a()
        holds, rest = compared(how, x.copy(), b()), other()
        second(combine(~holds, rest), active)
        first(combine(holds, rest), active)

    return step


def _extreme(i: Bound) -> Step:
    """FMNMX and DMNMX: what is no number gives way."""
    words = i.only("FTZ", "NAN", "XORSIGN")
    is_double = i.instruction.base == "DMNMX"
    reader = i.double if is_double else lambda one: _source(i, one, words)
    a, b = (reader(one) for one in i.operands[1:3])
    least = i.predicate(i.operands[3])
    low, high = (np.minimum, np.maximum) if "NAN" in words else (np.fmin, np.fmax)
    held = [i.held(one) for one in i.operands[1:3]] if "XORSIGN" in words else None

    def compute() -> Array:
        x, y = a().copy(), b().copy()
        # Of the operands as they stand, before their magnitude is taken.
        signs = None if held is None else [one >> _U32(31) != 0 for one in held]
        smaller = low(x, y)
        larger = high(x, y)
        # Of two zeros, the one that has the wanted sign.
        zeros = (x == 0) & (y == 0)
        if zeros.any():
            negative = np.signbit(x) | np.signbit(y)
            both = np.signbit(x) & np.signbit(y)
            smaller = np.where(zeros, np.where(negative, -x.dtype.type(0), x.dtype.type(0)), smaller)
            larger = np.where(zeros, np.where(both, -x.dtype.type(0), x.dtype.type(0)), larger)
        chosen = np.where(least(), smaller, larger)
        return (
            chosen if signs is None else np.copysign(chosen, np.where(signs[0] ^ signs[1], _F32(-1), _F32(1)))
        )

    return i.to_double(compute) if is_double else i.to_single(compute)


def _needs_slow_division(i: Bound) -> Step:
    """FCHK: whether a division's common path would over- or underflow.

    A dividend of 0 takes the common path: ncu counts as many instructions of `lbm` on zeros as on others.
    """
    words = i.words
    if words or i.operands[0].lost:
        raise i.unknown()
    write = i.writer(i.operands[0])
    a, b = (i.single(one) for one in i.operands[-2:])

    def step(active: Mask) -> None:
        dividend = a()
        x, y = ((one.view(_U32) >> _U32(23) & _U32(0xFF)).astype(np.int32) for one in (dividend, b()))
        apart = x - y
        small = (x <= 23) | (apart <= -126)
        slow = (y == 0) | (y >= 253) | (x == 255) | (apart >= 126) | (small & (dividend != 0))
        write(slow, active)

    return step


_SPECIAL: Mapping[str, Callable[[Array], Array]] = {
    "RCP": lambda x: 1 / x,
    "RSQ": lambda x: 1 / np.sqrt(x),
    "SQRT": np.sqrt,
    "EX2": np.exp2,
    "LG2": np.log2,
    "SIN": lambda x: np.sin(x * (2 * np.pi)),
    "COS": lambda x: np.cos(x * (2 * np.pi)),
    "TANH": np.tanh,
}
_HIGH: Mapping[str, Callable[[Array], Array]] = {"RCP64H": _SPECIAL["RCP"], "RSQ64H": _SPECIAL["RSQ"]}


def _special(i: Bound) -> Step:
    """MUFU, worked out in f64 and rounded: within the hardware's error, not bit by bit."""
    name = i.words[0] if i.words else ""
    if len(i.words) != 1 or (name not in _SPECIAL and name not in _HIGH):
        raise i.unknown()
    if name in _HIGH:
        # Takes and gives the upper word of a f64.
        upper, function = i.word(i.operands[1]), _HIGH[name]

        def of_upper() -> Array:
            value = (upper().astype(_U64) << _U64(32)).view(_F64)
            return ((function(value).view(_U64) >> _U64(32)).astype(_U32) & _U32(0xFFFFFFFC)).view(_U32)

        return i.to_word(of_upper)
    read, compute = i.single(i.operands[1]), _SPECIAL[name]
    # These take denormal numbers as zeros; the others are scaled by the compiler's code.
    return i.to_single(lambda: flushed(compute(flushed(read()).astype(_F64)).astype(_F32)))


STEPS: Mapping[str, Callable[[Bound], Step]] = {
    "FADD": lambda i: _single(i, 2, _add),
    "FMUL": lambda i: _single(i, 2, _multiply),
    "FFMA": lambda i: _single(i, 3, fused_single),
    "DADD": lambda i: _double(i, sum_double),
    "DMUL": lambda i: _double(i, product_double),
    "DFMA": lambda i: _double(i, fused_double),
    "FSETP": _compare,
    "DSETP": _compare,
    "FMNMX": _extreme,
    "DMNMX": _extreme,
    "FCHK": _needs_slow_division,
    "MUFU": _special,
}
