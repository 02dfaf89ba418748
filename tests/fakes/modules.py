"""Real modules, each assembled once a session."""

import re
from collections.abc import Sequence
from functools import cache

from fakes.sample import SAMPLE

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.render import batch_prefix, render_batch
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.target import find_target
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop_check import LoopCheck, check_loops
from ptxbench.sass.module import Module, build_module
from ptxbench.sass.program import SassKernel

_DECLARED = re.compile(r"^\s*(?:\.visible )?\.(?:entry|func) +(\w+)\(", re.MULTILINE)


@cache
def built(
    instruction: Instruction | str,
    opt_level: OptLevel = OptLevel.O3,
    form: Form = Form.LATENCY,
    target: str = "sm_90a",
) -> Module:
    """Build one row as a measurement would."""
    row = find_instruction(instruction) if isinstance(instruction, str) else instruction
    return build_module(
        row, find_target(target), opt_level, form, lambda ptx, level: assemble_ptx(ptx, target, level)
    )


@cache
def kernels_of(ptx: str, opt_level: OptLevel = OptLevel.O3, target: str = "sm_90a") -> dict[str, SassKernel]:
    """Assemble any PTX and parse its SASS."""
    return parse_listing(disassemble(assemble_ptx(ptx, target, opt_level).image))


def kernels_of_each(
    modules: Sequence[str], opt_level: OptLevel = OptLevel.O3, target: str = "sm_90a"
) -> list[dict[str, SassKernel]]:
    """Assemble several modules as one, as ptxas and nvdisasm take most of their time to start."""
    heads, bodies = [], []
    for number, ptx in enumerate(modules):
        head, size, body = ptx.partition(".address_size 64\n")
        heads.append(head[head.index(".version") :] + size)
        for name in _DECLARED.findall(body):
            body = re.sub(rf"(?<![%\w]){name}\b", f"m{number}_{name}", body)
        bodies.append(body)
    assert len(set(heads)) == 1, "modules of one version and target"
    found = kernels_of(heads[0] + "".join(bodies), opt_level, target)
    prefixes = [f"m{number}_" for number in range(len(modules))]
    return [
        {name.removeprefix(prefix): kernel for name, kernel in found.items() if name.startswith(prefix)}
        for prefix in prefixes
    ]


def judged(instruction: Instruction, ptx: str, opt_level: OptLevel = OptLevel.O3) -> LoopCheck:
    """Judge PTX that was changed by hand as if it were the instruction's own."""
    return check_loops(instruction, opt_level, kernels_of(ptx, opt_level))


@cache
def catalogue_kernels(opt_level: OptLevel, target: str = "sm_90a") -> dict[str, dict[str, SassKernel]]:
    """Assemble the latency form of every row together; kernels by row and entry name."""
    rows = [r for r in SAMPLE if not r.refused and r.exists_on(find_target(target))]
    return kernels_by_row(rows, opt_level, target)


def kernels_by_row(
    rows: Sequence[Instruction], opt_level: OptLevel, target: str
) -> dict[str, dict[str, SassKernel]]:
    """Assemble the latency form of rows together; kernels by row and entry name."""
    kernels = kernels_of(
        render_batch([(row, Form.LATENCY) for row in rows], find_target(target)), opt_level, target
    )
    return {
        row.name: {
            name.removeprefix(batch_prefix(number)): kernel
            for name, kernel in kernels.items()
            if name.startswith(batch_prefix(number))
        }
        for number, row in enumerate(rows)
    }
