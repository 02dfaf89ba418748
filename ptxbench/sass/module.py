"""A measuring module: rendered, assembled, disassembled and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import NotMeasurableError
from ptxbench.core.target import Target
from ptxbench.core.threads import WARP
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop_check import LoopCheck, check_loops
from ptxbench.sass.program import SassKernel

Assembler = Callable[[str, OptLevel], Cubin]


@dataclass(frozen=True)
class Module:
    """One instruction at one optimization level, ready to run.

    Attributes:
        instruction: Catalogue row.
        opt_level: Optimization level of the assembler.
        form: Latency or throughput form.
        lanes: Active lanes of each warp.
        ptx: What was assembled.
        cubin: What runs.
        listing: Its SASS.
        kernels: The same, parsed, by entry name.
        loop_check: The loop check's verdict on that very cubin.
    """

    instruction: Instruction
    opt_level: OptLevel
    form: Form
    lanes: int
    ptx: str
    cubin: Cubin
    listing: str
    kernels: Mapping[str, SassKernel]
    loop_check: LoopCheck


def build_module(
    instruction: Instruction,
    target: Target,
    opt_level: OptLevel,
    form: Form,
    assemble: Assembler,
    lanes: int = WARP,
) -> Module:
    """Render, assemble and check one instruction.

    Args:
        instruction: Catalogue row.
        target: What to assemble for.
        opt_level: Optimization level of the assembler.
        form: Latency or throughput form.
        assemble: The GPU's assembler, or ptxas.
        lanes: Active lanes of each warp, the first ones.

    Raises:
        NotMeasurableError: The target does not have the instruction, or it cannot be measured there, or not
            with so few lanes.
        ToolError: The assembler or the disassembler refused the module.
    """
    ptx = render_module(instruction, target, form, lanes)
    if reason := instruction.refusal(opt_level, target.name, form):
        raise NotMeasurableError(f"instruction {instruction.name} cannot be measured: {reason}")
    cubin = assemble(ptx, opt_level)
    listing = disassemble(cubin.image)
    kernels = parse_listing(listing)
    loop_check = check_loops(instruction, opt_level, kernels, target.name, form, lanes)
    return Module(instruction, opt_level, form, lanes, ptx, cubin, listing, kernels, loop_check)
