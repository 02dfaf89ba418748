"""Kernels of a set intensity: their PTX, their machine code, and the proof that it does what it should."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxbench.codegen.render import render_kernel
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError
from ptxbench.core.target import find_target
from ptxbench.devices.base import Gpu
from ptxbench.sass.executed import looped_kernel
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop import LoopError
from ptxbench.sass.resources import kernel_resources

FILL, STREAM = "fill", "stream"
THREADS = 1024
# So many bytes a trip and lane, less where that would take more multiply-adds than stay in the caches.
_TRIP_BYTES = (128, 64, 32, 16, 8, 4)
_MOST_STEPS = 1024
_WIDEST_LOAD = 16
_ACCUMULATORS = 8
# A trip counts, wraps its address and branches; long loops need a few moves more.
_SPARE_INSTRUCTIONS = 16
# 1/8 to 512 flop/byte in steps of the square root of two.
INTENSITIES = tuple(2 ** (n / 2) for n in range(-6, 19))
# Above and below 1, their product under 1: no chain settles, none grows.
_FACTORS = (1.3714159, -0.6127183, 1.1318281, -0.7345904)


@dataclass(frozen=True)
class FlopKind:
    """One kind of multiply-add.

    Attributes:
        name: Such as "f32".
        opcode: PTX.
        register: PTX type of a register.
        element_bytes: Bytes of one register.
        flops: Flops of one multiply-add and thread.
        sass: Mnemonic of the machine instruction.
        random: Bits that are random and bits that are set, of even and of odd 32-bit words: signed values
            from 1 to 2.
    """

    name: str
    opcode: str
    register: str
    element_bytes: int
    flops: int
    sass: str
    random: tuple[int, int, int, int]

    def factors(self, pattern: str) -> tuple[int, ...]:
        """Return the multipliers as 32-bit words, lower before upper, shape (8,)."""
        if pattern == "zeros":
            return (0,) * 8
        if self.name == "f64":
            words = np.array(_FACTORS, np.float64).view(np.uint32)
        elif self.name == "f32":
            words = np.repeat(np.array(_FACTORS, np.float32).view(np.uint32), 2)
        else:
            halves = np.array(_FACTORS, np.float16).view(np.uint16).astype(np.uint32)
            words = np.repeat(halves | halves << 16, 2)
        return tuple(int(word) for word in words)

    def fill(self, pattern: str) -> tuple[int, int, int, int]:
        """Return mask and base of even, then of odd words of the array."""
        return (0, 0, 0, 0) if pattern == "zeros" else self.random


_F32 = (0x807FFFFF, 0x3F800000)
_F16 = (0x83FF83FF, 0x3C003C00)
KINDS = {
    kind.name: kind
    for kind in (
        FlopKind("f32", "fma.rn.f32", "f32", 4, 2, "FFMA", _F32 * 2),
        FlopKind("f64", "fma.rn.f64", "f64", 8, 2, "DFMA", (0xFFFFFFFF, 0, 0x800FFFFF, 0x3FF00000)),
        FlopKind("f16x2", "fma.rn.f16x2", "b32", 4, 4, "HFMA2", _F16 * 2),
    )
}


@dataclass(frozen=True)
class Step:
    """One multiply-add: sum = sum * factor + first, or sum = first * second + sum.

    Attributes:
        sum: Number of its accumulator.
        factor: Number of the multiplier.
        first: Number of the element.
        second: Number of a second element, or None.
    """

    sum: int
    factor: int
    first: int
    second: int | None


@dataclass(frozen=True)
class IntensityKernel:
    """One kernel.

    Attributes:
        kind: Kind of its multiply-adds.
        target: Intensity that is wanted, flop/byte.
    """

    kind: FlopKind
    target: float

    def __post_init__(self) -> None:
        low, high = 1 / 8, self.kind.flops * _MOST_STEPS / self.kind.element_bytes
        if not low <= self.target <= high:
            raise InputError(
                f"{self.target:g} flop/byte cannot be reached with {self.kind.name}: "
                f"its kernels span {low:g} to {high:g}"
            )

    @property
    def name(self) -> str:
        """Such as "f32-0.125"."""
        return f"{self.kind.name}-{self.target:.4g}"

    @cached_property
    def trip_bytes(self) -> int:
        """Bytes that a lane loads in one trip."""
        sizes = [size for size in _TRIP_BYTES if size >= self.kind.element_bytes]
        fitting = [size for size in sizes if self._steps_of(size) <= _MOST_STEPS]
        return fitting[0]

    def _steps_of(self, size: int) -> int:
        return max(1, round(self.target * size / self.kind.flops))

    @property
    def width(self) -> int:
        """Bytes of one load of a lane."""
        return min(_WIDEST_LOAD, self.trip_bytes)

    @property
    def loads(self) -> int:
        """Loads of a trip."""
        return self.trip_bytes // self.width

    @property
    def elements(self) -> int:
        """Elements that a lane loads in one trip."""
        return self.trip_bytes // self.kind.element_bytes

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.kind.element_bytes

    @property
    def accumulators(self) -> int:
        """Independent chains of a thread."""
        return min(_ACCUMULATORS, self._steps_of(self.trip_bytes))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return THREADS

    @property
    def type(self) -> str:
        """Kind of flop, for the comment."""
        return self.kind.name

    @property
    def register(self) -> str:
        """PTX type of a register."""
        return self.kind.register

    @property
    def bits(self) -> int:
        """Bits of a register."""
        return 8 * self.kind.element_bytes

    @property
    def opcode(self) -> str:
        """PTX of a multiply-add."""
        return self.kind.opcode

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The multiply-adds of a trip: with two elements each, as long as there are too few for one each."""
        count = self._steps_of(self.trip_bytes)
        twice = min(count, max(0, self.elements - count))
        made, element = [], 0
        for n in range(count):
            chain = n % self.accumulators
            # Chains that share an element must not share the multiplier: they would come to one value.
            factor = (n // self.accumulators + chain) % 4
            if n < twice:
                made.append(Step(chain, factor, element, element + 1))
                element += 2
            else:
                made.append(Step(chain, factor, element % self.elements, None))
                element += 1
                if element >= self.elements:
                    element = 2 * twice if 2 * twice < self.elements else 0
        return tuple(made)

    @property
    def leftovers(self) -> tuple[tuple[int, int], ...]:
        """Elements that no multiply-add takes, in pairs."""
        first = 2 * len(self.steps)
        return tuple((n, n + 1) for n in range(first, self.elements - 1, 2))

    @property
    def intensity(self) -> float:
        """The intensity that it has, flop/byte."""
        return self.flops_per_trip / self.trip_bytes

    @property
    def flops_per_trip(self) -> int:
        """Flops of a lane in one trip."""
        return self.kind.flops * len(self.steps)

    def ptx(self, target: str) -> str:
        """Return the PTX module."""
        return render_kernel("intensity", find_target(target), kernel=self)


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel as machine code.

    Attributes:
        kernel: What it is.
        ptx: Its PTX.
        listing: Its SASS as text.
        cubin: Its machine code.
        fault: Why it does not do what it should; "" where it does.
    """

    kernel: IntensityKernel
    ptx: str
    listing: str
    cubin: Cubin
    fault: str


def build(gpu: Gpu, kernel: IntensityKernel) -> BuiltKernel:
    """Assemble a kernel for a GPU and read its machine code.

    Raises:
        ToolError: ptxas or nvdisasm is missing.
    """
    ptx = kernel.ptx(gpu.info.target)
    cubin = gpu.assemble(ptx, OptLevel.O3)
    listing = disassemble(cubin.image)
    if spilled := kernel_resources(cubin.image)[STREAM].stack_bytes:
        fault = f"it spills {spilled} bytes a thread"
    else:
        try:
            fault = loop_fault(kernel, looped_kernel(parse_listing(listing)[STREAM]).loop.counts)
        except LoopError as error:
            fault = str(error)
    return BuiltKernel(kernel, ptx, listing, cubin, fault)


def loop_fault(kernel: IntensityKernel, counts: Counter[str]) -> str:
    """Return what is wrong with the loop of a kernel; "" where it is as it should be.

    Args:
        kernel: What it should be.
        counts: How often each SASS opcode stands in its loop.
    """
    base: Counter[str] = Counter()
    for opcode, n in counts.items():
        base[opcode.partition(".")[0]] += n
    wide = sum(
        n for opcode, n in counts.items() if opcode.startswith("LDG") and _width(opcode) == kernel.width
    )
    steps = len(kernel.steps)
    if base[kernel.kind.sass] != steps:
        return f"its loop has {base[kernel.kind.sass]} {kernel.kind.sass}, not {steps}"
    if base["LDG"] != kernel.loads or wide != kernel.loads:
        return f"its loop has {base['LDG']} LDG, {wide} of {8 * kernel.width} bits, not {kernel.loads}"
    if others := sorted(set(base) & {"LDL", "STL", "LDS", "STS", "STG", "CALL"}):
        return f"its loop has {', '.join(others)}"
    rest = sum(base.values()) - steps - kernel.loads
    if rest > _SPARE_INSTRUCTIONS + 2 * len(kernel.leftovers):
        return f"its loop has {rest} instructions beside the multiply-adds and loads"
    return ""


def _width(opcode: str) -> int:
    """Return the bytes that a load brings one thread."""
    words = opcode.split(".")
    return next((bits // 8 for bits in (128, 64) if str(bits) in words), 4)
