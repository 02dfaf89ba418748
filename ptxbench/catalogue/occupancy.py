"""How many blocks one SM holds: Eqs. 1 to 5 of Guerreiro et al. (2015), section III-A.

Units and rounding are those of NVIDIA's occupancy calculator (`cuda_occupancy.h`, CUDA 13).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptxbench.catalogue.architecture import SmFacts
from ptxbench.core.threads import LINE_BYTES, SM_REGISTERS, SUB_PARTITIONS, WARP

# Of a block and of a thread, of every GPU (CUDA C++ Programming Guide, "Compute Capabilities").
MAX_THREADS = 1024
MAX_REGISTERS = 255
# The guide's limits of a grid, x, y, z.
MAX_GRID = (2**31 - 1, 65535, 65535)
# Registers are handed out to a warp in units of this.
_REGISTER_UNIT = 256
# What shared memory may take of L1, KiB; a capability has those up to its shared memory (CUDA C++ Programming
# Guide, "Compute Capabilities").
_CARVED_KIB = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)


@dataclass(frozen=True)
class BlockNeeds:
    """What one block takes (ker... in the paper's Table I).

    Attributes:
        threads: Threads.
        registers: Registers of a thread.
        shared_bytes: Shared memory.
    """

    threads: int
    registers: int
    shared_bytes: int

    @property
    def warps(self) -> int:
        """Warps (kerW_TB)."""
        return -(-self.threads // WARP)


def limit_by_device(needs: BlockNeeds, limits: SmFacts) -> int:
    """Eq. 2: TB_lim1 = min(devMaxTB_SM, floor(devMaxW_SM / kerW_TB))."""
    return min(limits.max_blocks, limits.max_warps // needs.warps)


def limit_by_shared(needs: BlockNeeds, limits: SmFacts) -> int:
    """Eq. 3: TB_lim2 = floor(devMaxSharedMem_SM / kerSharedMem_TB), by whole allocation units.

    A block without shared memory is not limited by it; one with more than a block may have does not fit.
    """
    if needs.shared_bytes > limits.shared_block_bytes:
        return 0
    unit = limits.shared_unit_bytes
    taken = -(-(needs.shared_bytes + limits.shared_reserved_bytes) // unit) * unit
    return limits.shared_bytes // taken if taken else limits.max_blocks


def limit_by_registers(needs: BlockNeeds) -> int:
    """Eq. 4: TB_lim3 = floor(floor(devRegsLimit_SM / kerRegs_W) / kerW_TB), by whole allocation units.

    The paper takes the registers of an SM as one file. Each sub-partition has a quarter of them of its own,
    and a warp's registers lie in one: the inner floor is taken there (`cuda_occupancy.h`).
    """
    if needs.registers > MAX_REGISTERS:
        return 0
    warp_registers = -(-max(1, needs.registers) * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    warps = SUB_PARTITIONS * (SM_REGISTERS // SUB_PARTITIONS // warp_registers)
    return warps // needs.warps


def blocks_per_sm(needs: BlockNeeds, limits: SmFacts) -> int:
    """Eq. 1: maxTB_SM = min(TB_lim1, TB_lim2, TB_lim3)."""
    return min(limit_by_device(needs, limits), limit_by_shared(needs, limits), limit_by_registers(needs))


def occupancy(needs: BlockNeeds, limits: SmFacts) -> float:
    """Eq. 5: maxTB_SM kerW_TB devWarpSize / devMaxThreads_SM, from 0 to 1."""
    return blocks_per_sm(needs, limits) * needs.warps / limits.max_warps


def lines_of_a_block(sm: SmFacts, needs: BlockNeeds, blocks: int, sms: int = 0) -> int:
    """Return how many lines of L1 a block has, with those that share its SM.

    Args:
        sm: What an SM of the GPU holds.
        needs: What a block takes of it.
        blocks: Blocks of the launch.
        sms: SMs that these are spread over; 0: not known, each is full.
    """
    resident = blocks_per_sm(needs, sm)
    if sms:
        resident = min(resident, math.ceil(blocks / sms))
    resident = max(resident, 1)
    own = needs.shared_bytes + sm.shared_reserved_bytes if needs.shared_bytes else 0
    sizes = (kib << 10 for kib in _CARVED_KIB if kib << 10 <= sm.shared_bytes)
    carved = next((size for size in sizes if size >= resident * own), sm.shared_bytes)
    return max((sm.l1_bytes - carved) // LINE_BYTES // resident, 1)


@dataclass(frozen=True)
class Residency:
    """How many blocks of one size an SM holds, and what keeps it from more.

    Attributes:
        threads: Threads of a block.
        by_blocks: Blocks that the device's limit of blocks lets in (Eq. 2, first term).
        by_warps: Blocks that its limit of warps lets in (Eq. 2, second term).
        by_shared: Blocks that shared memory lets in (Eq. 3).
        by_registers: Blocks that registers let in (Eq. 4).
        occupancy: Eq. 5, 0 to 1.
    """

    threads: int
    by_blocks: int
    by_warps: int
    by_shared: int
    by_registers: int
    occupancy: float

    @property
    def blocks(self) -> int:
        """Eq. 1: blocks that one SM holds at once."""
        return min(self.by_blocks, self.by_warps, self.by_shared, self.by_registers)

    @property
    def limiters(self) -> tuple[str, ...]:
        """What lets no more blocks in: "blocks", "warps", "shared memory", "registers"."""
        named = {
            "blocks": self.by_blocks,
            "warps": self.by_warps,
            "shared memory": self.by_shared,
            "registers": self.by_registers,
        }
        return tuple(name for name, blocks in named.items() if blocks == self.blocks)


def residency(needs: BlockNeeds, limits: SmFacts) -> Residency:
    """Return how many blocks an SM holds, with each limit (Eqs. 1 to 5)."""
    return Residency(
        threads=needs.threads,
        by_blocks=limits.max_blocks,
        by_warps=limits.max_warps // needs.warps,
        by_shared=limit_by_shared(needs, limits),
        by_registers=limit_by_registers(needs),
        occupancy=occupancy(needs, limits),
    )
