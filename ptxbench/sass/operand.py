"""The operands of a machine instruction, read from what nvdisasm prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Kind(StrEnum):
    """What an operand is; the value is how a shape writes it."""

    REGISTER = "R"
    ZERO = "RZ"  # reads as 0, and what is written to it is lost
    UNIFORM = "UR"
    UNIFORM_ZERO = "URZ"
    PREDICATE = "P"
    TRUE = "PT"  # always true, and what is written to it is lost
    UNIFORM_PREDICATE = "UP"
    UNIFORM_TRUE = "UPT"
    CONSTANT = "c[]"
    ADDRESS = "[]"
    IMMEDIATE = "#"
    LABEL = "label"
    OTHER = "other"  # a special register, a barrier register, a word such as "gsb0"


_NAMES = {
    "RZ": Kind.ZERO,
    "URZ": Kind.UNIFORM_ZERO,
    "PT": Kind.TRUE,
    "UPT": Kind.UNIFORM_TRUE,
}
_NUMBERED = {
    "R": Kind.REGISTER,
    "UR": Kind.UNIFORM,
    "P": Kind.PREDICATE,
    "UP": Kind.UNIFORM_PREDICATE,
}
_PLAIN = re.compile(
    r"(?P<sign>[-~!]?)(?P<bars>\|?)(?P<name>(?P<file>UR|UP|R|P)(?:\d+|Z|T))\|?(?P<suffix>(?:\.\w+)*)\|?"
)
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-f]+|\d+(?:\.\d*)?(?:e[-+]?\d+)?|INF|QNAN|SNAN)\b.*")
_SEPARATOR = re.compile(r",\s*(?![^\[({]*[\])}])")


@dataclass(frozen=True)
class Operand:
    """One operand.

    Attributes:
        text: As printed.
        kind: What it is.
        name: Register or predicate name without sign and suffix, or "".
        negative: Whether it is negated ("-R4"), or inverted ("~R4", "!P0").
        absolute: Whether its magnitude is taken ("|R4|").
        suffix: What follows the name, such as ".H0_H0"; ".reuse" is left out.
    """

    text: str
    kind: Kind
    name: str = ""
    negative: bool = False
    absolute: bool = False
    suffix: str = ""

    @property
    def lost(self) -> bool:
        """Whether what is written to it is lost."""
        return self.kind in (Kind.ZERO, Kind.UNIFORM_ZERO, Kind.TRUE, Kind.UNIFORM_TRUE)

    @property
    def number(self) -> int | None:
        """The value of a whole immediate, else None."""
        if self.kind is not Kind.IMMEDIATE:
            return None
        try:
            return int(self.text, 0)
        except ValueError:
            return None

    @property
    def shape(self) -> str:
        """Its kind with its sign and suffix, without its number: "-R", "|R|.H0_H0", "!PT", "#"."""
        inner = f"|{self.kind}|" if self.absolute else self.kind
        return f"{'-' if self.negative else ''}{inner}{self.suffix}"


@cache
def parse_operands(text: str) -> tuple[Operand, ...]:
    """Return the operands of one instruction, in order.

    Args:
        text: What nvdisasm prints behind the mnemonic.
    """
    return tuple(_operand(part.strip()) for part in _SEPARATOR.split(text) if part.strip())


def _operand(text: str) -> Operand:
    plain = _PLAIN.fullmatch(text)
    if plain:
        kind = _NAMES.get(plain["name"]) or _NUMBERED[plain["file"]]
        suffix = plain["suffix"].replace(".reuse", "")
        return Operand(text, kind, plain["name"], bool(plain["sign"]), bool(plain["bars"]), suffix)
    if text.lstrip("-|~!").startswith(("c[", "cx[")):
        return Operand(text, Kind.CONSTANT, "", text[0] in "-~!", "|" in text)
    if "[" in text:
        return Operand(text, Kind.ADDRESS)
    if text.startswith("`("):
        return Operand(text, Kind.LABEL)
    if _NUMBER.fullmatch(text):
        return Operand(text, Kind.IMMEDIATE)
    return Operand(text, Kind.OTHER)
