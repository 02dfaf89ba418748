"""File-system errors as one line that names the path and the cure."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptxbench.core.errors import InputError

_CURES = {
    errno.ENOSPC: "free some space, then repeat the command (a run goes on with --resume)",
    errno.EDQUOT: "free some of your quota, then repeat the command (a run goes on with --resume)",
    errno.EFBIG: "raise the limit on file sizes (`ulimit -f`), then repeat the command (a run goes on with"
    " --resume)",
    errno.EACCES: "choose a folder that you may write",
    errno.EPERM: "choose a folder that you may write",
    errno.EROFS: "choose a folder that you may write",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into an InputError about writing `path`."""
    try:
        yield
    except OSError as error:
        cure = _CURES.get(error.errno or 0, "choose another folder")
        raise InputError(f"cannot write {path}: {_cause(error)}; {cure}") from error


@contextmanager
def reading(path: Path, cure: str = "name the folder of a run") -> Iterator[None]:
    """Turn an OSError of the block into an InputError about reading `path`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read {path}: {_cause(error)}; {cure}") from error


def require_kept(path: Path, what: str) -> None:
    """Refuse to go on without a file that a run may have left in the archive.

    Args:
        path: The file, directly in the run's folder or in its kernels/.
        what: What it holds: "readings" or "kernels".

    Raises:
        InputError: It is not there.
    """
    with reading(path):
        if path.exists():
            return
    run = path.parent.parent if path.parent.name == "kernels" else path.parent
    raise InputError(
        f"{run} is kept without its {what} (no {path.relative_to(run)}); they are in the archive of results/:"
        f" `python runners/archive_readings.py restore {run}` puts them back (of another run: copy it again)"
    )


@contextmanager
def reading_parquet(path: Path, cure: str = "copy the run again") -> Iterator[None]:
    """Turn an error of pyarrow in the block into an InputError about reading `path`."""
    import pyarrow as pa

    try:
        yield
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        text = " ".join(str(error).split())
        raise InputError(f"cannot read {path}: {text}; {cure}") from error


def _cause(error: OSError) -> str:
    """Return the system's own words on one line."""
    if error.errno == errno.EEXIST:
        return "it is a file, not a folder"
    return error.strerror or " ".join(str(error).split())
