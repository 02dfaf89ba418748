"""What a kernel executes: the input of an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from ptxbench.core.threads import LINE_BYTES
from ptxbench.model.opcodes import BYTE, OpcodeClass, opcode_class


class Level(StrEnum):
    """Where bytes are moved, counted from the SMs outwards.

    L1: what global and local accesses touch in L1, waste of uncoalesced ones included. SHARED: what shared
    memory hands out, bank conflicts included. CROSSBAR: what L2 hands to the SMs. L2: what is touched in L2,
    the traffic between its halves and to DRAM included.
    """

    L1 = "L1"
    SHARED = "shared"
    CROSSBAR = "crossbar"
    L2 = "L2"
    DRAM = "DRAM"

    @property
    def opcode(self) -> str:
        """The name under which a byte of this level stands among opcodes."""
        return f"{BYTE}.{self.value}"


class Access(StrEnum):
    """Accesses, which cost by their number beside their bytes: each is looked up, arbitrated and sent.

    L1_WAVEFRONT: what the tag stage of L1 hands on at once; a warp that reads one line makes one, a warp that
    reads 32 lines many. L2_REQUEST: a request to a slice of L2 for a line of 128 bytes, whether for one of
    its four sectors or for all. L2_MISS: a request whose line L2 has not; DRAM opens a row for it.
    """

    L1_WAVEFRONT = "L1 wavefronts"
    L2_REQUEST = "L2 requests"
    L2_MISS = "L2 misses"


_LEVELS = {
    Access.L1_WAVEFRONT: Level.L1,
    Access.L2_REQUEST: Level.L2,
    Access.L2_MISS: Level.DRAM,
}
# DRAM has a clock of its own.
OFF_CLOCK = frozenset({Level.DRAM.value, Access.L2_MISS.value})
# Of the fit kernels on an H200 none is between 0.4 and 1% of its instructions.
_NOW_AND_THEN = 0.005
_GLOBAL = frozenset({OpcodeClass.GLOBAL, OpcodeClass.ATOMIC, OpcodeClass.COPY})


@dataclass(frozen=True)
class KernelWork:
    """Executed instructions, moved bytes and accesses of one launch.

    Attributes:
        name: Kernel.
        opcodes: Opcode with modifiers, and its executions by threads (32 a warp where all take part).
        bytes_moved: Bytes by memory level; a level that is not named was not counted.
        time_s: Duration, NaN where it is not known.
        modifiers: Whether the opcodes carry their modifiers; some profiles drop them.
        accesses: Number of accesses by kind; a kind that is not named was not counted.
        idle: Opcode, and lanes of its issued warps that took no part; none where all did, or it is not known.
    """

    name: str
    opcodes: tuple[tuple[str, float], ...]
    bytes_moved: tuple[tuple[Level, float], ...] = ()
    time_s: float = field(default=float("nan"))
    modifiers: bool = True
    accesses: tuple[tuple[Access, float], ...] = ()
    idle: tuple[tuple[str, float], ...] = ()

    @cached_property
    def executions(self) -> float:
        """Executed instructions of all threads."""
        return sum(n for _, n in self.opcodes)

    @property
    def uses_global_memory(self) -> bool:
        """Whether more than 0.5% of the executed instructions access global memory."""
        accesses = sum(n for opcode, n in self.opcodes if opcode_class(opcode) in _GLOBAL)
        return accesses > _NOW_AND_THEN * self.executions

    @property
    def scatters(self) -> bool:
        """Whether its accesses of global memory are counted, and take less than half a line each."""
        requests = dict(self.accesses).get(Access.L2_REQUEST, 0.0)
        touched = dict(self.bytes_moved).get(Level.L2, 0.0)
        return self.uses_global_memory and touched < LINE_BYTES / 2 * requests

    def count(self, access: Access) -> float:
        """Return the accesses of a kind; where they were not counted, as if each took a whole line."""
        return dict(self.accesses).get(access, dict(self.bytes_moved).get(_LEVELS[access], 0.0) / LINE_BYTES)


# What computes a kernel's data; the other classes mostly compute addresses and count loops.
DATA_CLASSES = frozenset(
    {
        OpcodeClass.FP32,
        OpcodeClass.FP64,
        OpcodeClass.HALF,
        OpcodeClass.TENSOR,
        OpcodeClass.SPECIAL,
        OpcodeClass.CONVERT,
        OpcodeClass.WARP,
        OpcodeClass.SHARED,
        OpcodeClass.GLOBAL,
        OpcodeClass.ATOMIC,
        OpcodeClass.SHARED_ATOMIC,
        OpcodeClass.COPY,
    }
)


@dataclass(frozen=True)
class Activity:
    """How much the operands toggle, from 0 (all zeros) to 1 (random bits).

    Attributes:
        data: Of instructions that compute or move data.
        index: Of integer, move and control instructions, which mostly compute addresses.
        operands: The kernel's operands as such: terms that were fitted to kernels on zeros and on random
            operands (bytes, tensor cores) are taken between the two by it.
        by_opcode: Of opcodes whose operands are known, in the place of `data` and `index`.
    """

    data: float = 1.0
    index: float = 1.0
    operands: float = 1.0
    by_opcode: Mapping[str, float] = field(default_factory=dict)

    def of(self, opcode: str) -> float:
        """Return the activity of an opcode's operands."""
        if opcode in self.by_opcode:
            return self.by_opcode[opcode]
        return self.data if opcode_class(opcode) in DATA_CLASSES else self.index


def activity_between(zeros: Activity, random: Activity, share: float) -> Activity:
    """Return the activity of operands that are a share (0 to 1) of the way from zeros to random."""

    def between(low: float, high: float) -> float:
        return low + share * (high - low)

    return Activity(
        between(zeros.data, random.data),
        between(zeros.index, random.index),
        between(zeros.operands, random.operands),
    )
