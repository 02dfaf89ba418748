"""What a rendered kernel must compute, worked out in numpy from its own PTX text.

It takes a kernel instruction by instruction, all threads at once, and knows the arithmetic of the
integer and float rows: the results of a GPU are compared with it, bit by bit or within the error of the
float formats. An instruction that it does not know raises `UnknownInstructionError`: such a kernel is not
checked, and has no result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.types import TYPES
from ptxbench.emulator.bits import INTEGER_OPERATIONS, Bits, Opcode, UnknownInstructionError, masked
from ptxbench.emulator.carry import CARRYING, carry_operation
from ptxbench.emulator.fields import FIELD_OPERATIONS, pack
from ptxbench.emulator.floats import compare, convert, float_operation, has_property
from ptxbench.emulator.text import Line, constant, inverse, kernel_body, lines, parted, parts_of

__all__ = ["Machine", "UnknownInstructionError", "expected_output", "expected_results"]

_NO_EFFECT = frozenset({"bar", "barrier", "ret", "fence", "membar", "nanosleep", "griddepcontrol", "pmevent"})
_INPUT, _OUTPUT, _STAMPS = (number << 40 for number in (1, 2, 3))
_PARAMETERS = {"p_input": _INPUT, "p_output": _OUTPUT, "p_stamps": _STAMPS}
_INTEGERS = {**INTEGER_OPERATIONS, **FIELD_OPERATIONS}
_MOST_OPERANDS = {
    "ld": 2,
    "mov": 2,
    "cvta": 2,
    "testp": 2,
    "cvt": 4,
    "selp": 4,
    "slct": 4,
    "setp": 4,
    "set": 4,
}
_F32_INFINITY = np.uint64(0x7F800000)
# What the output holds of a thread that has left before it stores.
UNSTORED = np.uint64(0xFFFFFFFFFFFFFFFF)
_CLOCKS = ("%globaltimer", "%clock64", "%clock")


@dataclass
class Machine:
    """All threads of one launch: their registers, and what they stored as results."""

    memory: npt.NDArray[np.uint8]
    threads: int
    block: int
    iterations: int
    registers: dict[str, Bits] = field(default_factory=dict)
    result: Bits | None = None
    left: npt.NDArray[np.bool_] | None = None

    def value(self, operand: str, op: Opcode, width: int = 64) -> Bits:
        """Return an operand's bits: a register, a negated predicate or a constant."""
        if operand.startswith("!"):
            return self.value(operand[1:], op) ^ np.uint64(1)
        if operand.startswith("%"):
            if operand not in self.registers:
                raise op.unknown()
            return self.registers[operand]
        return np.full(self.threads, constant(operand, op) & ((1 << width) - 1), np.uint64)

    def write(self, line: Line, register: str, bits: Bits) -> None:
        """Write a register in the threads whose guard holds."""
        if line.guard:
            old = self.registers.get(register, np.zeros_like(bits))
            bits = np.where(self.holds(line), bits, old)
        if register != "_":
            self.registers[register] = bits

    def holds(self, line: Line) -> npt.NDArray[np.bool_]:
        """Return in which threads an instruction takes place."""
        if not line.guard:
            return np.ones(self.threads, bool)
        return np.asarray((self.value(line.guard, line.opcode) != 0) != line.negated, bool)

    def execute(self, line: Line) -> None:
        """Do one instruction in every thread.

        Raises:
            UnknownInstructionError: The reference does not know it.
        """
        op = line.opcode
        if line.guard and not self.holds(line).any():
            return
        if op.base == "ret" and line.guard:
            self.left = self.holds(line)
        if op.base in _NO_EFFECT and "red" not in op.modifiers:
            return
        if op.base == "bra" and line.operands == ("done",):
            return  # all but the stamps is done
        if len(line.operands) < 2 or len(line.operands) > _MOST_OPERANDS.get(op.base, 6):
            raise op.unknown()
        if op.base == "st":
            self._store(line)
        elif op.base in _SPECIAL:
            _SPECIAL[op.base](self, line)
        else:
            self.write(line, line.operands[0], self._computed(line))

    def _computed(self, line: Line) -> Bits:
        op, sources = line.opcode, line.operands[1:]
        width = op.kind.bits
        values = [self.value(source, op, width) for source in sources]
        try:
            if op.base in CARRYING and ({"cc"} & op.modifiers or op.base in ("addc", "subc", "madc")):
                bits, self.registers["%carry"] = carry_operation(
                    op, values, self.registers.get("%carry", np.zeros(self.threads, np.uint64))
                )
                return bits
            if op.kind.scalar:
                return float_operation(op, *values)
            if op.base in _INTEGERS:
                return _INTEGERS[op.base](op, *values)
        except TypeError as error:
            raise op.unknown() from error  # a form with other operands
        raise op.unknown()

    def _store(self, line: Line) -> None:
        """Keep what goes to the result; the stamps are the clock's."""
        place = line.operands[0]
        if place.startswith("[%stamps"):
            return
        if place != "[%result]" or "global" not in line.opcode.modifiers or len(line.operands) != 2:
            raise line.opcode.unknown()
        stored = masked(self.value(line.operands[1], line.opcode), line.opcode.kind.bits)
        left = self.left if self.left is not None else np.zeros(self.threads, bool)
        old = self.result if self.result is not None else np.where(left, UNSTORED, np.uint64(0))
        self.result = np.where(self.holds(line) & ~left, stored, old)

    def load(self, line: Line) -> None:
        """Load a parameter, or a slot of the thread's record."""
        op, (register, place) = line.opcode, line.operands
        width = op.kind.bits // 8
        name, _, offset = place.strip("[]").partition("+")
        if "param" in op.modifiers:
            known = {**_PARAMETERS, "p_iterations": self.iterations}
            if name not in known:
                raise op.unknown()
            self.write(line, register, np.full(self.threads, known[name], np.uint64))
            return
        begin = self.value(name, op) + np.uint64(int(offset or 0)) - np.uint64(_INPUT)
        if "global" not in op.modifiers or (begin + np.uint64(width) > self.memory.size).any():
            raise op.unknown()
        parts = [
            self.memory[begin + np.uint64(k)].astype(np.uint64) << np.uint64(8 * k) for k in range(width)
        ]
        self.write(line, register, np.bitwise_or.reduce(parts))

    def move(self, line: Line) -> None:
        """Move a register, a constant or a special register; pack or take apart what stands in braces."""
        op, (to, source) = line.opcode, line.operands
        width = op.kind.bits
        if to.startswith("{"):
            parts = parts_of(to)
            each, value = width // len(parts), self.value(source, op, width)
            for number, part in enumerate(parts):
                self.write(line, part, masked(value >> np.uint64(number * each), each))
        elif source.startswith("{"):
            parts = parts_of(source)
            each = width // len(parts)
            pieces = [
                masked(self.value(part, op), each) << np.uint64(number * each)
                for number, part in enumerate(parts)
            ]
            self.write(line, to, np.bitwise_or.reduce(pieces))
        else:
            self.write(line, to, self._moved(op, to, source))

    def _moved(self, op: Opcode, to: str, source: str) -> Bits:
        index = np.arange(self.threads, dtype=np.uint64)
        special = {
            "%tid.x": index % np.uint64(self.block),
            "%ctaid.x": index // np.uint64(self.block),
            "%ntid.x": np.full_like(index, self.block),
            "%laneid": index % np.uint64(self.block) % np.uint64(32),
        }
        if source in _CLOCKS and to.startswith(("%timer", "%cycle")):
            return np.zeros_like(index)
        return special[source] if source in special else self.value(source, op, op.kind.bits)

    def set_predicate(self, line: Line) -> None:
        """Do setp: one predicate, or two joined by "|"."""
        first, _, second = line.operands[0].partition("|")
        op = line.opcode
        values = [self.value(source, op, op.kind.bits) for source in line.operands[1:]]
        outcomes = compare(op, *values)
        self.write(line, first, outcomes[0])
        if second:
            both = compare(Opcode(inverse(op)), *values)[0] if len(outcomes) == 1 else outcomes[1]
            self.write(line, second, both)

    def set_value(self, line: Line) -> None:
        """Do set: ones, or 1.0, where a comparison holds."""
        op = line.opcode
        values = [self.value(source, op, op.kind.bits) for source in line.operands[1:]]
        if len(op.types) != 2 or op.types[0] not in ("f32", "u32", "s32", "b32") or op.kind.lanes != 1:
            raise op.unknown()
        true = np.uint64(0x3F800000 if op.types[0] == "f32" else 0xFFFFFFFF)
        self.write(line, line.operands[0], compare(op, *values)[0] * true)

    def select(self, line: Line) -> None:
        """Do selp, or slct, which chooses by a sign."""
        if len(line.operands) != 4:
            raise line.opcode.unknown()
        op, (to, a, b, c) = line.opcode, line.operands
        condition = self.value(c, op)
        if op.base == "slct":
            positive = condition >> np.uint64(31) == 0
            magnitude = masked(condition, 31)
            # As a float, -0 chooses the first, and what is no number the second.
            is_number = magnitude <= _F32_INFINITY
            chosen = (positive | (magnitude == 0)) & is_number if op.types[1] == "f32" else positive
        else:
            chosen = condition != 0
        width = TYPES[op.types[0]].bits
        self.write(line, to, np.where(chosen, self.value(a, op, width), self.value(b, op, width)))

    def convert(self, line: Line) -> None:
        """Do cvt."""
        values = [self.value(source, line.opcode) for source in line.operands[1:]]
        if "pack" in line.opcode.modifiers:
            self.write(line, line.operands[0], pack(line.opcode, *values))
            return
        if len(values) > 2:
            raise line.opcode.unknown()
        with np.errstate(all="ignore"):
            self.write(line, line.operands[0], convert(line.opcode, *values))

    def test(self, line: Line) -> None:
        """Do testp."""
        value = self.value(line.operands[1], line.opcode)
        self.write(line, line.operands[0], has_property(line.opcode, value))

    def address(self, line: Line) -> None:
        """Do cvta, which changes nothing here."""
        self.write(line, line.operands[0], self.value(line.operands[1], line.opcode))


_SPECIAL: dict[str, Callable[[Machine, Line], None]] = {
    "ld": Machine.load,
    "mov": Machine.move,
    "setp": Machine.set_predicate,
    "set": Machine.set_value,
    "selp": Machine.select,
    "slct": Machine.select,
    "cvt": Machine.convert,
    "testp": Machine.test,
    "cvta": Machine.address,
}


def expected_results(
    ptx: str, entry: str, operands: npt.NDArray[np.uint8], threads: int, iterations: int, block: int = 0
) -> Bits:
    """Return every thread's result as the 64 bits that it stores, shape (threads,).

    A thread that leaves before the loop stores nothing: `UNSTORED`.

    Args:
        ptx: A module as it was rendered.
        entry: Its kernel.
        operands: Contents of the input buffer, uint8.
        threads: Threads of the launch.
        iterations: Loop count, at least 1.
        block: Threads of a block; 0 is one block.

    Raises:
        UnknownInstructionError: The kernel has an instruction that the reference does not know.
    """
    prologue, loop, epilogue = (list(lines(part)) for part in parted(kernel_body(ptx, entry)))
    machine = Machine(operands, threads, block or threads, iterations)
    for line in prologue:
        machine.execute(line)
    for _ in range(iterations):
        for line in loop:
            machine.execute(line)
    for line in epilogue:
        machine.execute(line)
    if machine.result is None:
        raise UnknownInstructionError(f"{entry} stores no result")
    return machine.result


def expected_output(
    ptx: str, entry: str, operands: npt.NDArray[np.uint8], threads: int, iterations: int
) -> npt.NDArray[np.uint32]:
    """Return the low four bytes of every thread's result, shape (threads,); see `expected_results`."""
    return masked(expected_results(ptx, entry, operands, threads, iterations), 32).astype(np.uint32)
