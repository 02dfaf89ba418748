"""Files that are made new, so that nothing that lies there by their name, such as a link, is written to."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PREFIX, _SUFFIX = ".ptxbench-", ".tmp"


@contextmanager
def new_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a new file to write it; what was there by the name is removed, unless it is a folder.

    Args:
        path: The file.
        mode: Its permissions, less the umask.

    Raises:
        OSError: It cannot be made.
    """
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, _NEW, mode), "wb") as file:
        yield file


@contextmanager
def file_in_place_of(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the block ends without an error.

    Until then it has a name that nobody can guess, and a lock. A killed process leaves one without a lock,
    which the next process that writes into the folder removes.

    Args:
        path: The file; a link itself is replaced, not what it names.
        mode: Its permissions, less the umask.

    Raises:
        OSError: It cannot be made.
    """
    _remove_left(path.parent)
    temporary, descriptor = _locked(path.parent, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _locked(folder: Path, mode: int) -> tuple[Path, int]:
    """Make a file, and lock it before another process may take it for one that was left."""
    while True:
        temporary = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        descriptor = os.open(temporary, _NEW, mode)
        _lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)


@cache  # once is enough: to list a folder at each write would take a time that grows with its square
def _remove_left(folder: Path) -> None:
    for left in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if _lock(descriptor):
                    left.unlink()
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Whether nobody else holds the lock; False as well on a file system without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
