"""A user's kernel as something to tune: built, launched and checked as its specification says."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import MAX_GRID, MAX_THREADS, BlockNeeds, blocks_per_sm
from ptxbench.core.cubin import Cubin
from ptxbench.core.demangle import demangled
from ptxbench.core.errors import EndlessSourceError, InputError, LaunchError, RefusedModuleError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.devices.base import Bytes, Gpu, Launch, Parameter
from ptxbench.model.control_flow import find_loops
from ptxbench.model.executed import executions
from ptxbench.model.throughput import modelled_time_s
from ptxbench.sass.constants import constant_memory
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.program import SassKernel
from ptxbench.sass.resources import Resources, kernel_resources
from ptxbench.tune.arrays import (
    Floats,
    Right,
    Tolerance,
    by_function,
    contents,
    fault,
    pieces,
    shaped,
    stored,
)
from ptxbench.tune.check import Correct
from ptxbench.tune.compiler_options import find_entry
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.element import ELEMENTS
from ptxbench.tune.estimate import OpcodeCount, Work, modelled_clock_mhz
from ptxbench.tune.expression import Expression, Value
from ptxbench.tune.kernel import Refused
from ptxbench.tune.source import VariantSource, variant_source
from ptxbench.tune.space import Space
from ptxbench.tune.spec import (
    OTHER_LOOPS,
    Array,
    FunctionReference,
    KernelReference,
    KernelSpec,
    NoReference,
    Scalar,
    Shape,
    StoredReference,
)
from ptxbench.tune.trial import Trial
from ptxbench.tune.tunable_kernel import Point, Prediction

# CUDA C++ Programming Guide, "Compute Capabilities".
_MAX_BLOCK = (MAX_THREADS, MAX_THREADS, 64)
_KEY_DIGITS = 16
_WHOLE = ("int", "unsigned int", "long", "unsigned long", "long long", "unsigned long long")
# From one instruction of a warp to its next, where half of them need the result of the one before.
_OWN_RESULT_CYCLES = 2.3


@dataclass(frozen=True)
class Sizes:
    """Grid, block and dynamic shared memory of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)


@dataclass(frozen=True, eq=False)
class BuiltKernel:
    """A variant of a user's kernel, assembled.

    Attributes:
        variant: Its values.
        values: Every name's value: sizes, axes, derived.
        cubin: Its machine code.
        entry: Name of the kernel in it.
        sass: The same, disassembled.
        resources: Registers, stack and static shared memory.
        sizes: Its launch.
        per_thread: What one thread executes, by opcode; () where the code does not tell.
    """

    variant: Configuration
    values: Mapping[str, Value]
    cubin: Cubin
    entry: str
    sass: SassKernel
    resources: Resources
    sizes: Sizes
    per_thread: tuple[tuple[str, float], ...]

    @property
    def needs(self) -> BlockNeeds:
        """What a block takes of an SM."""
        shared = self.sizes.shared_bytes + self.resources.shared_bytes
        return BlockNeeds(self.sizes.threads, self.resources.registers, shared)


class UserKernel:
    """The variants of one specification.

    Args:
        spec: The specification.
        seed: Of the arrays; added to their own seeds.
        cycles: Issue intervals by which times are modelled (`ptxbench.model.throughput`).
    """

    def __init__(self, spec: KernelSpec, seed: int = 0, cycles: Mapping[str, float] | None = None) -> None:
        self.spec = spec
        self._seed = seed
        self._cycles = cycles or {}
        self._exact: dict[str, Right] | None = None
        self._source_keys: dict[str, str] = {}
        self._reference_key: str | None = None

    @property
    def problem(self) -> KernelProblem:
        """What the variants compute."""
        spec = self.spec
        return KernelProblem(spec.name, tuple(axis.name for axis in spec.axes), spec.digest)

    @property
    def pattern(self) -> str:
        """Operand pattern: "zeros" where every array that is read holds zeros, or else "random"."""
        read = [one for one in self.spec.arrays if one.role != "output"]
        return "zeros" if read and all(one.fill == "zeros" for one in read) else "random"

    def space(self, target: str) -> Space:
        """Return the variants that meet the filters.

        Raises:
            InputError: None does, or an expression has no value.
        """
        kept, like = [], Counter[str]()
        for configuration, refused in self.spec.variants():
            if refused is None:
                kept.append(configuration)
            else:
                like[refused.text] += 1
        if not kept:
            most = f"most often by {like.most_common(1)[0][0]!r}" if like else "a range is empty"
            raise InputError(f"no variant of {self.spec.name} is left ({most}); widen an axis or a filter")
        return Space(self.problem, target, tuple(kept))

    def build(self, variant: Configuration, target: str) -> BuiltKernel | Refused:
        """Compile or assemble one variant, and count what it executes where its code tells.

        Raises:
            ArgumentMismatchError: The arguments are not the kernel's parameters.
            EndlessSourceError: Its template or its macros do not come to an end.
            ToolError: nvcc, ptxas or nvdisasm is missing.
        """
        self._source_keys[variant.name] = ""
        try:
            values = self.spec.values(variant)
            sizes = _sizes(self.spec.shape, values)
            _require_scalars(self.spec.arguments, values)
            self._require_work(values)
            source = variant_source(self.spec.source, values, target)
            self._source_keys[variant.name] = source.key
            built = self._assembled(source, self.spec.source.entry, variant, values, sizes)
        except (EndlessSourceError, ArgumentMismatchError):
            raise
        except (RefusedModuleError, InputError) as error:
            return Refused(variant, str(error))
        if not blocks_per_sm(built.needs, sm_facts(target)):
            needs = built.needs
            return Refused(
                variant,
                f"a block of {needs.threads} threads, {needs.registers} registers each and "
                f"{needs.shared_bytes} bytes of shared memory does not fit an SM",
            )
        return built

    def source_key(self, variant: Configuration, target: str) -> str:
        """Return a hash of what nvcc sees of a variant and of the reference kernel.

        It is that of the time when the variant was built here, if it was. "" where nvcc compiles neither, as
        the problem's digest then has all that they are made of, and where the variant cannot be launched.

        Raises:
            EndlessSourceError: A template or macros do not come to an end.
            InputError: A derived value has none.
            ToolError: nvcc is missing.
        """
        keys, reference = self._source_keys, self.spec.reference
        if variant.name not in keys:
            keys[variant.name] = variant_source(self.spec.source, self.spec.values(variant), target).key
        if self._reference_key is None:
            checked = reference.source if isinstance(reference, KernelReference) else None
            self._reference_key = variant_source(checked, self.spec.sizes, target).key if checked else ""
        return keys[variant.name][:_KEY_DIGITS] + self._reference_key[:_KEY_DIGITS]

    def predict(self, kernel: BuiltKernel, info: GpuInfo) -> Prediction:
        """Return executed instructions by the control flow, bytes as the specification says, and a time.

        The time is the busiest pipe's, with what a warp waits for its own results, or that of the bytes on
        the way to L2. Waiting for memory is not in it.
        """
        flops = self._figure(self.spec.flops, kernel.values)
        if not kernel.per_thread:
            return Prediction(None, flops=flops)
        blocks, threads = math.prod(kernel.sizes.grid), kernel.sizes.threads
        executed = tuple(
            OpcodeCount(opcode, round(n * blocks * threads))
            for opcode, n in sorted(kernel.per_thread, key=lambda one: -one[1])
        )
        clock_mhz = modelled_clock_mhz(info)
        sm = sm_facts(info.target)
        time_s = modelled_time_s(
            kernel.per_thread, blocks, threads, info.sm_count, clock_mhz, self._cycles, sm
        )
        time_s = math.hypot(time_s, _alone_s(kernel, info, clock_mhz))
        dram = self._figure(self.spec.dram_bytes, kernel.values)
        through_l2 = self._figure(self.spec.l2_bytes, kernel.values)
        work = Work.of_bytes(executed, dram if math.isnan(through_l2) else through_l2, dram)
        if math.isfinite(work.l2_bytes):
            time_s = max(
                time_s,
                work.l2_bytes / (sm.l2_bytes_per_cycle * info.sm_count * clock_mhz * 1e6),
            )
        return Prediction(work, time_s, flops)

    def prepare(self, gpu: Gpu, variants: Sequence[Point]) -> None:
        """Build some variants, and build and run the reference, before any trial.

        Args:
            gpu: Where they run.
            variants: Some of them. What is wrong with all of these is said once.

        Raises:
            EndlessSourceError: A template or macros do not come to an end.
            GpuError: The GPU stopped answering.
            InputError: The reference does not compile or run, the arguments are not the kernel's parameters,
                or none of the variants can be built, for one reason.
            ToolError: nvcc, ptxas or nvdisasm is missing.
        """
        reasons = []
        for variant in variants:
            assert isinstance(variant, Configuration)  # noqa: S101 - so are those of a specification
            built = self.build(variant, gpu.info.target)
            reasons.append("" if isinstance(built, BuiltKernel) else built.reason)
            if not reasons[-1] or reasons[-1] != reasons[0]:
                break
        else:
            raise InputError(
                f"none of {len(reasons)} variants of {self.spec.name} that were tried first can be built:"
                f" {reasons[0]}"
            )
        if isinstance(self.spec.reference, NoReference):
            return
        if gpu.info.kind is GpuKind.REAL:
            self._reference(gpu)
        elif isinstance(self.spec.reference, KernelReference):
            self._built_reference(self.spec.reference, gpu.info.target)

    def check(self, gpu: Gpu, kernel: BuiltKernel) -> tuple[Correct, str]:
        """Run the whole problem once and compare each array that it writes with the reference.

        Raises:
            LaunchError: The kernel did not run.
            GpuError: The GPU stopped answering.
        """
        output = gpu.compute(self.launch(kernel))
        if output is None or isinstance(self.spec.reference, NoReference):
            return Correct.UNCHECKED, ""
        exact = self._reference(gpu)
        results = pieces(self._written, output)
        for array in self._written:
            if why := fault(array.name, results[array.name], exact[array.name]):
                return Correct.NO, why
        return Correct.YES, ""

    def launch(self, kernel: BuiltKernel) -> Launch:
        """Return the launch of the whole problem."""
        names = [one.name for one in self.spec.arrays]
        parameters = []
        for one in self.spec.arguments:
            if isinstance(one, Array):
                parameters.append(Parameter(names.index(one.name), one.role != "input"))
            else:
                parameters.append(_number(one, kernel.values))
        grid, block = kernel.sizes.grid, kernel.sizes.block
        return Launch(
            trial_id=kernel.variant.name,
            cubin=kernel.cubin,
            kernel=kernel.entry,
            grid=grid[0],
            grid_y=grid[1],
            grid_z=grid[2],
            block=block[0],
            block_y=block[1],
            block_z=block[2],
            iterations=1,
            operands=self.contents,
            pattern=self.pattern,
            scalars=(),
            result_bytes=sum(
                data.nbytes
                for array, data in zip(self.spec.arrays, self.contents, strict=True)
                if array.role != "input"
            ),
            shared_bytes=kernel.sizes.shared_bytes,
            parameters=tuple(parameters),
            executed=kernel.per_thread,
        )

    def metric(self, trial: Trial) -> float:
        """Return the user's own objective of a trial; NaN where it has none."""
        return math.nan if self.spec.metric is None else self._own_figure(self.spec.metric, trial)

    def metrics(self, trial: Trial) -> dict[str, float]:
        """Return the user's own metrics of a trial by name; NaN where one has no value."""
        return {name: self._own_figure(expression, trial) for name, expression in self.spec.metrics}

    def _own_figure(self, expression: Expression, trial: Trial) -> float:
        """Return what an expression of a trial's figures and parameters is; NaN where it has no value."""
        if not isinstance(trial.variant, Configuration):
            return math.nan
        figures = {
            "time_s": trial.best_time_s,
            "energy_j": trial.best_energy_j,
            "power_w": trial.best_power_w,
            "flops": trial.flops,
            "clock_mhz": trial.clock_mhz,
        }
        if any(math.isnan(figures[name]) for name in expression.names & figures.keys()):
            return math.nan
        try:
            return expression.number({**self.spec.values(trial.variant), **figures})
        except InputError:
            return math.nan

    @cached_property
    def contents(self) -> tuple[Bytes, ...]:
        """What its arrays hold at the beginning, in their order."""
        return tuple(contents(array, self._seed) for array in self.spec.arrays)

    @property
    def _written(self) -> tuple[Array, ...]:
        return tuple(array for array in self.spec.arrays if array.role != "input")

    def _reference(self, gpu: Gpu) -> dict[str, Right]:
        """Return what each written array must hold; a reference kernel runs once.

        Raises:
            InputError: The reference cannot be had.
        """
        if self._exact is None:
            exact = self._made_reference(gpu)
            tolerance = Tolerance(self.spec.rtol, self.spec.atol)
            self._exact = {array.name: tolerance.right(array, exact[array.name]) for array in self._written}
        return self._exact

    def _made_reference(self, gpu: Gpu) -> dict[str, Floats]:
        reference = self.spec.reference
        if isinstance(reference, StoredReference):
            return {array.name: stored(reference, array) for array in self._written}
        if isinstance(reference, FunctionReference):
            arrays = zip(self.spec.arrays, self.contents, strict=True)
            given = {array.name: shaped(array, data) for array, data in arrays}
            (written,) = self._written
            return {written.name: by_function(reference, written, given)}
        assert isinstance(reference, KernelReference)  # noqa: S101 - without a reference none is asked for
        return self._computed(gpu, reference)

    def _computed(self, gpu: Gpu, reference: KernelReference) -> dict[str, Floats]:
        built = self._built_reference(reference, gpu.info.target)
        try:
            output = gpu.compute(self.launch(built))
        except LaunchError as error:
            raise InputError(f"the reference {reference.source.path.name} does not run: {error}") from error
        if output is None:
            raise InputError("this GPU computes nothing")
        return pieces(self._written, np.array(output))

    def _built_reference(self, reference: KernelReference, target: str) -> BuiltKernel:
        values = self.spec.sizes
        try:
            source = variant_source(reference.source, values, target)
            sizes = _sizes(reference.shape, values)
            return self._assembled(source, reference.source.entry, Configuration(()), values, sizes)
        except RefusedModuleError as error:
            raise InputError(f"the reference {reference.source.path.name} does not run: {error}") from error

    def _assembled(
        self,
        source: VariantSource,
        name: str,
        variant: Configuration,
        values: Mapping[str, Value],
        sizes: Sizes,
    ) -> BuiltKernel:
        cubin = source.build()
        listed = parse_listing(disassemble(cubin.image))
        entry = find_entry(name, tuple(listed))
        _require_parameters(self.spec.arguments, cubin.image, entry, source.ptx())
        resources = kernel_resources(cubin.image)[entry]
        try:
            counts = executions(
                listed[entry], self._trips(listed[entry], listed, values), None, listed
            ).counts
        except InputError:
            counts = ()
        return BuiltKernel(variant, values, cubin, entry, listed[entry], resources, sizes, counts)

    def _trips(
        self, sass: SassKernel, functions: Mapping[str, SassKernel], values: Mapping[str, Value]
    ) -> dict[str, float]:
        """Return the trip counts that the specification gives for loops whose code does not show them."""
        found = {}
        for loop in find_loops(sass, functions):
            given = self.spec.trips.get(str(loop.index)) or (
                self.spec.trips.get(OTHER_LOOPS) if loop.trips is None else None
            )
            if given is not None and given.names <= values.keys():
                found[str(loop.index)] = given.number(values)
        return found

    def _require_work(self, values: Mapping[str, Value]) -> None:
        """Refuse work that is below 0, which would come out as if it had been measured.

        Raises:
            InputError: Some is.
        """
        work = (self.spec.flops, self.spec.dram_bytes, self.spec.l2_bytes, *self.spec.trips.values())
        for one in work:
            if one is not None and one.names <= values.keys():
                one.number(values, least=0)

    @staticmethod
    def _figure(expression: Expression | None, values: Mapping[str, Value]) -> float:
        return math.nan if expression is None else float(expression.number(values))


def _alone_s(kernel: BuiltKernel, info: GpuInfo, clock_mhz: float) -> float:
    """Return how long the waves of blocks take where a warp waits for nothing but its own results.

    Few warps on an SM cannot keep its schedulers busy. That the two times add as the sides of a right angle,
    and the cycles, are what the 60 variants of n-body on an H100 say (docs/tuning.md).
    """
    resident = blocks_per_sm(kernel.needs, sm_facts(info.target))
    if not resident:
        return math.nan
    waves = math.ceil(math.prod(kernel.sizes.grid) / (resident * info.sm_count))
    own = sum(n for _, n in kernel.per_thread)
    return waves * own * _OWN_RESULT_CYCLES / (clock_mhz * 1e6)


def _sizes(shape: Shape, values: Mapping[str, Value]) -> Sizes:
    """Return a launch's sizes.

    Raises:
        InputError: They are none that CUDA has.
    """
    grid, block = (
        tuple(one.whole(values, 1) for one in sizes) + (1,) * (3 - len(sizes))
        for sizes in (shape.grid, shape.block)
    )
    if any(size > most for size, most in zip((*grid, *block), (*MAX_GRID, *_MAX_BLOCK), strict=True)):
        raise InputError(f"a grid of {grid} or blocks of {block} are beyond what CUDA launches")
    if math.prod(block) > MAX_THREADS:
        raise InputError(f"{math.prod(block)} threads a block are over {MAX_THREADS}")
    return Sizes(grid, block, shape.shared_bytes.whole(values))  # type: ignore[arg-type]


class ArgumentMismatchError(InputError):
    """A specification's arguments are not the parameters of its kernel: so it is for every variant."""


def _require_parameters(arguments: Sequence[Array | Scalar], image: bytes, entry: str, ptx: str) -> None:
    """Refuse arguments that are not the parameters which the code has.

    Raises:
        ArgumentMismatchError: There are more or fewer, one has another size, or one is a whole number and its
            parameter none, or the other way round.
    """
    sizes = [one.size for one in constant_memory(image, entry).parameters]
    given = [8 if isinstance(one, Array) else ELEMENTS[one.dtype].stored.itemsize for one in arguments]
    if len(sizes) != len(given):
        raise ArgumentMismatchError(
            f"the kernel {demangled(entry)} has {len(sizes)} parameters, and there are {len(given)} arguments"
        )
    for one, size, own in zip(arguments, sizes, given, strict=True):
        if size != own:
            what = "an array, whose address has" if isinstance(one, Array) else f"{one.dtype}, which has"
            raise ArgumentMismatchError(
                f"argument {one.name} is {what} {own} bytes, and the kernel {demangled(entry)} takes {size}"
                " there"
            )
    for one, kind in zip(arguments, parameter_kinds(entry, ptx), strict=False):
        fractional = isinstance(one, Scalar) and one.dtype in ("f32", "f64")
        whole = isinstance(one, Scalar) and ELEMENTS[one.dtype].is_whole
        if (whole and kind == "f") or (fractional and kind == "i"):
            what = "a floating-point" if kind == "f" else "a whole"
            raise ArgumentMismatchError(
                f"argument {one.name} is {one.dtype}, and the kernel {demangled(entry)} takes {what} number"
                " there"
            )


def parameter_kinds(entry: str, ptx: str = "") -> tuple[str, ...]:
    """Return what the parameters of a kernel are: "i" a whole number, "f" another one, "" not known.

    Args:
        entry: Its name in the code, which in C++ holds the types of its parameters.
        ptx: Its PTX, which says them too; "": there is none.

    Returns:
        One each; () where neither says it.
    """
    if declared := re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx):
        types = re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z])\d+", declared[1])
        return tuple({"u": "i", "s": "i", "f": "f"}.get(one, "") for one in types)
    # Of plain types alone: where one has brackets, commas tell nothing.
    signature = re.search(r"\(([\w *,]+)\)$", demangled(entry))
    types = signature[1].split(", ") if signature else []
    return tuple("f" if one in ("float", "double") else "i" if one in _WHOLE else "" for one in types)


def _number(one: Scalar, values: Mapping[str, Value]) -> Parameter:
    """Return a number as a kernel is given it; one that the driver's types lack by its bits."""
    element, value = ELEMENTS[one.dtype], one.value.number(values)
    if element.is_whole or one.dtype in ("f32", "f64"):
        return Parameter(kind=one.dtype, value=value)
    return Parameter(kind="u16", value=int(element.bits(np.array([value], np.float64)).view(np.uint16)[0]))


def _require_scalars(arguments: Sequence[Array | Scalar], values: Mapping[str, Value]) -> None:
    """Refuse numbers that their types do not hold.

    Raises:
        InputError: One does not fit.
    """
    for one in arguments:
        if isinstance(one, Scalar) and ELEMENTS[one.dtype].is_whole:
            number, bounds = one.value.number(values), np.iinfo(ELEMENTS[one.dtype].stored)
            if number != int(number) or not bounds.min <= number <= bounds.max:
                raise InputError(f"argument {one.name} is {number:g}, which is no {one.dtype}")
