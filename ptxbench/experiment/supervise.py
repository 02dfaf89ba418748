"""The one place that runs work in another process, watches it, and goes on after its death.

A kernel that runs into an error of the device breaks the CUDA context of its process for good, a fault of
the driver may end the process, and a kernel without an end holds it. What was in progress is then kept as
failed, and another process goes on without it. Every process ends with the one that started it, however that
ends.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO

from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.exit_code import SIGNALLED, shell_code
from ptxbench.core.option import words_of
from ptxbench.core.progress_pipe import VARIABLE, inherited_pipe, parse
from ptxbench.storage.file_errors import read_bytes

# How a process ends by its own fault; SIGKILL and SIGINT come from outside.
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
# Linux, linux/prctl.h: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1
# How often processes are looked at.
_LOOK_S = 0.2
# How long a process may take to end by itself where this one is interrupted: a kernel may be in flight.
_GRACE_S = 10.0
# By when a Ctrl-C of the terminal has ended a process that it reached by itself.
_TERMINAL_S = 1.0


@dataclass(frozen=True)
class Death:
    """How a process ended.

    Attributes:
        code: Exit code, negative for a signal.
        hung: Whether it was ended because what it had in progress took too long.
    """

    code: int
    hung: bool = False

    @property
    def crashed(self) -> bool:
        """Whether a fault of its own ended it."""
        return -self.code in _CRASHES

    @property
    def broken(self) -> bool:
        """Whether what it had in progress may have ended it."""
        return self.hung or self.crashed or self.code == GpuError.exit_code


@dataclass(frozen=True)
class Watchdog:
    """When a process counts as hung.

    Attributes:
        marker: File that says what is in progress; it changes, or goes, when that is done.
        limit_s: How long it may stay the same.
    """

    marker: Path
    limit_s: float

    def marked(self) -> bytes:
        """Return what is in progress; b"" for nothing."""
        try:
            return read_bytes(self.marker)
        except InputError:
            return b""


@dataclass(frozen=True)
class Work:
    """What one process does, and the next where it dies.

    Attributes:
        name: What it is called.
        command: Returns the command line to start now, which goes on with what is there; it is given the time
            that has passed since the beginning, s.
        log: File that its output is added to; None: it shares the streams of this process.
        environment: Variables of its own.
        restarts: How often it is started again where a signal from outside ended it.
        blame: Keeps what broke a process as failed, and returns what to say of it before another one goes on;
            "" where there is nothing, as another process would then meet the same. None: none goes on.
        watchdog: When it counts as hung; None: never.
    """

    name: str
    command: Callable[[float], Sequence[str]]
    log: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    blame: Callable[[Death], str] | None = None
    watchdog: Watchdog | None = None


@dataclass(frozen=True)
class Outcome:
    """How work ended.

    Attributes:
        name: What it is called.
        code: Exit code of its last process, negative for a signal.
        restarts: How often a signal from outside ended it before.
        took_s: Time from the first start to the last end.
        said: What it was refused for: the last line of its log, "" where there is none.
    """

    name: str
    code: int
    restarts: int
    took_s: float
    said: str

    @property
    def shell_code(self) -> int:
        """The exit code that a shell gives it."""
        return shell_code(self.code)

    def require_done(self) -> None:
        """Refuse an end that leaves nothing to read; some rows may not be valid (exit code 1).

        Raises:
            GpuError: There is no such GPU, it stopped answering, or a signal ended the process.
            InputError: The process refused its input.
        """
        if self.code < 0:
            raise GpuError(f"signal {-self.code} ended the measuring process")
        if self.code not in (0, 1):
            kind = GpuError if self.code == GpuError.exit_code else InputError
            # The other process speaks of options.
            said = re.sub(r"--([a-z][a-z-]*)", lambda flag: f"`{flag[1].replace('-', '_')}`", self.said)
            raise kind(said or f"the measuring process ended with exit code {self.code}")


@dataclass(frozen=True)
class Share:
    """How far all work with a log is.

    Attributes:
        done: Rows that are done.
        total: Rows in all, as far as processes have said.
        running: How much work is not done.
    """

    done: int
    total: int
    running: int


def own_command(name: str, options: object) -> list[str]:
    """Return the command line of one of ptxbench's own commands with these options.

    Args:
        name: Its words, such as "tune kernel".
        options: Its dataclass.
    """
    return [sys.executable, "-m", "ptxbench", *name.split(), *words_of(options)]


def supervise(
    works: Sequence[Work],
    say: Callable[[str], None] = lambda _: None,
    on_progress: Callable[[Share], None] = lambda _: None,
    on_end: Callable[[Outcome], None] = lambda _: None,
) -> tuple[Outcome, ...]:
    """Run all work at once, each on an even share of the processors, until every one has ended.

    Args:
        works: What each does.
        say: Told of what broke a process.
        on_progress: Told how far they are.
        on_end: Told how each ended.

    Returns:
        How they ended, in the order of `works`.

    Raises:
        InputError: A folder cannot be read or written; every process was ended.
        KeyboardInterrupt: This process was interrupted; every other one was, too, and has ended.
    """
    outcomes: dict[str, Outcome] = {}
    processes: list[_Supervised] = []
    try:
        for work, cpus in zip(works, _shares_of_cpus(len(works)), strict=True):
            processes.append(_Supervised(work, cpus, say))
        while running := [one for one in processes if one.work.name not in outcomes]:
            running[0].wait(_look_s(running))
            for one in running:
                outcome = one.look()
                if outcome is not None:
                    outcomes[outcome.name] = outcome
                    on_end(outcome)
            on_progress(_share(processes, len(outcomes)))
    except BaseException:
        _end(processes)
        raise
    return tuple(outcomes[work.name] for work in works)


class _Supervised:
    """The process of some work, and the next one where it dies."""

    def __init__(self, work: Work, cpus: frozenset[int], say: Callable[[str], None]) -> None:
        self.work = work
        self.at = (0, 0)
        self._cpus = cpus
        self._say = say
        self._restarts = 0
        self._begin_s = self._marked_s = monotonic()
        self._marked = b""
        self._start()

    def look(self) -> Outcome | None:
        """Take in what the process says; return how it ended, or None where it or another one goes on."""
        self._read_progress()
        hung = self._process.poll() is None and self._is_hung()
        if hung:
            self.kill()
        code = self._process.poll()
        if code is None:
            return None
        self._read_progress()
        self.close()
        if self._goes_on(Death(code, hung)):
            self._start()
            return None
        took_s = monotonic() - self._begin_s
        return Outcome(self.work.name, code, self._restarts, took_s, _last_line(self.work.log))

    def wait(self, time_s: float) -> None:
        """Wait for the end of the process, but no longer than so long."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(time_s, 0.0))

    def interrupt(self) -> None:
        """Let the process stop as by Ctrl-C."""
        if self.work.log is None:
            # One of the terminal's own job has it by itself, and a second one would break its end off.
            self.wait(_TERMINAL_S)
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Listen no longer."""
        if self._progress is not None:
            self._progress.close()

    def _goes_on(self, death: Death) -> bool:
        if death.broken and self.work.blame is not None:
            said = self.work.blame(death)
            if said:
                self._tell(said)
            return bool(said)
        if death.code < 0 and death.code != -signal.SIGINT and self._restarts < self.work.restarts:
            self._restarts += 1
            return True
        return False

    def _tell(self, text: str) -> None:
        if self.work.log is None:
            self._say(text)
            return
        with self.work.log.open("a", encoding="utf-8") as log:
            log.write(f"ptxbench: {text}\n")
        self._say(f"{self.work.name}: {text}")

    def _is_hung(self) -> bool:
        dog = self.work.watchdog
        if dog is None:
            return False
        now = dog.marked()
        if now != self._marked or not now:
            self._marked, self._marked_s = now, monotonic()
        return monotonic() - self._marked_s > dog.limit_s

    def _start(self) -> None:
        command = list(self.work.command(monotonic() - self._begin_s))
        self._progress: IO[bytes] | None = None
        self._rest = b""
        environment = {**os.environ, **self.work.environment}
        if self.work.log is None:
            self._process = _started(command, env=environment, pass_fds=inherited_pipe())
        else:
            self._process = self._start_logged(command, self.work.log, environment)
        self._marked, self._marked_s = b"", monotonic()
        with suppress(OSError):  # it has ended already
            os.sched_setaffinity(self._process.pid, self._cpus)

    def _start_logged(
        self, command: Sequence[str], path: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self._progress = os.fdopen(reading, "rb", buffering=0)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as log:
                return _started(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**environment, VARIABLE: str(writing)},
                    pass_fds=(writing,),
                    # Ctrl-C of a terminal reaches it through this process alone.
                    start_new_session=True,
                )
        finally:
            os.close(writing)

    def _read_progress(self) -> None:
        while self._progress is not None and (chunk := self._progress.read(65536)):
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self.at = parse(line) or self.at


def _started(command: Sequence[str], **options: object) -> subprocess.Popen[bytes]:
    """Start a command line that is ended (SIGTERM) when this process dies, be it of SIGKILL."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl  # looked up here: between fork and exec nothing may be imported

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before
            os._exit(SIGNALLED + signal.SIGTERM)

    return subprocess.Popen(command, preexec_fn=bind, **options)  # type: ignore[call-overload, no-any-return]


def _end(processes: Sequence[_Supervised]) -> None:
    """Interrupt all processes, and wait for them; those that go on, or after another Ctrl-C, are killed."""
    end_s = monotonic() + _GRACE_S
    try:
        for one in processes:
            one.interrupt()
        for one in processes:
            one.wait(end_s - monotonic())
    finally:
        for one in processes:
            one.kill()
            one.close()


def _look_s(running: Sequence[_Supervised]) -> float:
    dogs = (one.work.watchdog for one in running)
    return min((_LOOK_S, *(dog.limit_s / 4 for dog in dogs if dog is not None)))


def _shares_of_cpus(count: int) -> list[frozenset[int]]:
    """Return an even share of this process's processors for each; all where there are too few."""
    cpus = sorted(os.sched_getaffinity(0))
    each = len(cpus) // count
    if not each:
        return [frozenset(cpus)] * count
    return [frozenset(cpus[n * each : (n + 1) * each]) for n in range(count)]


def _share(processes: Sequence[_Supervised], ended: int) -> Share:
    done, total = (sum(one.at[n] for one in processes) for n in (0, 1))
    return Share(done, total, len(processes) - ended)


def _last_line(log: Path | None) -> str:
    lines = read_bytes(log).decode(errors="replace").split("\n") if log is not None and log.exists() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return last.removeprefix("ptxbench: error: ")
