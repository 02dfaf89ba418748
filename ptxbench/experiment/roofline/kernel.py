"""Kernels of a set intensity: their PTX, their machine code, and the proof that it does what it should."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count, islice

from ptxbench.catalogue.architecture import capability_of
from ptxbench.codegen.render import render_kernel
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError
from ptxbench.core.target import find_target
from ptxbench.core.threads import WARP
from ptxbench.devices.base import Gpu
from ptxbench.experiment.roofline.kinds import CHASE, LEVELS, FlopKind, MemoryLevel
from ptxbench.model.opcodes import width_bytes
from ptxbench.sass.executed import looped_kernel
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop import LoopError
from ptxbench.sass.resources import kernel_resources

FILL, STREAM, COPY = "fill", "stream", "copy"
# So many bytes a trip and lane, less where that would take more multiply-adds than stay in the caches.
_TRIP_BYTES = (128, 64, 32, 16, 8, 4)
MOST_TRIP_BYTES = _TRIP_BYTES[0]
# Multiply-adds of a trip at most; bytes of the widest load of PTX (ld.v4.b32); chains of a thread, of scalars
# and of matrices.
_MOST_STEPS = 1024
_WIDEST_LOAD = 16
_ACCUMULATORS, _MATRICES = 8, 4
# Multiply-adds of a trip of the kernel that loads nothing in its loop.
_PEAK_STEPS = 512
# What the kernel that copies loads and stores a lane and trip.
COPY_BYTES = 256
_IN_SM_THREADS = 512
_SHARED_POINTER_BYTES = 4
# A trip counts, wraps its address and branches; long loops need a few moves more.
_SPARE_INSTRUCTIONS = 16


@dataclass(frozen=True)
class Step:
    """One multiply-add: sum = a * b + c, each the name of a register, or a list of them.

    Attributes:
        sum: The accumulator.
        a: First factor.
        b: Second factor.
        c: Summand.
    """

    sum: str
    a: str
    b: str
    c: str


@dataclass(frozen=True)
class IntensityKernel:
    """One kernel.

    Attributes:
        kind: Kind of its multiply-adds; `CHASE`: it has none, and each load gives the address of the next.
        target: Intensity that is wanted, flop/byte; infinite: all loads stand before the loop.
        level: Memory level that it loads from.
    """

    kind: FlopKind
    target: float
    level: MemoryLevel = LEVELS["dram"]

    def __post_init__(self) -> None:
        if self.loads_once or self.chases:
            return
        low = max(1 / 8, self.kind.flops / MOST_TRIP_BYTES)
        high = self.kind.flops * _MOST_STEPS / self._sizes[-1]
        if not low <= self.target <= high:
            raise InputError(
                f"{self.target:g} flop/byte cannot be reached with {self.kind.name}: "
                f"its kernels span {low:g} to {high:g}"
            )

    @property
    def chases(self) -> bool:
        """Whether it is a pointer chase."""
        return self.kind is CHASE

    @property
    def loads_once(self) -> bool:
        """Whether all loads stand before the loop."""
        return math.isinf(self.target)

    @property
    def name(self) -> str:
        """Such as "f32-0.125", "f32-0.125-shared", "f32-peak" or "chase-shared"."""
        if self.chases:
            return f"{self.kind.name}{self.level.code}"
        wanted = "peak" if self.loads_once else f"{self.target:.4g}"
        return f"{self.kind.name}-{wanted}{self.level.code}"

    @property
    def _sizes(self) -> list[int]:
        """Bytes that a lane may load in one trip; a product of matrices takes whole vectors."""
        least = _WIDEST_LOAD if self.kind.matrix else self.kind.element_bytes
        return [size for size in _TRIP_BYTES if size >= least]

    @cached_property
    def trip_bytes(self) -> int:
        """Bytes that a lane loads in one trip, or before the loop."""
        if self.loads_once or self.chases:
            return MOST_TRIP_BYTES
        return next(size for size in self._sizes if self._steps_of(size) <= _MOST_STEPS)

    def _steps_of(self, size: int) -> int:
        if self.chases:
            return 0
        return _PEAK_STEPS if self.loads_once else max(1, round(self.target * size / self.kind.flops))

    @property
    def width(self) -> int:
        """Bytes of one load of a lane."""
        if self.chases:
            return _SHARED_POINTER_BYTES if self.in_shared else self.kind.element_bytes
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
    def accumulators(self) -> int:
        """Independent chains of a thread."""
        return min(_MATRICES if self.kind.matrix else _ACCUMULATORS, self._steps_of(self.trip_bytes))

    @property
    def sums(self) -> int:
        """Registers of all accumulators."""
        return self.accumulators * (self.kind.matrix.d if self.kind.matrix else 1)

    @property
    def sum_register(self) -> str:
        """PTX type of an accumulator's register."""
        return self.kind.matrix.register if self.kind.matrix else self.kind.register

    @property
    def threads(self) -> int:
        """Threads of a block; what is in an SM must hold a trip of all of them."""
        return min(self.kind.threads, _IN_SM_THREADS) if self.level.in_sm else self.kind.threads

    @property
    def in_shared(self) -> bool:
        """Whether it loads from shared memory."""
        return self.level.sass == "LDS"

    @property
    def shared_vectors(self) -> int:
        """Vectors of 16 bytes of a lane's part of the warp's range in shared memory."""
        return MOST_TRIP_BYTES // _WIDEST_LOAD

    @property
    def range_bytes(self) -> int:
        """Bytes of a warp's range where they are in the SM."""
        return MOST_TRIP_BYTES * WARP

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return self.range_bytes * self.threads // WARP if self.in_shared else 0

    @cached_property
    def _used(self) -> list[tuple[Step, tuple[int, ...]]]:
        """The multiply-adds of a trip, each with the elements that it takes."""
        made = self._matrix_steps() if self.kind.matrix else self._thread_steps()
        return list(islice(made, self._steps_of(self.trip_bytes)))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The multiply-adds of a trip."""
        return tuple(step for step, _ in self._used)

    def _thread_steps(self) -> Iterator[tuple[Step, tuple[int, ...]]]:
        """Yield multiply-adds on two elements each as long as there are too few for one each, then on one."""
        total = self._steps_of(self.trip_bytes)
        twice = min(total, max(0, self.elements - total))
        element = 0
        for n in count():
            chain = n % self.accumulators
            own = f"%sum{chain}"
            if n < twice:
                yield Step(own, f"%x{element}", f"%x{element + 1}", own), (element, element + 1)
                element += 2
                continue
            # Chains that share an element must not share the multiplier: they would come to one value.
            factor = (n // self.accumulators + chain) % 4
            yield Step(own, own, f"%factor{factor}", f"%x{element % self.elements}"), (element,)
            element += 1
            if element >= self.elements:
                element = 2 * twice if 2 * twice < self.elements else 0

    def _matrix_steps(self) -> Iterator[tuple[Step, tuple[int, ...]]]:
        """Yield products: A from the front of what was loaded, B from its end, so that few use all of it.

        A and B are whole vectors or parts of them: their registers follow each other, as the machine wants.
        """
        shape = self.kind.matrix
        assert shape is not None  # noqa: S101 - the caller asked
        wholes, parts = self.elements // shape.a, self.elements // shape.b
        for n in count():
            a, b = n % wholes * shape.a, (parts - 1 - n - n // parts) % parts * shape.b
            chain = n % self.accumulators * shape.d
            own = _registers("sum", chain, shape.d)
            of_a, of_b = range(a, a + shape.a), range(b, b + shape.b)
            yield Step(own, _registers("x", a, shape.a), _registers("x", b, shape.b), own), (*of_a, *of_b)

    @property
    def leftovers(self) -> tuple[int, ...]:
        """Elements that no multiply-add takes, and no load."""
        if self.chases:
            return ()
        used = {element for _, elements in self._used for element in elements}
        return tuple(n for n in range(self.elements) if n not in used)

    @property
    def intensity(self) -> float:
        """The intensity that it has, flop/byte."""
        return math.inf if self.loads_once else self.flops_per_trip / self.trip_bytes

    @property
    def flops_per_trip(self) -> int:
        """Flops of a lane in one trip."""
        return self.kind.flops * len(self.steps)

    def ptx(self, target: str) -> str:
        """Return the PTX module.

        Raises:
            InputError: The target does not have this kind of multiply-add.
        """
        if capability_of(target) < self.kind.min_target:
            raise InputError(
                f"{target} has no {self.kind.opcode}: choose another `kind` than {self.kind.name}"
            )
        return render_kernel("pointers" if self.chases else "intensity", find_target(target), kernel=self)


def copy_ptx(target: str) -> str:
    """Return the PTX module of the kernel that copies, with the one that fills what it copies."""
    return render_kernel("copy", find_target(target))


def _registers(name: str, first: int, n: int) -> str:
    """Return registers that follow each other, as PTX has them."""
    listed = ", ".join(f"%{name}{first + i}" for i in range(n))
    return f"{{ {listed} }}"


@dataclass(frozen=True)
class Beside:
    """Instructions of a trip that are neither multiply-adds nor loads.

    Attributes:
        counting: Those that count, compute addresses, compare and branch: few of their bits change.
        mixing: Those that take in elements that no multiply-add takes, by xor: all of their bits change.
    """

    counting: int
    mixing: int


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel as machine code.

    Attributes:
        kernel: What it is.
        ptx: Its PTX.
        listing: Its SASS as text.
        cubin: Its machine code.
        fault: Why it does not do what it should; "" where it does.
        beside: Instructions of a trip that are neither multiply-adds nor loads.
    """

    kernel: IntensityKernel
    ptx: str
    listing: str
    cubin: Cubin
    fault: str
    beside: Beside


def build(gpu: Gpu, kernel: IntensityKernel) -> BuiltKernel:
    """Assemble a kernel for a GPU and read its machine code.

    Raises:
        ToolError: ptxas or nvdisasm is missing.
    """
    ptx = kernel.ptx(gpu.info.target)
    cubin = gpu.assemble(ptx, OptLevel.O3)
    listing = disassemble(cubin.image)
    beside = Beside(0, 0)
    if spilled := kernel_resources(cubin.image)[STREAM].stack_bytes:
        fault = f"it spills {spilled} bytes a thread"
    else:
        try:
            counts = loop_counts(listing)
            fault, beside = loop_fault(kernel, counts), instructions_beside(kernel.kind, counts)
        except LoopError as error:
            fault = str(error)
    return BuiltKernel(kernel, ptx, listing, cubin, fault, beside)


# Kernels on all SMs and on a few share their code.
@lru_cache(maxsize=64)
def loop_counts(listing: str) -> Counter[str]:
    """Return how often each SASS opcode stands in the loop of a kernel.

    Raises:
        LoopError: It has no loop, or more than one.
    """
    return looped_kernel(parse_listing(listing)[STREAM]).loop.counts


def loop_fault(kernel: IntensityKernel, counts: Counter[str]) -> str:
    """Return what is wrong with the loop of a kernel; "" where it is as it should be.

    Args:
        kernel: What it should be.
        counts: How often each SASS opcode stands in its loop.
    """
    base, level = _without_modifiers(counts), kernel.level
    loads = 0 if kernel.loads_once else kernel.loads
    wanted = sum(n for opcode, n in counts.items() if _is_load(opcode, kernel))
    steps = len(kernel.steps)
    if base[kernel.kind.sass] != steps:
        return f"its loop has {base[kernel.kind.sass]} {kernel.kind.sass}, not {steps}"
    if base[level.sass] != loads or wanted != loads:
        of = f"{8 * kernel.width} bits{' past L1' if level.passes_by_l1 else ''}"
        return f"its loop has {base[level.sass]} {level.sass}, {wanted} of {of}, not {loads}"
    forbidden = {"LDL", "STL", "LDS", "LDG", "STS", "STG", "CALL"} - {level.sass}
    if others := sorted(set(base) & forbidden):
        return f"its loop has {', '.join(others)}"
    rest = instructions_beside(kernel.kind, counts)
    if rest.counting + rest.mixing > _SPARE_INSTRUCTIONS + len(kernel.leftovers):
        total = rest.counting + rest.mixing
        return f"its loop has {total} instructions beside the multiply-adds and loads"
    return ""


def instructions_beside(kind: FlopKind, counts: Counter[str]) -> Beside:
    """Return what a loop executes other than multiply-adds of a kind and loads; no NOP is counted."""
    base = _without_modifiers(counts)
    # One LOP3 wraps the address, where there is one to wrap.
    loads = base["LDG"] + base["LDS"]
    mixing = max(0, base["LOP3"] - (1 if loads else 0))
    counting = base.total() - base[kind.sass] - loads - base["NOP"] - mixing
    return Beside(counting, mixing)


def _without_modifiers(counts: Counter[str]) -> Counter[str]:
    base: Counter[str] = Counter()
    for opcode, n in counts.items():
        base[opcode.partition(".")[0]] += n
    return base


def loop_of(listing: str, kind: FlopKind, bytes_moved: float) -> tuple[float, Beside]:
    """Return trips of all lanes, and instructions of a trip that are neither multiply-adds nor loads.

    Args:
        listing: SASS of a kernel that loads from global memory.
        kind: Kind of its multiply-adds.
        bytes_moved: What it loads in all trips.

    Raises:
        InputError: It has no loop of loads.
    """
    try:
        counts = loop_counts(listing)
    except LoopError as error:
        raise InputError(f"a kernel of {kind.name} has no loop: {error}") from error
    loaded = sum(n * width_bytes(opcode) for opcode, n in counts.items() if opcode.startswith("LDG"))
    if not loaded:
        raise InputError(f"a kernel of {kind.name} loads nothing in its loop")
    return bytes_moved / loaded, instructions_beside(kind, counts)


def _is_load(opcode: str, kernel: IntensityKernel) -> bool:
    """Return whether an opcode is a load of the kernel's level and width."""
    base, *words = opcode.split(".")
    level, fits = kernel.level, width_bytes(opcode) == kernel.width
    return base == level.sass and fits and ("GPU" in words) == level.passes_by_l1
