"""Whether every thread of a kernel makes as many passes of its loop as requested, by the GPU itself.

A measuring kernel mixes its counter into %anchor in each pass (`module.ptx.j2`), and stores it only where
nothing would be launched. A second module differs in this alone: there every thread stores %anchor. It is the
exclusive or of all values that the counter had, which a loop that counts by two, ends early or goes on too
long changes: only a last pass at 0 leaves no trace, and the counter's bound is read from the machine code.
The loop is the same machine code, which is compared; what is measured stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import reduce
from operator import xor

import numpy as np
import numpy.typing as npt

from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError, RefusedModuleError
from ptxbench.core.threads import WARP
from ptxbench.devices.base import Gpu, Launch
from ptxbench.emulator.bits import Bits
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop import LoopError, find_loop

_NEVER_STORED = "@%never st.global.u32 [%result], %anchor;"
# Whether anything is launched the assembler cannot know: so the result before it stays in the loop.
_STORED = "@!%never st.global.u32 [%result], %anchor;"
_ENTRY = re.compile(r"\.entry\s+(\w+)")
# Of neither is the exclusive or that of every second value, nor of one value less or more.
_PASSES = (6, 42)


def active_threads(launch: Launch) -> npt.NDArray[np.bool_]:
    """Return which threads of a launch along x go through the loop, shape (threads,)."""
    lane = np.arange(launch.grid * launch.block) % launch.block % WARP
    return lane < launch.lanes


def storing_anchor(ptx: str) -> str:
    """Return a measuring module whose kernels store %anchor in place of their result.

    Raises:
        InputError: It is no measuring module.
    """
    if _NEVER_STORED not in ptx:
        raise InputError("the module has no loop of the measuring kernels")
    return ptx.replace(_NEVER_STORED, _STORED)


def anchors(threads: int, passes: int) -> Bits:
    """Return what each thread stores after so many passes, shape (threads,)."""
    mixed = reduce(xor, range(1, passes + 1), 0)
    return np.arange(threads, dtype=np.uint64) ^ np.uint64(mixed)


def stored(gpu: Gpu, launch: Launch) -> Bits:
    """Return what each thread of a small launch stores, shape (threads,).

    Args:
        gpu: A GPU that computes.
        launch: One of ptxbench's own kernels with `result_bytes` for every thread.

    Raises:
        LaunchError: The kernel did not run.
    """
    output = gpu.compute(launch)
    if output is None:
        raise ValueError(f"{gpu.info.name} computes nothing")
    return output.view(np.uint64)


@dataclass(frozen=True)
class CountingModule:
    """A module whose kernels store the counter of their loop.

    Attributes:
        cubin: The module.
        kernels: Its kernels that are to be launched.
        unlike: Why it tells nothing of the module that is measured, whose loops must be the same, or "".
    """

    cubin: Cubin
    kernels: tuple[str, ...]
    unlike: str


def counting_module(gpu: Gpu, ptx: str, cubin: Cubin) -> CountingModule:
    """Assemble the module that tells the passes of another one.

    Args:
        gpu: Whose assembler is used.
        ptx: A measuring module.
        cubin: Its machine code.

    Raises:
        InputError: It is no measuring module.
        ToolError: A tool is missing or was stopped.
    """
    # The driver's assembler lists routines that it calls, such as a division's, beside the kernels.
    names = tuple(_ENTRY.findall(ptx))
    try:
        storing = gpu.assemble(storing_anchor(ptx), cubin.opt_level)
        measured, counting = (parse_listing(disassemble(one.image)) for one in (cubin, storing))
        unlike = [n for n in names if find_loop(measured[n]).counts != find_loop(counting[n]).counts]
    except (RefusedModuleError, LoopError) as error:
        return CountingModule(cubin, names, f"the kernels that store their counter: {error}")
    reason = f"{unlike[0]}: the loop that stores its counter is other machine code" if unlike else ""
    return CountingModule(storing, names, reason)


def miscounted(gpu: Gpu, module: CountingModule, launch: Launch) -> str:
    """Return which kernel made another number of passes than requested, or "".

    Args:
        gpu: A GPU that computes.
        module: What stores the counters.
        launch: How the measured kernels are launched; module, kernel and loop count are replaced.

    Raises:
        LaunchError: A kernel did not run.
    """
    threads = launch.grid * launch.block
    for name in module.kernels:
        for passes in _PASSES:
            one = replace(
                launch, cubin=module.cubin, kernel=name, iterations=passes, result_bytes=8 * threads
            )
            wrong = stored(gpu, one) & np.uint64(0xFFFFFFFF) != anchors(threads, passes)
            wrong &= active_threads(launch)
            if wrong.any():
                return f"{name}: {int(wrong.sum())} of {threads} threads did not make {passes} passes"
    return ""
