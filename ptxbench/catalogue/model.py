"""A catalogue row: one PTX instruction as ptxbench can measure it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ptxbench.catalogue.types import COMPANIONS, Companion
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import NotMeasurableError
from ptxbench.core.opcode_counts import counts_text
from ptxbench.core.target import Target
from ptxbench.core.threads import WARP, WARPGROUP

# Templates and guards of rows that fewer active lanes would make another thing of.
_BY_BLOCK, _DIVERGENT = "async", "divergent"


class Unit(StrEnum):
    """What executes one instruction, and so what its energy is counted for."""

    THREAD = "thread"
    WARP = "warp"
    WARPGROUP = "warpgroup"

    @property
    def threads(self) -> int:
        """Threads that execute one instruction together."""
        return {Unit.THREAD: 1, Unit.WARP: WARP, Unit.WARPGROUP: WARPGROUP}[self]


@dataclass(frozen=True)
class Expectation:
    """The SASS that one copy of the instruction becomes at one level.

    Attributes:
        opt_level: Optimization level of the assembler.
        counts: Opcode with modifiers, and how many of it one copy gives, in catalogue order;
            "A|B" counts both as one, since the assembler may pick either.
        once: What one pass of the loop has besides, whatever N: operands that all copies share made
            ready, a register held. Below 0 the overhead loop has more.
        guarded: How many instructions of one copy stand under a predicate that the copy itself writes;
            branches are counted by their opcode.
        form: The form that this is about; None is both, where no other entry names the form.
        targets: The targets that this is about; none is all, where no other entry names the target.
        refused: Why the row cannot be measured here, else "".
        by_driver: Whether the driver's own assembler makes this, where it differs from ptxas.
    """

    opt_level: OptLevel
    counts: tuple[tuple[str, float], ...]
    once: tuple[tuple[str, int], ...]
    guarded: int = 0
    form: Form | None = None
    targets: tuple[str, ...] = ()
    refused: str = ""
    by_driver: bool = False

    @property
    def text(self) -> str:
        """Such as "FFMA" or "LOP3.LUT*2 POPC"; for what cannot be measured, "refused"."""
        return "refused" if self.refused else counts_text(self.counts)


def is_sparse(name: str) -> bool:
    """Return whether an opcode, or the name of a row that ptxbench ships, multiplies a sparse matrix."""
    return "sp" in name.split(".")


@dataclass(frozen=True)
class Instruction:
    """One row of the catalogue; ptxbench/catalogue/data/README.md says how to write one.

    Attributes:
        name: Unique name, the PTX opcode with its types.
        opcode: What is printed into the PTX text.
        category: The PTX ISA's category of instructions.
        family: Template that renders it (ptx_templates/<family>.ptx.j2).
        type: PTX type of the result, and of every role that `types` does not name.
        operands: Tokens in order: roles, two roles joined by "|", predicates, constants.
        values: Generator of the operand values (ptxbench.codegen.values).
        alive: How the chain keeps its values alive, in words.
        companions: Instructions that follow each copy to keep its values alive; the overhead loop has
            them too.
        copies: N, copies of the instruction in the loop body.
        chains: Independent chains of the throughput form.
        unit: What executes one instruction.
        min_target: Lowest compute capability times ten.
        sass: Expected SASS: one entry a level, then those of one form or of some targets.
        note: What is surprising about its SASS, in words, or "".
        types: Roles whose type is not `type`.
        values_of: Roles whose generator is not `values`.
        companion: Opcode of the companions, or "" where there are none.
        before: Conversion of the chain's value into role v before the instruction, or "".
        after: Conversion of the result y into role u after the instruction, or "".
        guard: Predicate before the opcode: "", "p" (true at run time), "never" or "divergent".
        params: What the family's own template asks for, by name.
        max_target: Highest compute capability times ten; 0 is none.
        targets: The only targets that have it; none is no such limit.
        ptx_version: Lowest PTX ISA version that has it, or "".
        refused: Why it cannot be measured at all, else "".
        flops: Floating-point operations that one execution stands for.
        bytes: Bytes that one execution moves.
        block: Threads a block that the family needs, or None.
        scratch: Bytes of memory a thread that the instruction works on.
        paper: The merged row of Arafa et al. (2020), Table I, that it belongs to, or "".
    """

    name: str
    opcode: str
    category: str
    family: str
    type: str
    operands: tuple[str, ...]
    values: str
    alive: str
    companions: int
    copies: int
    chains: int
    unit: Unit
    min_target: int
    sass: tuple[Expectation, ...]
    note: str
    types: tuple[tuple[str, str], ...] = ()
    values_of: tuple[tuple[str, str], ...] = ()
    companion: str = ""
    before: str = ""
    after: str = ""
    guard: str = ""
    params: tuple[tuple[str, int | str], ...] = ()
    max_target: int = 0
    targets: tuple[str, ...] = ()
    ptx_version: str = ""
    refused: str = ""
    flops: int = 0
    bytes: int = 0
    block: int | None = None
    scratch: int = 8
    paper: str = ""

    def expected(self, opt_level: OptLevel, target: str = "", form: Form = Form.LATENCY) -> Expectation:
        """Return the SASS that one copy becomes; an entry of the target goes before one of the form.

        Args:
            opt_level: Optimization level of the assembler.
            target: Assembler target; "" is what holds where none is named.
            form: Latency or throughput form.

        Raises:
            NotMeasurableError: The row cannot be measured at all.
        """
        fitting = [e for e in self._fitting(opt_level, target, form) if not e.by_driver]
        if not fitting:
            raise NotMeasurableError(f"instruction {self.name} cannot be measured: {self.refused}")
        return max(fitting, key=lambda e: (bool(e.targets), e.form is not None))

    def expected_of_driver(self, opt_level: OptLevel, form: Form) -> Expectation | None:
        """Return the SASS that the driver's assembler makes of one copy, where that is not ptxas's."""
        fitting = [e for e in self._fitting(opt_level, "", form) if e.by_driver]
        return max(fitting, key=lambda e: e.form is not None) if fitting else None

    def _fitting(self, opt_level: OptLevel, target: str, form: Form) -> list[Expectation]:
        return [
            e
            for e in self.sass
            if e.opt_level == opt_level and e.form in (None, form) and (not e.targets or target in e.targets)
        ]

    def refusal(self, opt_level: OptLevel, target: str, form: Form) -> str:
        """Return why the catalogue holds this not to be measurable, or ""."""
        return self.refused or self.expected(opt_level, target, form).refused

    def forms(self, opt_level: OptLevel) -> tuple[Form, ...]:
        """Return the forms that differ at a level, the one that fills the pipes last.

        At O0 ptxas waits for every result, so that chains side by side bring nothing.
        """
        if opt_level is OptLevel.O0 or self.chains == 1 or self.refused:
            return (Form.LATENCY,)
        return (Form.LATENCY, Form.THROUGHPUT)

    def chains_of(self, form: Form) -> int:
        """Return how many chains a form has."""
        return self.chains if form is Form.THROUGHPUT else 1

    def absence(self, target: Target) -> str:
        """Return why a target does not have this instruction, or ""."""
        needs = f"instruction {self.name} needs"
        if target.capability < self.min_target:
            return f"{needs} compute capability {self.min_target / 10:.1f} or newer; {target.name} is older"
        if self.max_target and target.capability > self.max_target:
            return f"{needs} compute capability {self.max_target / 10:.1f} or older; {target.name} is newer"
        if self.targets and target.name not in self.targets:
            return f"{needs} {' or '.join(self.targets)}; {target.name} does not have it"
        return ""

    def exists_on(self, target: Target) -> bool:
        """Return whether a target has this instruction."""
        return not self.absence(target)

    def refusal_of_lanes(self, lanes: int) -> str:
        """Return why this cannot be measured with so many active lanes of each warp, or ""."""
        if lanes == WARP:
            return ""
        refused = f"instruction {self.name} cannot be measured with {lanes} of {WARP} lanes"
        if self.unit is not Unit.THREAD:
            return f"{refused}: a whole {self.unit} executes it together"
        if self.family == _BY_BLOCK:
            return f"{refused}: all threads of a block arrive at its barrier"
        if self.guard == _DIVERGENT or dict(self.params).get("test") == "lt":
            return f"{refused}: it is about warps of which some lanes are off already"
        return ""

    @property
    def sparse(self) -> bool:
        """Whether it multiplies a sparse matrix: from the first one on everything draws more."""
        return is_sparse(self.opcode)

    @property
    def mixer(self) -> Companion | None:
        """The companions' opcode with its types, None where there are no companions."""
        return COMPANIONS[self.companion] if self.companions else None

    @property
    def roles(self) -> frozenset[str]:
        """The roles and predicates that the operands name, constants left out."""
        parts = {part for token in self.operands for part in token.split("|")}
        return frozenset(part for part in parts if part.isalpha())

    def type_of(self, role: str) -> str:
        """Return the PTX type of a role: its own, else its model's, else the row's."""
        own = dict(self.types)
        if role in own:
            return own[role]
        if role in "mn" and self.mixer:
            return self.mixer.type
        return self.type_of("x") if role in "wumn" else self.type

    def values_for(self, role: str) -> str:
        """Return the generator of a role's values."""
        return dict(self.values_of).get(role, self.values)
