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
    kernel = parse_listing(listing)[TARGET]
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
    instruction, judgement = module.instruction, module.judgement
    what = f"{instruction.name} at {module.opt_level} for {module.cubin.target}: {judgement.verdict}"
    lines = [f"{what} ({judgement.reason})" if judgement.reason else what]
    if judgement.sass:
        count = f"{judgement.sass_per_ptx:.4g} SASS for one PTX instruction"
        lines.append(f"  found:      {judgement.sass_text}  ({count})")
    lines.append(
        f"  expected:   {instruction.expected(module.opt_level, module.cubin.target, module.form).text}"
    )
    if judgement.overhead:
        lines.append(f"  subtracted: {counts_text(judgement.overhead)}  (the overhead loop)")
    lines.append(f"  alive:      {instruction.alive}")
    if instruction.note:
        lines.append(f"  note:       {instruction.note}")
    lines.append(f"  assembler:  {module.cubin.assembler}")
    return "\n".join(lines)
