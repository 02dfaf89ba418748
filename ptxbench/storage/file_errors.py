"""Where files are opened; what the system says of them, as one line that names the path and the cure."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ptxbench.core.errors import InputError

NAME_A_RUN = "name the folder of a run"
NAME_CODE = "name a .ptx or .cubin file"
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_CURES = {
    errno.ENOSPC: "free some space, then repeat the command (a run goes on with `resume`)",
    errno.EDQUOT: "free some of your quota, then repeat the command (a run goes on with `resume`)",
    errno.EFBIG: "raise the limit on file sizes (`ulimit -f`), then repeat the command (a run goes on with"
    " `resume`)",
    errno.EACCES: "choose a folder that you may write",
    errno.EPERM: "choose a folder that you may write",
    errno.EROFS: "choose a folder that you may write",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into an InputError about writing `path`."""
    _require_name(path)
    try:
        yield
    except OSError as error:
        cure = _CURES.get(error.errno or 0, "choose another folder")
        raise InputError(f"cannot write {path}: {_cause(error)}; {cure}") from error


@contextmanager
def reading(path: Path, cure: str = NAME_A_RUN) -> Iterator[None]:
    """Turn an OSError of the block into an InputError about reading `path`."""
    _require_name(path)
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read {path}: {_cause(error)}; {cure}") from error


def require_regular(path: Path, cure: str = NAME_A_RUN) -> None:
    """Refuse what is no regular file, also by a link: a pipe or a device may never end, or do something.

    Raises:
        InputError: It is none, or is not there.
    """
    with reading(path, cure):
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if kind != stat.S_IFREG:
            raise InputError(f"cannot read {path}: it is {_KINDS.get(kind, 'a device')}; name a regular file")


@contextmanager
def opened(path: Path, cure: str = NAME_A_RUN) -> Iterator[BinaryIO]:
    """Open a regular file to read it; an OSError of the block is one about reading it.

    Args:
        path: The file.
        cure: What to do where it cannot be read.

    Raises:
        InputError: It is no regular file, or cannot be read.
    """
    require_regular(path, cure)
    with reading(path, cure):
        # Without waiting for a writer, should it have become a pipe since.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            yield file


def read_bytes(path: Path, cure: str = NAME_A_RUN) -> bytes:
    """Return the content of a regular file; see `opened`."""
    with opened(path, cure) as file:
        return file.read()


def read_text(path: Path, cure: str = NAME_A_RUN) -> str:
    """Return the text of a regular file in UTF-8, with or without a mark; see `opened`.

    Raises:
        InputError: It cannot be read, or is no UTF-8.
    """
    try:
        return read_bytes(path, cure).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8; {cure}") from error


def whole_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file that others wrote and may have cut off; a line feed alone ends one.

    Raises:
        InputError: It is no regular file, or cannot be read.
    """
    with opened(path) as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1].decode(errors="replace")


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


def _require_name(path: Path) -> None:
    if "\0" in str(path):
        raise InputError(f"{str(path)!r} holds a NUL character, which no file name has; name another file")


def _cause(error: OSError) -> str:
    """Return the system's own words on one line."""
    if error.errno == errno.EEXIST:
        return "it is a file, not a folder"
    return error.strerror or " ".join(str(error).split())
