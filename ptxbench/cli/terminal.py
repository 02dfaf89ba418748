"""The standard streams while a command runs: what they print fits the terminal and does not command it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from ptxbench.core.printable import printable
from ptxbench.core.wrap import width_of, wrapped


class HarmlessText:
    """A text stream that passes on what is printable, line ends and tabs, in lines as wide as a terminal.

    Args:
        stream: Where it is passed on to.
        wraps: Whether lines longer than a terminal is wide are wrapped.
    """

    def __init__(self, stream: TextIO, *, wraps: bool = True) -> None:
        self.stream = stream
        self._wraps = wraps

    def write(self, text: str) -> int:
        """Write text."""
        lines = list(map(_harmless, text.split("\n")))
        width = width_of(self.stream) if self._wraps else None
        if width is not None:
            lines = [part for line in lines for part in wrapped(line, width)]
        return self.stream.write("\n".join(lines))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return what else the stream has."""
        return getattr(self.stream, name)


def _harmless(line: str) -> str:
    return line if line.isprintable() else "\t".join(map(printable, line.split("\t")))


@contextmanager
def harmless_streams() -> Iterator[None]:
    """Let the standard streams pass on nothing but text."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, HarmlessText(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def as_written(stream: TextIO | None = None) -> TextIO:
    """Return a stream (default: standard output) that keeps lines as they are, for code and data."""
    stream = stream or sys.stdout
    return (
        cast(TextIO, HarmlessText(stream.stream, wraps=False)) if isinstance(stream, HarmlessText) else stream
    )


def terminal(stream: TextIO) -> TextIO:
    """Return the stream itself, for what draws on a terminal; it takes care of what it writes."""
    return stream.stream if isinstance(stream, HarmlessText) else stream
