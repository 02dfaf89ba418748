"""A disk that is full when one file is written."""

import errno
import os
from contextlib import contextmanager

import pytest

from ptxbench.storage import atomic


def fill_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let nothing of the file `name` reach the disk."""
    for made in ("new_file", "file_in_place_of"):
        monkeypatch.setattr(atomic, made, _full(getattr(atomic, made), name))


def _full(made, name):
    @contextmanager
    def full(path):
        with made(path) as file:
            yield file
            if path.name == name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return full
