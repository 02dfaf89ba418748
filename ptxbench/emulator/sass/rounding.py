"""Floating-point arithmetic as the hardware rounds it: once, also where numpy has no fused multiply-add."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxbench.emulator.sass.lanes import Array

_SMALLEST = np.float32(2.0**-126)
_SPLIT = np.float64(134217729.0)  # 2^27 + 1: halves a f64 (Dekker 1971)
_TIE, _BELOW = np.uint64(1 << 28), np.uint64((1 << 29) - 1)
# Beyond these the error-free products and sums would over- or underflow.
_LARGEST, _LEAST = 2.0**900, 2.0**-900


def flushed(x: Array) -> Array:
    """Return f32 with denormal numbers as zeros of their sign."""
    small = np.abs(x) < _SMALLEST
    return np.where(small, np.copysign(np.float32(0), x), x) if small.any() else x


def sum_error(a: Array, b: Array, total: Array) -> Array:
    """Return what a rounded sum lacks (Knuth's TwoSum)."""
    part = total - a
    return np.asarray((a - (total - part)) + (b - part))


def to_odd(value: Array, error: Array) -> Array:
    """Return a f64 that is rounded once more without harm: odd, where something was cut off."""
    bits = value.view(np.int64)
    inexact = (error != 0) & np.isfinite(value) & (bits & 1 == 0)
    # Toward the cut-off part: away from zero where it has the sign of the value.
    away = (error > 0) == (value > 0)
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)


def single(value: Array, error: Array | None, rounding: str = "RN") -> Array:
    """Return a f64 and what it lacks, rounded to f32 once."""
    if error is not None:
        value = to_odd(value, error)
    return rounded(value, np.float32, rounding)


def rounded(values: Array, kind: type[np.floating[Any]], rounding: str) -> Array:
    """Return numbers rounded once to a format that is no wider."""
    found = values.astype(kind)
    if rounding == "RN":
        return found
    back = found.astype(values.dtype)
    return _stepped(found, back > values, back < values, rounding)


def _stepped(found: Array, above: Array, below: Array, rounding: str) -> Array:
    """Return rounded numbers in a direction, from whether each is above or below what it stands for."""
    over, toward = {
        "RZ": (np.where(found > 0, above, below), 0.0),
        "RM": (above, -np.inf),
        "RP": (below, np.inf),
    }[rounding]
    return np.where(over, np.nextafter(found, found.dtype.type(toward)), found)


def fused_single(a: Array, b: Array, c: Array, rounding: str = "RN") -> Array:
    """Return a * b + c of f32, rounded once."""
    product = a.astype(np.float64) * b
    total = product + c
    if rounding == "RN":
        # Twice rounded differs where the first sum is a tie of the second, or for what is denormal.
        doubtful = ((total.view(np.uint64) & _BELOW) == _TIE) | ((np.abs(total) < _SMALLEST) & (total != 0))
        if not doubtful.any():
            return total.astype(np.float32)
    return single(total, sum_error(product, c.astype(np.float64), total), rounding)


def _product_error(a: Array, b: Array, product: Array) -> Array:
    """Return what a rounded product lacks (Dekker's TwoProduct)."""
    x, y = _SPLIT * a, _SPLIT * b
    a_high, b_high = x - (x - a), y - (y - b)
    a_low, b_low = a - a_high, b - b_high
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def fused_double(a: Array, b: Array, c: Array, rounding: str = "RN") -> Array:
    """Return a * b + c of f64, rounded once (Boldo and Melquiond 2008), where nothing comes near the ends."""
    product = a * b
    plain = product + c
    size = np.abs(product)
    safe = (size < _LARGEST) & (size > _LEAST) & (np.abs(c) < _LARGEST) & (np.abs(a) < _LARGEST)
    safe &= np.abs(b) < _LARGEST
    lost = _product_error(a, b, product)
    low = c + lost
    low_error = sum_error(c, lost, low)
    high = product + low
    high_error = sum_error(product, low, high)
    rest = low_error + high_error
    rest = to_odd(rest, sum_error(low_error, high_error, rest))
    found = high + rest
    if rounding != "RN":
        found = _directed(found, sum_error(high, rest, found), rounding)
    return np.where(safe, found, plain)


def _directed(value: Array, error: Array, rounding: str) -> Array:
    """Return a rounded f64 and what it lacks, rounded in another direction."""
    return _stepped(value, error < 0, error > 0, rounding)


def product_double(a: Array, b: Array, rounding: str) -> Array:
    """Return a product of f64 in a direction."""
    product = a * b
    if rounding == "RN":
        return product
    return _directed(product, _product_error(a, b, product), rounding)


def sum_double(a: Array, b: Array, rounding: str) -> Array:
    """Return a sum of f64 in a direction."""
    total = a + b
    if rounding == "RN":
        return total
    return _directed(total, sum_error(a, b, total), rounding)
