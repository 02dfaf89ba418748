"""Which of several commands takes less energy, by running each of them several times in random order."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence

import numpy as np

from ptxbench.api.monitor import EnergyMonitor
from ptxbench.api.window_energy import WindowEnergy
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.experiment.calls.result import Against, Bench, Comparison, notes_of
from ptxbench.experiment.calls.verdict import judge
from ptxbench.experiment.calls.window import CallWindow

Run = Callable[[Sequence[str]], int]


def compare_commands(
    commands: Sequence[str],
    repeats: int,
    monitor: EnergyMonitor,
    seed: int = 0,
    warm_up: int = 1,
    run: Run | None = None,
    show: Callable[[int, int, str], None] = lambda *_: None,
) -> Comparison:
    """Run commands in rounds, in random order, and say which takes less energy than the first.

    The energy is that of all GPUs of the monitor from the start of a command to its end, idle power
    included.

    Args:
        commands: At least two; words are split as by a shell, but no shell is run.
        repeats: Runs of each that count.
        monitor: What measures.
        seed: Of the order.
        warm_up: Runs of each before, which do not count: files and caches are then there.
        run: Runs the words of a command and returns its exit code; None: as a process without input, whose
            output is dropped.
        show: Told how many runs are done, how many there are, and which command is run.

    Raises:
        InputError: A command cannot be read or started, or did not end with 0.
        GpuLostError: A GPU stopped answering.
    """
    words = words_of(commands, started=run is None)
    random, start = np.random.default_rng(seed), run or _run
    windows: list[list[CallWindow]] = [[] for _ in words]
    notes: dict[str, None] = {}
    total = len(words) * (warm_up + repeats)
    for turn in range(warm_up + repeats):
        for place, number in enumerate(map(int, random.permutation(len(words)))):
            show(turn * len(words) + place, total, commands[number])
            with monitor.window(f"run {turn + 1} of command {number + 1}") as window:
                code = start(words[number])
            if code != 0:
                raise InputError(f"{commands[number]!r} ended with exit code {code}; nothing is compared")
            if turn >= warm_up:
                found = window.result()
                notes.update(dict.fromkeys(found.notes if found.is_resolved else ()))
                windows[number].append(_window(found, turn - warm_up))
    names = [one.gpu for one in found.gpus]
    benches = [
        Bench(command, ", ".join(names), False, tuple(own), l2="")
        for command, own in zip(commands, windows, strict=True)
    ]
    others = [Against(one, judge(benches[0].windows, one.windows, len(words) - 1)) for one in benches[1:]]
    clocks = "whole commands: idle power between their kernels is included, and clocks are not looked at"
    return Comparison(benches[0], tuple(others), False, notes_of(benches, clocks, *notes))


def _window(found: WindowEnergy, number: int) -> CallWindow:
    low_j, high_j = found.interval_j
    error_w = (high_j - low_j) / 2 / COVERAGE_FACTOR / found.time_s
    reason = "" if found.is_resolved else "; ".join(found.notes) or "its energy is not known"
    return CallWindow(number, found.time_s, found.mean_power_w, error_w, reason=reason)


def words_of(commands: Sequence[str], *, started: bool = True) -> list[list[str]]:
    """Return the words of commands, before any of them runs: others may take long until its turn comes.

    Args:
        commands: At least two.
        started: Whether each is a program that is started.

    Raises:
        InputError: There are too few, or one cannot be split into words, is empty, or names no program.
    """
    if len(commands) < 2:
        raise InputError("compare needs at least two commands")
    return [_words(command, started) for command in commands]


def _words(command: str, started: bool) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"{command!r} cannot be split into words ({error})") from error
    if not words:
        raise InputError("a command is empty")
    if started and shutil.which(words[0]) is None:
        raise InputError(f"{words[0]!r} cannot be started: it is no program, neither on PATH nor by its path")
    return words


def _run(words: Sequence[str]) -> int:
    try:
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise InputError(f"{words[0]!r} cannot be started: {error.strerror}") from error
    return ended.returncode
