"""Progress on standard error: a bar on a terminal, else a line every 30 s."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

import click

from ptxbench.cli.terminal import terminal
from ptxbench.core.printable import printable
from ptxbench.core.progress_pipe import teller

_LINE_S = 30.0
_MINUTE_S = 60.0
# The part of the work from which on what is left can be told.
_TELLING = 0.1

Show = Callable[[int, int, str], None]


@contextmanager
def progress_bar() -> Iterator[Show]:
    """Show progress; the block calls what it gets with how much is done, the total, and the current item."""
    tell = teller()
    if tell is not None:
        yield tell
        return
    if not sys.stderr.isatty():
        with progress_lines() as show:
            yield show
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=terminal(sys.stderr))) as bar:
        task = bar.add_task("")
        yield lambda done, total, text: bar.update(
            task, completed=done, total=total, description=printable(text)
        )


class ProgressLine:
    """What is done and what is left, as one line.

    Args:
        now_s: Time that only grows, s.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._begin_s = now_s()
        self._at = (0, 0, "")

    def note(self, done: int, total: int, text: str) -> None:
        """Take in how far the work is."""
        self._at = (done, total, text)

    def text(self) -> str:
        """Return the line as of now."""
        done, total, text = self._at
        passed_s = self._now_s() - self._begin_s
        if not total:
            return f"{text or 'working'}, {_minutes(passed_s)} so far"
        left = ""
        # The first of many tell little: of a table they are the rows that cannot be measured.
        if _TELLING * total <= done < total:
            left = f", about {_minutes(passed_s * (total - done) / done)} left"
        beside = f" ({text})" if text else ""
        return f"{done} of {total} done in {_minutes(passed_s)}{left}{beside}"


@contextmanager
def progress_lines(
    now_s: Callable[[], float] = monotonic, wait: Callable[[Event, float], bool] = Event.wait
) -> Iterator[Show]:
    """Print a line on standard error every 30 s, also while one step takes longer.

    Args:
        now_s: Time that only grows, s.
        wait: Waits for an event for so many seconds at most; whether it came.
    """
    line, ended = ProgressLine(now_s), Event()

    def print_lines() -> None:
        while not wait(ended, _LINE_S):
            click.echo(f"ptxbench: {line.text()}", err=True)

    printer = Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield line.note
    finally:
        ended.set()
        printer.join()


def _minutes(time_s: float) -> str:
    return f"{time_s:.0f} s" if time_s < 2 * _MINUTE_S else f"{time_s / _MINUTE_S:.0f} min"
