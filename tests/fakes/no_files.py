"""What stands in the place of a file and is none: reading it never ends, or something happens."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_HANGING_S = 30


def _socket(path: Path) -> None:
    # The name of a socket is short: it is bound from within its folder.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def _link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


MAKERS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "link to a pipe": _link_to_pipe,
    "link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
}


@contextmanager
def not_hanging() -> Iterator[None]:
    """Fail where the block waits for what never comes."""

    def fail(*_: object) -> None:
        raise AssertionError(f"still waiting after {_HANGING_S} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(_HANGING_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
