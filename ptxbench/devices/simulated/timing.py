"""How long a kernel's loop keeps a simulated chip busy, and with how much energy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptxbench.catalogue.occupancy import MAX_THREADS
from ptxbench.core.threads import WARP
from ptxbench.devices.simulated.ground_truth import issue_cycles, latency_cycles, loop_energy_pj
from ptxbench.devices.simulated.physics import Phase
from ptxbench.devices.simulated.profile import Profile
from ptxbench.sass.program import Loop

# An SM hands out so many registers at once to each thread of a warp.
REGISTER_UNIT = 8


@dataclass(frozen=True)
class Grid:
    """The shape of one launch.

    Attributes:
        blocks: Blocks.
        threads: Threads a block.
        blocks_per_sm: Blocks that one SM holds at once.
    """

    blocks: int
    threads: int
    blocks_per_sm: int


def resident_blocks(registers: int, threads: int, profile: Profile, shared_bytes: int = 0) -> int:
    """Return how many blocks one SM holds at once; 0 where not even one fits.

    Args:
        registers: Registers a thread.
        threads: Threads a block.
        profile: The GPU.
        shared_bytes: Shared memory a block.
    """
    if not 1 <= threads <= MAX_THREADS:
        return 0
    chip = profile.chip
    # An SM hands out threads by the warp, and registers by eight to each of a warp's threads.
    whole_warps = math.ceil(threads / WARP) * WARP
    given = max(1, math.ceil(registers / REGISTER_UNIT)) * REGISTER_UNIT
    by_threads = chip.max_threads_per_sm // whole_warps
    # A warp's registers lie in one sub-partition.
    of_one = chip.registers_per_sm // chip.schedulers_per_sm // (given * WARP)
    by_registers = chip.schedulers_per_sm * of_one // (whole_warps // WARP)
    by_shared = chip.shared_per_sm_bytes // shared_bytes if shared_bytes else chip.max_blocks_per_sm
    return min(chip.max_blocks_per_sm, by_threads, by_registers, by_shared)


def iteration_cycles(loop: Loop, warps_per_sm: int, profile: Profile) -> float:
    """Return the cycles of one iteration of every resident warp of one SM.

    Either one warp's latencies bound it, taken as if each instruction waited for the one before it, or
    the pipes of a sub-partition, which its warps share.
    """
    warps = math.ceil(warps_per_sm / profile.chip.schedulers_per_sm)
    return max(latency_cycles(loop, profile), warps * issue_cycles(loop, profile))


def plan_phases(
    loop: Loop, grid: Grid, iterations: int, pattern: str, profile: Profile, lanes: int = WARP
) -> tuple[Phase, ...]:
    """Return the launch as waves of resident blocks, each a phase of constant power.

    Args:
        loop: The kernel's loop; what stands outside of it is not charged.
        grid: The launch's shape; at least one block fits one SM.
        iterations: Loop count.
        pattern: Operand pattern.
        profile: The GPU.
        lanes: Active lanes of each warp.

    Raises:
        InputError: The simulated GPU does not know the pattern.
    """
    chip = profile.chip
    thread_j = iterations * loop_energy_pj(loop, pattern, profile, lanes) * 1e-12 * lanes / WARP

    def wave(blocks: int) -> Phase:
        # The busiest SM ends last, and the others wait for it.
        warps = math.ceil(blocks / chip.sm_count) * math.ceil(grid.threads / WARP)
        cycles = iterations * iteration_cycles(loop, warps, profile)
        return Phase(cycles, blocks * grid.threads * thread_j)

    capacity = grid.blocks_per_sm * chip.sm_count
    full, rest = divmod(grid.blocks, capacity)
    return (wave(capacity),) * full + ((wave(rest),) if rest else ())
