"""Floating-point arithmetic, comparisons and conversions of the reference.

Values are worked out one format wider and rounded once more; that differs from the hardware at most in
the last bit, and for 64 bits and the approximate functions in a few.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.types import PtxType
from ptxbench.emulator.bits import (
    COMBINED,
    COMPARISONS,
    Bits,
    Opcode,
    masked,
    number,
    signed,
    type_named,
    unsigned,
)
from ptxbench.emulator.extremes import EXTREME_MODIFIERS, extreme

# float64, or for 64-bit formats numpy's longdouble.
Wide = npt.NDArray[np.floating[Any]]

_ROUNDINGS = frozenset({"rn", "rz", "rm", "rp", "rna"})
_LOOSE = frozenset({"approx", "full"})
_SMALLEST = {"f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}


def decode(bits: Bits, scalar: str) -> Wide:
    """Return the bits of one lane of a floating-point format as numbers; signaling NaNs become quiet ones."""
    with np.errstate(invalid="ignore"):  # numpy warns of a signaling NaN that it widens
        if scalar == "f64":
            return bits.view(np.float64).astype(np.longdouble)
        if scalar == "f16":
            return bits.astype(np.uint16).view(np.float16).astype(np.float64)
        words = bits << np.uint64(16) if scalar == "bf16" else bits
        return words.astype(np.uint32).view(np.float32).astype(np.float64)


def encode(values: Wide, scalar: str, rounding: str = "rn") -> Bits:
    """Return numbers as the bits of a floating-point format.

    Args:
        values: Numbers, wider than the format.
        scalar: The format.
        rounding: rn, rz, rm, rp, or rna (ties away from zero, for tf32).
    """
    if scalar in ("bf16", "tf32"):
        return _cut(values.astype(np.float64), scalar, rounding)
    kind: Any = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[scalar]
    rounded = values.astype(kind)
    if rounding != "rn":
        back, inf = rounded.astype(values.dtype), kind(np.inf)
        over = {"rz": np.abs(back) > np.abs(values), "rm": back > values, "rp": back < values}[rounding]
        toward = {"rz": kind(0), "rm": -inf, "rp": inf}[rounding]
        rounded = np.where(over, np.nextafter(rounded, toward), rounded)
    words = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}[scalar]
    return rounded.view(words).astype(np.uint64)


def _cut(values: Wide, scalar: str, rounding: str) -> Bits:
    """Round to a format that is f32 with fewer digits."""
    lost = np.uint64(16 if scalar == "bf16" else 13)
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    half = np.uint64(1) << (lost - np.uint64(1))
    if rounding == "rn":
        bits = bits + half - np.uint64(1) + ((bits >> lost) & np.uint64(1))
    elif rounding == "rna":
        bits = bits + half
    bits = np.where(np.isnan(values), np.uint64(0x7FFF0000), bits) >> lost
    return masked(bits, 16) if scalar == "bf16" else masked(bits << lost, 32)


def _by_lane(op: Opcode, kind: PtxType, function: Callable[..., Wide], sources: tuple[Bits, ...]) -> Bits:
    """Decode every lane, apply a function of numbers, finish as the modifiers say, and encode."""
    if kind.scalar == "tf32":
        raise op.unknown()
    rounding = next(iter(op.modifiers & _ROUNDINGS), "rn")
    width, result = np.uint64(kind.bits // kind.lanes), np.zeros_like(sources[0])
    for lane in range(kind.lanes):
        by = np.uint64(lane) * width
        values = [_flushed(op, decode(masked(s >> by, int(width)), kind.scalar), kind) for s in sources]
        value = _flushed(op, function(*values), kind)
        result |= encode(_clamped(op, value), kind.scalar, rounding) << by
    return result


def _flushed(op: Opcode, values: Wide, kind: PtxType) -> Wide:
    if "ftz" not in op.modifiers or kind.scalar not in _SMALLEST:
        return values
    return np.where(np.abs(values) < _SMALLEST[kind.scalar], np.copysign(0.0, values), values)


_FUNCTIONS: dict[str, Callable[..., Wide]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "mad": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
    "abs": np.abs,
    "neg": np.negative,
    "copysign": lambda a, b: np.copysign(b, a),
}


def float_operation(op: Opcode, *sources: Bits) -> Bits:
    """Return what an instruction on floats computes.

    Raises:
        UnknownInstructionError: It is none that the reference knows.
    """
    if op.base in ("min", "max"):
        op.only("ftz", *EXTREME_MODIFIERS)
        with np.errstate(all="ignore"):
            return _by_lane(op, op.kind, partial(extreme, op), sources)
    if op.base not in _FUNCTIONS:
        raise op.unknown()
    op.only(*_ROUNDINGS, *_LOOSE, "ftz", "sat", "relu")
    with np.errstate(all="ignore"):
        return _by_lane(op, op.kind, _FUNCTIONS[op.base], sources)


_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def compare(op: Opcode, a: Bits, b: Bits, c: Bits | None = None) -> list[Bits]:
    """Return the outcomes of setp or set, one a lane, each 0 or 1.

    Raises:
        UnknownInstructionError: The comparison is none that the reference knows.
    """
    kind = op.kind
    extra = {"ftz"} | set(COMBINED)
    names = op.modifiers - extra
    if len(names) != 1:
        raise op.unknown()
    name = next(iter(names))
    outcomes = []
    for lane in range(kind.lanes):
        width = kind.bits // kind.lanes
        by = np.uint64(lane * width)
        outcome = _compared(op, name, masked(a >> by, width), masked(b >> by, width))
        combine = op.modifiers & set(COMBINED)
        if c is not None:
            if len(combine) != 1:
                raise op.unknown()
            outcome = COMBINED[next(iter(combine))](outcome, c != 0)
        outcomes.append(outcome.astype(np.uint64))
    return outcomes


def _compared(op: Opcode, name: str, a: Bits, b: Bits) -> npt.NDArray[np.bool_]:
    kind = op.kind
    if not kind.scalar:
        name = _UNSIGNED.get(name, name)
        if name not in COMPARISONS or kind.lanes > 1:
            raise op.unknown()
        return np.asarray(COMPARISONS[name](number(a, kind), number(b, kind)))
    x, y = (_flushed(op, decode(v, kind.scalar), kind) for v in (a, b))
    unordered = np.isnan(x) | np.isnan(y)
    if name in ("num", "nan"):
        return np.asarray(unordered == (name == "nan"), bool)
    plain = name[:2]
    if plain not in COMPARISONS or name[2:] not in ("", "u"):
        raise op.unknown()
    outcome = np.asarray(COMPARISONS[plain](x, y))
    return np.asarray(outcome | unordered if name[2:] else outcome & ~unordered, bool)


_TESTS: dict[str, Callable[[Wide], npt.NDArray[np.bool_]]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda v: ~np.isnan(v),
    "notanumber": np.isnan,
}


def has_property(op: Opcode, a: Bits) -> Bits:
    """Return the outcome of testp, 0 or 1.

    Raises:
        UnknownInstructionError: The property is none that the reference knows.
    """
    name = next(iter(op.modifiers), "")
    values = decode(a, op.kind.scalar)
    if name in ("normal", "subnormal"):
        smallest = np.finfo(np.float64).smallest_normal if op.type == "f64" else _SMALLEST[op.type]
        small = np.abs(values) < smallest
        holds = np.isfinite(values) & (values != 0) & (small == (name == "subnormal"))
    elif name in _TESTS:
        holds = _TESTS[name](values)
    else:
        raise op.unknown()
    return np.asarray(holds, np.uint64)


_TO_INTEGER: dict[str, Callable[[Wide], Any]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def convert(op: Opcode, a: Bits, b: Bits | None = None) -> Bits:
    """Return what cvt makes of a value, or of two that it packs.

    Raises:
        UnknownInstructionError: The conversion is none that the reference knows.
    """
    op.only(*_ROUNDINGS, *_TO_INTEGER, "ftz", "sat", "relu")
    if len(op.types) != 2 or op.types[1] == "tf32":
        raise op.unknown()
    to, source = (type_named(name) for name in op.types)
    rounding = next(iter(op.modifiers & _ROUNDINGS), "rn")
    if b is not None:
        if to.lanes != 2 or not to.scalar or source.name != "f32":
            raise op.unknown()
        high, low = (encode(_clamped(op, decode(v, "f32")), to.scalar, rounding) for v in (a, b))
        return (high << np.uint64(16)) | low
    if to.lanes != 1 or source.lanes != 1:
        raise op.unknown()
    if not source.scalar:
        return _from_integer(op, number(masked(a, source.bits), source), to, rounding)
    values = _flushed(op, decode(a, source.scalar), source)
    whole = op.modifiers & set(_TO_INTEGER)
    if whole:
        values = _TO_INTEGER[next(iter(whole))](values)
    if to.scalar:
        wide: Wide = values.astype(np.longdouble if to.scalar == "f64" else np.float64)
        return encode(_clamped(op, _flushed(op, wide, to)), to.scalar, rounding)
    if not whole:
        raise op.unknown()
    return _to_integer(values, to)


def _clamped(op: Opcode, values: Wide) -> Wide:
    if "sat" in op.modifiers:
        values = np.where(np.isnan(values), 0, np.clip(values, 0, 1))
    return np.where(values < 0, 0, values) if "relu" in op.modifiers else values


def _bounds(kind: PtxType) -> tuple[int, int]:
    return (-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1) if kind.signed else (0, (1 << kind.bits) - 1)


def _from_integer(op: Opcode, values: npt.NDArray[Any], to: PtxType, rounding: str) -> Bits:
    if to.scalar:
        return encode(_clamped(op, values.astype(np.longdouble)), to.scalar, rounding)
    if "sat" in op.modifiers:
        low, high = _bounds(to)
        exact = values.astype(object)
        kept = np.minimum(np.maximum(exact, low), high)
        # A narrow signed result fills its register with its sign.
        width = max(to.bits, 32)
        return np.array([int(v) & ((1 << width) - 1) for v in kept], np.uint64)
    bits = masked(values.view(np.uint64), to.bits)
    return unsigned(signed(bits, 8), 32) if to.name == "s8" else bits


def _to_integer(values: Wide, to: PtxType) -> Bits:
    low, high = _bounds(to)
    inside = np.isfinite(values) & (values > low) & (values < high)
    safe = np.where(inside, values, 0)
    bits = safe.astype(np.int64).view(np.uint64) if to.signed else safe.astype(np.uint64)
    limit = np.where(values <= low, np.uint64(low & ((1 << 64) - 1)), np.uint64(high))
    # Not a number: 0 where the result has 32 bits or fewer.
    nothing = np.uint64(1 << 63 if to.bits == 64 else 0)
    limit = np.where(np.isnan(values), nothing, limit)
    return masked(np.where(inside, bits, limit), to.bits)
