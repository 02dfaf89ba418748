"""How long shared memory is busy with a variant's stripes, bank conflicts included, by its addresses alone.

Shared memory serves 32 banks of 4 bytes a cycle. The lanes of an instruction that name several words of one
bank are served in as many wavefronts; lanes that name the same word share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ptxbench.core.threads import WARP
from ptxbench.model.work import LINE_BYTES
from ptxbench.tune.variant import DType, Variant

_BANKS = 32
_WORD = 4
WAVEFRONT_BYTES = _BANKS * _WORD
_ROW = 16


def shared_cycles(variant: Variant) -> int:
    """Return the wavefronts of one warp in one trip of the loop, those of the block's first warp.

    Args:
        variant: Its shapes divide each other.
    """
    return _mma_cycles(variant) if variant.dtype is DType.F16 else _simt_cycles(variant)


def line_requests(variant: Variant) -> float:
    """Return the lines of 128 bytes that one block asks L2 for in one trip of the loop, as often as it asks.

    Lanes side by side read side by side; a warp whose lanes read several short pieces asks for as many lines.

    Args:
        variant: Its shapes divide each other.
    """
    v = variant
    requested = 0.0
    for elements, lanes in ((v.blk_m * v.blk_k, v.a_k), (v.blk_n * v.blk_k, v.b_n)):
        piece = min(lanes, WARP) * v.vector
        requested += elements / piece * max(piece * v.dtype.bytes / LINE_BYTES, 1.0)
    return requested


def wavefronts(addresses: Iterable[int], size: int) -> int:
    """Return the wavefronts of one instruction.

    Args:
        addresses: First byte of each lane.
        size: Bytes of each lane.
    """
    words = {at // _WORD + n for at in addresses for n in range(-(-size // _WORD))}
    per_bank = [0] * _BANKS
    for word in words:
        per_bank[word % _BANKS] += 1
    return max(per_bank)


def _of_warp(address: Callable[[int], int], size: int) -> int:
    return wavefronts(map(address, range(WARP)), size)


def _simt_cycles(v: Variant) -> int:
    size, width = v.dtype.bytes, v.vector
    lda, ldb = v.blk_m + v.pad, v.blk_n + v.pad
    puts_a = v.blk_m * v.blk_k // v.threads
    puts_b = v.blk_n * v.blk_k // (v.threads * width)
    gets_a, gets_b = v.blk_k * v.tile_m // width, v.blk_k * v.tile_n // width
    return (
        puts_a * _of_warp(lambda t: ((t % v.a_k) * width * lda + t // v.a_k) * size, size)
        + puts_b * _of_warp(lambda t: ((t % v.b_n) * width + t // v.b_n * ldb) * size, size * width)
        + gets_a * _of_warp(lambda t: t // v.dim_n * width * size, size * width)
        + gets_b * _of_warp(lambda t: t % v.dim_n * width * size, size * width)
    )


def _mma_cycles(v: Variant) -> int:
    size, width = v.dtype.bytes, v.vector
    lda, ldb = (v.blk_k + v.pad) * size, (v.blk_n + v.pad) * size
    steps = v.blk_k // 16
    puts = (v.blk_m + v.blk_n) * v.blk_k // (v.threads * width)
    gets_a = steps * (v.blk_m // v.warps_m // 16)
    gets_b = steps * (v.blk_n // v.warps_n // 16)
    put_a = _of_warp(lambda t: t // v.a_k * lda + t % v.a_k * _ROW, _ROW)
    put_b = _of_warp(lambda t: t // v.b_n * ldb + t % v.b_n * _ROW, _ROW)
    return puts * max(put_a, put_b) + gets_a * _matrices(lda) + gets_b * _matrices(ldb)


def _matrices(row_bytes: int) -> int:
    """Return the wavefronts of an ldmatrix.x4: four matrices of eight rows, one after the other."""
    return 4 * wavefronts((row * row_bytes for row in range(8)), _ROW)
