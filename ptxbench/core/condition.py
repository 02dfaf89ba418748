"""Under which condition an instruction is measured: the axes, from the command line to a trial's id."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from ptxbench.core.threads import WARP

# The two protocols whose columns reports know; `ptxbench.experiment.protocols` lists every protocol.
ARAFA = "arafa"
DYNAMIC = "dynamic"


class OptLevel(StrEnum):
    """Optimization level of the PTX assembler (CU_JIT_OPTIMIZATION_LEVEL, ptxas -O)."""

    O0 = "O0"
    O3 = "O3"

    @property
    def number(self) -> int:
        """The level as the assembler takes it."""
        return int(self.value[1:])


class Pattern(StrEnum):
    """What the operands are.

    Since the warps of a chip hold values of their own under each pattern but zeros, the others tell what it
    costs that the lanes of a warp differ, and (without "still") that one copy differs from the next.
    """

    RANDOM = "random"  # each thread has values of its own
    ZEROS = "zeros"
    UNIFORM = "uniform"  # random, but the lanes of a warp have the same values
    HALVES = "halves"  # random, but lane i has the values of lane i + 16
    HAMMING_1 = "hamming:1"  # random, but of 32 bits so many differ from lane i to lane i + 16, by mean
    HAMMING_2 = "hamming:2"
    HAMMING_4 = "hamming:4"
    HAMMING_8 = "hamming:8"
    STILL = "still"  # random, but all copies in a thread have the same values
    STILL_HALVES = "still:halves"
    STILL_HAMMING_1 = "still:hamming:1"
    STILL_HAMMING_2 = "still:hamming:2"
    STILL_HAMMING_4 = "still:hamming:4"
    STILL_HAMMING_8 = "still:hamming:8"

    @property
    def is_still(self) -> bool:
        """Whether no operand changes from one copy to the next."""
        return self.startswith("still")

    @property
    def bits_apart(self) -> int | None:
        """Of 32 bits, how many differ from lane i to lane i + 16, by mean; None: not set."""
        *_, last = self.split(":")
        return 0 if last == "halves" else int(last) if last.isdecimal() else None


# What the operands of whole arrays may be: they say nothing of lanes.
ARRAY_PATTERNS = (Pattern.RANDOM, Pattern.ZEROS)
# What says how the lanes of a warp differ, or its copies.
LANE_PATTERNS = tuple(pattern for pattern in Pattern if pattern not in ARRAY_PATTERNS)


class Form(StrEnum):
    """How the copies of an instruction depend on each other."""

    LATENCY = "latency"  # one chain: each copy waits for the one before it
    THROUGHPUT = "throughput"  # several chains side by side, to fill the pipe


@dataclass(frozen=True)
class Condition:
    """One value of each axis.

    Attributes:
        opt_level: Optimization level of the assembler.
        protocol: Name of the measuring protocol.
        pattern: Operand pattern.
        form: Form of the kernels; instruction, protocol and optimization level decide it, so no key names it.
        lanes: Active lanes of each warp, the first ones.
    """

    opt_level: OptLevel
    protocol: str
    pattern: Pattern
    form: Form = Form.LATENCY
    lanes: int = WARP

    @property
    def key(self) -> str:
        """The part of a trial's id that names the condition, such as "O3/dynamic/random"."""
        return "/".join((self.opt_level, self.protocol, self.pattern, *lanes_key(self.lanes)))

    def __str__(self) -> str:
        """Return the condition for a reader, such as "-O3 dynamic random"."""
        return f"-{self.opt_level} {self.protocol} {operands_text(self.pattern, self.lanes)}"


def lanes_key(lanes: int) -> tuple[str, ...]:
    """Return the part of a key that names the active lanes of each warp: nothing for whole warps."""
    return () if lanes == WARP else (f"lanes{lanes}",)


def operands_text(operands: str, lanes: int) -> str:
    """Return operands, and active lanes where those are not whole warps, such as "random, 16 lanes"."""
    return operands if lanes == WARP else f"{operands}, {lanes} {'lane' if lanes == 1 else 'lanes'}"


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The values of each axis that a run goes through: it measures under every combination of them.

    Attributes:
        opt_levels: Optimization levels of the assembler.
        protocols: Names of the measuring protocols.
        patterns: Operand patterns.
        lanes: Active lanes of each warp.
    """

    opt_levels: tuple[OptLevel, ...] = ()
    protocols: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    lanes: tuple[int, ...] = ()

    def combinations(self) -> tuple[Condition, ...]:
        """Return every combination, the last axis changing fastest."""
        return tuple(
            Condition(OptLevel(opt_level), protocol, Pattern(pattern), lanes=lanes)
            for opt_level, protocol, pattern, lanes in product(
                self.opt_levels, self.protocols, self.patterns, self.lanes
            )
        )
