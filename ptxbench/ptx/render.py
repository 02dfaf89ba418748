"""From a catalogue row to the PTX of its three kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jinja2

from ptxbench.catalogue.model import Form, Instruction
from ptxbench.errors import InputError, NotMeasurableError
from ptxbench.ptx.operands import RECORD_BYTES, RECORDS, SETS, slot_of
from ptxbench.ptx.target import Target

TARGET, OVERHEAD, TARGET_2N, OVERHEAD_2N = "target", "overhead", "target_2n", "overhead_2n"

# An instruction in a kernel's body: perhaps a guard, the opcode, and the operands (but no declaration).
_INSTRUCTION = re.compile(r" {4}(?P<opcode>(?:@!?%\w+ +)?[a-z][\w.:]*) +(?P<operands>[^ ].*)")
_OPCODE_COLUMNS = 18

_REGISTERS = {"u32": "b32", "s32": "b32", "b32": "b32", "f32": "f32", "f64": "f64", "f16x2": "b32"}
# How the last values of several chains become one result.
_COMBINE = {"f32": "add.f32", "f64": "add.f64"}


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


def render_module(instruction: Instruction, target: Target, form: Form) -> str:
    """Return the PTX module that measures an instruction: target, overhead and 2N kernels.

    A row with companions gets an overhead kernel of 2N as well.

    Args:
        instruction: Catalogue row.
        target: What it will be assembled for.
        form: One chain, or several side by side.

    Raises:
        NotMeasurableError: The target is too old for the instruction.
        InputError: The family has no template.
    """
    return _tidy(_render_row(instruction, target, form, prefix="", header=True))


def render_batch(instructions: Sequence[tuple[Instruction, Form]], target: Target) -> str:
    """Return the modules of several instructions as one, so that one assembler run serves them all.

    The entries of the module at index n bear `batch_prefix(n)` before their names.

    Raises:
        NotMeasurableError: The target is too old for an instruction.
        InputError: A family has no template.
    """
    modules = [
        _render_row(instruction, target, form, batch_prefix(number), header=False)
        for number, (instruction, form) in enumerate(instructions)
    ]
    return _tidy(_render("batch", target, header=True, modules=modules))


def batch_prefix(number: int) -> str:
    """Return what stands before the entry names of a batch's module `number`."""
    return f"m{number}_"


def render_sleep(target: Target) -> str:
    """Return the module whose kernel fills the GPU and sleeps (for P_static)."""
    sleeping = _Sleeping("static", "a kernel that fills every SM and sleeps: what is left is static power")
    entries = (Entry("static", sleeping.alive, 1, True),)
    return _tidy(_render("sleep", target, header=True, instruction=sleeping, entries=entries))


@dataclass(frozen=True)
class _Sleeping:
    """The two things that the frame says of an instruction."""

    name: str
    alive: str


def _render_row(instruction: Instruction, target: Target, form: Form, prefix: str, *, header: bool) -> str:
    if not instruction.exists_on(target.capability):
        raise NotMeasurableError(
            f"instruction {instruction.name} needs compute capability {instruction.min_target / 10:.1f} "
            f"or newer; {target.name} is older"
        )
    return _render(
        instruction.family,
        target,
        header=header,
        instruction=instruction,
        entries=_entries(instruction, prefix),
        register=_REGISTERS[instruction.type],
        combine=_COMBINE.get(instruction.type, "xor.b32"),
        chains=instruction.chains_of(form),
        loaded=_loaded_roles(instruction),
    )


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
    try:
        template = _environment().get_template(f"{family}.ptx.j2")
    except jinja2.TemplateNotFound as error:
        raise InputError(f"no template {error.name} in ptx_templates") from error
    return template.render(
        slot=_slot_offset,
        sets=SETS,
        records=RECORDS,
        record_bytes=RECORD_BYTES,
        target=target.name,
        ptx_version=target.ptx_version,
        **values,
    )


def _loaded_roles(instruction: Instruction) -> tuple[str, ...]:
    """Return the roles that come from the record: the row's own, and its companion's a and b."""
    named = set(instruction.operands)
    if instruction.companions:
        named |= {"a", "b"}
    return tuple(role for role in "abc" if role in named)


def _slot_offset(role: str, set_number: int, chain: int) -> int:
    """Return the byte offset of an operand in its record."""
    return 8 * slot_of(role, int(set_number), int(chain))


def _tidy(text: str) -> str:
    """Align the operands of every instruction and drop the blank runs that template tags leave."""
    lines: list[str] = []
    for line in text.splitlines():
        aligned = _INSTRUCTION.sub(_align, line.rstrip())
        if aligned or (lines and lines[-1]):
            lines.append(aligned)
    return "\n".join(lines).strip() + "\n"


def _align(instruction: re.Match[str]) -> str:
    return f"    {instruction['opcode']:<{_OPCODE_COLUMNS}} {instruction['operands']}"


@cache
def _environment() -> jinja2.Environment:
    # PTX is no HTML: nothing is escaped, and only catalogue values that were checked at load get here.
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_template_text),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701
    )


def _template_text(name: str) -> str | None:
    resource = files("ptx_templates").joinpath(name)
    return resource.read_text(encoding="utf-8") if resource.is_file() else None
