"""How many threads run one instruction together (PTX ISA: WARP_SZ, and wgmma), and what an SM holds."""

WARP = 32
# Four warps that run one wgmma together.
WARPGROUP = 4 * WARP
# Warp instructions that one SM issues in a cycle: each of its four schedulers issues one (CUDA C++
# Programming Guide, compute capabilities 7.x to 12.x, "Architecture").
ISSUED_PER_CYCLE = 4
# Parts of an SM, each with a scheduler and a quarter of the registers of its own.
SUB_PARTITIONS = ISSUED_PER_CYCLE
# Of an SM, of every GPU since Maxwell (same guide, "Compute Capabilities").
SM_REGISTERS = 65536
# What caches move at once, a sector; a line has four. A coalesced access of a warp moves a line.
SECTOR_BYTES, LINE_BYTES = 32, 128
# Shared memory serves a word of each bank a cycle (CUDA C++ Programming Guide, "Shared Memory").
BANKS, BANK_BYTES = 32, 4
