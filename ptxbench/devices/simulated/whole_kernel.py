"""How long any kernel with one loop keeps a simulated chip busy, and with how much energy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ptxbench.core.threads import WARP
from ptxbench.devices.simulated.physics import Phase
from ptxbench.devices.simulated.profile import Memory, Profile
from ptxbench.devices.simulated.timing import Grid
from ptxbench.devices.simulated.truth import (
    counted_energy_pj,
    counted_global_bytes,
    counted_issue_cycles,
    counted_without_global,
    global_bytes,
    issue_cycles,
    loop_energy_pj,
    without_global,
)
from ptxbench.sass.executed import looped_kernel
from ptxbench.sass.program import Loop, SassKernel

# What a warp waits for memory and barriers in one pass, whatever else it does meanwhile.
WAIT_CYCLES = 700.0


def plan_whole_kernel(
    kernel: SassKernel,
    grid: Grid,
    trips: int,
    launches: int,
    pattern: str,
    profile: Profile,
    array_bytes: int = 0,
) -> tuple[Phase, ...]:
    """Return launches back to back as two phases: their full waves of blocks, and their last ones.

    Each instruction is charged as often as it is executed. Instructions of one warp follow each other
    without a wait, as in unrolled code, but for one wait a trip. The bandwidth of the memory is a limit where
    the profile has one: what the loop loads then comes from L2 where the array fits it, or else from DRAM.

    Args:
        kernel: The kernel; it has one loop.
        grid: The launch's shape; at least one block fits one SM.
        trips: How often a warp goes through the loop.
        launches: How many launches.
        pattern: Operand pattern.
        profile: The GPU.
        array_bytes: Size of the array that the loop loads from.

    Raises:
        LoopError: The kernel has no loop, or more than one.
        InputError: The simulated GPU does not know the pattern.
    """
    code, chip = looped_kernel(kernel), profile.chip
    charged = without_global(code.loop) if profile.memory else code.loop
    thread_pj = loop_energy_pj(code.once, pattern, profile) + trips * loop_energy_pj(
        charged, pattern, profile
    )
    loaded = trips * global_bytes(code.loop) if profile.memory else 0
    past_l1 = any(i.base == "LDG" and "GPU" in i.opcode.split(".") for i in code.loop.instructions)
    # Fewer blocks than SMs are one wave, so that the SMs at work are those of every wave.
    sms = min(grid.blocks, chip.sm_count)

    def wave(blocks: int, times: int) -> Phase:
        # The busiest SM ends last, and the others wait for it.
        warps = math.ceil(blocks / chip.sm_count) * math.ceil(grid.threads / WARP)
        cycles = _pass_cycles(code.once, warps, profile) + trips * _pass_cycles(code.loop, warps, profile)
        threads = times * blocks * grid.threads
        moved = _Moved(loaded * threads, sms, array_bytes, past_l1)
        return moved.phase(times * cycles, threads * thread_pj * 1e-12, profile.memory)

    full, rest = divmod(grid.blocks, grid.blocks_per_sm * chip.sm_count)
    phases = []
    if full:
        phases.append(wave(grid.blocks_per_sm * chip.sm_count, launches * full))
    if rest:
        phases.append(wave(rest, launches))
    return tuple(phases)


def plan_counted_kernel(
    executed: Mapping[str, float],
    grid: Grid,
    launches: int,
    pattern: str,
    profile: Profile,
    array_bytes: int = 0,
) -> tuple[Phase, ...]:
    """Return launches back to back of a kernel of which is known how often a thread executes each opcode.

    Several launches are one phase of their mean power where no memory is a limit. Each execution is charged.
    A launch waits once for
    memory. The bandwidth of the memory is a limit where the profile has one: every byte then comes from the
    nearest level that holds the arrays.

    Args:
        executed: Executions by one thread.
        grid: The launch's shape; at least one block fits one SM.
        launches: How many launches.
        pattern: Operand pattern.
        profile: The GPU.
        array_bytes: Size of its arrays.

    Raises:
        InputError: The simulated GPU does not know the pattern.
    """
    chip = profile.chip
    charged = counted_without_global(executed) if profile.memory else executed
    thread_pj = counted_energy_pj(charged, pattern, profile)
    issue = counted_issue_cycles(executed, profile)
    thread_bytes = counted_global_bytes(executed) if profile.memory else 0.0

    def wave(blocks: int, times: int) -> Phase:
        warps = math.ceil(blocks / chip.sm_count) * math.ceil(grid.threads / WARP)
        of_one = sum(executed.values()) + WAIT_CYCLES
        cycles = max(of_one, math.ceil(warps / chip.schedulers_per_sm) * issue)
        threads = times * blocks * grid.threads
        moved = _Moved(thread_bytes * threads, min(grid.blocks, chip.sm_count), array_bytes)
        return moved.phase(times * cycles, threads * thread_pj * 1e-12, profile.memory)

    full, rest = divmod(grid.blocks, grid.blocks_per_sm * chip.sm_count)
    phases = [wave(grid.blocks_per_sm * chip.sm_count, launches * full)] if full else []
    phases += [wave(rest, launches)] if rest else []
    if launches == 1 or profile.memory:
        return tuple(phases)
    # Launches back to back: their waves are too short for a sensor to see one by one.
    return (
        Phase(
            cycles=sum(one.cycles for one in phases),
            energy_j=sum(one.energy_j for one in phases),
            memory_s=sum(one.memory_s for one in phases),
            memory_j=sum(one.memory_j for one in phases),
            from_dram=phases[0].from_dram,
        ),
    )


@dataclass(frozen=True)
class _Moved:
    """Bytes of a phase, how many SMs take them, the size of the arrays, and whether the loads pass by L1."""

    count: float
    sms: int
    array_bytes: int

    past_l1: bool = False

    def phase(self, cycles: float, energy_j: float, memory: Memory | None) -> Phase:
        """Return the phase of so many cycles and joules, besides its bytes."""
        if memory is None or not self.count:
            return Phase(cycles, energy_j)
        if not self.past_l1 and self.array_bytes <= self.sms * memory.l1_bytes:
            cycles = max(cycles, self.count / (self.sms * memory.l1_bytes_per_cycle))
            return Phase(cycles, energy_j + self.count * memory.l1_pj_per_byte * 1e-12)
        cycles = max(cycles, self.count / (self.sms * memory.sm_bytes_per_cycle))
        if self.array_bytes <= memory.l2_bytes:
            energy_j += self.count * memory.l2_pj_per_byte * 1e-12
            return Phase(cycles, energy_j, self.count / memory.l2_bytes_per_s, from_dram=False)
        dram_j = self.count * memory.dram_pj_per_byte * 1e-12
        return Phase(cycles, energy_j, self.count / memory.dram_bytes_per_s, dram_j)


def _pass_cycles(code: Loop, warps_per_sm: int, profile: Profile) -> float:
    """Return the cycles of one pass of every resident warp of one SM."""
    warps = math.ceil(warps_per_sm / profile.chip.schedulers_per_sm)
    return max(len(code.instructions) + WAIT_CYCLES, warps * issue_cycles(code, profile))
