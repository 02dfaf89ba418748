"""A kernel with its arguments, run in the emulator for an estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxbench.api.estimate_options import EstimateOptions, KernelOptions, is_specification
from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.emulator.sass.launch import Dims, Launch, emulate
from ptxbench.emulator.sass.machine import OnProgress
from ptxbench.model.addresses import dims
from ptxbench.model.emulated_work import activity_of, work_of
from ptxbench.sass.program import SassKernel

if TYPE_CHECKING:
    from ptxbench.model.atlas import Atlas
    from ptxbench.model.work import Activity, KernelWork

_TELLS_ITSELF = ("operands", "integer_data", "trips", "probability", "dram_bytes", "l2_bytes")


@dataclass(frozen=True)
class EmulatedKernel:
    """What a run in the emulator tells of a kernel.

    Attributes:
        work: What it executes and moves, with its time.
        cold: The same where nothing is in L2 before.
        activity: How much the operands of each opcode change.
        modelled: Whether its time is modelled.
        notes: What was taken for granted, a sentence each.
    """

    work: KernelWork
    cold: KernelWork
    activity: Activity
    modelled: bool
    notes: tuple[str, ...]


def launch_of_specification(path: Path, sizes: Mapping[int | str, float], known: Atlas) -> tuple[Launch, str]:
    """Return the launch that a specification describes, and which variant it is.

    Args:
        path: The specification.
        sizes: Values of sizes and axes; an axis that is not named has its first value that fits.
        known: The table, which names the GPU.

    Raises:
        InputError: The specification does not fit, or no variant is left.
        ToolError: nvcc, ptxas or nvdisasm is missing, or refused the source.
    """
    from ptxbench.tune.configuration import Configuration
    from ptxbench.tune.kernel import Refused
    from ptxbench.tune.spec import Array
    from ptxbench.tune.spec_file import load_spec
    from ptxbench.tune.user_kernel import UserKernel

    names = {str(name): value for name, value in sizes.items()}
    axes = {axis.name for axis in load_spec(path).axes}
    spec = load_spec(path, {name: value for name, value in names.items() if name not in axes})
    user = UserKernel(spec)
    chosen = {name: value for name, value in names.items() if name in axes}
    fitting = (one for one in user.space(known.gpu.target).variants if isinstance(one, Configuration))
    variant = next(
        (one for one in fitting if all(one.by_axis[name] == value for name, value in chosen.items())), None
    )
    if variant is None:
        wanted = ", ".join(f"{name}={value:g}" for name, value in chosen.items())
        raise InputError(f"{path}: no variant has {wanted} and meets the filters")
    built = user.build(variant, known.gpu.target)
    if isinstance(built, Refused):
        raise InputError(f"{path}: {built.reason}")
    held = iter(user.contents)
    arguments: list[Any] = []
    for one in spec.arguments:
        if isinstance(one, Array):
            arguments.append(next(held))
        else:
            arguments.append(_number(one.dtype, one.value.number(built.values)))
    launch = Launch(
        built.cubin.image,
        built.sass,
        built.sizes.grid,
        built.sizes.block,
        arguments,
        built.sizes.shared_bytes,
    )
    return launch, f"{path.name}, {variant.name}" if spec.axes else path.name


def _number(dtype: str, value: float) -> np.generic:
    """Return the bits of a number of a type as numpy holds them."""
    from ptxbench.tune.element import ELEMENTS

    element = ELEMENTS[dtype]
    bits: np.generic = element.bits(np.array([value])).view(element.stored)[0]
    return bits


def launch_of_code(
    image: bytes, kernel: SassKernel, shape: tuple[Dims, Dims], arguments: Sequence[Any], shared_bytes: int
) -> Launch:
    """Return the launch of machine code with arrays and numbers.

    Args:
        image: The cubin.
        kernel: Its entry.
        shape: Grid and block.
        arguments: Arrays and numpy numbers.
        shared_bytes: Dynamic shared memory of a block.

    Raises:
        ArgumentError: An argument is neither an array nor a numpy number.
    """
    for number, one in enumerate(arguments):
        if not isinstance(one, np.ndarray | np.generic):
            kind = type(one).__name__
            raise ArgumentError(
                "arguments",
                f"must be arrays and numpy numbers such as numpy.int32(3); number {number} is {kind}",
            )
    return Launch(image, kernel, *shape, arguments, shared_bytes)


def emulated(
    launch: Launch, time_s: float, known: Atlas, told: str = "", on_progress: OnProgress | None = None
) -> EmulatedKernel:
    """Run a launch on a sample of its blocks.

    Args:
        launch: The launch.
        time_s: Its time; NaN: modelled.
        known: The table.
        told: What it is, for a note.
        on_progress: Called with the instructions carried out.

    Raises:
        InputError: It has an instruction that the emulator does not know, or accesses what it was not given.
    """
    from ptxbench.catalogue.product import l2_bytes
    from ptxbench.model.addresses import Launch as Shape
    from ptxbench.model.code_work import timed_work

    found = emulate(launch, on_progress=on_progress, sms=known.gpu.sm_count)
    array_bytes = sum(one.nbytes for one in launch.arguments if isinstance(one, np.ndarray))
    own = work_of(launch.kernel.name, found, array_bytes, l2_bytes(known.gpu))
    shape = Shape(launch.grid, launch.block)
    work, cold = (timed_work(one, shape, time_s, known) for one in (own.work, own.cold))
    notes = (*((f"the variant is {told}",) if told else ()), *own.notes)
    return EmulatedKernel(work, cold, activity_of(found), math.isnan(time_s), notes)


def run_in_emulator(
    kernel: str | Path | bytes | None,
    options: EstimateOptions,
    known: Atlas,
    on_progress: OnProgress | None = None,
) -> EmulatedKernel | None:
    """Return what a run in the emulator tells; None where there are no arguments to run a kernel with.

    Raises:
        InputError: An option does not go with it, or it cannot be run.
        ToolError: A tool is missing, or refused the code.
    """
    arguments = options.arguments if isinstance(options, KernelOptions) else None
    if options.ncu is None and is_specification(kernel):
        _refuse(options, ("grid", "block", *_TELLS_ITSELF))
        launch, told = launch_of_specification(Path(str(kernel)), options.sizes or {}, known)
        return emulated(launch, options.time_s or math.nan, known, told, on_progress)
    if options.sizes:
        raise ArgumentError("sizes", "are those of a specification: name one (SPEC.toml)")
    if arguments is None or not isinstance(options, KernelOptions):
        return None
    from ptxbench.api.kernel import read_code, require_shape

    _refuse(options, ("ncu", *_TELLS_ITSELF))
    require_shape(kernel, options.grid, options.block)
    code = read_code(kernel or b"", options, known)
    shape = dims(options.grid or 1), dims(options.block or 1)
    launch = launch_of_code(code.image, code.kernel, shape, arguments, options.shared_bytes)
    return emulated(launch, options.time_s or math.nan, known, on_progress=on_progress)


def _refuse(options: EstimateOptions, names: Sequence[str]) -> None:
    """Refuse what a kernel that is run in the emulator tells itself."""
    for name in names:
        value = getattr(options, name)
        if value not in (None, False, {}):
            raise ArgumentError(name, "does not go with a kernel that is run in the emulator: leave it out")
