"""Kernels that are on a simulated chip at once: blocks share an SM's room and its pipes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.core.threads import WARP
from ptxbench.devices.simulated.ground_truth import counted_energy_pj, counted_pipe_cycles
from ptxbench.devices.simulated.physics import Phase
from ptxbench.devices.simulated.profile import Chip, Profile
from ptxbench.devices.simulated.timing import REGISTER_UNIT
from ptxbench.devices.simulated.whole_kernel import WAIT_CYCLES, reading_s

# What is left of a wave is rounding.
_DONE = 1e-9


@dataclass(frozen=True)
class CountedKernel:
    """One kernel of which is known how often a thread executes each opcode.

    Attributes:
        executed: Executions by one thread.
        pattern: Operand pattern.
        blocks: Blocks of its grid.
        threads: Threads of a block.
        blocks_per_sm: Blocks that an SM holds where nothing else is.
        registers: Registers of a thread.
        shared_bytes: Shared memory of a block.
        array_bytes: Size of its arrays.
    """

    executed: tuple[tuple[str, float], ...]
    pattern: str
    blocks: int
    threads: int
    blocks_per_sm: int
    registers: int
    shared_bytes: int
    array_bytes: int = 0

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP)


@dataclass(frozen=True)
class Round:
    """One launch of each kernel, at once.

    Attributes:
        phase: All of it, at its mean power: kernels of some milliseconds are too short for a sensor to see
            how it moves.
        end_cycles: When each kernel ends.
    """

    phase: Phase
    end_cycles: tuple[float, ...]


class _Running:
    """A kernel in the middle of a round."""

    def __init__(self, kernel: CountedKernel, profile: Profile) -> None:
        counts, chip = dict(kernel.executed), profile.chip
        self.kernel = kernel
        self.left = kernel.blocks
        self.of_sm = 0
        self.wave = 0.0
        self.end_cycles = 0.0
        self._sub_partitions = chip.schedulers_per_sm
        self._busy = counted_pipe_cycles(counts, profile)
        self._alone_cycles = sum(counts.values()) + WAIT_CYCLES

    @property
    def alone_cycles(self) -> float:
        """Cycles of the wave that is on the chip if it is there alone."""
        warps = math.ceil(self.of_sm * self.kernel.warps / self._sub_partitions)
        return max(self._alone_cycles, warps * max(self._busy.values()))

    def share_of(self, pipe: str) -> float:
        """Share of a pipe's time that the wave takes if it is there alone."""
        warps = self.of_sm * self.kernel.warps / self._sub_partitions
        return warps * self._busy[pipe] / self.alone_cycles

    def place(self, room: int, sm_count: int, *, late: bool) -> None:
        """Begin a wave of blocks on SMs that have room for so many each."""
        begins_late = late and self.left == self.kernel.blocks
        self.of_sm = min(room, self.left if begins_late else math.ceil(self.left / sm_count))
        if self.of_sm:
            self.left = max(0, self.left - self.of_sm * sm_count)
            self.wave = 1.0

    @property
    def pipes(self) -> tuple[str, ...]:
        """Names of the pipes."""
        return tuple(self._busy)


def plan_round(kernels: Sequence[CountedKernel], profile: Profile) -> Round:
    """Return what a launch of each kernel at once does to the chip.

    The first kernel gets as much room of each SM as it can use, the next what is left, and so on; who ends
    makes room. Blocks spread over all SMs, but for those of a kernel that found no room at first: they fill
    the SMs that come free first. On an H100 an n-body kernel of 128 blocks took 2.0 ms alone, and 6.3 to
    7.5 ms behind a stencil of 0.3 ms (results/nvidia-h100/blocks). What is resident at once shares the pipes
    and the issue: where these have more to do in a time than they can, all go slower by as much. Arrays
    that L2 does not hold take the time of reading each byte of them once, whatever the profile says.

    Args:
        kernels: In the order of their launches; at least one block of each fits an SM.
        profile: The GPU.

    Raises:
        InputError: The simulated GPU does not know an operand pattern.
    """
    running = [_Running(kernel, profile) for kernel in kernels]
    at = 0.0
    while any(one.left or one.wave for one in running):
        _place(running, profile.chip, late=at > 0)
        on_chip = [one for one in running if one.wave]
        slower = max(1.0, *(sum(one.share_of(pipe) for one in on_chip) for pipe in on_chip[0].pipes))
        step = min(one.wave * one.alone_cycles for one in on_chip) * slower
        at += step
        for one in on_chip:
            one.wave -= step / (one.alone_cycles * slower)
            if one.wave < _DONE:
                one.wave, one.of_sm, one.end_cycles = 0.0, 0, at
    memory_s = sum(
        reading_s(dict(one.executed), one.blocks * one.threads, one.array_bytes, profile.chip)
        for one in kernels
    )
    phase = Phase(at, sum(_energy_j(one, profile) for one in kernels), memory_s)
    return Round(phase, tuple(r.end_cycles for r in running))


def _place(running: Sequence[_Running], chip: Chip, *, late: bool) -> None:
    """Begin the next wave of each kernel that has none on the chip, as far as there is room."""
    for one in running:
        if one.left and not one.wave:
            others = [r for r in running if r.wave]
            room = min(one.kernel.blocks_per_sm, _room(one.kernel, others, chip))
            one.place(room, chip.sm_count, late=late)


def _room(kernel: CountedKernel, others: Sequence[_Running], chip: Chip) -> int:
    """Return how many blocks of a kernel fit an SM beside others."""
    warps = chip.max_threads_per_sm // WARP - sum(o.of_sm * o.kernel.warps for o in others)
    blocks = chip.max_blocks_per_sm - sum(o.of_sm for o in others)
    registers = chip.registers_per_sm - sum(o.of_sm * _registers(o.kernel) for o in others)
    shared = chip.shared_per_sm_bytes - sum(o.of_sm * o.kernel.shared_bytes for o in others)
    by_shared = shared // kernel.shared_bytes if kernel.shared_bytes else blocks
    return max(0, min(blocks, warps // kernel.warps, registers // _registers(kernel), by_shared))


def _registers(kernel: CountedKernel) -> int:
    """Return the registers of a block."""
    return -(-max(1, kernel.registers) // REGISTER_UNIT) * REGISTER_UNIT * WARP * kernel.warps


def _energy_j(kernel: CountedKernel, profile: Profile) -> float:
    of_thread_pj = counted_energy_pj(dict(kernel.executed), kernel.pattern, profile)
    return kernel.blocks * kernel.threads * of_thread_pj * 1e-12
