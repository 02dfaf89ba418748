"""The pages are plain English: short lines, short sentences, and the words of the field."""

import re
from pathlib import Path

import click
import pytest

from ptxbench.cli.main import group

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(ROOT / name for name in ("ptxbench/catalogue/data/README.md", "hw_validation/README.md")),
    *(ROOT / name for name in ("results/README.md", "results/nvidia-h200/README.md")),
]
NOTEBOOKS = list((ROOT / "studies").rglob("*.md"))
LONGEST_LINE = 100
LONGEST_MEAN_SENTENCE = 25
# Words that only this project used, or used for something else, and what they are called now.
PRIVATE = {
    r"sittings?": "session",
    r"house rules?|the house": "rules",
    r"asked": "requested",
    r"ties|tied": "connects, or level covariance",
    r"no vote|outvoted": "majority",
    r"warmth": "temperature",
    r"pace": "throughput",
    r"prices|priced": "opcode energies",
    r"foretold|foretell": "predicted",
    r"order of chance": "random order",
    r"assembler level|both levels|either level|by level": "optimization level",
    r"levels? of the supply|supply's levels?": "drift level",
    r"levels? of memory": "memory level",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> list[str]:
    """Return paragraphs and list items, without code, tables, headings and pictures."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    kept, after_blank = [], True
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        code = indent >= 4 and (after_blank or not kept[-1])
        if code and not re.match(r"\s+([-*]|\d+\.) ", line):
            line = ""
        after_blank = not line.strip()
        plain = line.lstrip()
        kept.append("" if plain.startswith(("|", "#", "![", ":::")) else line)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(kept))
    return [" ".join(block.split()) for block in blocks if block.strip()]


def sentences(block: str) -> list[str]:
    block = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", block)
    block = re.sub(
        r"\b(Eqs?|Sect|vs|et al|e\.g|i\.e|approx|No|Vol|Fig|Stat|Proc|Soc|Math|Ann|Appl)\.", r"\1", block
    )
    parts = re.split(r"(?<=[.!?])\**\)?\s+(?=[A-Z*`\"(\[0-9-])", block)
    return [part for part in parts if re.search(r"[A-Za-z]{2}", part)]


def words(sentence: str) -> int:
    return len(re.findall(r"\S*[A-Za-z0-9]\S*", sentence))


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS, ROOT / "CHANGELOG.md"], ids=name_of)
def test_lines_are_short(page):
    # What a command prints is as wide as it is.
    text = re.sub(
        r"```console\n.*?```", lambda shown: "\n" * shown[0].count("\n"), page.read_text(), flags=re.DOTALL
    )
    for number, line in enumerate(text.splitlines(), 1):
        table_or_link = line.lstrip(" >").startswith(("|", "!["))
        assert table_or_link or len(line) <= LONGEST_LINE, f"line {number} has {len(line)} characters"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sentences_are_short(page):
    lengths = [words(part) for block in prose(page.read_text()) for part in sentences(block)]
    if lengths:
        assert sum(lengths) / len(lengths) <= LONGEST_MEAN_SENTENCE


def found_private(text: str) -> list[str]:
    said = re.sub(r"`[^`]*`", "", text)
    return [
        f"{match.group()!r}: say {better}"
        for pattern, better in PRIVATE.items()
        for match in re.finditer(rf"(?i)\b(?:{pattern})\b", said)
    ]


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name_of)
def test_the_words_are_those_of_the_field(page):
    assert found_private(page.read_text()) == []


def helps(command: click.Command, path: str) -> list[tuple[str, str]]:
    """Return the help of a command and of all below it, by name."""
    context = click.Context(command, info_name=path)
    found = [(path, command.get_help(context))]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found += helps(command.get_command(context, name), f"{path} {name}")
    return found


@pytest.mark.parametrize(
    ("command", "text"), [pytest.param(*one, id=one[0]) for one in helps(group, "ptxbench")]
)
def test_the_help_has_the_words_of_the_field(command, text):
    assert found_private(" ".join(text.split())) == []


def test_a_long_sentence_and_a_private_word_are_found():
    (block,) = prose(
        "# Heading\n\nOne two three. Four *five* six\nseven (Eq. 2) eight.\n\n    code here\n\n| a | b |\n"
    )
    assert [words(part) for part in sentences(block)] == [3, 7]
    assert found_private("Sittings end; `sittings` is code.") == ["'Sittings': say session"]


def docstrings(path: Path) -> str:
    """Return what stands between triple quotes of a Python file: docstrings, and nearly nothing else."""
    return "\n\n".join(re.findall(r'"""(.*?)"""', path.read_text(), re.DOTALL))


@pytest.mark.parametrize("folder", ["ptxbench", "runners", "benchmarks", "examples"])
def test_docstrings_have_the_words_of_the_field(folder):
    found = {name_of(path): found_private(docstrings(path)) for path in (ROOT / folder).rglob("*.py")}
    rounding = [path for path in found if "emulator" in path or "codegen" in path]
    for path in rounding:  # where a tie is what IEEE 754 calls so
        found[path] = [hit for hit in found[path] if not hit.startswith("'ties'")]
    assert {path: hits for path, hits in found.items() if hits} == {}
