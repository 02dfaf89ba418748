"""Files that are either the old or the new one, whenever the process or the machine stops."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ptxbench.core.errors import InputError
from ptxbench.core.new_file import file_in_place_of, new_file
from ptxbench.storage.file_errors import writing

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path`, and is on the disk, when the block ends without an error.

    Raises:
        InputError: `path` is a folder or a device, the folder cannot be written, or the disk is full.
    """
    require_file(path)
    with writing(path):
        with file_in_place_of(path) as file:
            yield file
            _sync(file)
        sync_folder(path.parent)


def require_file(path: Path) -> None:
    """Make sure that `path` is a regular file or does not exist, and that its folder does.

    A rename would put a file in the place of a device, and a library may add an ending to a folder's name.

    Raises:
        InputError: It is a folder, a device or a pipe, or its folder is missing.
    """
    with writing(path):
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; name a file")
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {path}: it is a device or a pipe; name a regular file")
        if not path.parent.exists():
            raise InputError(f"cannot write {path}: the folder {path.parent} does not exist; make it first")


@contextmanager
def durable(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that is on the disk when the block ends.

    It may be torn when the process dies before: it must count only once another file names it. It costs
    half of `replacing`, which matters where a run writes thousands.

    Raises:
        InputError: The folder cannot be written or the disk is full.
    """
    with writing(path), new_file(path) as file:
        yield file
        _sync(file)


def write_note(path: Path, text: str) -> None:
    """Write a whole UTF-8 file that outlives this process; it may be torn, or gone after a power cut.

    Raises:
        InputError: The folder cannot be written or the disk is full.
    """
    with writing(path), new_file(path) as file:
        file.write(text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file atomically."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file atomically, line ends as they are."""
    write_bytes(path, text.encode())


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write one table atomically."""
    import pyarrow.parquet as pq

    with replacing(path) as file:
        pq.write_table(table, file, compression="zstd")


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
