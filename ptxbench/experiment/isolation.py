"""Measuring in a process of its own, so that a kernel that breaks it costs its own row and no more.

A kernel that runs into an error of the device breaks the CUDA context of its process for good, and a
fault of the driver may end the process. The trial is then kept as failed, and a new process goes on.
The measuring process ends with the one that started it, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ptxbench.core.errors import GpuError
from ptxbench.core.progress_pipe import inherited_pipe
from ptxbench.core.status import Status
from ptxbench.storage.run_folder import RunFolder

# How a process ends by its own fault; SIGKILL and SIGINT come from outside.
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
# Linux, linux/prctl.h: the signal that this process gets when its parent dies.
_PR_SET_PDEATHSIG = 1


def call_bound(command: Sequence[str]) -> int:
    """Run a command line that is ended (SIGTERM) when this process dies, be it of SIGKILL.

    Returns:
        Its exit code, negative for a signal.
    """
    return subprocess.call(command, preexec_fn=_bound_to_this(), pass_fds=inherited_pipe())


def start_bound(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command line that is ended (SIGTERM) when this process dies, be it of SIGKILL.

    Args:
        command: The words of the command line.
        options: Further ones of `subprocess.Popen`.
    """
    return subprocess.Popen(command, preexec_fn=_bound_to_this(), **options)


def _bound_to_this() -> Callable[[], None]:
    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl  # looked up here: between fork and exec nothing may be imported

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before
            os._exit(128 + signal.SIGTERM)

    return bind


def run_surviving(
    command: Callable[[], Sequence[str]],
    path: Path,
    say: Callable[[str], None],
    call: Callable[[Sequence[str]], int] = call_bound,
) -> int:
    """Run a measuring process, and again where a kernel broke it, until it ends otherwise.

    Args:
        command: Returns the command line of the process to start now; it goes on with a run that is there.
        path: The run's folder.
        say: Told of each kernel that broke a process.
        call: Runs a command line and returns its exit code, negative for a signal.

    Returns:
        The exit code of the last process.

    Raises:
        InputError: The run cannot be read or written.
    """
    failed = _failed_trials(path)
    while True:
        code = call(command())
        if -code in CRASHES and (path / "manifest.json").exists():
            RunFolder.blame_trial_in_hand(path)
        elif code != GpuError.exit_code:
            return code
        now = _failed_trials(path)
        if not now - failed:
            # The GPU itself is missing or lost: another process would meet the same.
            return code
        say(f"{', '.join(sorted(now - failed))} broke the process; going on without")
        failed = now


def _failed_trials(path: Path) -> frozenset[str]:
    """Return the trials of a run that could not be launched."""
    if not (path / "manifest.json").exists():
        return frozenset()
    with RunFolder.open(path) as folder:
        return frozenset(r.trial_id for r in folder.records() if r.status is Status.LAUNCH_FAILED)
