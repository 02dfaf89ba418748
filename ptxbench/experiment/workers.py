"""Several measuring processes at once, one for each GPU, each of which may fail without the others."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO

from ptxbench.core.progress_pipe import VARIABLE, parse
from ptxbench.experiment.isolation import start_bound
from ptxbench.storage.file_errors import read_bytes

# A worker that a signal ended is started again so often.
_RESTARTS = 2
_LOOK_S = 0.5


@dataclass(frozen=True)
class Work:
    """What one worker does.

    Attributes:
        name: What it is called.
        command: Returns the command line to start now, which goes on with what is there; it is given the time
            that has passed since the beginning, s.
        log: File that its output is added to.
        environment: Variables of its own.
    """

    name: str
    command: Callable[[float], Sequence[str]]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How a worker ended.

    Attributes:
        name: What it is called.
        code: Exit code, negative for a signal.
        restarts: How often a signal ended it before.
        took_s: Time from its first start to its last end.
        said: Last line of its output, "" where there is none.
    """

    name: str
    code: int
    restarts: int
    took_s: float
    said: str


@dataclass(frozen=True)
class Share:
    """How far all workers are.

    Attributes:
        done: Rows that are done.
        total: Rows in all, as far as workers have said.
        running: Workers that are at work.
    """

    done: int
    total: int
    running: int


class _Worker:
    """One worker's process, and the next one where a signal ended it."""

    def __init__(self, work: Work, cpus: frozenset[int]) -> None:
        self.work = work
        self.at = (0, 0)
        self.restarts = 0
        self._cpus = cpus
        self._begin_s = monotonic()
        self._rest = b""
        self._process, self.progress = self._start()

    def read(self) -> bool:
        """Take in what the process has said; return whether it has more to say."""
        chunk = os.read(self.progress.fileno(), 65536)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self.at = parse(line) or self.at
        return bool(chunk)

    def end(self) -> Outcome | None:
        """Wait for the process; return how it ended, or None where another one goes on."""
        self.progress.close()
        code = self._process.wait()
        if code < 0 and code != -signal.SIGINT and self.restarts < _RESTARTS:
            self.restarts += 1
            self._process, self.progress = self._start()
            return None
        took_s = monotonic() - self._begin_s
        return Outcome(self.work.name, code, self.restarts, took_s, _last_line(self.work.log))

    def interrupt(self) -> None:
        """Ask the process to stop, as Ctrl-C does."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def _start(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        passed_s = monotonic() - self._begin_s
        reading, writing = os.pipe()
        try:
            self.work.log.parent.mkdir(parents=True, exist_ok=True)
            with self.work.log.open("ab") as log:
                process = start_bound(
                    list(self.work.command(passed_s)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self.work.environment, VARIABLE: str(writing)},
                    pass_fds=(writing,),
                    # Ctrl-C of a terminal reaches the workers through this process alone.
                    start_new_session=True,
                )
        finally:
            os.close(writing)
        with suppress(OSError):  # it has ended already
            os.sched_setaffinity(process.pid, self._cpus)
        return process, os.fdopen(reading, "rb", buffering=0)


def run_workers(
    works: Sequence[Work],
    on_progress: Callable[[Share], None] = lambda _: None,
    on_end: Callable[[Outcome], None] = lambda _: None,
) -> tuple[Outcome, ...]:
    """Run all workers at once, each pinned to processors of its own, until every one has ended.

    One that a signal ended is started again, twice at most; one that ended otherwise is not.

    Args:
        works: What each does.
        on_progress: Told how far they are.
        on_end: Told how each ended.

    Returns:
        How they ended, in the order of `works`.

    Raises:
        KeyboardInterrupt: This process was interrupted; every worker was, too, and has ended.
    """
    outcomes: dict[str, Outcome] = {}
    with selectors.DefaultSelector() as waiting, _workers(works) as workers:
        for worker in workers:
            waiting.register(worker.progress, selectors.EVENT_READ, worker)
        while waiting.get_map():
            for key, _ in waiting.select(_LOOK_S):
                worker = key.data
                if worker.read():
                    continue
                waiting.unregister(worker.progress)
                outcome = worker.end()
                if outcome is None:
                    waiting.register(worker.progress, selectors.EVENT_READ, worker)
                else:
                    outcomes[outcome.name] = outcome
                    on_end(outcome)
            on_progress(_share(workers, len(outcomes)))
    return tuple(outcomes[work.name] for work in works)


@contextmanager
def _workers(works: Sequence[Work]) -> Iterator[list[_Worker]]:
    """Start the workers; where this process is interrupted, interrupt them and wait."""
    workers: list[_Worker] = []
    try:
        for work, cpus in zip(works, _shares_of_cpus(len(works)), strict=True):
            workers.append(_Worker(work, cpus))
        yield workers
    except BaseException:
        for worker in workers:
            worker.interrupt()
        for worker in workers:
            worker.restarts = _RESTARTS
            worker.end()
        raise


def _shares_of_cpus(count: int) -> list[frozenset[int]]:
    """Return an even share of this process's processors for each worker; all where there are too few."""
    cpus = sorted(os.sched_getaffinity(0))
    each = len(cpus) // count
    if not each:
        return [frozenset(cpus)] * count
    return [frozenset(cpus[n * each : (n + 1) * each]) for n in range(count)]


def _share(workers: Sequence[_Worker], ended: int) -> Share:
    done, total = (sum(worker.at[n] for worker in workers) for n in (0, 1))
    return Share(done, total, len(workers) - ended)


def _last_line(log: Path) -> str:
    lines = read_bytes(log).decode(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
