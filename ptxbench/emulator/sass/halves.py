"""Arithmetic of two f16 or bf16 in a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from ptxbench.emulator.sass.floats import FLOAT_COMPARES, compared, comparison_of
from ptxbench.emulator.sass.integer import COMBINES
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Read, Step
from ptxbench.sass.operand import Kind, Operand

_U16, _U32 = np.uint16, np.uint32
_F32, _F64 = np.float32, np.float64
_BF16 = "BF16_V2"
_SWIZZLES = {"": (0, 1), ".H1_H0": (0, 1), ".H0_H0": (0, 0), ".H1_H1": (1, 1)}


def widened(bits: Array, brain: bool) -> Array:
    """Return f16 or bf16 as f32, exactly."""
    if brain:
        return (bits.astype(_U32) << _U32(16)).view(_F32)
    return bits.astype(_U16).view(np.float16).astype(_F32)


def narrowed(values: Array, brain: bool) -> Array:
    """Return f32 or f64 rounded to f16 or bf16, as bits."""
    if not brain:
        return values.astype(np.float16).view(_U16).astype(_U32)
    single = values.astype(_F32)
    bits = single.view(_U32)
    if values.dtype == _F64:
        # An inexact f32 is made odd, so that it is rounded but once.
        error = values - single
        away = (error > 0) == (single > 0)
        inexact = (error != 0) & (bits & _U32(1) == 0) & np.isfinite(single)
        bits = np.where(inexact, bits + np.where(away, _U32(1), _U32(0xFFFFFFFF)), bits)
    rounded = (bits + _U32(0x7FFF) + (bits >> _U32(16) & _U32(1))) >> _U32(16)
    return np.where(np.isnan(values), _U32(0x7FFF), rounded)


def _sources(i: Bound, operands: Sequence[Operand], count: int, brain: bool) -> list[Callable[[], Array]]:
    """Return how to read operands as f32, shape (warps, lanes, 2); an immediate is two, the upper first."""
    reads: list[Callable[[], Array]] = []
    at = 0
    while len(reads) < count:
        operand = operands[at]
        if operand.kind in (Kind.IMMEDIATE, Kind.OTHER) and not operand.text.startswith(("0x", "-0x")):
            high, low = (i.decimal(one.text) for one in operands[at : at + 2])
            value = np.array([[[low, high]]], _F32)
            reads.append(partial(_same, value))
            at += 2
            continue
        reads.append(_packed(i, operand, brain))
        at += 1
    return reads


def _same(value: Array) -> Array:
    return value


def _packed(i: Bound, operand: Operand, brain: bool) -> Read:
    if operand.suffix not in _SWIZZLES:
        raise i.unknown()
    held, (first, second) = i.held(operand), _SWIZZLES[operand.suffix]
    shape = (*held.shape, 2)
    absolute, negative = operand.absolute, operand.negative

    def read() -> Array:
        values = widened(np.ascontiguousarray(held).view(_U16).reshape(shape), brain)
        if first or not second:
            values = values[..., [first, second]]
        if absolute:
            values = np.abs(values)
        return -values if negative else values

    return read


def _joined(bits: Array) -> Array:
    return np.asarray(bits[..., 0] | bits[..., 1] << _U32(16))


def _arithmetic(i: Bound, count: int, function: Callable[..., Array]) -> Step:
    words = i.only(_BF16, "MMA", "F32", "FTZ", "SAT", "RELU")
    brain = _BF16 in words
    reads = _sources(i, i.operands[1:], count, brain)
    if "F32" in words:
        # HADD2.F32 takes one half and gives an f32.
        return i.to_single(lambda: function(*(read()[..., 0] for read in reads)).astype(_F32))

    def compute() -> Array:
        value = function(*(read() for read in reads))
        if "FTZ" in words and not brain:
            value = np.where(np.abs(value) < 2.0**-14, np.copysign(value.dtype.type(0), value), value)
        if "SAT" in words:
            value = np.where(np.isnan(value), 0, np.clip(value, 0, 1))
        if "RELU" in words:
            value = np.where(value < 0, value.dtype.type(0), value)
        return _joined(narrowed(value, brain))

    return i.to_word(compute)


def _fused(a: Array, b: Array, c: Array) -> Array:
    # Products of halves are exact in f64, and so are their sums with a half, or nearly.
    return a.astype(_F64) * b + c


def _extreme(i: Bound) -> Step:
    words = i.only(_BF16, "NAN", "FTZ")
    brain = _BF16 in words
    a, b = _sources(i, i.operands[1:], 2, brain)
    least = i.predicate(i.operands[-1])
    low, high = (np.minimum, np.maximum) if "NAN" in words else (np.fmin, np.fmax)

    def compute() -> Array:
        x, y = a(), b()
        return _joined(narrowed(np.where(least()[..., None], low(x, y), high(x, y)), brain))

    return i.to_word(compute)


def _compare(i: Bound) -> Step:
    words = i.only(*FLOAT_COMPARES, *COMBINES, _BF16, "FTZ")
    how, combine = comparison_of(words)
    a, b = _sources(i, i.operands[2:], 2, _BF16 in words)
    other = i.predicate(i.operands[-1])
    writes = [i.writer(one) for one in i.operands[:2]]

    def step(active: Mask) -> None:
        holds, rest = compared(how, a(), b()), other()
        for write, half in zip(writes, (holds[..., 0], holds[..., 1]), strict=True):
            write(combine(half, rest), active)

    return step


def _set(i: Bound) -> Step:
    words = i.only(*FLOAT_COMPARES, *COMBINES, _BF16, "FTZ", "BF")
    how, combine = comparison_of(words)
    brain = _BF16 in words
    a, b = _sources(i, i.operands[1:], 2, brain)
    other = i.predicate(i.operands[-1])
    one = _U32((0x3F80 if brain else 0x3C00) if "BF" in words else 0xFFFF)
    return i.to_word(lambda: _joined(combine(compared(how, a(), b()), other()[..., None]) * one))


STEPS: Mapping[str, Callable[[Bound], Step]] = {
    "HADD2": lambda i: _arithmetic(i, 2, lambda a, b: a.astype(_F64) + b),
    "HMUL2": lambda i: _arithmetic(i, 2, lambda a, b: a * b),
    "HFMA2": lambda i: _arithmetic(i, 3, _fused),
    "HMNMX2": _extreme,
    "HSETP2": _compare,
    "HSET2": _set,
}
