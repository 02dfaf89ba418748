"""Files of JSON lines that only grow; a line counts once its line end is on the disk."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Generic, Self, TypeVar

from ptxbench.core.closing import Closing
from ptxbench.core.errors import InputError
from ptxbench.storage import codec
from ptxbench.storage.atomic import sync_folder, write_bytes
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import read_bytes, writing

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
# A link is not followed.
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Journal:
    """The one writer of a journal; a line that was torn when the last writer died is cut off.

    Args:
        path: The file.
        create: Whether to make it where it is missing.

    Raises:
        InputError: The file cannot be written, or another process writes it.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self._path = path
        with writing(path):
            self._descriptor = os.open(path, _FLAGS | (os.O_CREAT if create else 0), 0o666)
        try:
            with writing(path):
                self._lock()
                os.ftruncate(self._descriptor, len(_complete(read_bytes(path))))
                sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, value: object) -> None:
        """Add one dataclass; it is on the disk when this returns.

        Raises:
            InputError: The disk is full; the journal is then as it was.
        """
        line = _line(value)
        size = os.fstat(self._descriptor).st_size
        with writing(self._path):
            try:
                _write_all(self._descriptor, line)
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, size)  # else the next line would join the torn one
                raise

    def rewrite(self, values: Iterable[object]) -> None:
        """Put other dataclasses in the place of all lines, at once.

        Raises:
            InputError: The disk is full; the journal is then as it was.
        """
        write_bytes(self._path, b"".join(map(_line, values)))
        old = self._descriptor
        with writing(self._path):
            self._descriptor = os.open(self._path, _FLAGS)
            self._lock()
        os.close(old)

    def close(self) -> None:
        """Give the file, and the right to write it, back."""
        os.close(self._descriptor)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{self._path.parent.parent} is being written by another process; wait for its end"
            ) from None
        except OSError:
            return  # a file system without locks: one writer is then up to the user


class Lines(Closing, Generic[T, K]):
    """Dataclasses by their names, each on the disk as soon as it is added; of one name the last line counts.

    Args:
        path: The file, which may be missing.
        kind: Type of a line.
        name_of: Returns what one is called.

    Raises:
        InputError: The file cannot be read, or a complete line does not fit.
    """

    def __init__(self, path: Path, kind: type[T], name_of: Callable[[T], K]) -> None:
        self._path = path
        self._name_of = name_of
        self.by_name = {name_of(one): one for one in read_all(path, kind)}
        self._journal: Journal | None = None

    def open(self) -> Self:
        """Become the one writer; see `Journal`."""
        self._journal = Journal(self._path, create=True)
        return self

    @property
    def is_open(self) -> bool:
        """Whether this is the one writer."""
        return self._journal is not None

    def add(self, one: T) -> None:
        """Keep one; see `Journal.append`.

        Raises:
            ValueError: The file is open for reading only.
        """
        if self._journal is None:
            raise ValueError(f"{self._path} is open for reading only")
        self._journal.append(one)
        self.by_name[self._name_of(one)] = one

    def close(self) -> None:
        """Give the right to write back."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def read_all(path: Path, kind: type[T]) -> list[T]:
    """Return the dataclasses of every complete line; none where the file is missing.

    Raises:
        InputError: The file cannot be read, or a complete line does not fit.
    """
    return [codec.decode(kind, plain, place) for place, plain in read(path)] if path.exists() else []


def read(path: Path) -> Iterator[tuple[Place, object]]:
    """Yield the place and the plain value of every complete line; a torn last line is left out.

    Raises:
        InputError: The file cannot be read, or a complete line is not JSON.
    """
    for number, line in enumerate(_complete(read_bytes(path)).split(b"\n")[:-1], start=1):
        place = Place(path, f"line {number}")
        yield place, codec.parse(line, place)


def _line(value: object) -> bytes:
    """Return a dataclass as a line."""
    return json.dumps(codec.encode(value), ensure_ascii=False).encode() + b"\n"


def _complete(data: bytes) -> bytes:
    """Return `data` up to its last line end."""
    return data[: data.rfind(b"\n") + 1]


def _write_all(descriptor: int, data: bytes) -> None:
    """Write `data`, in as many calls as the system wants."""
    while data:
        data = data[os.write(descriptor, data) :]
