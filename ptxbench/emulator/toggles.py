"""How random an instruction's operands really are: what changes of them from one copy to the next.

The energy of an instruction goes with the bits that toggle. Operands are drawn at random, but what a chain
makes of them may not be: where an instruction gives 0 for half of all words, its companion, y m + n, gives
one and the same word for these. The reference tells, where it knows all of the loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, Pattern
from ptxbench.core.target import Target
from ptxbench.emulator.bits import Bits
from ptxbench.emulator.kernel import Machine, UnknownInstructionError
from ptxbench.emulator.text import Line, kernel_body, lines, parted, parts_of

_THREADS = 256
_SEED = 1
# Chains that settle have done so by then.
_PASSES_BEFORE, _PASSES = 8, 2


@dataclass(frozen=True)
class Toggles:
    """What changes of an instruction's register operands from one copy to the next of its chain.

    Attributes:
        bits: Bits that change, over all register operands; mean of all threads and copies.
        still: Share of the copies all of whose operands are those of the copy before, from 0 to 1.
    """

    bits: float
    still: float


def operand_toggles(instruction: Instruction, target: Target, form: Form) -> Toggles:
    """Return how the random operands of an instruction change.

    A warp is meant by itself: between two copies of one warp a scheduler issues other warps, whose operands
    are others.

    Args:
        instruction: Catalogue row.
        target: Assembler target.
        form: One chain, or several side by side.

    Raises:
        UnknownInstructionError: The loop holds an instruction that the reference does not know, or none
            of the row's own with a register to read.
        NotMeasurableError: The row does not exist on the target, or has no random operands.
    """
    ptx = render_module(instruction, target, form)
    operands = operand_bytes(instruction, Pattern.RANDOM, _SEED)
    changed = [
        np.bitwise_count(after ^ before).sum(axis=0)
        for values in _seen(ptx, instruction.opcode, operands)
        for before, after in pairwise(values)
    ]
    if not changed:
        raise UnknownInstructionError(f"{instruction.name} reads no register in its loop")
    return Toggles(float(np.mean(changed)), float(np.mean(np.array(changed) == 0)))


def _seen(ptx: str, opcode: str, operands: npt.NDArray[np.uint8]) -> Iterable[list[Bits]]:
    """Return for each chain what its copies read, one after the other, each of shape (registers, threads)."""
    prologue, loop, _ = (list(lines(part)) for part in parted(kernel_body(ptx, "target")))
    machine = Machine(operands, _THREADS, _THREADS, _PASSES_BEFORE + _PASSES)
    seen: dict[str, list[Bits]] = defaultdict(list)
    with np.errstate(all="ignore"):  # infinities and NaNs are values like others
        for line in prologue:
            machine.execute(line)
        for number in range(_PASSES_BEFORE + _PASSES):
            for line in loop:
                own = line.opcode.text == opcode and (not line.guard or machine.holds(line).all())
                if own and number >= _PASSES_BEFORE and (read := _read(machine, line)):
                    seen[line.operands[0]].append(np.array(read))
                machine.execute(line)
    return seen.values()


def _read(machine: Machine, line: Line) -> list[Bits]:
    """Return what an instruction is about to read from registers."""
    words = [word.removeprefix("!") for operand in line.operands[1:] for word in parts_of(operand)]
    return [machine.registers[word] for word in words if word in machine.registers]
