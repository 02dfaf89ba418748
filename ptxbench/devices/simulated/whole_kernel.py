"""How long any kernel with one loop keeps a simulated chip busy, and with how much energy."""

from __future__ import annotations

import math

from ptxbench.core.threads import WARP
from ptxbench.devices.simulated.physics import Phase
from ptxbench.devices.simulated.profile import Profile
from ptxbench.devices.simulated.timing import Grid
from ptxbench.devices.simulated.truth import issue_cycles, loop_energy_pj
from ptxbench.sass.executed import looped_kernel
from ptxbench.sass.program import Loop, SassKernel

# What a warp waits for memory and barriers in one pass, whatever else it does meanwhile.
_WAIT_CYCLES = 700.0


def plan_whole_kernel(
    kernel: SassKernel, grid: Grid, trips: int, launches: int, pattern: str, profile: Profile
) -> tuple[Phase, ...]:
    """Return launches back to back as two phases: their full waves of blocks, and their last ones.

    Each instruction is charged as often as it is executed. Instructions of one warp follow each other
    without a wait, as in unrolled code, but for one wait a trip; the width of the memory is no limit here.

    Args:
        kernel: The kernel; it has one loop.
        grid: The launch's shape; at least one block fits one SM.
        trips: How often a warp goes through the loop.
        launches: How many launches.
        pattern: Operand pattern.
        profile: The GPU.

    Raises:
        LoopError: The kernel has no loop, or more than one.
        InputError: The simulated GPU does not know the pattern.
    """
    code, chip = looped_kernel(kernel), profile.chip
    thread_pj = loop_energy_pj(code.once, pattern, profile) + trips * loop_energy_pj(
        code.loop, pattern, profile
    )

    def wave(blocks: int, times: int) -> Phase:
        # The busiest SM ends last, and the others wait for it.
        warps = math.ceil(blocks / chip.sm_count) * math.ceil(grid.threads / WARP)
        cycles = _pass_cycles(code.once, warps, profile) + trips * _pass_cycles(code.loop, warps, profile)
        return Phase(times * cycles, times * blocks * grid.threads * thread_pj * 1e-12)

    full, rest = divmod(grid.blocks, grid.blocks_per_sm * chip.sm_count)
    phases = []
    if full:
        phases.append(wave(grid.blocks_per_sm * chip.sm_count, launches * full))
    if rest:
        phases.append(wave(rest, launches))
    return tuple(phases)


def _pass_cycles(code: Loop, warps_per_sm: int, profile: Profile) -> float:
    """Return the cycles of one pass of every resident warp of one SM."""
    warps = math.ceil(warps_per_sm / profile.chip.schedulers_per_sm)
    return max(len(code.instructions) + _WAIT_CYCLES, warps * issue_cycles(code, profile))
