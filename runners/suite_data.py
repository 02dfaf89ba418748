"""What the kernels of the instruction suite work on: 2^20 words of one kind of data, made by code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

WORDS = 1 << 20
_SEED = 26
# Letters of English text, about as often as they stand in it.
_LETTERS = b"    eeeetttaaaooiinnsshhrrddlluucmwfgypbvk,.\n"
_FLOATS = ("f16", "bf16", "f32", "f64")
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "u32": 32, "f64": 64, "u64": 64}

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float64]
S = TypeVar("S", bound=np.generic)


@cache
def input_words(kind: str, data_type: str) -> Words:
    """Return the input of every kernel of a data type, as words.

    Args:
        kind: "random" (floats of mean 0 and variance 1, or all bits by chance), "zeros", "constant",
            "integers" (0 to 15 as floats, else 0 to 255), "sparse" (nine of ten are 0), "weights" (floats of
            standard deviation 0.02), "image" (smooth, 8 bits) or "text" (ASCII).
        data_type: "u32", "u64", "f16", "bf16", "f32" or "f64".
    """
    count = WORDS * 32 // _BITS[data_type]
    random = np.random.default_rng(_SEED)
    if data_type in _FLOATS:
        return _packed(_FLOAT_KINDS[kind](count, random), data_type)
    integers = _INTEGER_KINDS[kind](count, random)
    return integers.astype(np.uint64 if data_type == "u64" else np.uint32).view(np.uint32)


def _packed(values: Floats, data_type: str) -> Words:
    if data_type == "bf16":
        # A bf16 is the upper half of an f32.
        bits: Words = values.astype(np.float32).view(np.uint32)
        return (bits >> 16).astype(np.uint16).view(np.uint32)
    kinds: Mapping[str, type[np.floating]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    return values.astype(kinds[data_type]).view(np.uint32)


def _image(count: int, random: np.random.Generator) -> Floats:
    """Return pixels, 0 to 255, of a smooth picture with a little noise."""
    at = np.arange(count, dtype=np.float64)
    shade = np.sin(at / 97) + np.sin(at / 1013 + 1) + 0.1 * random.standard_normal(count)
    return np.clip(np.round(127 + 60 * shade), 0, 255)


def _sparse(values: npt.NDArray[S], random: np.random.Generator) -> npt.NDArray[S]:
    return np.where(random.random(len(values)) < 0.1, values, values.dtype.type(0))


def _any_bits(count: int, random: np.random.Generator) -> npt.NDArray[np.uint64]:
    return random.integers(0, 1 << 64, count, np.uint64, endpoint=False)


def _text(count: int, random: np.random.Generator) -> npt.NDArray[np.uint64]:
    letters = np.frombuffer(_LETTERS, np.uint8)
    return letters[random.integers(0, len(letters), 8 * count)].view(np.uint64)


_FLOAT_KINDS: Mapping[str, Callable[[int, np.random.Generator], Floats]] = {
    "random": lambda n, random: random.standard_normal(n),
    "zeros": lambda n, _: np.zeros(n),
    "constant": lambda n, _: np.full(n, 0.7),
    "integers": lambda n, random: random.integers(0, 16, n).astype(np.float64),
    "sparse": lambda n, random: _sparse(random.standard_normal(n), random),
    "weights": lambda n, random: 0.02 * random.standard_normal(n),
    "image": lambda n, random: _image(n, random) / 255,
}
_INTEGER_KINDS: Mapping[str, Callable[[int, np.random.Generator], npt.NDArray[np.generic]]] = {
    "random": _any_bits,
    "zeros": lambda n, _: np.zeros(n, np.uint64),
    "constant": lambda n, _: np.full(n, 0x9E3779B97F4A7C15, np.uint64),
    "integers": lambda n, random: random.integers(0, 256, n, np.uint64),
    "sparse": lambda n, random: _sparse(_any_bits(n, random), random),
    "image": lambda n, random: _image(8 * n, random).astype(np.uint8).view(np.uint64),
    "text": _text,
}
