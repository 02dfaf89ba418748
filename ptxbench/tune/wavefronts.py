"""How long shared memory is busy with a variant's stripes, bank conflicts included, by its addresses alone.

Shared memory serves 32 banks of 4 bytes a cycle. The lanes of an instruction that name several words of one
bank are served in as many wavefronts; lanes that name the same word share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ptxbench.core.threads import BANK_BYTES, BANKS, LINE_BYTES, WARP
from ptxbench.tune.variant import DType, Op, Stripe, Variant

WAVEFRONT_BYTES = BANKS * BANK_BYTES
# Bytes of a row that ldmatrix reads.
_ROW = 16


def shared_cycles(variant: Variant, op_a: Op = Op.N, op_b: Op = Op.N) -> int:
    """Return the wavefronts of one warp in one trip of the loop, those of the block's first warp.

    Args:
        variant: Its shapes divide each other.
        op_a: How A is stored.
        op_b: How B is stored.
    """
    a, b = variant.stripe_a(op_a), variant.stripe_b(op_b)
    if variant.by_warpgroups:
        # Swizzled copies of 16 bytes a lane meet no bank twice; the tensor cores read by themselves.
        return (a.reads + b.reads) // variant.vector * WARP * _ROW // WAVEFRONT_BYTES
    puts = sum(_put_cycles(stripe, variant.dtype.bytes) for stripe in (a, b))
    if variant.dtype is DType.F16:
        return puts + _matrix_cycles(variant, a, b)
    return puts + (_lane_cycles(variant, a, b) if variant.on_tensor_cores else _simt_cycles(variant, a, b))


def core_wavefronts(variant: Variant) -> int:
    """Return the wavefronts that the tensor cores themselves read for one block in one trip: those of wgmma.

    A warpgroup reads its rows of A once, and all of B for each 64 of them.
    """
    if not variant.by_warpgroups:
        return 0
    read = variant.blk_m + variant.blk_m // 64 * variant.blk_n
    return read * variant.blk_k * variant.dtype.bytes // WAVEFRONT_BYTES


def line_requests(variant: Variant, op_a: Op = Op.N, op_b: Op = Op.N) -> float:
    """Return the lines of 128 bytes that one block asks L2 for in one trip of the loop, as often as it asks.

    Lanes side by side read side by side; a warp whose lanes read several short pieces asks for as many lines.

    Args:
        variant: Its shapes divide each other.
        op_a: How A is stored.
        op_b: How B is stored.
    """
    requested = 0.0
    for stripe in (variant.stripe_a(op_a), variant.stripe_b(op_b)):
        piece = min(stripe.inner_lanes, WARP) * stripe.vector
        lines = max(piece * variant.dtype.bytes / LINE_BYTES, 1.0)
        requested += stripe.outer * stripe.inner / piece * lines
    return requested


def wavefronts(addresses: Iterable[int], size: int) -> int:
    """Return the wavefronts of one instruction.

    Args:
        addresses: First byte of each lane.
        size: Bytes of each lane.
    """
    words = {at // BANK_BYTES + n for at in addresses for n in range(-(-size // BANK_BYTES))}
    per_bank = [0] * BANKS
    for word in words:
        per_bank[word % BANKS] += 1
    return max(per_bank)


def _of_warp(address: Callable[[int], int], size: int) -> int:
    return wavefronts(map(address, range(WARP)), size)


def _put_cycles(stripe: Stripe, size: int) -> int:
    """Return the wavefronts of writing a stripe: whole reads where they lie side by side, or else singly."""
    s = stripe
    together = s.vector if s.inner_stride == 1 else 1

    def address(t: int) -> int:
        return (t % s.inner_lanes * s.vector * s.inner_stride + t // s.inner_lanes * s.outer_stride) * size

    return s.reads // together * _of_warp(address, size * together)


def _simt_cycles(v: Variant, a: Stripe, b: Stripe) -> int:
    """Return the wavefronts of reading the stripes: for each k, a thread's rows and columns."""
    size, width = v.dtype.bytes, v.vector
    gets_a, gets_b = v.blk_k * v.tile_m // width, v.blk_k * v.tile_n // width
    return gets_a * _of_warp(
        lambda t: t // v.dim_n * width * a.other_stride * size, size * width
    ) + gets_b * _of_warp(lambda t: t % v.dim_n * width * b.other_stride * size, size * width)


def _lane_cycles(v: Variant, a: Stripe, b: Stripe) -> int:
    """Return the wavefronts of reading fragments of f64: an element a lane, 8 of m or n by 4 of k."""
    size = v.dtype.bytes

    def each(s: Stripe) -> int:
        return _of_warp(lambda t: (t // 4 * s.other_stride + t % 4 * s.k_stride) * size, size)

    each_a, each_b = each(a), each(b)
    return v.blk_k // 4 * (v.blk_m // v.warps_m // 8 * each_a + v.blk_n // v.warps_n // 8 * each_b)


def _matrix_cycles(v: Variant, a: Stripe, b: Stripe) -> int:
    """Return the wavefronts of reading fragments of f16: an ldmatrix.x4 takes four matrices in turn."""
    size, steps = v.dtype.bytes, v.blk_k // 16
    gets_a, gets_b = steps * (v.blk_m // v.warps_m // 16), steps * (v.blk_n // v.warps_n // 16)
    each_a, each_b = (4 * wavefronts((row * s.lead * size for row in range(8)), _ROW) for s in (a, b))
    return gets_a * each_a + gets_b * each_b
