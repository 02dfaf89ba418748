"""Lines as wide as a terminal, broken at blanks, never within a word, a number or an option; short lists."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence
from typing import TextIO

_INDENT = "  "


def width_of(stream: TextIO) -> int | None:
    """Return the columns of the terminal that a stream goes to, or None where it goes to none."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(line: str, width: int) -> list[str]:
    """Return a line as lines of at most `width` columns, or of one word that is longer.

    What follows stands below its text: behind the indent, and behind names in columns of their own.
    """
    if len(line) <= width:
        return [line]
    starts = [gap.end() for gap in re.finditer(r"\S {2,}", line) if gap.end() <= width // 2]
    indent = line[: len(line) - len(line.lstrip())] + _INDENT
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * starts[-1] if starts else indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def first_of(words: Sequence[str], most: int) -> str:
    """Return some words as a list, and how many more there are than `most`."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
