"""Which registers a row's kernels have, and which of them each copy uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.types import TYPES
from ptxbench.codegen.operands import PER_CHAIN, PER_SET, slot_of
from ptxbench.codegen.values import SETS
from ptxbench.core.condition import Form

PREDICATES = ("p", "never", "divergent")
# How the last values of several chains become one result.
_COMBINE = {"f32": "add.f32", "f64": "add.f64"}
_COMPUTED = ("w", "y", "z", "v", "u")
_LOADED = ("a", "b", "c", "d", "m", "n")


@dataclass(frozen=True)
class Registers:
    """The numbered registers of one kernel; ptx_templates/operands.ptx.j2 declares and loads them.

    Attributes:
        instruction: Catalogue row.
        form: One chain, or several side by side.
    """

    instruction: Instruction
    form: Form

    @cached_property
    def chains(self) -> int:
        """Chains side by side."""
        return self.instruction.chains_of(self.form)

    @cached_property
    def _named(self) -> frozenset[str]:
        row = self.instruction
        named = set(row.roles)
        named |= {"u"} if row.after and row.companions else set()
        named |= {"m"} if row.companions or row.after.startswith("selp.") else set()
        named |= {"n"} if row.mixer and row.mixer.addend else set()
        named |= {"n"} if row.before.startswith("pack.") else set()
        return frozenset(named)

    @cached_property
    def computed(self) -> tuple[str, ...]:
        """Roles that each chain has one register for, besides x."""
        return tuple(role for role in _COMPUTED if role in self._named)

    @cached_property
    def loaded(self) -> tuple[str, ...]:
        """Roles that come from the record, besides x and w."""
        return tuple(role for role in _LOADED if role in self._named)

    @cached_property
    def predicates(self) -> tuple[str, ...]:
        """Predicates that the copies name."""
        return tuple(name for name in PREDICATES if name in self._named | {self.instruction.guard})

    @property
    def chain_roles(self) -> tuple[str, ...]:
        """x, and its partner w where there is one."""
        return ("x", "w") if "w" in self.computed else ("x",)

    def type(self, role: str) -> str:
        """Return the PTX register type of a role."""
        return TYPES[self.instruction.type_of(role)].register

    def count(self, role: str) -> int:
        """Return how many registers a role has."""
        if role in PER_SET:
            return SETS
        return SETS * self.chains if role == "b" else self.chains

    def loads(self, role: str) -> tuple[tuple[str, int], ...]:
        """Return a loaded role's registers and their byte offsets in the record."""
        sets = 1 if role in PER_CHAIN else SETS
        chains = 1 if role in PER_SET else self.chains
        return tuple(
            (self._numbered(role, number, chain), 8 * slot_of(role, number, chain))
            for number in range(sets)
            for chain in range(chains)
        )

    def name(self, role: str, copy: int, ahead: int = 0) -> str:
        """Return the register of a role in a copy, as it stands in the text.

        Args:
            role: Role, predicate or constant.
            copy: Number of the copy.
            ahead: Sets of operands to go on by.
        """
        if not role.isalpha():
            return role
        if role in self.predicates:
            return f"%{role}"
        turn, chain = divmod(copy, self.chains)
        if role in "xw" and "w" in self.computed and turn % 2:
            role = "w" if role == "x" else "x"
        return self._numbered(role, (turn + ahead) % SETS, chain)

    @cached_property
    def tokens(self) -> tuple[tuple[str, ...], ...]:
        """The row's operands, each as the parts that "|" joins."""
        return tuple(tuple(token.split("|")) for token in self.instruction.operands)

    @property
    def combine(self) -> str:
        """The opcode that makes one result of several chains."""
        return _COMBINE.get(self.type("x"), f"xor.{self.type('x')}")

    @property
    def holder(self) -> str:
        """A loaded role whose registers have x's type, or ""."""
        return next((role for role in self.loaded if self.type(role) == self.type("x")), "")

    @property
    def needs_word(self) -> bool:
        """Whether predicates go through a 32-bit register on their way from and to memory."""
        return "divergent" in self.predicates or "pred" in map(self.type, ("x", *self.loaded))

    def _numbered(self, role: str, set_number: int, chain: int) -> str:
        if role in PER_SET:
            return f"%{role}{set_number}"
        return f"%{role}{set_number * self.chains + chain}" if role == "b" else f"%{role}{chain}"
