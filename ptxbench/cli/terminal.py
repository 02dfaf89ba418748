"""The standard streams while a command runs: nothing that it prints of others commands a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from ptxbench.core.printable import printable


class HarmlessText:
    """A text stream that passes on what is printable, line ends and tabs.

    Args:
        stream: Where it is passed on to.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        return self.stream.write("\n".join(map(_harmless, text.split("\n"))))

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


def terminal(stream: TextIO) -> TextIO:
    """Return the stream itself, for what draws on a terminal; it takes care of what it writes."""
    return stream.stream if isinstance(stream, HarmlessText) else stream
