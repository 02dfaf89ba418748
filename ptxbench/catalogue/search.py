"""Find catalogue rows by what people type: names, PTX as it stands in a file, SASS, words, parts of names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files

from ptxbench.catalogue.common import main_opcodes
from ptxbench.catalogue.load import kept_words, load_catalogue, load_named, rows_naming
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.types import TYPES
from ptxbench.core.errors import InputError

_GLOB = "*?["
_NEAR = 3
_NAMES_SHOWN = 4
_SYNONYMS = "synonyms.toml"
# A line of PTX: a predicate or none, the opcode, then operands.
_PTX_LINE = re.compile(r"\s*(?:@!?%?\w+\s+)?([^\s;]+)")
# What stands beside a product of tensor cores, and is not what anybody looks for.
_BESIDE_PRODUCTS = frozenset({"NOP", "UMOV"})
# What only PTX with its operands has.
_OPERANDS = re.compile(r"[;%,{\[]")
# Words that narrow nothing: "f32 to f16".
_FILLERS = frozenset({"to", "of", "the", "a"})
_WORDS = re.compile(r"[^ -]+")
_PARTS = re.compile(r"[^.:]+")
_PLAIN = re.compile(r"[\w.:]+")
# PTX that moves bits, whose type says no more than how many.
_MOVES = frozenset({"ld", "st"})

_Condition = Callable[[Instruction], bool]


@dataclass(frozen=True)
class Found:
    """What one pattern stands for.

    Attributes:
        pattern: What was typed.
        rows: The instructions, in catalogue order; none where the catalogue has nothing of it.
        by: What they were found by, such as "SASS"; "" for their names.
        is_exact: Whether it is the whole name of one instruction.
    """

    pattern: str
    rows: tuple[Instruction, ...]
    by: str = ""
    is_exact: bool = False

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its instructions."""
        return frozenset(row.name for row in self.rows)

    @property
    def is_word(self) -> bool:
        """Whether it is neither a whole name nor a pattern with wildcards."""
        return not self.is_exact and not _is_glob(_head(self.pattern))

    @property
    def sentence(self) -> str:
        """What was found, and by what."""
        names = [row.name for row in self.rows]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        return f"found {self.pattern} by {self.by}: {', '.join(names[:_NAMES_SHOWN])}{more}"

    def has(self, name: str) -> bool:
        """Return whether it stands for a name, which may be one that a table has and the catalogue lacks."""
        if name in self.names or self.is_exact:
            return name in self.names
        return name == self.pattern or (not self.by and fnmatchcase(name, self.pattern))


@dataclass(frozen=True)
class Selection:
    """What several patterns stand for.

    Attributes:
        found: What each stands for, in the order given.
    """

    found: tuple[Found, ...]

    @property
    def rows(self) -> tuple[Instruction, ...]:
        """The instructions, in catalogue order and once."""
        if len(self.found) == 1:
            return self.found[0].rows
        names = frozenset(self.names)
        catalogue = load_named(names).values() if self.is_exact else load_catalogue()
        return tuple(row for row in catalogue if row.name in names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the instructions, in the order given and once."""
        return tuple(dict.fromkeys(row.name for found in self.found for row in found.rows))

    @property
    def is_exact(self) -> bool:
        """Whether each pattern is a whole name."""
        return all(found.is_exact for found in self.found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found by something else than its name, a sentence for each pattern."""
        return tuple(found.sentence for found in self.found if found.by)

    def has(self, name: str) -> bool:
        """Return whether any pattern stands for a name."""
        return any(found.has(name) for found in self.found)


def search(patterns: Iterable[str]) -> Selection:
    """Return what each pattern stands for, which may be nothing.

    The first of these that fits counts: a whole name; what is mostly this SASS, where the word is in
    capitals; a synonym; how names begin; how PTX begins; a category, template, type or part of a name; what
    is mostly this SASS, or has it; several parts of a name, in its order; a piece of a name or of PTX. A
    pattern with wildcards is compared with each of them as a whole. PTX may have its operands. Of several
    words, such as "u32 add", each narrows what is found.

    A whole name needs only the file that holds it, where the whole catalogue takes 0.2 s.
    """
    given = tuple(patterns)
    exact = load_named(frozenset(map(_head, given)))
    return Selection(
        tuple(
            Found(pattern, (exact[_head(pattern)],), is_exact=True)
            if _head(pattern) in exact
            else _searched(pattern)
            for pattern in given
        )
    )


def find(patterns: Iterable[str]) -> Selection:
    """Return what each pattern stands for (see `search`).

    Raises:
        InputError: The catalogue has nothing of a pattern; the text offers what is near.
    """
    selection = search(patterns)
    for found in selection.found:
        if not found.rows:
            raise InputError(nothing_fits(found.pattern))
    return selection


def nothing_fits(pattern: str, others: Collection[str] = ()) -> str:
    """Return the message for a pattern that nothing fits, with what is near over all that is searched.

    Args:
        pattern: What was typed.
        others: Names that a table has, and the catalogue need not.
    """
    from difflib import get_close_matches

    words = _searched_words() | {word.lower(): word for word in others}
    near = get_close_matches(_head(pattern).lower().strip(_GLOB), words, n=_NEAR, cutoff=0.5)
    hint = (
        f"did you mean {', '.join(words[word] for word in near)}?" if near else "see `ptxbench cost --list`"
    )
    return f"no instruction fits {pattern!r}; {hint}"


def patterns_for(word: Found) -> tuple[str, ...]:
    """Return patterns with wildcards that stand for what a word stands for, or a little more."""
    head = _head(word.pattern)
    if synonym := load_synonyms().get(head.lower()):
        return synonym
    wider = (f"{head}.*", f"{head}*", f"*{head}*")
    return next(((one,) for one in wider if word.names <= _searched(one).names), wider[-1:])


def fitting(word: str) -> Callable[[str], bool]:
    """Return whether a text fits a pattern, or is a word or begins with it and a dot or colon."""
    if _is_glob(word):
        return lambda text: fnmatchcase(text, word)
    return lambda text: text == word or text.startswith((f"{word}.", f"{word}:"))


def opcodes_of(row: Instruction) -> frozenset[str]:
    """Return every SASS opcode that a copy becomes, at either optimization level and on any target."""
    return frozenset(
        alternative
        for level in row.sass
        for alternatives, _ in level.counts
        for alternative in alternatives.split("|")
    )


def _searched(pattern: str) -> Found:
    """Return what a pattern stands for that is no whole name; of several words each narrows it."""
    if _is_nowhere(pattern):
        return Found(pattern, ())
    words = [word for word in pattern.split() if word not in _FILLERS]
    if len(words) < 2 or _OPERANDS.search(pattern) or _is_said(pattern.strip().lower()):
        return _searched_word(pattern)
    each = [_searched_word(word) for word in words]
    by = " and ".join(dict.fromkeys(one.by or "name" for one in each))
    names = frozenset.intersection(*(one.names for one in each))
    if not names:  # of "atomic add", names do not begin with the second word
        names, by = frozenset.intersection(*map(_names_by_any, words)), "all words"
    return Found(pattern, tuple(row for row in load_catalogue() if row.name in names), by)


def _names_by_any(word: str) -> frozenset[str]:
    fits = [step(word.lower())[0] for step in _STEPS if step is not _by_piece]
    return frozenset(row.name for row in load_catalogue() if any(one(row) for one in fits))


def _is_said(text: str) -> bool:
    """Return whether words mean something together: a category or a synonym."""
    return text in load_synonyms() or any(row.category == text for row in load_catalogue())


def _searched_word(pattern: str) -> Found:
    text = pattern.strip().lower()
    word = text if text == _head(text) or _is_said(text) else _head(text)
    if word and _head(pattern).isupper():
        fits, by = _by_main_sass(word)
        # Only these rows are made of the catalogue, where the word is no pattern.
        named = load_catalogue() if _is_glob(word) else rows_naming((word,))
        if found := tuple(filter(fits, named)):
            return Found(pattern, found, by)
    for step in _STEPS if word else ():
        fits, by = step(word)
        if found := tuple(filter(fits, load_catalogue())):
            return Found(pattern, found, by)
    return Found(pattern, ())


def _by_synonym(word: str) -> tuple[_Condition, str]:
    globs = load_synonyms().get(word, ())
    return lambda row: any(fnmatchcase(row.name, glob) for glob in globs), f"names {' '.join(globs)}"


def _by_name(word: str) -> tuple[_Condition, str]:
    fits = fitting(word)
    return lambda row: fits(row.name), ""


def _by_ptx(word: str) -> tuple[_Condition, str]:
    fits, bits = fitting(word), _as_bits(word)
    return lambda row: fits(row.opcode.lower()) or (bits != "" and _as_bits(row.opcode) == bits), "PTX"


def _by_word(word: str) -> tuple[_Condition, str]:
    fits = fitting(word)
    kinds = {kind for row in load_catalogue() for kind, label in _labels(row) if fits(label)}
    return lambda row: any(fits(label) for _, label in _labels(row)), " and ".join(sorted(kinds))


def _by_main_sass(word: str) -> tuple[_Condition, str]:
    """Find rows of which a copy is mostly this opcode at -O3."""
    fits = _fitting_sass(word)
    return lambda row: any(map(fits, main_opcodes(row, _BESIDE_PRODUCTS))), "SASS"


def _by_sass(word: str) -> tuple[_Condition, str]:
    """Find rows that have this opcode at all."""
    fits = _fitting_sass(word)
    return lambda row: any(map(fits, opcodes_of(row))), "SASS"


def _fitting_sass(word: str) -> Callable[[str], bool]:
    fits = fitting(word.upper())
    return lambda opcode: fits(opcode.upper())  # HGMMA.64x256x16 has small letters


def _by_parts(word: str) -> tuple[_Condition, str]:
    """Find names that leave parts out, such as "mma.f16" or "fma.f32"."""
    parts = _PARTS.findall(word)

    def fits(row: Instruction) -> bool:
        left = iter(_PARTS.findall(row.name))
        return len(parts) > 1 and all(part in left for part in parts)

    return fits, "parts of the name"


def _by_piece(word: str) -> tuple[_Condition, str]:
    return lambda row: word in row.name or word in row.opcode.lower(), "a piece of the name or PTX"


_STEPS = (_by_synonym, _by_name, _by_ptx, _by_word, _by_main_sass, _by_sass, _by_parts, _by_piece)


def _is_glob(text: str) -> bool:
    return any(character in text for character in _GLOB)


def _head(text: str) -> str:
    """Return the opcode of a line of PTX, or the text itself where it is a word."""
    line = _PTX_LINE.match(text)
    return line[1] if line else ""


@cache
def _as_bits(opcode: str) -> str:
    """Return PTX that moves bits with a type that says their number alone, "" for other PTX."""
    start, _, last = opcode.lower().rpartition(".")
    if start.partition(".")[0] not in _MOVES or last not in TYPES:
        return ""
    return f"{start}.b{TYPES[last].bits}"


def _labels(row: Instruction) -> Iterator[tuple[str, str]]:
    """Yield the words that say what a row is, and of what kind each is."""
    yield from (("category", row.category), ("template", row.family), ("type", row.type))
    yield from (("category", word) for word in _WORDS.findall(row.category))
    yield from (("part of the name", part) for part in _PARTS.findall(row.name))


def _is_nowhere(pattern: str) -> bool:
    """Return whether a pattern is one plain word, of which a part is no piece of anything searched."""
    word = pattern.strip().lower()
    parts = [part for part in _PARTS.findall(word) if part not in TYPES]  # a type may stand for its bits
    words = _searched_words() if _PLAIN.fullmatch(word) else {}
    return bool(words) and not all(any(part in one for one in words) for part in parts)


def _searched_words() -> dict[str, str]:
    """Return what patterns are compared with, by itself in small letters, kept as rows take 0.2 s to read."""
    made_of = (files("ptxbench.catalogue").joinpath(name) for name in ("search.py", _SYNONYMS))
    texts = [one.read_text(encoding="utf-8") for one in made_of]
    return kept_words("".join(texts), lambda: {word.lower(): word for word in _words()})


def _words() -> Iterator[str]:
    """Yield what patterns are compared with; of two that differ by capitals the later one is shown."""
    rows = load_catalogue()
    for row in rows:
        yield from (word for opcode in opcodes_of(row) for word in (opcode.partition(".")[0], opcode))
        yield from (label for _, label in _labels(row) if label)
        yield row.opcode
    yield from load_synonyms()
    yield from (row.name for row in rows)


@cache
def load_synonyms() -> Mapping[str, tuple[str, ...]]:
    """Return words that people say, and the patterns of names that each stands for."""
    text = files("ptxbench.catalogue").joinpath(_SYNONYMS).read_text(encoding="utf-8")
    return {word: tuple(globs) for word, globs in tomllib.loads(text).items()}
