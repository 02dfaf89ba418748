"""Text of files that others wrote, made fit for a terminal."""

from __future__ import annotations

# Room for the longest message of a compiler.
_LONGEST = 4000
_LAST = 1000


def quotable(text: str) -> str:
    """Return `text` line by line as `printable` does, without the middle of it where it is very long."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - _LAST]} ... {text[-_LAST:]}"
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return `text` with white space as blanks, and a replacement sign for what is not printable.

    Escape sequences of a terminal are among what is replaced.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
