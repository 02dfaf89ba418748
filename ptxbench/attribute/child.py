"""Runs a command untouched: its streams, its exit code, and the signals that it is sent."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from types import FrameType

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_NOT_FOUND, _NOT_EXECUTABLE, _SIGNALLED = 127, 126, 128


class CommandNotRunError(Exception):
    """The command could not be started.

    Attributes:
        exit_code: 127 where it was not found, 126 where it may not be executed; as of a shell.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_child(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end and return its exit code; 128 + n where signal n ended it.

    A ctrl-C of the terminal reaches the command by itself, as it is in the same process group; this
    process waits for what the command makes of it.

    Args:
        words: The command.
        environment: Its environment.

    Raises:
        CommandNotRunError: It could not be started.
    """
    try:
        child = subprocess.Popen(list(words), env=dict(environment))
    except OSError as error:
        code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        raise CommandNotRunError(f"cannot run {words[0]}: {error.strerror}", code) from error

    def forward(number: int, _: FrameType | None) -> None:
        if child.poll() is None:
            os.kill(child.pid, number)

    def leave_to_child(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: the terminal sent it to the command, too."""

    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, leave_to_child)
    try:
        code = child.wait()
        return code if code >= 0 else _SIGNALLED - code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
