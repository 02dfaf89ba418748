"""Runs a command untouched: its streams, its exit code, and the signals that it is sent."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        if child is None:
            early.append(number)
            return
        # The signal may have ended it already, where all of the process group got it.
        with suppress(ProcessLookupError):
            if child.poll() is None:
                os.kill(child.pid, number)

    def leave_to_child(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: the terminal sent it to the command, too."""

    handlers = {**dict.fromkeys(_FORWARDED, forward), signal.SIGINT: leave_to_child}
    # What is ignored here, as under nohup, the command ignores as well.
    handled = {number: one for number, one in handlers.items() if signal.getsignal(number) != signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in handled.items()}
    try:
        child = subprocess.Popen(list(words), env=dict(environment))
        for number in early:
            forward(number, None)
        code = child.wait()
        return code if code >= 0 else _SIGNALLED - code
    except OSError as error:
        code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        raise CommandNotRunError(f"cannot run {words[0] or repr('')}: {error.strerror}", code) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
