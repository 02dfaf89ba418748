"""A launch of a kernel with its arrays, run on a sample of its blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import BlockNeeds, lines_of_a_block
from ptxbench.core.errors import InputError
from ptxbench.core.threads import SECTOR_BYTES, WARP
from ptxbench.emulator.sass.code import Code
from ptxbench.emulator.sass.machine import Machine, OnProgress, Sample
from ptxbench.emulator.sass.memory import Memory
from ptxbench.emulator.sass.passes import Skipped
from ptxbench.emulator.sass.tally import Tallies, Tally
from ptxbench.sass.constants import constant_memory
from ptxbench.sass.program import SassInstruction, SassKernel
from ptxbench.sass.resources import cubin_capability, kernel_resources, reserved_bytes

Dims = tuple[int, int, int]
Argument = npt.NDArray[Any] | np.generic

# Where a launch's own numbers stand in bank 0: sizes of block and grid, and the top of the stack.
_SIZES_AT, _STACK_AT = 0x0, 0x28
_OLDEST, _NEWEST = 80, 90
# Lanes and blocks of a sample, where nobody says; chosen.
_MOST_LANES = 2048
_MOST_BLOCKS = 8
# Sectors of global memory, of all blocks together, of which it is kept whether they were touched.
_MOST_KEPT = 1 << 28


@dataclass(frozen=True)
class Launch:
    """What is launched.

    Attributes:
        image: The cubin.
        kernel: Its entry.
        grid: Blocks, x, y, z.
        block: Threads of a block, x, y, z.
        arguments: Arrays and numbers in the order of the parameters. Arrays are copied.
        shared_bytes: Dynamic shared memory.
    """

    image: bytes
    kernel: SassKernel
    grid: Dims
    block: Dims
    arguments: Sequence[Argument]
    shared_bytes: int = 0


@dataclass(frozen=True)
class Emulated:
    """What a run of a sample tells of a launch.

    Attributes:
        instructions: The kernel's code.
        tallies: Counts of each instruction in the sample; see `Tally`.
        scale: Blocks of the launch over those of the sample.
        sample: Which blocks were run.
        skipped: Loops whose passes were not all run.
        steps: Instructions carried out, each for all lanes of the sample.
        arrays: What the arrays among the arguments hold afterwards, by their place; right for the blocks of
            the sample alone, and where no passes were left out.
    """

    instructions: tuple[SassInstruction, ...]
    tallies: Tallies
    scale: float
    sample: Sample
    skipped: tuple[Skipped, ...]
    steps: int
    arrays: Mapping[int, npt.NDArray[Any]]

    def by_opcode(self, what: Tally = Tally.ISSUED) -> dict[str, float]:
        """Return a count of the launch by opcode with modifiers."""
        found: dict[str, float] = {}
        for one, count in zip(self.instructions, self.tallies[what], strict=True):
            if count:
                found[one.opcode] = found.get(one.opcode, 0.0) + self.scale * float(count)
        return found


def emulate(
    launch: Launch,
    blocks: int = 0,
    passes: int = 128,
    look: bool = True,
    on_progress: OnProgress | None = None,
    sms: int = 0,
) -> Emulated:
    """Run a launch on a sample of its blocks.

    Args:
        launch: What is launched.
        blocks: How many blocks are run, spread over the grid; 0: as many as are quick.
        passes: Passes of a long loop that are run before the others are counted like them; 0: all.
        look: Whether operands are looked at.
        on_progress: Called with the instructions carried out, each for all lanes of the sample.
        sms: SMs of the GPU, which says how many blocks share one's L1; 0: as many as there is room for.

    Raises:
        InputError: The code is of a GPU or has an instruction that the emulator does not know, an argument
            does not fit, or an access lies outside all arrays.
    """
    capability = cubin_capability(launch.image)
    if not _OLDEST <= capability <= _NEWEST:
        raise InputError(
            f"{launch.kernel.name} is code of sm_{capability}; the emulator knows sm_{_OLDEST} to"
            f" sm_{_NEWEST}: count it with `ncu`"
        )
    resources = kernel_resources(launch.image)[launch.kernel.name]
    arrays = {n: one for n, one in enumerate(launch.arguments) if isinstance(one, np.ndarray)}
    shared = resources.shared_bytes + reserved_bytes(launch.image) + launch.shared_bytes
    needs = BlockNeeds(math.prod(launch.block), launch.kernel.registers, shared)
    lines = lines_of_a_block(sm_facts(f"sm_{capability}"), needs, math.prod(launch.grid), sms)
    sample = Sample(launch.grid, launch.block, chosen_blocks(launch, blocks), lines)
    lanes = sample.warps * WARP * len(sample.blocks)
    memory = Memory(
        Memory.room([one.nbytes for one in arrays.values()]),
        len(sample.blocks),
        shared,
        lanes,
        resources.stack_bytes,
    )
    addresses = {n: memory.put(one) for n, one in arrays.items()}
    banks = _banks(launch, addresses, resources.stack_bytes)
    machine = Machine(Code(launch.kernel), sample, memory, banks, passes, look, on_progress)
    skipped = machine.run()
    return Emulated(
        launch.kernel.instructions,
        machine.tallies,
        math.prod(launch.grid) / len(sample.blocks),
        sample,
        skipped,
        machine.steps,
        {n: memory.get(addresses[n], one) for n, one in arrays.items()},
    )


def chosen_blocks(launch: Launch, wanted: int = 0) -> tuple[Dims, ...]:
    """Return the places of the blocks that are run, spread evenly over the grid.

    Args:
        launch: The launch.
        wanted: How many; 0: as many as are quick, and whose accesses of large arrays can be kept.
    """
    whole, threads = math.prod(launch.grid), math.prod(launch.block)
    sectors = sum(one.nbytes for one in launch.arguments if isinstance(one, np.ndarray)) // SECTOR_BYTES
    quick = min(_MOST_LANES // threads, _MOST_BLOCKS, _MOST_KEPT // max(sectors, 1))
    count = min(wanted or max(1, quick), whole)
    x, y, _ = launch.grid
    numbers = [(2 * n + 1) * whole // (2 * count) for n in range(count)]
    return tuple((n % x, n // x % y, n // (x * y)) for n in numbers)


def _banks(
    launch: Launch, addresses: Mapping[int, int], stack_bytes: int
) -> dict[int, npt.NDArray[np.uint8]]:
    """Return constant memory as the driver fills it."""
    told = constant_memory(launch.image, launch.kernel.name)
    if len(told.parameters) != len(launch.arguments):
        raise InputError(
            f"{launch.kernel.name} takes {len(told.parameters)} arguments, not {len(launch.arguments)}"
        )
    own = np.zeros(-(-max(told.size, 0x400) // 16) * 16, np.uint8)
    sizes = np.array([*launch.block, *launch.grid], np.uint32)
    own[_SIZES_AT : _SIZES_AT + sizes.nbytes] = sizes.view(np.uint8)
    own[_STACK_AT : _STACK_AT + 4] = np.array([stack_bytes], np.uint32).view(np.uint8)
    for number, (place, argument) in enumerate(zip(told.parameters, launch.arguments, strict=True)):
        value = np.uint64(addresses[number]) if number in addresses else argument
        data = np.atleast_1d(np.asarray(value)).view(np.uint8)
        if len(data) != place.size:
            raise InputError(
                f"{launch.kernel.name}: argument {number} has {len(data)} bytes, its parameter {place.size}"
            )
        own[place.offset : place.offset + place.size] = data
    filled = {
        number: np.frombuffer(data + bytes(-len(data) % 4), np.uint8) for number, data in told.banks.items()
    }
    return {0: own, **filled}
