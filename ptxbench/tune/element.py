"""The types that elements of arrays and numbers of a kernel have, those that numpy lacks among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.emulator import floats

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Element:
    """Type of an element.

    Attributes:
        stored: How numpy holds its bits.
        rtol: Relative tolerance of a result where none is given: a sum in another order stays within it.
        decode: Returns bits as numbers; None: they are numbers of numpy.
        encode: Returns numbers as bits; None likewise.
        foreign: Name of the type where another library gives it to numpy.
    """

    stored: np.dtype[Any]
    rtol: float = 0.0
    decode: Callable[[Numbers], Numbers] | None = None
    encode: Callable[[Numbers], Numbers] | None = None
    foreign: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers."""
        return self.stored.kind in "iu" and self.decode is None

    def numbers(self, bits: npt.NDArray[np.uint8]) -> Numbers:
        """Return bytes as numbers."""
        held = bits.view(self.stored)
        return held if self.decode is None else self.decode(held)

    def bits(self, numbers: Numbers) -> npt.NDArray[np.uint8]:
        """Return numbers as bytes, rounded to the nearest."""
        encoded = numbers.astype(self.stored) if self.encode is None else self.encode(numbers)
        return np.ascontiguousarray(encoded).view(np.uint8)


def _bf16_numbers(bits: Numbers) -> Numbers:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _bf16_bits(numbers: Numbers) -> Numbers:
    return floats.encode(numbers.astype(np.float64), "bf16").astype(np.uint16)


def _e4m3_table() -> Numbers:
    """Return the number of each code; 0x7f and 0xff are no numbers, and there is no infinity."""
    code = np.arange(256)
    exponent, digits = (code >> 3) & 15, code & 7
    size = np.where(exponent, (8 + digits) * 2.0 ** (exponent - 10), digits * 2.0**-9)
    size[exponent * 8 + digits == 127] = np.nan
    return np.where(code < 128, size, -size).astype(np.float32)


def _e5m2_table() -> Numbers:
    """Return the number of each code: it is the upper byte of an f16."""
    with np.errstate(invalid="ignore"):  # signaling NaNs are widened
        return (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)


def _by_table(table: Numbers) -> dict[str, Any]:
    """Return how bits are decoded, and numbers encoded to the nearest one; what is too large saturates."""
    sizes = table[:128][np.isfinite(table[:128])].astype(np.float64)
    middles = (sizes[1:] + sizes[:-1]) / 2

    def encode(numbers: Numbers) -> Numbers:
        wide = numbers.astype(np.float64)
        code = np.searchsorted(middles, np.abs(wide))
        # A tie goes to the even code.
        at_tie = (code < len(middles)) & (middles[np.minimum(code, len(middles) - 1)] == np.abs(wide))
        code = np.where(at_tie & (code % 2 == 1), code + 1, code)
        code = np.where(np.isnan(wide), 127, code)
        return np.where(np.signbit(wide), code | 128, code).astype(np.uint8)

    return {"decode": lambda bits: table[bits], "encode": encode}


ELEMENTS: Mapping[str, Element] = {
    "f16": Element(np.dtype(np.float16), 1e-2),
    "bf16": Element(np.dtype(np.uint16), 2e-2, _bf16_numbers, _bf16_bits, "bfloat16"),
    "e4m3": Element(np.dtype(np.uint8), 0.1, **_by_table(_e4m3_table()), foreign="float8_e4m3fn"),
    "e5m2": Element(np.dtype(np.uint8), 0.2, **_by_table(_e5m2_table()), foreign="float8_e5m2"),
    "f32": Element(np.dtype(np.float32), 1e-4),
    "f64": Element(np.dtype(np.float64), 1e-10),
    "i8": Element(np.dtype(np.int8)),
    "u8": Element(np.dtype(np.uint8)),
    "i16": Element(np.dtype(np.int16)),
    "u16": Element(np.dtype(np.uint16)),
    "i32": Element(np.dtype(np.int32)),
    "u32": Element(np.dtype(np.uint32)),
    "i64": Element(np.dtype(np.int64)),
    "u64": Element(np.dtype(np.uint64)),
}
# As messages and choices list them; what numbers of fewer bits a kernel cannot be given alone.
DTYPES = tuple(ELEMENTS)
SCALAR_DTYPES = tuple(name for name in DTYPES if name not in ("e4m3", "e5m2"))
