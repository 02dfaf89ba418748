"""The kernels of a finished run in one file (kernels.zip)."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ptxbench.core.errors import InputError
from ptxbench.storage.atomic import replacing
from ptxbench.storage.file_errors import reading, require_kept

# A whole table's file has 8 MB, and its largest member 1 MB.
_LARGEST_FILE = 256 * 2**20
LARGEST_MEMBER_BYTES = 64 * 2**20
# The earliest time that a zip file can say: the same kernels give the same bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


class KernelArchive:
    """A kernels.zip, read. It is held in memory, so that there is nothing to close.

    Members are only looked up by names that the caller knows: no name in the file becomes a path.

    Args:
        path: The file.

    Raises:
        InputError: It cannot be read, is no zip file, or has more than 256 MiB.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        require_kept(path, "kernels")
        with reading(path, cure="copy the run again"):
            if path.stat().st_size > _LARGEST_FILE:
                raise InputError(
                    f"{path} has more than {_LARGEST_FILE >> 20} MiB: it holds no kernels of a run"
                )
            data = path.read_bytes()
        try:
            self._zip = ZipFile(io.BytesIO(data))
        except (BadZipFile, ValueError, NotImplementedError) as error:
            raise self._damaged(error) from error

    def read(self, name: str) -> bytes:
        """Return one member, of at most 64 MiB.

        Raises:
            InputError: There is none of this name, it is too large, or it is damaged.
        """
        try:
            member = self._zip.getinfo(name)
        except KeyError:
            raise InputError(f"{self._path} holds no {name}; copy the run again") from None
        if member.file_size > LARGEST_MEMBER_BYTES or member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise InputError(
                f"{self._path}: {name} has more than {LARGEST_MEMBER_BYTES >> 20} MiB "
                "or an unknown compression; copy the run again"
            )
        try:
            # This decompresses no more than the size that was just checked.
            with self._zip.open(member) as file:
                data = file.read(member.file_size)
        except (BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError) as error:
            raise self._damaged(error) from error
        if len(data) != member.file_size:
            raise self._damaged(f"{name} ends early")
        return data

    def _damaged(self, why: object) -> InputError:
        return InputError(f"{self._path}: the file is damaged ({why}); copy the run again")


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Write a kernels.zip atomically; the same members give the same bytes.

    Args:
        path: The file.
        members: Content by name.

    Raises:
        InputError: It cannot be written.
    """
    with replacing(path) as file, ZipFile(file, "w") as archive:
        for name in sorted(members):
            member = ZipInfo(name, _NO_TIME)
            member.create_system = 3  # as on Unix, wherever it is written
            member.external_attr = 0o644 << 16
            archive.writestr(member, members[name], ZIP_DEFLATED, 9)
