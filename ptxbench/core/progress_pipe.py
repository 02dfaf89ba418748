"""How a measuring process tells the one that started it how far it is: a line of JSON through a pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress

# Number of the file descriptor; the process that starts a worker sets it.
VARIABLE = "PTXBENCH_PROGRESS_FD"

Tell = Callable[[int, int, str], None]


def inherited_pipe() -> tuple[int, ...]:
    """Return the descriptor that this process has from the one that started it, if any."""
    text = os.environ.get(VARIABLE, "")
    return (int(text),) if text.isdecimal() else ()


def teller() -> Tell | None:
    """Return what tells the starting process how much is done, of how much, and of what now; or None."""
    pipe = inherited_pipe()
    if not pipe:
        return None

    def tell(done: int, total: int, text: str) -> None:
        with suppress(OSError):  # nobody listens any more
            os.write(pipe[0], json.dumps([done, total, text]).encode() + b"\n")

    return tell


def parse(line: bytes) -> tuple[int, int] | None:
    """Return how much is done, and of how much, as one line says; None where it says nothing."""
    try:
        done, total, _ = json.loads(line)
        return int(done), int(total)
    except (ValueError, TypeError):
        return None
