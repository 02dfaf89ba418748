"""Runs a command untouched: its streams, its exit code, and the signals that it is sent."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType

from ptxbench.core.closing import Closing
from ptxbench.core.exit_code import NOT_EXECUTABLE, NOT_FOUND, shell_code

_FORWARDED = (
    *(signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT),
    *(signal.SIGTSTP, signal.SIGCONT),
)
# By when a signal that went to the whole group has ended the bystander, too: on a busy machine, as well.
_GROUP_S, _LOOK_S = 0.2, 0.001
# It ends with a line, or where the one who would write it is gone.
_BYSTANDER = ("sh", "-c", 'read -r _ || [ -z "$1" ] || printf "%s\\n" "$1" >&2', "ptxbench")


class CommandNotRunError(Exception):
    """The command could not be started.

    Attributes:
        exit_code: 127 where it was not found, 126 where it may not be executed; as of a shell.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class _Bystander(Closing):
    """A process of this one's group that does nothing but die: of a signal to the group, or after this one.

    A ctrl-C of the terminal goes to all of the group, and the command has it by itself.

    Args:
        last_words: What it says where this process is killed.
    """

    def __init__(self, last_words: str) -> None:
        self._words = (*_BYSTANDER, last_words)
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def has_got(self) -> bool:
        """Return whether it has got the signal that just came here."""
        until_s = time.monotonic() + _GROUP_S
        while self._process is not None and time.monotonic() < until_s:
            look = os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT
            state = os.waitid(os.P_PID, self._process.pid, look)
            if state is not None:
                if state.si_code != os.CLD_STOPPED:
                    self.close()
                    self._start()
                return True
            time.sleep(_LOOK_S)
        return False

    def close(self) -> None:
        """Let it end without a word."""
        if self._process is not None:
            with suppress(BrokenPipeError):
                self._process.send_signal(signal.SIGCONT)
                self._process.communicate(b"\n")

    def goes_on(self) -> bool:
        """Return whether it was stopped, and a signal to the group has let it go on; else let it go on."""
        if self._process is None:
            return False
        if self._has_gone_on(self._process.pid):
            return True
        self._process.send_signal(signal.SIGCONT)
        self._has_gone_on(self._process.pid)
        return False

    @staticmethod
    def _has_gone_on(pid: int) -> bool:
        """Return whether it has gone on since this was last looked at."""
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOHANG) is not None
        return False

    def _start(self) -> None:
        # Without a shell every signal is taken for one that came here alone.
        with suppress(OSError):
            self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            resource.prlimit(self._process.pid, resource.RLIMIT_CORE, (0, 0))


class _Forwarding(Closing):
    """Passes signals on to a command, from before it is started until after its end.

    Args:
        bystander: Tells which signals the command has by itself.
    """

    def __init__(self, bystander: _Bystander) -> None:
        self._bystander = bystander
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        # What is ignored here, as under nohup, the command ignores as well.
        handled = [number for number in _FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in handled}

    def to(self, child: subprocess.Popen[bytes]) -> None:
        """Pass on what came already, and what will come."""
        self._child = child
        for number in self._early:
            self._handle(number, None)

    def close(self) -> None:
        """Treat signals as before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._child is None:
            self._early.append(number)
            return
        has_got = self._bystander.goes_on if number == signal.SIGCONT else self._bystander.has_got
        if not has_got():
            self._send(number)
        if number == signal.SIGTSTP:
            _stop()

    def _send(self, number: int) -> None:
        # The signal may have ended it already, where all of the process group got it.
        with suppress(ProcessLookupError):
            if self._child is not None and self._child.poll() is None:
                os.kill(self._child.pid, number)


def run_child(words: Sequence[str], environment: Mapping[str, str], last_words: str = "") -> int:
    """Run a command to its end and return its exit code; 128 + n where signal n ended it.

    A signal that is sent to this process alone is passed on; one that is sent to its group, as by ctrl-C, the
    command has by itself. This process waits for what the command makes of it.

    Args:
        words: The command.
        environment: Its environment.
        last_words: What is said on standard error where this process is killed meanwhile.

    Raises:
        CommandNotRunError: It could not be started.
    """
    with _Bystander(last_words) as bystander, _Forwarding(bystander) as forwarding:
        try:
            child = subprocess.Popen(list(words), env=dict(environment))
        except OSError as error:
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            raise CommandNotRunError(f"cannot run {words[0] or repr('')}: {error.strerror}", code) from error
        forwarding.to(child)
        return shell_code(child.wait())


def _stop() -> None:
    """Stop this process as SIGTSTP does, until it is told to go on."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)
