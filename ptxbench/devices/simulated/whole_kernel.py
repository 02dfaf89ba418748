"""How long any kernel with one loop keeps a simulated chip busy, and with how much energy."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ptxbench.core.threads import WARP
from ptxbench.devices.simulated.physics import Phase
from ptxbench.devices.simulated.profile import Memory, Profile
from ptxbench.devices.simulated.timing import Grid
from ptxbench.devices.simulated.truth import (
    counted_energy_pj,
    counted_issue_cycles,
    global_load_bytes,
    issue_cycles,
    loop_energy_pj,
    without_global_loads,
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
    charged = without_global_loads(code.loop) if profile.memory else code.loop
    thread_pj = loop_energy_pj(code.once, pattern, profile) + trips * loop_energy_pj(
        charged, pattern, profile
    )
    loaded = trips * global_load_bytes(code.loop) if profile.memory else 0
    if profile.memory:
        thread_pj += loaded * _byte_pj(profile.memory, array_bytes)

    def wave(blocks: int, times: int) -> Phase:
        # The busiest SM ends last, and the others wait for it.
        warps = math.ceil(blocks / chip.sm_count) * math.ceil(grid.threads / WARP)
        cycles = _pass_cycles(code.once, warps, profile) + trips * _pass_cycles(code.loop, warps, profile)
        if profile.memory:
            sms = min(blocks, chip.sm_count)
            per_cycle = _bytes_per_cycle(profile.memory, array_bytes, sms, chip.clock_mhz * 1e6)
            cycles = max(cycles, loaded * blocks * grid.threads / per_cycle)
        return Phase(times * cycles, times * blocks * grid.threads * thread_pj * 1e-12)

    full, rest = divmod(grid.blocks, grid.blocks_per_sm * chip.sm_count)
    phases = []
    if full:
        phases.append(wave(grid.blocks_per_sm * chip.sm_count, launches * full))
    if rest:
        phases.append(wave(rest, launches))
    return tuple(phases)


def plan_counted_kernel(
    executed: Mapping[str, float], grid: Grid, launches: int, pattern: str, profile: Profile
) -> tuple[Phase, ...]:
    """Return launches back to back of a kernel of which is known how often a thread executes each opcode.

    Several launches are one phase of their mean power. Each execution is charged. A launch waits once for
    memory, whose bandwidth is no limit.

    Args:
        executed: Executions by one thread.
        grid: The launch's shape; at least one block fits one SM.
        launches: How many launches.
        pattern: Operand pattern.
        profile: The GPU.

    Raises:
        InputError: The simulated GPU does not know the pattern.
    """
    chip = profile.chip
    thread_pj = counted_energy_pj(executed, pattern, profile)
    issue = counted_issue_cycles(executed, profile)

    def wave(blocks: int, times: int) -> Phase:
        warps = math.ceil(blocks / chip.sm_count) * math.ceil(grid.threads / WARP)
        of_one = sum(executed.values()) + WAIT_CYCLES
        cycles = max(of_one, math.ceil(warps / chip.schedulers_per_sm) * issue)
        return Phase(times * cycles, times * blocks * grid.threads * thread_pj * 1e-12)

    full, rest = divmod(grid.blocks, grid.blocks_per_sm * chip.sm_count)
    phases = [wave(grid.blocks_per_sm * chip.sm_count, launches * full)] if full else []
    phases += [wave(rest, launches)] if rest else []
    if launches == 1:
        return tuple(phases)
    # Launches back to back: their waves are too short for a sensor to see one by one.
    return (Phase(sum(one.cycles for one in phases), sum(one.energy_j for one in phases)),)


def _byte_pj(memory: Memory, array_bytes: int) -> float:
    return memory.l2_pj_per_byte if array_bytes <= memory.l2_bytes else memory.dram_pj_per_byte


def _bytes_per_cycle(memory: Memory, array_bytes: int, sms: int, clock_hz: float) -> float:
    """Return the bytes that some SMs get in a cycle of their full clock."""
    fits = array_bytes <= memory.l2_bytes
    whole_chip = memory.l2_bytes_per_s if fits else memory.dram_bytes_per_s
    return min(whole_chip / clock_hz, sms * memory.sm_bytes_per_cycle)


def _pass_cycles(code: Loop, warps_per_sm: int, profile: Profile) -> float:
    """Return the cycles of one pass of every resident warp of one SM."""
    warps = math.ceil(warps_per_sm / profile.chip.schedulers_per_sm)
    return max(len(code.instructions) + WAIT_CYCLES, warps * issue_cycles(code, profile))
