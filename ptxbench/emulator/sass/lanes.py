"""The registers of all warps of a sample, and how an instruction reads and writes them.

A general register is an array of shape (warps, 32), a uniform one of (warps, 1), a constant one of (1, 1): so
an instruction of the uniform datapath is the same code as that of all lanes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import InputError
from ptxbench.core.threads import WARP
from ptxbench.sass.operand import Kind, Operand
from ptxbench.sass.program import SassInstruction
from ptxbench.sass.written import results

Array = npt.NDArray[Any]
# Which lanes take part, shape (warps, 32); None: all.
Mask = npt.NDArray[np.bool_] | None
Read = Callable[[], Array]
Step = Callable[[Mask], None]

_PREDICATES = (Kind.PREDICATE, Kind.TRUE, Kind.UNIFORM_PREDICATE, Kind.UNIFORM_TRUE)
_UNIFORM = (Kind.UNIFORM, Kind.UNIFORM_ZERO, Kind.UNIFORM_PREDICATE, Kind.UNIFORM_TRUE)
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[(?:(U?R\d+|U?RZ))?\+?(-?0x[0-9a-f]+)?\]")
_SPECIAL_FLOATS = {"INF": np.inf, "QNAN": np.nan, "SNAN": np.nan}
_UNIFORM_REGISTERS = 64
_SPARE = 4


class Registers:
    """The registers of all warps of a sample.

    Attributes:
        general: Shape (registers, warps, 32).
        uniform: Shape (64, warps, 1).
        predicates: Shape (8, warps, 32); the last one is always true.
        uniform_predicates: Shape (8, warps, 1); the same.
    """

    def __init__(self, registers: int, warps: int) -> None:
        self.general = np.zeros((registers + _SPARE, warps, WARP), np.uint32)
        self.uniform = np.zeros((_UNIFORM_REGISTERS, warps, 1), np.uint32)
        self.predicates = np.zeros((8, warps, WARP), bool)
        self.uniform_predicates = np.zeros((8, warps, 1), bool)
        self.predicates[7] = self.uniform_predicates[7] = True

    @property
    def warps(self) -> int:
        """Warps of the sample."""
        return self.general.shape[1]


def unknown(instruction: SassInstruction) -> InputError:
    """Return the error that names an instruction which nobody taught the emulator."""
    return InputError(
        f"the emulator does not know {instruction.opcode} (at {instruction.address:#x}: {instruction}); "
        "count the kernel with `ncu`"
    )


def constant(value: int) -> Array:
    """Return a word that all lanes have."""
    return np.full((1, 1), value & 0xFFFFFFFF, np.uint32)


@dataclass(frozen=True)
class Bound:
    """An instruction beside the registers that it works on.

    Attributes:
        instruction: Which.
        registers: Of the sample.
        banks: Constant memory by bank, as bytes.
    """

    instruction: SassInstruction
    registers: Registers
    banks: Mapping[int, npt.NDArray[np.uint8]]

    @property
    def words(self) -> Sequence[str]:
        """Its modifiers."""
        return self.instruction.opcode.split(".")[1:]

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Its operands, destinations first."""
        return self.instruction.operand_list

    def only(self, *allowed: str) -> frozenset[str]:
        """Return its modifiers, and refuse one that is not allowed."""
        if set(self.words) - set(allowed):
            raise self.unknown()
        return frozenset(self.words)

    def unknown(self) -> InputError:
        """Return the error that names it."""
        return unknown(self.instruction)

    def parted(self) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
        """Return what it writes and what it reads: a register, then predicates; or predicates alone."""
        outs = results(self.instruction)
        return outs, self.operands[len(outs) :]

    # Reading.

    def register(self, name: str, beyond: int = 0) -> Array:
        """Return a general or uniform register, or the one so many places behind it."""
        if name in ("RZ", "URZ"):
            return constant(0)
        file = self.registers.uniform if name.startswith("U") else self.registers.general
        number = int(name.lstrip("UR")) + beyond
        if number >= len(file):
            raise self.unknown()
        return np.asarray(file[number])

    def held(self, operand: Operand, beyond: int = 0) -> Array:
        """Return the bits of an operand as they stand, without its sign; constants are read here and now."""
        if operand.kind in (Kind.REGISTER, Kind.UNIFORM, Kind.ZERO, Kind.UNIFORM_ZERO):
            return self.register(operand.name, beyond)
        if operand.kind is Kind.CONSTANT:
            return self._constant(operand.text, 4 * beyond)
        if operand.kind is Kind.IMMEDIATE and operand.number is not None:
            return constant(operand.number >> 32 * beyond)
        raise self.unknown()

    def _constant(self, text: str, beyond: int) -> Array:
        match = _CONSTANT.match(text.strip("-|~"))
        if match is None or match[2] not in (None, "RZ", "URZ"):
            raise self.unknown()
        bank = self.banks.get(int(match[1], 16))
        at = int(match[3] or "0", 16) + beyond
        if bank is None or at + 4 > len(bank):
            raise self.unknown()
        return bank[at : at + 4].view(np.uint32).reshape(1, 1)

    def indexed(self, text: str) -> tuple[npt.NDArray[np.uint8], Array | None, int]:
        """Return bank, index register and offset of an operand such as `c[0x3][R4+0x8]`."""
        match = _CONSTANT.match(text)
        bank = self.banks.get(int(match[1], 16)) if match else None
        if match is None or bank is None:
            raise self.unknown()
        index = None if match[2] in (None, "RZ", "URZ") else self.register(match[2])
        return bank, index, int(match[3] or "0", 16)

    def word(self, operand: Operand) -> Read:
        """Return how to read a whole number of 32 bits."""
        if operand.suffix not in ("", ".reuse"):
            raise self.unknown()
        held = self.held(operand)
        if operand.kind is Kind.IMMEDIATE:
            return lambda: held
        if operand.absolute:
            read: Read = lambda: np.abs(held.view(np.int32)).view(np.uint32)  # noqa: E731
        else:
            read = lambda: held  # noqa: E731
        if operand.text.startswith("~"):
            return lambda: ~read()
        if operand.negative:
            return lambda: np.uint32(0) - read()
        return read

    def pair(self, operand: Operand) -> Read:
        """Return how to read a whole number of 64 bits, in two registers."""
        low, high = self.held(operand), self.held(operand, 1)
        shape = np.broadcast_shapes(low.shape, high.shape)
        both = np.empty((*shape, 2), np.uint32)
        whole = both.view(np.uint64)[..., 0]

        def read() -> Array:
            both[..., 0] = low
            both[..., 1] = high
            return whole

        if operand.text.startswith("~"):
            return lambda: ~read()
        if operand.negative:
            return lambda: np.uint64(0) - read()
        return read

    def single(self, operand: Operand) -> Read:
        """Return how to read an f32."""
        if operand.suffix:
            raise self.unknown()
        if operand.kind is Kind.IMMEDIATE or operand.kind is Kind.OTHER:
            value = np.full((1, 1), self.decimal(operand.text), np.float32)
            return lambda: value
        held = self.held(operand).view(np.float32)
        return self._signed(operand, lambda: held)

    def double(self, operand: Operand) -> Read:
        """Return how to read an f64, in two registers."""
        if operand.kind is Kind.IMMEDIATE or operand.kind is Kind.OTHER:
            value = np.full((1, 1), self.decimal(operand.text), np.float64)
            return lambda: value
        read = self.pair(Operand(operand.text.strip("-|"), operand.kind, operand.name))
        return self._signed(operand, lambda: read().view(np.float64))

    def decimal(self, text: str) -> float:
        """Return an immediate as a number, such as "0.5" or "-QNAN"."""
        plain = text.strip().lstrip("+-").upper()
        sign = -1.0 if text.strip().startswith("-") else 1.0
        if plain in _SPECIAL_FLOATS:
            return float(sign * _SPECIAL_FLOATS[plain])
        try:
            return float(text)
        except ValueError:
            raise self.unknown() from None

    @staticmethod
    def _signed(operand: Operand, read: Read) -> Read:
        if operand.absolute and operand.negative:
            return lambda: -np.abs(read())
        if operand.absolute:
            return lambda: np.abs(read())
        return (lambda: -read()) if operand.negative else read

    def predicate(self, operand: Operand) -> Read:
        """Return how to read a predicate."""
        held = self.truth(operand.name)
        return (lambda: ~held) if operand.negative else lambda: held

    def truth(self, name: str) -> Array:
        """Return a predicate register."""
        if name in ("PT", "UPT"):
            return np.ones((1, 1), bool)
        file = self.registers.uniform_predicates if name.startswith("U") else self.registers.predicates
        return np.asarray(file[int(name.lstrip("UP"))])

    # Writing.

    def writer(self, operand: Operand) -> Callable[[Array, Mask], None]:
        """Return how to write a word or a predicate; what is written to RZ or PT is lost."""
        if operand.lost:
            return lambda _, __: None
        if operand.kind in _PREDICATES:
            held = self.truth(operand.name)
        elif operand.kind in (Kind.REGISTER, Kind.UNIFORM):
            held = self.register(operand.name)
        else:
            raise self.unknown()
        return _writer(held, operand.kind in _UNIFORM)

    def writer_behind(self, operand: Operand, beyond: int) -> Callable[[Array, Mask], None]:
        """Return how to write the register so many places behind one."""
        if operand.lost:
            return lambda _, __: None
        return _writer(self.register(operand.name, beyond), operand.kind in _UNIFORM)

    def pair_writer(self, operand: Operand) -> Callable[[Array, Mask], None]:
        """Return how to write 64 bits to two registers."""
        low, high = self.writer_behind(operand, 0), self.writer_behind(operand, 1)

        def write(value: Array, active: Mask) -> None:
            low(value.astype(np.uint32), active)
            high((value >> np.uint64(32)).astype(np.uint32), active)

        return write

    def to_word(self, compute: Callable[[], Array]) -> Step:
        """Return the step that writes words to the first operand."""
        write = self.writer(self.operands[0])
        return lambda active: write(compute(), active)

    def to_single(self, compute: Callable[[], Array]) -> Step:
        """Return the step that writes f32 to the first operand."""
        write = self.writer(self.operands[0])
        return lambda active: write(compute().view(np.uint32), active)

    def to_double(self, compute: Callable[[], Array]) -> Step:
        """Return the step that writes f64 to the first operand's pair."""
        write = self.pair_writer(self.operands[0])
        return lambda active: write(compute().view(np.uint64), active)


def _writer(held: Array, uniform: bool) -> Callable[[Array, Mask], None]:
    def write(value: Array, active: Mask) -> None:
        if active is None:
            np.copyto(held, value)
        elif uniform:
            np.copyto(held, value, where=active.any(axis=1, keepdims=True))
        else:
            np.copyto(held, value, where=active)

    return write
