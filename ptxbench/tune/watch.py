"""A search in a process of its own, which is ended where a variant hangs; another goes on without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import Popen

from ptxbench.core.errors import GpuError, InputError
from ptxbench.experiment.isolation import CRASHES, start_bound
from ptxbench.storage import codec
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import read_bytes
from ptxbench.tune.check import Correct
from ptxbench.tune.folder import IN_HAND, InHand, TuningFolder
from ptxbench.tune.trial import Trial, TrialStatus

_POLL_S = 0.2


def search_watched(
    command: Callable[[], Sequence[str]],
    path: Path,
    limit_s: float,
    say: Callable[[str], None],
    start: Callable[[Sequence[str]], Popen[bytes]] = start_bound,
) -> int:
    """Run a searching process, and again where a variant hung or broke it, until it ends otherwise.

    Args:
        command: Returns the command line of the process to start now; it goes on with a folder that is there.
        path: The search's folder.
        limit_s: How long one variant may take to be checked, timed and measured.
        say: Told of each variant that ended a process.
        start: Starts a command line.

    Returns:
        The exit code of the last process, negative for a signal.

    Raises:
        InputError: The folder cannot be read or written.
    """
    while True:
        before = _tried(path)
        process = start(command())
        try:
            hung = _wait(process, path, limit_s)
        except BaseException:
            process.kill()
            process.wait()
            raise
        code = process.returncode
        broken = not hung and (code == GpuError.exit_code or -code in CRASHES)
        if not hung and not broken:
            return code
        failed = _last_failed(path, before)
        if not failed:
            failed = _blame(path, f"took longer than {limit_s:g} s" if hung else "broke the process", hung)
        if not failed and _tried(path) == before:
            # The GPU itself is missing or lost: another process would meet the same.
            return code
        say(f"{failed or 'the process ended'}; going on{' without' if failed else ''}")


def _wait(process: Popen[bytes], path: Path, limit_s: float) -> bool:
    """Wait until a process ends; return whether it had to be ended, as one variant took too long."""
    held, since_s = b"", time.monotonic()
    while process.poll() is None:
        time.sleep(min(_POLL_S, limit_s / 4))
        now = _marker(path)
        if now != held or not now:
            held, since_s = now, time.monotonic()
        elif time.monotonic() - since_s > limit_s:
            process.kill()
            process.wait()
            return True
    return False


def _marker(path: Path) -> bytes:
    try:
        return read_bytes(path / IN_HAND)
    except InputError:
        return b""


def _tried(path: Path) -> int:
    return len(TuningFolder.read(path).trials) if (path / "manifest.json").exists() else 0


def _last_failed(path: Path, before: int) -> str:
    """Return the variant whose failed launch is the last that the process kept: it broke what came after."""
    if _tried(path) <= before:
        return ""
    last = list(TuningFolder.read(path).trials.values())[-1]
    return f"{last.name} broke the process" if last.status is TrialStatus.LAUNCH_FAILED else ""


def _blame(path: Path, what: str, hung: bool) -> str:
    """Keep the variant in hand as one that failed; return what happened, or "" where none is in hand."""
    if not _marker(path):
        return ""
    held = codec.decode(InHand, codec.read_json(path / IN_HAND), Place(path / IN_HAND))
    status = TrialStatus.HUNG if hung else TrialStatus.LAUNCH_FAILED
    trial = Trial(held.variant, status, what, Correct.UNCHECKED, settings=held.settings)
    folder = TuningFolder.reopen(path)
    try:
        if held.name in folder.trials and not held.before:
            return ""
        folder.add(trial)
    finally:
        folder.close()
    return f"{held.name} {what}"
