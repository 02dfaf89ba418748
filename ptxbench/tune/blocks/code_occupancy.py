"""The occupancy of a kernel by block size, from its machine code alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import (
    MAX_REGISTERS,
    MAX_THREADS,
    BlockNeeds,
    Residency,
    residency,
)
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError, RefusedModuleError
from ptxbench.core.target import TARGETS
from ptxbench.core.threads import WARP
from ptxbench.sass.resources import Resources, cubin_capability, kernel_resources
from ptxbench.storage.file_errors import NAME_CODE, read_bytes
from ptxbench.tune.compiler_options import find_entry
from ptxbench.tune.expression import Expression

_ELF = b"\x7fELF"
# The name that an expression of shared memory may use.
THREADS = "threads"


@dataclass(frozen=True)
class KernelCode:
    """A kernel that was read.

    Attributes:
        entry: Its name.
        target: What it is assembled for.
        resources: What it takes.
    """

    entry: str
    target: str
    resources: Resources


@dataclass(frozen=True)
class Occupancy:
    """Occupancy of one kernel by block size.

    Attributes:
        entry: Name of the kernel.
        target: What it is assembled for.
        registers: Registers of a thread.
        static_bytes: Static shared memory of a block.
        sizes: One for each block size, in ascending order.
    """

    entry: str
    target: str
    registers: int
    static_bytes: int
    sizes: tuple[Residency, ...]


def read_code(path: Path, target: str | None, entry: str | None) -> KernelCode:
    """Read one kernel of a cubin or of PTX, which is assembled at -O3.

    Args:
        path: The file.
        target: What to assemble PTX for, or what a cubin must be for; None: sm_90a, or any.
        entry: Name of the kernel; None where there is one.

    Raises:
        InputError: The file cannot be read or assembled, is for another target, or has not this one kernel.
        ToolError: ptxas is missing.
    """
    code = read_bytes(path, NAME_CODE)
    try:
        if code.startswith(_ELF):
            image, found = code, _target_of(cubin_capability(code), path)
            if target not in (None, found):
                raise InputError(f"{path} is assembled for {found}, not {target}; leave `target` out")
        else:
            found = target or "sm_90a"
            image = assemble_ptx(code.decode(errors="replace"), found, OptLevel.O3).image
        kernels = kernel_resources(image)
    except RefusedModuleError as error:
        raise InputError(f"{path} cannot be read as a cubin or as PTX: {error}") from error
    if entry is None and len(kernels) > 1:
        raise InputError(f"{path} has several kernels; choose one with `entry`: {', '.join(kernels)}")
    try:
        name = find_entry(entry or next(iter(kernels), ""), tuple(kernels))
    except RefusedModuleError as error:
        raise InputError(f"{path}: {error}; choose one with `entry`") from error
    return KernelCode(name, found, kernels[name])


def code_occupancy(
    code: KernelCode, shared: Expression, registers: int | None = None, sizes: Sequence[int] = ()
) -> Occupancy:
    """Return the occupancy of a kernel by block size.

    Args:
        code: The kernel.
        shared: Dynamic shared memory of a block in bytes, by `threads`.
        registers: Registers of a thread, in place of the code's.
        sizes: Threads of a block; (): every multiple of a warp that its launch bounds allow.

    Raises:
        InputError: A size or the registers are beyond what the kernel or a GPU has, or shared memory is no
            whole number.
    """
    taken = code.resources
    used = taken.registers if registers is None else registers
    if not 1 <= used <= MAX_REGISTERS:
        raise InputError(f"{used} registers a thread are not 1 to {MAX_REGISTERS}")
    allowed = _allowed_sizes(taken)
    for size in sizes:
        if not 1 <= size <= MAX_THREADS or (taken.required_threads and size != taken.required_threads):
            raise InputError(f"{code.entry} cannot be launched with {size} threads a block: {_bounds(taken)}")
        if taken.max_threads and size > taken.max_threads:
            raise InputError(f"{code.entry} cannot be launched with {size} threads a block: {_bounds(taken)}")
    limits = sm_facts(code.target)
    needs = (
        BlockNeeds(size, used, taken.shared_bytes + shared.whole({THREADS: size}))
        for size in sorted(set(sizes) or allowed)
    )
    found = tuple(residency(one, limits) for one in needs)
    return Occupancy(code.entry, code.target, used, taken.shared_bytes, found)


def _allowed_sizes(taken: Resources) -> set[int]:
    if taken.required_threads:
        return {taken.required_threads}
    return set(range(WARP, (taken.max_threads or MAX_THREADS) + 1, WARP)) or {taken.max_threads}


def _bounds(taken: Resources) -> str:
    if taken.required_threads:
        return f"its launch bounds want {taken.required_threads}"
    return f"the most is {taken.max_threads or MAX_THREADS}"


def _target_of(capability: int, path: Path) -> str:
    for target in TARGETS:
        if target.capability == capability:
            return target.name
    known = ", ".join(target.name for target in TARGETS)
    raise InputError(f"{path} is assembled for sm_{capability}, of which no limits are known; known: {known}")
