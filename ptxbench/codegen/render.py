"""From a catalogue row to the PTX of its three kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from ptxbench.catalogue.load import TEMPLATE_SUFFIX
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.own_files import OWN_FILES
from ptxbench.codegen.operands import RECORD_BYTES, slot_of
from ptxbench.codegen.registers import Registers
from ptxbench.codegen.values import RECORDS, SETS
from ptxbench.core.condition import Form
from ptxbench.core.errors import InputError, NotMeasurableError
from ptxbench.core.target import Target
from ptxbench.core.threads import WARP

if TYPE_CHECKING:
    from jinja2 import Environment

TARGET, OVERHEAD, TARGET_2N, OVERHEAD_2N = "target", "overhead", "target_2n", "overhead_2n"

# File name of a template.
_TEMPLATE = re.compile(r"[a-z][a-z0-9_]*" + re.escape(TEMPLATE_SUFFIX))
# An instruction in a kernel's body: perhaps a guard, the opcode, and the operands (but no declaration).
_INSTRUCTION = re.compile(r" {4}(?P<opcode>(?:@!?%\w+ +)?[a-z][\w.:]*) +(?P<operands>[^ ].*)")
_OPCODE_COLUMNS = 18


@dataclass(frozen=True)
class Entry:
    """One kernel of a module.

    Attributes:
        name: Entry name.
        about: What it is, for the comment above it.
        copies: How often the loop's body holds the instruction (or its companion).
        target: Whether the instruction itself is there.
    """

    name: str
    about: str
    copies: int
    target: bool


def render_module(instruction: Instruction, target: Target, form: Form, lanes: int = WARP) -> str:
    """Return the PTX module that measures an instruction: target, overhead and 2N kernels.

    A row with companions gets an overhead kernel of 2N as well.

    Args:
        instruction: Catalogue row.
        target: What it will be assembled for.
        form: One chain, or several side by side.
        lanes: Active lanes of each warp, the first ones.

    Raises:
        NotMeasurableError: The target does not have the instruction, or it cannot be measured at all, or not
            with so few lanes.
        InputError: The family has no template.
    """
    return _tidy(_render_row(instruction, target, form, prefix="", header=True, lanes=lanes))


def render_batch(instructions: Sequence[tuple[Instruction, Form]], target: Target) -> str:
    """Return the modules of several instructions as one, so that one assembler run serves them all.

    The entries of the module at index n bear `batch_prefix(n)` before their names.

    Raises:
        NotMeasurableError: The target does not have an instruction, or one cannot be measured at all.
        InputError: A family has no template.
    """
    modules = [
        _render_row(instruction, target, form, batch_prefix(number), header=False)
        for number, (instruction, form) in enumerate(instructions)
    ]
    version = _newest(target.ptx_version, *(instruction.ptx_version for instruction, _ in instructions))
    return _tidy(_render("batch", target, header=True, ptx_version=version, modules=modules))


def batch_prefix(number: int) -> str:
    """Return what stands before the entry names of a batch's module `number`."""
    return f"m{number}_"


def render_sleep(target: Target) -> str:
    """Return the module whose kernel fills the GPU and sleeps (for P_static)."""
    sleeping = _Sleeping("static", "a kernel that fills every SM and sleeps: what is left is static power")
    entries = (Entry("static", sleeping.alive, 1, True),)
    return _tidy(
        _render(
            "sleep",
            target,
            header=True,
            ptx_version=target.ptx_version,
            instruction=sleeping,
            entries=entries,
            turns=1,
            every_block=target.every_block,
            lanes=WARP,
        )
    )


def render_kernel(template: str, target: Target, **values: object) -> str:
    """Return the module of a template that is no measuring kernel, such as "gemm_simt".

    Args:
        template: Its name in ptx_templates, without ".ptx.j2".
        target: What it will be assembled for.
        values: What it is rendered from; only checked values may be given.

    Raises:
        InputError: There is no such template.
    """
    return _tidy(_render(template, target, header=True, ptx_version=target.ptx_version, **values))


@dataclass(frozen=True)
class _Sleeping:
    """The two things that the frame says of an instruction."""

    name: str
    alive: str


def _render_row(
    instruction: Instruction,
    target: Target,
    form: Form,
    prefix: str,
    *,
    header: bool,
    lanes: int = WARP,
) -> str:
    if reason := instruction.absence(target) or instruction.refusal_of_lanes(lanes):
        raise NotMeasurableError(reason)
    if instruction.refused:
        raise NotMeasurableError(f"instruction {instruction.name} cannot be measured: {instruction.refused}")
    return _render(
        instruction.family,
        target,
        header=header,
        ptx_version=_newest(target.ptx_version, instruction.ptx_version),
        instruction=instruction,
        entries=_entries(instruction, prefix),
        chains=instruction.chains_of(form),
        turns=instruction.chains_of(form) * SETS,
        registers=Registers(instruction, form),
        params=dict(instruction.params),
        every_block=target.every_block,
        lanes=lanes,
    )


def _newest(*versions: str) -> str:
    """Return the highest PTX ISA version; "" is none."""
    return max((v for v in versions if v), key=lambda v: [int(part) for part in v.split(".")])


def _entries(instruction: Instruction, prefix: str) -> tuple[Entry, ...]:
    copies = instruction.copies
    target = f"target: {copies} copies of {instruction.opcode} in the loop"
    entries = [
        Entry(prefix + TARGET, target, copies, True),
        Entry(prefix + OVERHEAD, "overhead: the same loop without them", copies, False),
        Entry(prefix + TARGET_2N, f"2N: {2 * copies} copies", 2 * copies, True),
    ]
    if instruction.companions:
        # Without companions the overhead loop is empty at any N, and one serves both.
        about = "2N overhead: the companions of 2N copies"
        entries.append(Entry(prefix + OVERHEAD_2N, about, 2 * copies, False))
    return tuple(entries)


def _render(family: str, target: Target, **values: object) -> str:
    """Render one template with what every template may use, and `values`."""
    from jinja2 import TemplateError, TemplateNotFound

    name = f"{family}{TEMPLATE_SUFFIX}"
    try:
        return (
            _environment(sandboxed=name in OWN_FILES)
            .get_template(name)
            .render(
                slot=_slot_offset,
                sets=SETS,
                records=RECORDS,
                record_bytes=RECORD_BYTES,
                target=target.name,
                all_copies=_all_copies,
                **values,
            )
        )
    except TemplateNotFound as error:
        raise InputError(f"no template {error.name} in ptx_templates") from error
    except TemplateError as error:
        raise InputError(f"template {name}: {error}") from error


def _all_copies(texts: Sequence[str], copies: int) -> str:
    """Return the text of so many copies, of which the first are given and the others are as these."""
    rounds, more = divmod(copies, len(texts))
    return "".join(texts) * rounds + "".join(texts[:more])


def template_texts(family: str) -> tuple[str, ...]:
    """Return the source of a family's template and of all that it extends, imports and includes.

    Raises:
        InputError: The family has no template.
    """
    from jinja2.meta import find_referenced_templates

    texts: dict[str, str] = {}
    pending = [f"{family}{TEMPLATE_SUFFIX}"]
    while pending:
        name = pending.pop()
        text = _template_text(name)
        if text is None:
            raise InputError(f"no template {name} in ptx_templates")
        texts[name] = text
        named = find_referenced_templates(_environment().parse(text))
        pending += sorted({other for other in named if other} - set(texts))
    return tuple(texts[name] for name in sorted(texts))


def _slot_offset(role: str, set_number: int, chain: int) -> int:
    """Return the byte offset of an operand in its record."""
    return 8 * slot_of(role, int(set_number), int(chain))


def _tidy(text: str) -> str:
    """Align the operands of every instruction and drop the blank runs that template tags leave."""
    lines: list[str] = []
    for line in text.splitlines():
        aligned = _aligned(line)
        if aligned or (lines and lines[-1]):
            lines.append(aligned)
    return "\n".join(lines).strip() + "\n"


@lru_cache(maxsize=4096)  # copies of an instruction are the same few lines
def _aligned(line: str) -> str:
    return _INSTRUCTION.sub(_align, line.rstrip())


def _align(instruction: re.Match[str]) -> str:
    return f"    {instruction['opcode']:<{_OPCODE_COLUMNS}} {instruction['operands']}"


@cache
def _environment(*, sandboxed: bool = False) -> Environment:
    # Who shows what was measured renders nothing.
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    # PTX is no HTML: nothing is escaped, and only catalogue values that were checked at load get here. A run
    # of someone else may hold a template: it gets at nothing but what it is given, and takes twice the time.
    kind = SandboxedEnvironment if sandboxed else Environment
    return kind(
        loader=FunctionLoader(_template),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def _template(name: str) -> tuple[str, None, Callable[[], bool]] | None:
    """Return a template, and what tells whether it is still the one of that name."""
    text = _template_text(name)
    return None if text is None else (text, None, lambda: OWN_FILES.get(name, text) == text)


def _template_text(name: str) -> str | None:
    # A template of a user's own may name what it likes: only names of templates are looked for.
    if not _TEMPLATE.fullmatch(name):
        return None
    resource = files("ptx_templates").joinpath(name)
    return resource.read_text(encoding="utf-8") if resource.is_file() else OWN_FILES.get(name)
