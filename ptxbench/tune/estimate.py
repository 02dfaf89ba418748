"""A variant's energy without a sensor: what it executes, by the energy of each opcode, and its time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptxbench.catalogue.architecture import SmFacts, sm_facts
from ptxbench.catalogue.occupancy import blocks_per_sm
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.threads import SUB_PARTITIONS
from ptxbench.tune.kernel import Kernel
from ptxbench.tune.variant import Op, Problem, Variant
from ptxbench.tune.wavefronts import WAVEFRONT_BYTES, core_wavefronts, line_requests, shared_cycles

# The temperature that an energy is foreseen for.
COOL_C = 40.0
# What memory, and a barrier with the first reads behind it, take: rounded guesses that put variants in order.
_MEMORY_CYCLES = 700.0
_BARRIER_CYCLES = 80.0
# Products of m8n8k4, which DMMA without a shape is.
_SMALLEST_DMMA = 8 * 8 * 4
# Clock of a model where NVML does not tell the GPU's: it scales all variants alike.
_UNKNOWN_CLOCK_MHZ = 1500.0


@dataclass(frozen=True)
class OpcodeCount:
    """How often an opcode is executed.

    Attributes:
        opcode: With modifiers.
        count: Executions by a thread, over all threads.
    """

    opcode: str
    count: int


@dataclass(frozen=True)
class Work:
    """What one launch does; a number of bytes or requests that is not known is NaN.

    Attributes:
        executed: Every opcode that it executes, the most frequent first.
        read_bytes: Bytes that L2 hands to the SMs.
        written_bytes: Bytes that the SMs hand to L2.
        shared_bytes: Bytes that shared memory is busy with: 128 a wavefront, bank conflicts included.
        dram_bytes: Bytes that pass between memory and L2, at least.
        read_requests: Lines that the SMs ask L2 for, as often as they ask; of some only a part.
    """

    executed: tuple[OpcodeCount, ...]
    read_bytes: float
    written_bytes: float
    shared_bytes: float
    dram_bytes: float
    read_requests: float

    @classmethod
    def of_bytes(cls, executed: tuple[OpcodeCount, ...], l2_bytes: float, dram_bytes: float) -> Work:
        """Return work of which no more is known than what is executed and, perhaps, some bytes."""
        return cls(executed, l2_bytes, 0.0, math.nan, dram_bytes, math.nan)

    @property
    def l2_bytes(self) -> float:
        """Bytes that pass between L2 and the SMs."""
        return self.read_bytes + self.written_bytes


def work_of(kernel: Kernel, problem: Problem) -> Work:
    """Return what a kernel does for a problem; see `work_by_tiles`.

    Args:
        kernel: The kernel.
        problem: It has the kernel's form.
    """
    executed = tuple(OpcodeCount(opcode, n) for opcode, n in kernel.executed(problem).most_common())
    return work_by_tiles(kernel.variant, executed, problem)


def work_by_tiles(variant: Variant, executed: tuple[OpcodeCount, ...], problem: Problem) -> Work:
    """Return what a variant does for a problem: its executed opcodes, and the bytes by its tiles.

    Each block reads its rows of A and its columns of B through L2, and writes its part of C, which it reads
    before where C is updated. Memory is taken to be read once, as if L2 kept what blocks share.

    Args:
        variant: The variant.
        executed: Every opcode that one launch executes.
        problem: What it computes.
    """
    v = variant
    blocks_n, blocks_m = v.grid(problem)
    blocks = blocks_n * blocks_m
    results = problem.m * problem.n * problem.dtype.result_bytes
    stripes = (blocks_n * problem.m + blocks_m * problem.n) * problem.k * problem.dtype.bytes
    ops = problem.op_a, problem.op_b
    return Work(
        executed,
        read_bytes=float(stripes + (results if problem.beta else 0)),
        written_bytes=float(results),
        shared_bytes=float(blocks * v.trips(problem) * _shared_wavefronts(v, *ops) * WAVEFRONT_BYTES),
        dram_bytes=float(problem.least_bytes),
        read_requests=float(blocks * v.trips(problem) * line_requests(v, *ops)),
    )


def _shared_wavefronts(v: Variant, op_a: Op, op_b: Op) -> int:
    return v.warps * shared_cycles(v, op_a, op_b) + core_wavefronts(v)


def modelled_clock_mhz(gpu: GpuInfo) -> float:
    """Return the SM clock that times are modelled at, MHz."""
    return gpu.max_sm_clock_mhz if gpu.max_sm_clock_mhz > 0 else _UNKNOWN_CLOCK_MHZ


def modelled_time_s(kernel: Kernel, problem: Problem, sm_count: int, clock_mhz: float) -> float:
    """Return about how long one launch takes, without running it; good enough to put variants in order.

    Blocks come in waves that fill the SMs. In each pass of the loop an SM takes as long as its schedulers or
    the pipe of the products, and besides as long as its memory pipe, which hands out one wavefront of shared
    memory or one line of global memory a cycle. That the two overlap on the tensor cores alone is what the
    kept runs say (docs/tuning.md). Where the way to L2 or one warp's wait takes longer, it takes that long.

    Args:
        kernel: The kernel.
        problem: It has the kernel's form.
        sm_count: Streaming multiprocessors.
        clock_mhz: SM clock.

    Returns:
        Time in s, NaN where no block fits an SM.
    """
    v = kernel.variant
    sm = sm_facts(kernel.cubin.target)
    resident = blocks_per_sm(kernel.needs, sm)
    if not resident:
        return math.nan
    blocks = math.prod(v.grid(problem))
    full, rest = divmod(blocks, resident * sm_count)
    cycles = full * _wave_cycles(kernel, problem, resident, sm)
    if rest:
        cycles += _wave_cycles(kernel, problem, -(-rest // sm_count), sm)
    return cycles / (clock_mhz * 1e6)


def _wave_cycles(kernel: Kernel, problem: Problem, blocks: int, sm: SmFacts) -> float:
    """Return the cycles of one wave with so many blocks on an SM."""
    v = kernel.variant
    instructions = len(kernel.code.loop.instructions)
    # What one block keeps an SM busy with in a trip.
    issue, pipe = (v.warps / SUB_PARTITIONS * n for n in (instructions, _pipe_cycles(kernel, sm)))
    stripes_bytes = (v.blk_m + v.blk_n) * v.blk_k * problem.dtype.bytes
    ops = problem.op_a, problem.op_b
    memory = v.warps * shared_cycles(v, *ops) + line_requests(v, *ops)
    # The tensor cores work on while the next operands are read; the ordinary ones do not.
    worked = max(issue + memory, pipe) if v.on_tensor_cores else max(issue, pipe) + memory
    busy = max(worked, stripes_bytes / sm.l2_bytes_per_cycle)
    a_trip = max(blocks * busy, _alone_cycles(v, busy))
    once = len(kernel.code.once.instructions) * max(1.0, blocks * v.warps / SUB_PARTITIONS) + _MEMORY_CYCLES
    return once + v.trips(problem) * a_trip


def _alone_cycles(v: Variant, busy: float) -> float:
    """Return the cycles of one trip of a block that has an SM to itself.

    With one buffer it waits for memory and then works; with more, memory has as many trips as there are
    buffers to spare.
    """
    if v.buffers == 1:
        return busy + _MEMORY_CYCLES + _BARRIER_CYCLES
    return max(busy + _BARRIER_CYCLES, _MEMORY_CYCLES / (v.buffers - 1))


def _pipe_cycles(kernel: Kernel, sm: SmFacts) -> float:
    """Return the cycles of one warp's products in one trip."""
    return sum(n * _product_cycles(opcode, sm) for opcode, n in kernel.code.loop.counts.items())


def _product_cycles(opcode: str, sm: SmFacts) -> float:
    base, _, modifiers = opcode.partition(".")
    sizes = modifiers.split(".")[0].split("x")
    if base == "HGMMA":
        # Four warps share the products of HGMMA.64x256x16.
        return math.prod(map(int, sizes)) / 4 / sm.wgmma_f16_per_cycle
    if base == "DMMA":
        # DMMA.16x8x4, or DMMA.884 on older GPUs.
        products = math.prod(map(int, sizes)) if len(sizes) == 3 else _SMALLEST_DMMA
        return sm.tensor64_cycles * products / _SMALLEST_DMMA
    return {"FFMA": sm.fp32_cycles, "DFMA": sm.fp64_cycles, "HMMA": sm.tensor_cycles}.get(base, 0.0)
