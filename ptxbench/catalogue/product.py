"""The memory of one GPU: what the device said of it, else what is known of the product (`products.toml`)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ptxbench.core.gpu_info import GpuInfo


def l2_bytes(gpu: GpuInfo) -> float:
    """Return the size of a GPU's L2 in bytes, NaN where it is not known."""
    return _known(gpu.l2_bytes, gpu.name, "l2_bytes")


def dram_bytes_per_s(gpu: GpuInfo) -> float:
    """Return the peak bandwidth of a GPU's DRAM in bytes a second, NaN where it is not known."""
    return _known(gpu.dram_bytes_per_s, gpu.name, "dram_bytes_per_s")


@dataclass(frozen=True)
class ClockExponent:
    """gamma of a kind of kernel at the power limit.

    Attributes:
        value: Exponent of the energy in the clock.
        error: Its standard error for another board.
        lowest_ratio: Lowest clock that it was seen at, over the full clock.
        origin: Where it is from.
    """

    value: float
    error: float
    lowest_ratio: float
    origin: str


def clock_exponent(product: str, kind: str) -> ClockExponent | None:
    """Return how the energy of a kind of flop, such as "mma-f16", goes with the clock of a product.

    None where kept runs do not tell it.
    """
    of = "tensor" if kind.startswith("mma-") else {"f16x2": "f32"}.get(kind, kind)
    found = _products().get(product, {}).get("clock_exponents", {}).get(of)
    return None if found is None else ClockExponent(**found)


def board_halves() -> dict[str, float]:
    """Return how far a board may be from the mean of its product: relative half-width at 95%, by product."""
    return {name: facts["board_half"] for name, facts in _products().items() if "board_half" in facts}


def _known(asked: float, product: str, fact: str) -> float:
    return _products().get(product, {}).get(fact, math.nan) if math.isnan(asked) else asked


@cache
def _products() -> Mapping[str, Mapping[str, Any]]:
    text = files("ptxbench.catalogue").joinpath("products.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
