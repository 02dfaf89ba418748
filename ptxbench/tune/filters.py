"""What a variant must be like: why one is no kernel, does not fit, or cannot be any good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import MAX_REGISTERS, MAX_THREADS, BlockNeeds, blocks_per_sm
from ptxbench.core.target import find_target
from ptxbench.core.threads import SM_REGISTERS, WARP
from ptxbench.tune.kernel import WIDE_MMA_CAPABILITY
from ptxbench.tune.variant import PLAIN, DType, Form, Op, Problem, Variant

# What a warp's products are made of: m16n8 twice, for which PTX's mma wants sm_80.
_MMA_M, _MMA_N = 16, 16
_MMA_CAPABILITY = 80
_WGMMA_TARGET = "sm_90a"
# k of the shapes of mma (PTX ISA, "mma").
_DEPTHS = {DType.F16: (16,), DType.F64: (4, 8, 16)}
_REGISTER_BYTES = 4
# The widest load and store.
_VECTOR_BYTES = 16
# Addresses, counters and what the assembler needs besides.
_OTHER_REGISTERS = 24


@dataclass(frozen=True)
class Bounds:
    """Bounds that only keep hopeless variants out.

    Attributes:
        min_occupancy: Least occupancy (Eq. 5), 0 to 1.
        min_fma_per_byte: Least multiply-adds for each byte of the stripes (Anzt et al., section 2.3.2).
        min_tile: Least results of a thread.
        max_tile: Most results of a thread.
        max_aspect: Most that a thread's tile may be longer than wide, or wider than long.
        max_unrolled: Most multiply-adds of a thread in one pass of the loop: the code must fit the caches.
        min_threads: Least threads of an SM, where registers are those of the tile of C alone and shared
            memory is that of the stripes, as Anzt et al. count them; 0: `min_occupancy` counts alone.
    """

    min_occupancy: float
    min_fma_per_byte: float
    min_tile: int
    max_tile: int
    max_aspect: int
    max_unrolled: int
    min_threads: int = 0


def least_registers(variant: Variant) -> int:
    """Return the registers that a thread cannot do without: results, operands and what is under way.

    Anzt et al. (2015) count the tile of C alone, and say that it is too few.
    """
    v = variant
    words = max(1, v.dtype.bytes // _REGISTER_BYTES)
    if v.on_tensor_cores:
        rows, columns = v.blk_m // v.warps_m // _MMA_M, v.blk_n // v.warps_n // 8
        if v.by_warpgroups:
            return 4 * rows * columns + _OTHER_REGISTERS
        if v.dtype is DType.F16:
            return 4 * rows * columns + 4 * rows + 2 * columns + _OTHER_REGISTERS
        # Of the fragments of B, the present ones and the next.
        return words * (4 * rows * columns + v.mma_k // 2 * rows + v.mma_k // 2) + _OTHER_REGISTERS
    results = v.tile_m * v.tile_n + v.tile_m + v.tile_n
    under_way = (v.blk_m + v.blk_n) * v.blk_k // v.threads if v.buffers > 1 else 0
    return words * (results + under_way) + _OTHER_REGISTERS


def tile_registers(variant: Variant) -> int:
    """Return the registers of a thread's results alone, as Anzt et al. (2015), section 2.3.2, count them."""
    words = variant.dtype.result_bytes // _REGISTER_BYTES
    return -(-words * variant.blk_m * variant.blk_n // variant.threads)


def shape_faults(variant: Variant, op_a: Op = Op.N, op_b: Op = Op.N) -> Iterator[str]:
    """Yield why the parameters make no kernel: what does not divide what."""
    v, threads = variant, variant.threads
    whole, along = _stand(v)
    if not whole:
        yield f"{threads} threads are no whole warps of at most {MAX_THREADS} threads"
        return
    if not along:
        yield f"{threads} threads cannot stand {v.a_k} along k or {v.b_n} along n"
        return
    if v.by_warpgroups:
        yield from _wgmma_faults(v)
        return
    divides_a, divides_b = _divide(v, op_a, op_b)
    if not divides_a:
        yield f"{v.a_m} x {v.a_k} threads do not divide the stripe of A"
    if not divides_b:
        yield f"{v.b_k} x {v.b_n} threads do not divide the stripe of B"
    if v.vector * v.dtype.bytes > _VECTOR_BYTES or v.pad % v.vector:
        yield f"vectors of {v.vector} do not fit 16 bytes, or the padding of {v.pad}"
    if v.on_tensor_cores:
        yield from _mma_faults(v)
    elif v.blk_m % (v.dim_m * v.vector) or v.blk_n % (v.dim_n * v.vector):
        yield f"{v.dim_m} x {v.dim_n} threads with vectors of {v.vector} do not divide the tile of C"


def is_promising(variants: Variant, op_a: Op, op_b: Op, bounds: Bounds) -> bool:
    """Return whether neither shapes nor bounds are against a variant, by what numpy tells of many at once.

    Parameters may be arrays, and so is the answer then. What is against the others, the faults say.
    """
    told = (*_stand(variants), *_promise(variants, bounds))
    return reduce(and_, told if variants.by_warpgroups else (*told, *_divide(variants, op_a, op_b)))


def _stand(v: Variant) -> tuple[bool, bool]:
    """Return whether threads are whole warps, and stand along k of A and n of B; of arrays, arrays."""
    return (v.threads % WARP == 0) & (v.threads <= MAX_THREADS), (v.threads % v.a_k + v.threads % v.b_n) == 0


def _divide(v: Variant, op_a: Op, op_b: Op) -> tuple[bool, bool]:
    """Return whether threads read the stripes of A and B wholly; of arrays, arrays."""
    # As the stripes have it (`Variant.stripe_a`), written out: a search asks this a million times.
    reads_a = (v.blk_m, v.blk_k, v.a_m, v.a_k) if op_a is Op.N else (v.blk_k, v.blk_m, v.a_k, v.a_m)
    reads_b = (v.blk_k, v.blk_n, v.b_k, v.b_n) if op_b is Op.N else (v.blk_n, v.blk_k, v.b_n, v.b_k)
    a, b = (
        (outer % outer_lanes == 0) & (inner % (inner_lanes * v.vector) == 0)
        for outer, inner, outer_lanes, inner_lanes in (reads_a, reads_b)
    )
    return a, b


def _promise(v: Variant, bounds: Bounds) -> tuple[bool, bool, bool, bool]:
    """Return whether a thread's tile, its aspect, the loop and the reuse are within bounds; or arrays."""
    results, stripes_bytes = v.tile_m * v.tile_n, (v.blk_m + v.blk_n) * v.blk_k * v.dtype.bytes
    return (
        (bounds.min_tile <= results) & (results <= bounds.max_tile),
        (v.tile_m <= bounds.max_aspect * v.tile_n) & (v.tile_n <= bounds.max_aspect * v.tile_m),
        results * v.blk_k <= bounds.max_unrolled,
        v.blk_m * v.blk_n * v.blk_k >= bounds.min_fma_per_byte * stripes_bytes,
    )


def _mma_faults(v: Variant) -> Iterator[str]:
    if v.dim_m % 8 or v.dim_n % 4:
        yield f"{v.dim_m} x {v.dim_n} threads are no whole warps of 8 x 4"
    elif v.blk_m % (v.warps_m * _MMA_M) or v.blk_n % (v.warps_n * _MMA_N) or v.blk_k % v.mma_k:
        yield f"{v.warps_m} x {v.warps_n} warps do not divide the tile into {_MMA_M} x {_MMA_N} x {v.mma_k}"
    if v.mma_k not in _DEPTHS.get(v.dtype, ()):
        yield f"the tensor cores have no mma of {v.dtype} with a depth of {v.mma_k}"
    if v.vector * v.dtype.bytes != _VECTOR_BYTES:
        yield "asynchronous copies are of 16 bytes"
    if v.buffers < 2:
        yield "asynchronous copies need two buffers"


def _wgmma_faults(v: Variant) -> Iterator[str]:
    if v.dtype is not DType.F16 or v.mma_k != 16:
        yield "the kernels by wgmma are of f16, with a depth of 16"
    if v.dim_m not in (32, 64, 128) or v.dim_n != 4:
        yield f"{v.dim_m} x {v.dim_n} threads are not one, two or four warpgroups of 32 x 4"
    elif v.blk_m % (v.dim_m // 32 * 64) or v.blk_n % 64 or v.blk_n > 256:
        yield f"{v.dim_m // 32} warpgroups do not divide {v.blk_m} x {v.blk_n} into 64 x up to 256"
    if (v.blk_k, v.vector, v.a_k, v.b_n, v.pad) != (64, 8, 8, 8, 0):
        yield "the kernels by wgmma have rows of 64 elements, read by 8 threads, and no padding"
    if v.buffers < 3:
        yield "products that run on need three buffers"


def device_faults(variant: Variant, target: str, bounds: Bounds, form: Form = PLAIN) -> Iterator[str]:
    """Yield why a kernel does not fit a GPU, or leaves it too empty (Eqs. 1 to 5)."""
    v = variant
    limits = sm_facts(target)
    registers = tile_registers(v) if bounds.min_threads else least_registers(v)
    allowed = min(MAX_REGISTERS, SM_REGISTERS // (v.threads * v.min_blocks))
    if registers > allowed:
        yield f"a thread needs {registers} registers where {allowed} are to be had"
        return
    needs = BlockNeeds(v.threads, registers, v.shared_bytes(form))
    resident = blocks_per_sm(needs, limits)
    if resident < v.min_blocks:
        yield f"{resident} blocks fit one SM where {v.min_blocks} must"
    elif resident * v.threads < bounds.min_threads:
        yield f"{resident * v.threads} threads on an SM are under {bounds.min_threads}"
    elif (held := resident * needs.warps / limits.max_warps) < bounds.min_occupancy:
        yield f"occupancy {held:.3f} is under {bounds.min_occupancy}"


def quality_faults(variant: Variant, bounds: Bounds) -> Iterator[str]:
    """Yield why a variant cannot be any good."""
    v = variant
    results = v.tile_m * v.tile_n
    fits, is_square, is_short, is_reused = _promise(v, bounds)
    if not fits:
        yield f"{results} results a thread are not {bounds.min_tile} to {bounds.max_tile}"
    if not is_square:
        yield f"a thread's {v.tile_m} x {v.tile_n} results are too long or too wide"
    if not is_short:
        yield f"{results * v.blk_k} multiply-adds in one pass are over {bounds.max_unrolled}"
    if not is_reused:
        yield f"under {bounds.min_fma_per_byte} multiply-adds for each byte in shared memory"


def target_faults(variant: Variant, target: str) -> Iterator[str]:
    """Yield why a target has not the instructions of a kernel."""
    v = variant
    if not v.on_tensor_cores:
        return
    capability = find_target(target).capability
    if v.by_warpgroups and target != _WGMMA_TARGET:
        yield f"{target} has no wgmma: {_WGMMA_TARGET} alone has it"
    elif capability < _MMA_CAPABILITY:
        yield f"{target} has neither mma.{'m16n8k16' if v.dtype is DType.F16 else 'm8n8k4'} nor cp.async"
    elif v.dtype is DType.F64 and v.mma_k > 4 and capability < WIDE_MMA_CAPABILITY:
        yield f"{target} has no mma.m16n8k{v.mma_k} of f64"


def problem_faults(variant: Variant, problem: Problem) -> Iterator[str]:
    """Yield why a kernel cannot compute a product."""
    v = variant
    rows = (problem.shapes[0][1], problem.shapes[1][1])
    written = 2 if v.on_tensor_cores else v.vector
    if v.by_warpgroups and not problem.op_a is problem.op_b is Op.N:
        yield "the kernels by wgmma take A and B as they are, not transposed"
    if any(row % v.vector for row in rows) or problem.n % written:
        yield f"rows of {rows[0]}, {rows[1]} and {problem.n} elements are no whole reads of {v.vector}"
    elif v.trips(problem) < v.buffers:
        yield f"{v.trips(problem)} stripes do not fill {v.buffers} buffers"
    elif problem.m < v.blk_m or problem.n < v.blk_n:
        yield f"a tile of {v.blk_m} x {v.blk_n} is larger than C"


def rejection(variant: Variant, problem: Problem, target: str, bounds: Bounds) -> str:
    """Return the first reason against a variant, "" where there is none."""
    shape = next(shape_faults(variant, problem.op_a, problem.op_b), "")
    return shape or misfit(variant, problem, target, bounds)


def misfit(variant: Variant, problem: Problem, target: str, bounds: Bounds) -> str:
    """Return the first reason against a variant whose shapes divide each other, "" where there is none."""
    return (
        next(target_faults(variant, target), "")
        or next(quality_faults(variant, bounds), "")
        or next(problem_faults(variant, problem), "")
        or next(device_faults(variant, target, bounds, variant.form(problem)), "")
    )
