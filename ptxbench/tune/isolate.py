"""A search in a process of its own, which is ended where a variant hangs; another goes on without it.

`python -m ptxbench.tune.isolate FILE` is the process of a search that has no command line: one from Python.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.select import open_gpu
from ptxbench.experiment.supervise import Death, Watchdog, Work, supervise
from ptxbench.storage import codec
from ptxbench.storage.codec import Place
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.location import require_no_run
from ptxbench.tune.check import Correct
from ptxbench.tune.folder import IN_PROGRESS, InProgress, TuningFolder
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.trial import Trial
from ptxbench.tune.tuning import Tuned, Tuning, tune


def search_work(
    command: Callable[[bool], Sequence[str]], path: Path, limit_s: float, log: Path | None = None
) -> Work:
    """Return the work of a search: a variant that hangs or breaks its process is left out.

    Args:
        command: Returns the command line to start now; it is told whether the folder is there to go on with.
        path: The search's folder.
        limit_s: How long one variant may take to be checked, timed and measured.
        log: File that its output is added to; None: it shares the streams of this process.
    """
    return Work(
        path.name,
        lambda _: command((path / MANIFEST).exists()),
        log=log,
        blame=_blame(path, limit_s),
        watchdog=Watchdog(path / IN_PROGRESS, limit_s),
    )


def _blame(path: Path, limit_s: float) -> Callable[[Death], str]:
    """Return what keeps the variant that ended a process as failed, and says so."""
    tried = _tried(path)

    def blame(death: Death) -> str:
        nonlocal tried
        before, tried = tried, _tried(path)
        # A failed launch that the process kept last broke what came after it.
        last = list(TuningFolder.read(path).trials.values())[-1] if tried > before else None
        if last is not None and last.status is TrialStatus.LAUNCH_FAILED:
            return f"{last.name} broke the process; going on without"
        what = f"took longer than {limit_s:g} s" if death.hung else "broke the process"
        name = _blame_in_progress(path, what, TrialStatus.HUNG if death.hung else TrialStatus.LAUNCH_FAILED)
        tried = _tried(path)
        if name:
            return f"{name} {what}; going on without"
        return "the process ended; going on" if last is not None else ""

    return blame


def _tried(path: Path) -> int:
    return len(TuningFolder.read(path).trials) if (path / MANIFEST).exists() else 0


def _blame_in_progress(path: Path, reason: str, status: TrialStatus) -> str:
    """Keep the variant in progress as failed and return its name; "" where there is none."""
    if not (path / IN_PROGRESS).exists():
        return ""
    held = codec.decode(InProgress, codec.read_json(path / IN_PROGRESS), Place(path / IN_PROGRESS))
    folder = TuningFolder.reopen(path)
    try:
        if held.name in folder.trials and not held.before:
            return ""
        folder.add(
            Trial(
                variant=held.variant,
                status=status,
                reason=reason,
                correct=Correct.UNCHECKED,
                settings=held.settings,
            )
        )
    finally:
        folder.close()
    return held.name


@dataclass(frozen=True)
class _Search:
    """A search for another process.

    Attributes:
        gpu: What `open_gpu` takes.
        tuning: What is tuned, and how.
        path: The folder.
        answer: File for what is found.
    """

    gpu: str
    tuning: Tuning
    path: Path
    answer: Path


def tune_isolated(gpu: str, tuning: Tuning, path: Path, limit_s: float) -> Tuned:
    """Search in another process, which is ended where a variant hangs; return what was found.

    Args:
        gpu: What `open_gpu` takes.
        tuning: What is tuned, and how.
        path: New folder.
        limit_s: As of `search_work`.

    Raises:
        InputError: As of `tune`, or the process refused something else.
        GpuError: There is no such GPU, or it stopped answering.
    """
    require_no_run(path)
    with TemporaryDirectory() as scratch:
        question, answer = Path(scratch, "search"), Path(scratch, "found")
        question.write_bytes(pickle.dumps(_Search(gpu, tuning, path, answer)))
        command = [sys.executable, "-m", __name__, str(question)]
        (ended,) = supervise([search_work(lambda _: command, path, limit_s, Path(scratch, "log"))])
        ended.require_done()
        # Written by the process that was started here, into a folder that nobody else may write.
        found = pickle.loads(answer.read_bytes())  # noqa: S301
    assert isinstance(found, Tuned)  # noqa: S101
    return found


def _search(question: Path) -> None:
    search = pickle.loads(question.read_bytes())  # noqa: S301 - of `tune_isolated`
    gpu = open_gpu(search.gpu)
    try:
        begun = (search.path / MANIFEST).exists()
        new, old = (None, search.path) if begun else (search.path, None)
        search.answer.write_bytes(pickle.dumps(tune(gpu, search.tuning, new, old)))
    finally:
        gpu.close()


if __name__ == "__main__":
    try:
        _search(Path(sys.argv[1]))
    except PtxbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
