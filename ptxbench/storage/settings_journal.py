"""What was set on a GPU and what was there before, so that a killed process leaves a note of it.

One file a board in $XDG_STATE_HOME/ptxbench (default: ~/.local/state/ptxbench), and a lock that the system
releases when the process ends in any way.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ptxbench.core.cache import base_folder
from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place, decode, read_json, to_text
from ptxbench.storage.file_errors import writing


class SettingsHeldError(GpuError):
    """Another process has set the GPU and will restore it."""


@dataclass(frozen=True)
class SettingsNote:
    """One board that was set.

    Attributes:
        uuid: UUID of the board.
        before: What was set before.
        during: What ptxbench set; None where it left the value as it was.
        locked: Whether the clocks of `during` were locked, which the end of the lock takes back. What lock
            there was before cannot be read.
    """

    uuid: str
    before: GpuSettings
    during: GpuSettings
    locked: bool = False


def state_folder() -> Path:
    """Return the folder of the journal.

    Raises:
        InputError: The user has no home folder.
    """
    try:
        return base_folder("XDG_STATE_HOME", ".local/state") / "ptxbench"
    except RuntimeError as error:
        raise InputError("this user has no home folder; set XDG_STATE_HOME to a folder") from error


def has_notes() -> bool:
    """Tell whether any board was set and not restored yet."""
    try:
        return any(state_folder().glob("settings-*.json"))
    except InputError:
        return False


class SettingsJournal:
    """The note of one board.

    Args:
        uuid_hash: Hash of the board's UUID, which names the file.
    """

    def __init__(self, uuid_hash: str) -> None:
        folder = state_folder()
        self.path = folder / f"settings-{uuid_hash}.json"
        self._lock = folder / f"settings-{uuid_hash}.lock"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of the board; it ends with the process.

        Raises:
            SettingsHeldError: Another process holds it.
            InputError: The folder cannot be written.
        """
        with writing(self._lock):
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise SettingsHeldError("another ptxbench has set this GPU now; wait for its end") from error
            yield
        finally:
            os.close(descriptor)

    def read(self) -> SettingsNote | None:
        """Return the note, None where there is none.

        Raises:
            InputError: The file is not a note.
        """
        if not self.path.exists():
            return None
        return decode(SettingsNote, read_json(self.path), Place(self.path))

    def write(self, note: SettingsNote) -> None:
        """Write the note; it is on the disk when this returns."""
        write_text(self.path, to_text(note))

    def remove(self) -> None:
        """Remove the note."""
        with writing(self.path):
            self.path.unlink(missing_ok=True)
