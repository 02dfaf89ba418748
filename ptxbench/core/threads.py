"""How many threads run one instruction together, on every NVIDIA GPU so far (PTX ISA: WARP_SZ, and wgmma)."""

WARP = 32
# Four warps that run one wgmma together.
WARPGROUP = 4 * WARP
