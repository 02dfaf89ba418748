"""A module's loop and its verdict as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxbench.codegen.render import TARGET
from ptxbench.core.opcode_counts import counts_text
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop import LoopError, find_loop

if TYPE_CHECKING:
    from ptxbench.sass.module import Module


def target_loop_text(listing: str) -> str:
    """Return the loop of the target kernel, one instruction a line; the whole kernel where it has none.

    Args:
        listing: nvdisasm's output for a measuring module.

    Raises:
        ToolError: The listing does not parse.
    """
    kernel = parse_listing(listing, TARGET)[TARGET]
    try:
        heading, instructions = "the loop of the target kernel", find_loop(kernel).instructions
    except LoopError as error:
        heading, instructions = f"the whole target kernel ({error})", kernel.instructions
    lines = [
        f"/*{i.address:04x}*/  {i.predicate:>5} {i.opcode} {i.operands}".rstrip() + ";" for i in instructions
    ]
    return "\n".join([f"// {heading}: {len(instructions)} instructions", *lines])


def verdict_text(module: Module) -> str:
    """Return the loop check's verdict, what it counted, and what the catalogue says of it."""
    instruction, loop_check = module.instruction, module.loop_check
    what = f"{instruction.name} at {module.opt_level} for {module.cubin.target}: {loop_check.verdict}"
    lines = [f"{what} ({loop_check.reason})" if loop_check.reason else what]
    if loop_check.sass:
        count = f"{loop_check.sass_per_ptx:.4g} SASS for one PTX instruction"
        lines.append(f"  found:      {loop_check.sass_text}  ({count})")
    lines.append(
        f"  expected:   {instruction.expected(module.opt_level, module.cubin.target, module.form).text}"
    )
    if loop_check.overhead:
        lines.append(f"  subtracted: {counts_text(loop_check.overhead)}  (the overhead loop)")
    lines.append(f"  alive:      {instruction.alive}")
    if instruction.note:
        lines.append(f"  note:       {instruction.note}")
    lines.append(f"  assembler:  {module.cubin.assembler}")
    return "\n".join(lines)
