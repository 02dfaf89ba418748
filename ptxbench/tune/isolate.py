"""A search in a process of its own, which is ended where a variant hangs; another goes on without it.

`python -m ptxbench.tune.isolate FILE` is the process of a search that has no command line: one from Python.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.devices.select import open_gpu
from ptxbench.experiment.supervise import Death, Watchdog, Work, supervise
from ptxbench.storage import codec
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.location import require_no_run
from ptxbench.tune.element import ELEMENTS
from ptxbench.tune.folder import IN_PROGRESS, InProgress, TuningFolder
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.search_options import TuningOptions
from ptxbench.tune.spec_file import read_spec
from ptxbench.tune.trial import Trial
from ptxbench.tune.tuning import Tuned, found_in, goal_for, tune
from ptxbench.tune.user_kernel import UserKernel


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
    held = codec.read_file(InProgress, path / IN_PROGRESS)
    folder = TuningFolder.reopen(path)
    try:
        if held.name in folder.trials and not held.before:
            return ""
        folder.add(
            Trial(
                variant=held.variant,
                status=status,
                reason=reason,
                settings=held.settings,
            )
        )
    finally:
        folder.close()
    return held.name


_QUESTION = "search.json"
_ARRAY = "file of an array"


def tune_isolated(
    gpu: str, document: Mapping[str, object], place: str, options: TuningOptions, path: Path, limit_s: float
) -> Tuned:
    """Search in another process, which is ended where a variant hangs; return what was found.

    Args:
        gpu: What `open_gpu` takes.
        document: The kernel, as `read_spec` takes it.
        place: Where it comes from, for messages.
        options: How variants are searched.
        path: New folder.
        limit_s: As of `search_work`.

    Raises:
        InputError: As of `tune`, the process refused something else, or the document holds what cannot be
            written down.
        GpuError: There is no such GPU, or it stopped answering.
    """
    require_no_run(path)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        searched = {one.name: getattr(options, one.name) for one in fields(TuningOptions)}
        asked = {"gpu": gpu, "path": path.absolute(), "place": place, "options": searched}
        written = json.dumps({**asked, "document": document}, default=partial(_plain, folder, place))
        (folder / _QUESTION).write_text(written, encoding="utf-8")
        command = [sys.executable, "-m", __name__, scratch]
        (ended,) = supervise([search_work(lambda _: command, path, limit_s, folder / "log")])
        ended.require_done()
    held = TuningFolder.read(path)
    kernel = UserKernel(read_spec(document, Path(), place))
    variants = kernel.space(held.manifest.gpu.target).variants
    return found_in(held, goal_for(options.goal, kernel), len(variants))


def _plain(folder: Path, place: str, value: object) -> object:
    """Return what stands for a value that JSON does not have; an array becomes a file."""
    if isinstance(value, np.ndarray):
        file = folder / f"{len(list(folder.glob('*.npy')))}.npy"
        # Numbers of a type that numpy has from elsewhere are kept as wider ones, which have them exactly.
        element = next((one for one in ELEMENTS.values() if one.foreign == value.dtype.name), None)
        bits = np.ascontiguousarray(value).ravel().view(np.uint8)
        np.save(file, element.numbers(bits).reshape(value.shape) if element else value, allow_pickle=False)
        return {_ARRAY: file.name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise InputError(f"{place}: {type(value).__name__} cannot be given to another process")


def _read(folder: Path, plain: dict[str, object]) -> object:
    """Return the array of a file that `_plain` wrote, every other object as it is."""
    if _ARRAY not in plain:
        return plain
    return np.load(folder / str(plain[_ARRAY]), allow_pickle=False)


def _search(folder: Path) -> None:
    text = (folder / _QUESTION).read_text(encoding="utf-8")
    asked = json.loads(text, object_hook=partial(_read, folder))
    path = Path(asked["path"])
    tuning = TuningOptions(**asked["options"]).tuning(read_spec(asked["document"], Path(), asked["place"]))
    gpu = open_gpu(asked["gpu"])
    try:
        begun = (path / MANIFEST).exists()
        tune(gpu, tuning, *((None, path) if begun else (path, None)))
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
