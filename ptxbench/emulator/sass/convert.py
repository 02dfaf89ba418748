"""Conversions between whole numbers and floats, and between floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptxbench.emulator.sass.floats import ROUNDINGS, rounding_of
from ptxbench.emulator.sass.halves import narrowed, widened
from ptxbench.emulator.sass.lanes import Array, Bound, Read, Step
from ptxbench.emulator.sass.rounding import flushed, rounded, single
from ptxbench.sass.operand import Operand

_U32, _U64 = np.uint32, np.uint64
_F32, _F64 = np.float32, np.float64
_WHOLE: Mapping[str, Any] = {
    "U8": np.uint8,
    "S8": np.int8,
    "U16": np.uint16,
    "S16": np.int16,
    "U32": np.uint32,
    "S32": np.int32,
    "U64": np.uint64,
    "S64": np.int64,
}
_FLOATS = ("F16", "F32", "F64", "BF16")
_TO_WHOLE: Mapping[str, Callable[[Array], Array]] = {
    "TRUNC": np.trunc,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "": np.rint,
}
_LANES = {"": 0, ".B0": 0, ".B1": 1, ".B2": 2, ".B3": 3, ".H0": 0, ".H1": 2, ".H0_H0": 0, ".H1_H1": 2}


def _float_source(i: Bound, operand: Operand, kind: str) -> Read:
    if kind == "F64":
        return i.double(operand)
    if kind == "F32":
        return i.single(operand)
    held, by = i.held(operand), _U32(8 * _LANES.get(operand.suffix, 0))
    return lambda: widened(held >> by & _U32(0xFFFF), kind == "BF16")


def _from_whole(i: Bound) -> Step:
    """I2F and I2FP."""
    words = i.only(*_WHOLE, *_FLOATS, *ROUNDINGS)
    to = next((one for one in i.words if one in _FLOATS), "F32")
    kind = next((one for one in i.words if one in _WHOLE), "S32")
    operand = i.operands[1]
    dtype = np.dtype(_WHOLE[kind])
    if kind in ("U64", "S64"):
        wide = i.pair(operand)
        read: Read = lambda: wide().view(dtype)  # noqa: E731
    elif operand.suffix:
        held, by = i.held(operand), _U32(8 * _LANES[operand.suffix])
        read = lambda: (held >> by).astype(_U32).astype(dtype)  # noqa: E731
    else:
        word = i.word(operand)
        read = lambda: word().astype(dtype) if dtype.itemsize < 4 else word().view(dtype)  # noqa: E731
    rounding = rounding_of(words)

    def exact() -> Array:
        # longdouble holds all of 64 bits.
        return read() if rounding == "RN" else read().astype(np.longdouble)

    if to == "F64":
        return i.to_double(lambda: rounded(exact(), _F64, rounding))
    if to != "F32":
        if rounding != "RN":
            raise i.unknown()
        return i.to_word(lambda: narrowed(read().astype(_F64), to == "BF16"))
    return i.to_single(lambda: rounded(exact(), _F32, rounding))


def _to_whole(i: Bound) -> Step:
    """F2I: out of range gives the nearest number, what is none gives 0 (of 64 bits the top bit)."""
    words = i.only(*_WHOLE, *_FLOATS, *_TO_WHOLE, "FTZ", "NTZ")
    source = next((one for one in i.words if one in _FLOATS), "F32")
    kind = next((one for one in i.words if one in _WHOLE), "S32")
    read = _float_source(i, i.operands[1], source)
    to_whole = _TO_WHOLE[next((one for one in words if one in _TO_WHOLE), "")]
    limits = np.iinfo(_WHOLE[kind])
    wide = limits.bits == 64
    nothing = 1 << 63 if wide else 0

    def compute() -> Array:
        values = read()
        if "FTZ" in words and source == "F32":
            values = flushed(values)
        whole = to_whole(values.astype(_F64))
        inside = (whole > limits.min - 1.0) & (whole < limits.max + 1.0)
        if wide:
            inside = (whole >= float(limits.min)) & (whole < float(limits.max))
        safe = np.where(inside, whole, 0)
        bits = safe.astype(np.int64 if limits.min < 0 else _U64).view(_U64)
        limit = np.where(whole > 0, _U64(limits.max), _U64(limits.min & (1 << 64) - 1))
        return np.where(inside, bits, np.where(np.isnan(values), _U64(nothing), limit))

    if wide:
        write = i.pair_writer(i.operands[0])
        return lambda active: write(compute(), active)
    return i.to_word(lambda: compute().astype(_U32))


def _between(i: Bound) -> Step:
    """F2F."""
    words = i.only(*_FLOATS, *ROUNDINGS, "FTZ", "SAT")
    to, source = [one for one in i.words if one in _FLOATS]
    read, rounding = _float_source(i, i.operands[1], source), rounding_of(words)
    if "SAT" in words:
        raise i.unknown()
    if to == "F64":
        return i.to_double(lambda: read().astype(_F64))
    if to == "F32":

        def compute() -> Array:
            value = read().astype(_F64)
            found = single(value, None, rounding)
            return flushed(found) if "FTZ" in words else found

        return i.to_single(compute)
    if rounding != "RN":
        raise i.unknown()
    return i.to_word(lambda: narrowed(read(), to == "BF16"))


def _packed(i: Bound) -> Step:
    """F2FP: two f32 as halves of a word, the first the upper one."""
    words = i.only("F16", "BF16", "F32", "PACK_AB", "RZ", "RELU", "SATFINITE")
    if words & {"RZ", "SATFINITE"} or "PACK_AB" not in words:
        raise i.unknown()
    brain = "BF16" in words
    a, b = (i.single(one) for one in i.operands[1:3])

    def half(read: Read) -> Array:
        value = read()
        return narrowed(np.where(value < 0, _F32(0), value) if "RELU" in words else value, brain)

    return i.to_word(lambda: half(a) << _U32(16) | half(b))


def _rounded(i: Bound) -> Step:
    """FRND."""
    words = i.only(*_TO_WHOLE, *_FLOATS, "FTZ")
    to_whole = _TO_WHOLE[next((one for one in words if one in _TO_WHOLE), "")]
    if "F64" in words:
        double = i.double(i.operands[1])
        return i.to_double(lambda: to_whole(double()))
    if words & {"F16", "BF16"}:
        half, brain = _float_source(i, i.operands[1], "BF16" if "BF16" in words else "F16"), "BF16" in words
        return i.to_word(lambda: narrowed(to_whole(half()), brain))
    read = i.single(i.operands[1])
    return i.to_single(lambda: to_whole(flushed(read()) if "FTZ" in words else read()))


STEPS: Mapping[str, Callable[[Bound], Step]] = {
    "I2F": _from_whole,
    "I2FP": _from_whole,
    "F2I": _to_whole,
    "F2F": _between,
    "F2FP": _packed,
    "FRND": _rounded,
}
