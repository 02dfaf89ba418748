"""Text of files that others wrote, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return `text` with white space as blanks, and a replacement sign for what is not printable.

    Escape sequences of a terminal are among what is replaced.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
