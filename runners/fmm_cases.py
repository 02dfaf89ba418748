"""Variants of the U-list phase of a fast multipole method; fmm_kernels.cu has the code.

Choi and Vuduc (2012, section 5.3) check their model by 390 variants of it. These differ in the points of a
leaf, in how many targets a thread has, in where a source point comes from, and in how far the loop is
unrolled. Each has a cube of 16^3 leaves, and does every leaf against the 26 around it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation_file import Purpose

if TYPE_CHECKING:
    from kernel_cases import Case

SOURCE = Path(__file__).with_name("fmm_kernels.cu")
NEIGHBOURS = 26
# The cube has 2^BITS leaves a side.
BITS = 4
# Flops of an interaction as the paper counts them.
FLOPS = 11
SOURCES = ("l2", "l1", "shared")


@dataclass(frozen=True)
class FmmCase:
    """One variant.

    Attributes:
        points: Points of a leaf.
        targets: Target points of a thread.
        source: Where source points come from: "l2", "l1" or "shared".
        unroll: Source points in a pass of the loop.
    """

    points: int
    targets: int
    source: str
    unroll: int

    @property
    def name(self) -> str:
        """Such as "fmm/q256-r1-u8-shared"."""
        return f"fmm/q{self.points}-r{self.targets}-u{self.unroll}-{self.source}"

    @property
    def symbol(self) -> str:
        """Name of the kernel in C++."""
        return f"ulist<{self.points}, {self.targets}, {self.unroll}, {SOURCES.index(self.source)}>"

    @property
    def leaves(self) -> int:
        """Leaves, and blocks."""
        return 1 << 3 * BITS

    @property
    def flops(self) -> float:
        """Flops of a call as the paper counts them."""
        return float(FLOPS * NEIGHBOURS) * self.leaves * self.points**2


def fmm_cases() -> tuple[FmmCase, ...]:
    """Return every variant, the most wanted first."""
    shapes = [(256, 1, 8), (256, 2, 8), (512, 4, 8), (128, 1, 8), (512, 1, 8), (256, 4, 8), (128, 2, 8)]
    shapes += [(512, 2, 8), (256, 1, 1), (256, 2, 2)]
    return tuple(
        FmmCase(points, targets, source, unroll) for points, targets, unroll in shapes for source in SOURCES
    )


def all_cases() -> tuple[Case, ...]:
    """Return the cases as validate_kernels.py takes them, and the sleeping kernel."""
    import cuda_kernels
    from kernel_cases import Case
    from kernel_operands import RANDOM, ZEROS

    cases = [Case(one.name, RANDOM, Purpose.JUDGED, _prepare(one)) for one in fmm_cases()]
    return (*cases, Case("sleep", ZEROS, Purpose.STATIC, cuda_kernels.sleep))


@cache
def _module() -> Any:
    import cupy

    names = tuple(one.symbol for one in fmm_cases())
    return cupy.RawModule(
        code=SOURCE.read_text(), options=("--std=c++17", "--use_fast_math"), name_expressions=names
    )


def _prepare(one: FmmCase) -> Callable[[str], Callable[[], object]]:
    def prepare(operands: str) -> Callable[[], object]:
        import cupy
        from kernel_operands import array

        kernel, count = _module().get_function(one.symbol), one.leaves * one.points
        points, out = array(4 * count, cupy.float32, operands), cupy.empty(count, cupy.float32)
        threads = one.points // one.targets
        return lambda: kernel((one.leaves,), (threads,), (points, out, cupy.int32(BITS)))

    return prepare
