"""From a catalogue row to the PTX of its three kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jinja2

from ptxbench.catalogue.model import Instruction
from ptxbench.errors import InputError
from ptxbench.ptx.operands import RECORD_BYTES, RECORDS, SETS, SLOT_OF_ROLE
from ptxbench.ptx.target import Target

TARGET, OVERHEAD, TARGET_2N, OVERHEAD_2N = "target", "overhead", "target_2n", "overhead_2n"

_REGISTERS = {"u32": "b32", "s32": "b32", "b32": "b32", "f32": "f32", "f64": "f64", "f16x2": "b32"}


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


def render_module(instruction: Instruction, target: Target) -> str:
    """Return the PTX module that measures an instruction: target, overhead and 2N kernels.

    A row with companions gets an overhead kernel of 2N as well.

    Raises:
        InputError: The target is too old for the instruction, or the family has no template.
    """
    if target.capability < instruction.min_target:
        raise InputError(
            f"instruction {instruction.name} needs compute capability {instruction.min_target / 10:.1f} "
            f"or newer; {target.name} is older"
        )
    copies = instruction.copies
    entries = [
        Entry(TARGET, f"target: {copies} copies of {instruction.opcode} in the loop", copies, True),
        Entry(OVERHEAD, "overhead: the same loop without them", copies, False),
        Entry(TARGET_2N, f"2N: {2 * copies} copies", 2 * copies, True),
    ]
    if instruction.companions:
        # Without companions the overhead loop is empty at any N, and one serves both.
        entries.append(Entry(OVERHEAD_2N, "2N overhead: the companions of 2N copies", 2 * copies, False))
    return _render(instruction.family, instruction, target, tuple(entries))


def render_sleep(target: Target) -> str:
    """Return the module whose kernel fills the GPU and sleeps (for P_static)."""
    sleeping = _Sleeping("static", "a kernel that fills every SM and sleeps: what is left is static power")
    return _render("sleep", sleeping, target, (Entry("static", sleeping.alive, 1, True),))


@dataclass(frozen=True)
class _Sleeping:
    """The two things that the frame says of an instruction."""

    name: str
    alive: str


def _render(
    family: str, instruction: Instruction | _Sleeping, target: Target, entries: tuple[Entry, ...]
) -> str:
    try:
        template = _environment().get_template(f"{family}.ptx.j2")
    except jinja2.TemplateNotFound as error:
        raise InputError(f"instruction {instruction.name}: no template {error.name}") from error
    is_row = isinstance(instruction, Instruction)
    text = template.render(
        instruction=instruction,
        register=_REGISTERS[instruction.type] if is_row else "b32",
        loaded=_loaded_roles(instruction) if is_row else (),
        slot=_slot_offset,
        sets=SETS,
        records=RECORDS,
        record_bytes=RECORD_BYTES,
        target=target.name,
        ptx_version=target.ptx_version,
        entries=entries,
        header=True,
    )
    return _tidy(text)


def _loaded_roles(instruction: Instruction) -> tuple[str, ...]:
    """Return the roles that come from the record: the row's own, and its companion's a and b."""
    named = set(instruction.operands)
    if instruction.companions:
        named |= {"a", "b"}
    return tuple(role for role in SLOT_OF_ROLE if role in named or role == "a")


def _slot_offset(role: str, number: int) -> int:
    """Return the byte offset of an operand in its record."""
    return 8 * (SLOT_OF_ROLE[role] + number)


def _tidy(text: str) -> str:
    """Drop the blank runs and trailing blanks that template tags leave."""
    lines: list[str] = []
    for line in text.splitlines():
        stripped = line.rstrip()
        if stripped or (lines and lines[-1]):
            lines.append(stripped)
    return "\n".join(lines) + "\n"


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
