"""The dynamic energy of one pass of a loop, and the opcodes and bytes that it is of: one equation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ptxbench.catalogue.load import find_instruction
from ptxbench.core.errors import InputError
from ptxbench.model.work import Level
from ptxbench.sass.loop_counts import OpcodeCounts

# What a catalogue row that is named after a level moves bytes at.
_LEVELS = {"l2": (Level.CROSSBAR,), "hbm": (Level.CROSSBAR, Level.DRAM)}


@dataclass(frozen=True)
class PassEnergy:
    """Dynamic energy of one pass of one kernel's loop, a thread.

    Attributes:
        name: Instruction, optimization level, role and grid.
        pattern: Operand pattern.
        counts: Opcode with modifiers, and how often a pass executes it.
        energy_pj: Mean over the trials.
        error_pj: Standard error of it: scatter of the trials and static power.
        trials: How many trials it rests on.
    """

    name: str
    pattern: str
    counts: OpcodeCounts
    energy_pj: float
    error_pj: float
    trials: int


def moved_bytes(instruction: str, copies: float) -> OpcodeCounts:
    """Return the bytes that copies of an instruction move beyond L1, where the catalogue names the level.

    Rows of a level are named after it (`ld.global.b32:hbm`, ptxbench/catalogue/data/memory_level.toml). What
    comes from L2 or DRAM passes the crossbar; L2's own part is counted there. A store's way to L2 is part of
    the storing instruction.

    Args:
        instruction: Catalogue name.
        copies: How often one thread executes it.
    """
    name, _, level = instruction.rpartition(":")
    if level not in _LEVELS:
        return ()
    try:
        size = float(find_instruction(instruction).bytes * copies)
    except InputError:
        return ()
    levels = [one for one in _LEVELS[level] if not (name.startswith("st.") and one is Level.CROSSBAR)]
    return tuple((one.opcode, size) for one in levels)


def patterns_of(passes: Iterable[PassEnergy]) -> tuple[str, ...]:
    """Return the operand patterns, each once, in order of appearance."""
    return tuple(dict.fromkeys(one.pattern for one in passes))
