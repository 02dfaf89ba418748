"""What ncu counted of a kernel as what it executes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.core.errors import InputError
from ptxbench.core.target import digits
from ptxbench.model.atlas import Atlas
from ptxbench.model.ncu import ProfiledLaunch, launch_shape, read_launches, work_of
from ptxbench.model.terms import TimeTerms
from ptxbench.model.throughput import dram_time_s, modelled_time_s, moved_time_s
from ptxbench.model.work import KernelWork, Level

# An opcode below this share of all kernels' instructions is not worth a row; chosen.
LEAST_SHARE = 0.001


def slack_of(work: KernelWork, time: TimeTerms | None) -> float:
    """Return what a kernel takes at the median over the bound of its pipes.

    Where no byte was counted of a kernel that uses global memory nothing tells, and it is 1: a bound.
    """
    if time is None or (not work.bytes_moved and work.uses_global_memory):
        return 1.0
    return time.slack


def launch_time_s(
    work: KernelWork, counts: Sequence[tuple[str, float]], blocks: int, threads: int, table: Atlas
) -> float:
    """Return the modelled time of a launch: what its pipes take with their slack, or what memory takes.

    Args:
        work: What it executes and moves.
        counts: Executions of each opcode that a thread's warp issues.
        blocks: Blocks of the launch.
        threads: Threads of a block.
        table: The run.

    Raises:
        InputError: The clock is not known.
    """
    gpu, time = table.gpu, table.machine.terms.time
    chip = gpu.sm_count, gpu.max_sm_clock_mhz, table.cycles, sm_facts(gpu.target)
    pipes_s = modelled_time_s(counts, blocks, threads, *chip, time)
    peak_s = dram_time_s(dict(work.bytes_moved).get(Level.DRAM, 0.0), gpu, 1.0)
    return max(slack_of(work, time) * pipes_s, moved_time_s(work.bytes_moved, time), peak_s)


def launches_time_s(
    launches: Iterable[ProfiledLaunch], path: Path, table: Atlas, *, with_bytes: bool = True
) -> float:
    """Return the modelled time of launches one after the other, by what ncu counted and their shape.

    Args:
        launches: At least one, each with the cells "Grid Size" and "Block Size".
        path: Where they were read, for errors.
        table: The run.
        with_bytes: Whether the bytes that were counted bound it, too.

    Raises:
        InputError: A launch has no executed opcodes, or no shape.
    """
    time_s = 0.0
    for launch in launches:
        blocks, threads = launch_shape(launch, path)
        work = work_of([launch], launch.kernel, path)
        if not with_bytes:
            work = replace(work, bytes_moved=())
        counts = [(opcode, n / (blocks * threads)) for opcode, n in work.opcodes]
        time_s += launch_time_s(work, counts, blocks, threads, table)
    return time_s


def profiled_work(path: Path, kernel: str | None, time_s: float, table: Atlas) -> tuple[KernelWork, bool]:
    """Return what the launches of a kernel in ncu's CSV executed, and whether the time is modelled.

    Args:
        path: The CSV.
        kernel: Part of the kernel's name; None where the CSV holds one kernel.
        time_s: Its time; NaN: as in the CSV, else modelled.
        table: The run, whose GPU must be of the CSV's kind.

    Raises:
        InputError: The CSV is not ncu's, is of another GPU, or has not this one kernel.
    """
    launches = read_launches(path)
    names = tuple(dict.fromkeys(launch.kernel for launch in launches))
    found = tuple(name for name in names if kernel is None or kernel in name)
    if not found:
        raise InputError(f"{path} holds no kernel {kernel!r}, only {', '.join(names) or 'none at all'}")
    if len(found) > 1:
        raise InputError(f"{path} holds several kernels; name one of them: {', '.join(found)}")
    chosen = launches.of(found[0])
    capability = next(iter(chosen)).cells.get("CC", "")
    if capability and digits(capability) != digits(table.gpu.target):
        raise InputError(
            f"{path} was profiled on a GPU of compute capability {capability}, and the table is of"
            f" {table.gpu.name} ({table.gpu.target}); use a table of the same GPU"
        )
    work = work_of(chosen, found[0], path)
    if math.isfinite(work.time_s) or not math.isnan(time_s):
        return replace(work, time_s=work.time_s if math.isnan(time_s) else time_s), False
    return replace(work, time_s=launches_time_s(chosen, path, table)), True


def rows_for(path: Path) -> tuple[str, ...]:
    """Return the instructions that measure what the kernels in ncu's CSV execute, most executed first.

    Opcodes below a thousandth of the executed instructions of every kernel are left out.

    Args:
        path: The CSV.

    Raises:
        InputError: The CSV cannot be read, is not ncu's, or no instruction measures what it counted.
    """
    from ptxbench.catalogue.common import measuring

    shares: dict[str, float] = {}
    launches = read_launches(path)
    for kernel in dict.fromkeys(launch.kernel for launch in launches):
        work = work_of(launches.of(kernel), kernel, path)
        for opcode, count in work.opcodes:
            shares[opcode] = max(shares.get(opcode, 0.0), count / work.executions)
    wanted = sorted((op for op, share in shares.items() if share >= LEAST_SHARE), key=lambda op: -shares[op])
    names = measuring(wanted)
    if not names:
        raise InputError(f"{path}: no instruction of the catalogue becomes an opcode that was counted")
    return tuple(dict.fromkeys(names[opcode] for opcode in wanted if opcode in names))
