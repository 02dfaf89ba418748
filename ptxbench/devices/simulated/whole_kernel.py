"""How long any kernel with one loop keeps a simulated chip busy, and with how much energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptxbench.core.threads import WARP
from ptxbench.devices.sequence import stretches
from ptxbench.devices.simulated.ground_truth import (
    counted_energy_pj,
    counted_global_bytes,
    counted_issue_cycles,
    counted_without_global,
    global_bytes,
    issue_cycles,
    loop_energy_pj,
    without_global,
)
from ptxbench.devices.simulated.physics import Phase
from ptxbench.devices.simulated.profile import Chip, Profile
from ptxbench.devices.simulated.timing import Grid
from ptxbench.sass.executed import looped_kernel
from ptxbench.sass.program import Loop, SassKernel

# What a warp waits for memory and barriers in one pass, whatever else it does meanwhile.
WAIT_CYCLES = 700.0
# How often unlike phases of launches follow each other in a stretch.
_TURNS = 4


def plan_whole_kernel(
    kernel: SassKernel,
    grid: Grid,
    trips: int,
    pattern: str,
    profile: Profile,
    array_bytes: int = 0,
) -> tuple[Phase, ...]:
    """Return a launch as two phases: its full waves of blocks, and the last one.

    Each instruction is charged as often as it is executed. Instructions of one warp follow each other
    without a wait, as in unrolled code, but for one wait a trip. The bandwidth of the memory is a limit where
    the profile has one: what the loop loads then comes from L2 where the array fits it, or else from DRAM.

    Args:
        kernel: The kernel; it has one loop.
        grid: The launch's shape; at least one block fits one SM.
        trips: How often a warp goes through the loop.
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
        return moved.phase(times * cycles, threads * thread_pj * 1e-12, profile)

    return _waves(grid, chip.sm_count, wave)


def plan_counted_kernel(
    executed: Mapping[str, float],
    grid: Grid,
    pattern: str,
    profile: Profile,
    array_bytes: int = 0,
) -> tuple[Phase, ...]:
    """Return a launch of a kernel of which is known how often a thread executes each opcode.

    Each execution is charged. A launch waits once for memory. Where the profile tells what bytes cost, every
    byte comes from the nearest level that holds the arrays. Else arrays that L2 does not hold take the time
    of reading each byte of them once at the data sheet's bandwidth.

    Args:
        executed: Executions by one thread.
        grid: The launch's shape; at least one block fits one SM.
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
    thread_bytes = counted_global_bytes(executed)
    once_s = reading_s(executed, grid.blocks * grid.threads, array_bytes, chip)

    def wave(blocks: int, times: int) -> Phase:
        warps = math.ceil(blocks / chip.sm_count) * math.ceil(grid.threads / WARP)
        of_one = sum(executed.values()) + WAIT_CYCLES
        cycles = max(of_one, math.ceil(warps / chip.schedulers_per_sm) * issue)
        threads = times * blocks * grid.threads
        energy_j = threads * thread_pj * 1e-12
        if profile.memory is None:
            share = threads / (grid.blocks * grid.threads)
            return Phase(times * cycles, energy_j, share * once_s)
        moved = _Moved(thread_bytes * threads, min(grid.blocks, chip.sm_count), array_bytes)
        return moved.phase(times * cycles, energy_j, profile)

    return _waves(grid, chip.sm_count, wave)


def reading_s(executed: Mapping[str, float], threads: int, array_bytes: int, chip: Chip) -> float:
    """Return how long a launch reads its arrays, s: each byte once, where L2 does not hold them.

    Args:
        executed: Executions by one thread.
        threads: Threads of the launch.
        array_bytes: Size of its arrays.
        chip: The chip, for its bandwidth by the data sheet.
    """
    # What is loaded again comes from a cache.
    total = min(counted_global_bytes(executed) * threads, array_bytes)
    return total / chip.dram_bytes_per_s if array_bytes > chip.l2_bytes else 0.0


def _waves(grid: Grid, sm_count: int, wave: Callable[[int, int], Phase]) -> tuple[Phase, ...]:
    """Return the full waves of a launch as one phase, and the last one as another."""
    resident = grid.blocks_per_sm * sm_count
    full, rest = divmod(grid.blocks, resident)
    return (*((wave(resident, full),) if full else ()), *((wave(rest, 1),) if rest else ()))


def back_to_back(phases: tuple[Phase, ...], times: int) -> tuple[tuple[Phase, ...], ...]:
    """Return launches back to back, a tuple of phases for each of their `stretches`.

    Waves are too short for a sensor to see one by one, so that all of a launch is one phase of its mean
    power. Where memory is a limit, which is not the same for all phases, they follow each other some times.

    Args:
        phases: Of one launch.
        times: How many launches.
    """
    if times == 1:
        return (phases,)
    if any(one.memory_s for one in phases):
        return tuple(
            tuple(one.times(part) for part in stretches(count, _TURNS) for one in phases)
            for count in stretches(times)
        )
    whole = Phase(sum(one.cycles for one in phases), sum(one.energy_j for one in phases))
    return tuple((whole.times(count),) for count in stretches(times))


@dataclass(frozen=True)
class _Moved:
    """Bytes of a phase, how many SMs take them, the size of the arrays, and whether the loads pass by L1."""

    count: float
    sms: int
    array_bytes: int

    past_l1: bool = False

    def phase(self, cycles: float, energy_j: float, profile: Profile) -> Phase:
        """Return the phase of so many cycles and joules, besides its bytes."""
        memory = profile.memory
        if memory is None or not self.count:
            return Phase(cycles, energy_j)
        if not self.past_l1 and self.array_bytes <= self.sms * memory.l1_bytes:
            cycles = max(cycles, self.count / (self.sms * memory.l1_bytes_per_cycle))
            return Phase(cycles, energy_j + self.count * memory.l1_pj_per_byte * 1e-12)
        cycles = max(cycles, self.count / (self.sms * memory.sm_bytes_per_cycle))
        if self.array_bytes <= profile.chip.l2_bytes:
            energy_j += self.count * memory.l2_pj_per_byte * 1e-12
            return Phase(cycles, energy_j, self.count / memory.l2_bytes_per_s, from_dram=False)
        dram_j = self.count * memory.dram_pj_per_byte * 1e-12
        return Phase(cycles, energy_j, self.count / memory.dram_bytes_per_s, dram_j)


def _pass_cycles(code: Loop, warps_per_sm: int, profile: Profile) -> float:
    """Return the cycles of one pass of every resident warp of one SM."""
    warps = math.ceil(warps_per_sm / profile.chip.schedulers_per_sm)
    return max(len(code.instructions) + WAIT_CYCLES, warps * issue_cycles(code, profile))
