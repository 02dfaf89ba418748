"""The kernels of a finished run in one file (kernels.zip)."""

from __future__ import annotations

import io
import lzma
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ptxbench.core.errors import InputError
from ptxbench.storage.atomic import replacing
from ptxbench.storage.file_errors import opened, require_kept

# A whole table's file has 8 MB, and its largest member 1 MB.
_LARGEST_FILE = 256 * 2**20
LARGEST_MEMBER_BYTES = 64 * 2**20
# What a member may ask for while it is unpacked; zipfile writes 8 MiB.
_LARGEST_DICTIONARY = 64 * 2**20
# PKWARE's APPNOTE.TXT: 4.3.7 has the local header, 5.8 the header of LZMA data, 4.4.4 the flags.
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_SIGNATURE = b"PK\x03\x04"
_LZMA = struct.Struct("<2sHBL")
_LZMA_PROPERTIES = 5
_ENCRYPTED = 1
_UNPACKING = (BadZipFile, lzma.LZMAError, struct.error, zlib.error)
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
        with opened(path, cure="copy the run again") as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_FILE:
                raise InputError(
                    f"{path} has more than {_LARGEST_FILE >> 20} MiB: it holds no kernels of a run"
                )
            self._data = file.read()
        try:
            self._zip = ZipFile(io.BytesIO(self._data))
        except (BadZipFile, ValueError, NotImplementedError) as error:
            raise self._damaged(error) from error

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the members, as the file has them."""
        return tuple(self._zip.namelist())

    @property
    def is_lzma(self) -> bool:
        """Whether all members are packed by LZMA."""
        return all(member.compress_type == ZIP_LZMA for member in self._zip.infolist())

    def read(self, name: str) -> bytes:
        """Return one member, of at most 64 MiB.

        Raises:
            InputError: There is none of this name, it is too large, or it is damaged.
        """
        try:
            member = self._zip.getinfo(name)
        except KeyError:
            raise InputError(f"{self._path} holds no {name}; copy the run again") from None
        known = member.compress_type in (ZIP_STORED, ZIP_DEFLATED, ZIP_LZMA)
        if member.file_size > LARGEST_MEMBER_BYTES or not known or member.flag_bits & _ENCRYPTED:
            raise InputError(
                f"{self._path}: {name} has more than {LARGEST_MEMBER_BYTES >> 20} MiB, "
                "an unknown compression or a password; copy the run again"
            )
        try:
            data = self._lzma(member) if member.compress_type == ZIP_LZMA else self._plain(member)
        except (*_UNPACKING, OSError, EOFError, RuntimeError, ValueError) as error:
            raise self._damaged(error) from error
        if len(data) != member.file_size:
            raise self._damaged(f"{name} has other bytes than it says")
        return data

    def _plain(self, member: ZipInfo) -> bytes:
        # This decompresses no more than the size that was just checked.
        with self._zip.open(member) as file:
            return file.read(member.file_size)

    def _lzma(self, member: ZipInfo) -> bytes:
        """Unpack one member. zipfile would do it too, but without a limit on what comes out."""
        data = self._compressed(member)
        _, size, coder, dictionary = _LZMA.unpack_from(data)
        if size != _LZMA_PROPERTIES or dictionary > _LARGEST_DICTIONARY:
            raise ValueError(f"{member.filename} has no LZMA data that this program writes")
        rest, lc = divmod(coder, 9)
        pb, lp = divmod(rest, 5)
        options = {"id": lzma.FILTER_LZMA1, "dict_size": dictionary, "lc": lc, "lp": lp, "pb": pb}
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[options])
        unpacked = unpacker.decompress(data[_LZMA.size :], max_length=member.file_size + 1)
        if zlib.crc32(unpacked) != member.CRC:
            raise ValueError(f"{member.filename} has another checksum")
        return unpacked

    def _compressed(self, member: ZipInfo) -> bytes:
        """Return the bytes of a member, where the header before them says what the directory says."""
        header = _LOCAL.unpack_from(self._data, member.header_offset)
        signature, _, flags, method, _, _, crc, compressed, size, name_bytes, extra_bytes = header
        begin = member.header_offset + _LOCAL.size
        name = self._data[begin : begin + name_bytes]
        begin += name_bytes + extra_bytes
        said = (signature, flags, method, crc, compressed, size, name)
        listed = (
            *(_LOCAL_SIGNATURE, member.flag_bits, member.compress_type),
            *(member.CRC, member.compress_size, member.file_size, member.filename.encode()),
        )
        if said != listed or begin + compressed > len(self._data):
            raise ValueError(f"the header of {member.filename} is another one than the directory's")
        return self._data[begin : begin + compressed]

    def _damaged(self, why: object) -> InputError:
        return InputError(f"{self._path}: the file is damaged ({why}); copy the run again")


def write_archive(path: Path, members: Mapping[str, bytes], *, small: bool = False) -> None:
    """Write a kernels.zip atomically; the same members give the same bytes.

    Args:
        path: The file.
        members: Content by name.
        small: Pack by LZMA: half the size, but a minute for a whole table instead of seconds.

    Raises:
        InputError: It cannot be written.
    """
    with replacing(path) as file, ZipFile(file, "w") as archive:
        for name in sorted(members):
            member = ZipInfo(name, _NO_TIME)
            member.create_system = 3  # as on Unix, wherever it is written
            member.external_attr = 0o644 << 16
            archive.writestr(member, members[name], ZIP_LZMA if small else ZIP_DEFLATED, 9)
