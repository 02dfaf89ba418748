"""A kernel's time, modelled: the busiest pipe of the busiest SM, or the busiest memory level.

T = max(max_pipe sum_op n_op c_op / f, max_l b_l / r_l), where c_op is the interval in SM cycles between two
warp instructions of one kind, n_op counts the warps of the SM with most blocks, b_l are the bytes of a memory
level and r_l its rate. It is a lower bound: what a kernel waits for (latencies, barriers, too few warps) is
not in it.

c_op is that of CUDA's programming guide ("Throughput of Native Instructions") for the pipes that it tells of,
else the column `cycles` of the dynamic rows. That is what an instruction adds to a loop whose other pipes are
busy, so that it can be too short: 0.25 for a LOP3, of which an SM takes one in half a cycle. On tensor cores
it is multiply-adds over the rate of `TimeTerms`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

from ptxbench.catalogue.architecture import SmFacts
from ptxbench.catalogue.product import dram_bytes_per_s
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.threads import ISSUED_PER_CYCLE, SUB_PARTITIONS, WARP
from ptxbench.model.opcodes import OpcodeClass, nearest, opcode_class
from ptxbench.model.tensor import multiply_adds, operand_bits, tensor_kind
from ptxbench.model.terms import TimeTerms
from ptxbench.model.work import Level
from ptxbench.storage.schema import TableRow

# Cycles of an SM for each warp instruction that its schedulers issue.
_ISSUE_CYCLES = 1 / ISSUED_PER_CYCLE
# These go to the tensor cores' pipe; ptxas alternates between them and HFMA2 for that.
_HALF_ON_TENSOR = "HFMA2.MMA"
# Classes that share a pipe.
_PIPE = {
    OpcodeClass.MULTIPLY: OpcodeClass.FP32,
    OpcodeClass.HALF: OpcodeClass.FP32,
    OpcodeClass.GLOBAL: OpcodeClass.SHARED,
}
# Of other classes, but on the pipe of integers: comparisons, choices and conversions between registers.
_ALU = frozenset(["FMNMX", "FSETP", "FSEL", "SEL", "PRMT", "P2R", "R2P", "I2FP", "F2FP", "VOTE"])
# Takes a half of them off it: with VIADD there, fit kernels are 2% worse (studies/model/fit.md, section 4).
_BESIDE_ALU = "VIADD"
_SPECIAL = frozenset(["I2F", "F2I", "F2F", "FRND"])
_FULL_FP32 = frozenset(["FFMA", "FADD", "FMUL"])
# A multiply-add of more than 32 bits takes longer than the guide says.
_LONG = frozenset(["WIDE", "HI"])


def issue_cycles(rows: Iterable[TableRow]) -> dict[str, float]:
    """Return the issue interval of each opcode that some row is made of alone, SM cycles a warp instruction.

    Args:
        rows: A run's table.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        measured = row.protocol == DYNAMIC and row.status.has_number and math.isfinite(row.issue_cycles)
        if measured and row.lanes == WARP and row.opt_level == "O3" and row.sass and " " not in row.sass:
            opcode, _, count = row.sass.partition("*")
            found[opcode].append(row.issue_cycles / float(count or 1))
    # A companion or a chain can only slow an instruction down.
    return {opcode: min(seen) for opcode, seen in found.items()}


def modelled_time_s(
    counts: Iterable[tuple[str, float]],
    blocks: int,
    threads: int,
    sm_count: int,
    clock_mhz: float,
    cycles: Mapping[str, float],
    sm: SmFacts,
    time: TimeTerms | None = None,
) -> float:
    """Return a kernel's time at the full clock by its pipes.

    Args:
        counts: Executions of each opcode by one thread.
        blocks: Blocks of the launch.
        threads: Threads of a block.
        sm_count: SMs of the GPU.
        clock_mhz: SM clock.
        cycles: Issue intervals (`issue_cycles`) of what `sm` does not tell; opcodes that it lacks issue like
            their next of kin.
        sm: What an SM of the GPU is like.
        time: Rates of the tensor cores; None where they are not known.

    Raises:
        InputError: The clock is not known.
    """
    if not clock_mhz > 0:
        raise InputError(
            "the run does not know the GPU's SM clock, so no time can be modelled; give `time_s`"
        )
    warps = math.ceil(blocks / sm_count) * math.ceil(threads / WARP)
    busy: dict[OpcodeClass, float] = defaultdict(float)
    issued = 0.0
    for opcode, n in counts:
        pipe = _pipe(opcode)
        interval = _tensor_interval(opcode, time) or _known_interval(opcode, pipe, sm)
        busy[pipe] += n * (interval or _interval(opcode, cycles))
        issued += n * _ISSUE_CYCLES
    return warps * max(issued, *busy.values()) / (clock_mhz * 1e6)


def moved_time_s(moved: Iterable[tuple[Level, float]], time: TimeTerms | None) -> float:
    """Return the least time that some bytes take; 0 where no rate is known.

    Args:
        moved: Bytes by memory level.
        time: Rates.
    """
    rates = {one.level: one.bytes_per_s for one in time.bytes} if time else {}
    return max((count / rates[level] for level, count in moved if level in rates), default=0.0)


def dram_time_s(dram_bytes: float, gpu: GpuInfo, memory_ratio: float) -> float:
    """Return the least time in s that bytes from a GPU's DRAM take; 0 where its bandwidth is not known.

    Args:
        dram_bytes: Bytes.
        gpu: The GPU.
        memory_ratio: Memory clock over its highest.
    """
    bandwidth = dram_bytes_per_s(gpu)
    return 0.0 if math.isnan(bandwidth) else dram_bytes / (bandwidth * memory_ratio)


def _pipe(opcode: str) -> OpcodeClass:
    base, kind = opcode.partition(".")[0], opcode_class(opcode)
    if opcode.startswith(_HALF_ON_TENSOR):
        return OpcodeClass.TENSOR
    if base in _ALU:
        return OpcodeClass.INTEGER
    if base in _SPECIAL:
        return OpcodeClass.SPECIAL
    if base == _BESIDE_ALU:
        return OpcodeClass.MOVE
    return OpcodeClass.FP32 if base == "IMAD" else _PIPE.get(kind, kind)


def _known_interval(opcode: str, pipe: OpcodeClass, sm: SmFacts) -> float | None:
    """Return the cycles that the programming guide tells, None where it does not."""
    words = opcode.split(".")
    if pipe is OpcodeClass.MOVE:
        return _ISSUE_CYCLES
    if pipe is OpcodeClass.FP32 and words[0] in _FULL_FP32:
        return sm.fp32_cycles / SUB_PARTITIONS
    if pipe is OpcodeClass.FP64:
        return sm.fp64_cycles / SUB_PARTITIONS
    if pipe is OpcodeClass.INTEGER or (words[0] == "IMAD" and _LONG.isdisjoint(words)):
        return sm.integer_cycles / SUB_PARTITIONS
    return sm.special_cycles / SUB_PARTITIONS if pipe is OpcodeClass.SPECIAL else None


def _tensor_interval(opcode: str, time: TimeTerms | None) -> float | None:
    """Return the cycles of a warp's instruction on the tensor cores, None for others.

    A kind without a rate has that of the nearest kind for each bit of an operand.
    """
    macs = multiply_adds(opcode)
    if macs is None or time is None or not time.tensor:
        return None
    rates = {one.kind: one.per_cycle for one in time.tensor}
    kind = tensor_kind(opcode)
    alike = [kind] if kind in rates else nearest(kind, rates) or list(rates)
    return median([macs * WARP / rates[k] * operand_bits(opcode) / operand_bits(k) for k in alike])


def _interval(opcode: str, cycles: Mapping[str, float]) -> float:
    if opcode in cycles:
        return cycles[opcode]
    kin = [cycles[other] for other in nearest(opcode, cycles)]
    if not kin:
        kin = [c for other, c in cycles.items() if opcode_class(other) is opcode_class(opcode)]
    return median(kin) if kin else _ISSUE_CYCLES
