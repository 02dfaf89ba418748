"""A text that others wrote, decoded and read in pieces."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.storage.file_errors import opened

# Bytes that are read at a time, and by which a file is known.
_BLOCK = 1 << 20
_HEAD = 4096
_GZIP = b"\x1f\x8b"
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# Bytes of text in UTF-16 without a mark: every other one is zero.
_SHOWN = 200


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Read what is no UTF-8 as Windows writes it, where the degree and micro signs of instruments are."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", errors="replace"), error.end


codecs.register_error("ptxbench.windows", _as_windows)


@dataclass(frozen=True)
class TextFile:
    """A file of text in UTF-8, UTF-16 or Windows' Latin letters, also gzip, read as often as wanted.

    Attributes:
        path: Its name.
        max_line: Longest line, characters.
        max_bytes: Most bytes, unpacked; None for no limit.
    """

    path: Path
    max_line: int
    max_bytes: int | None = None

    @cached_property
    def head(self) -> bytes:
        """The first bytes, unpacked.

        Raises:
            InputError: The file cannot be read.
        """
        return next(self.blocks(), b"")[:_HEAD]

    @cached_property
    def opening(self) -> str:
        """The text of the first bytes."""
        return codecs.getincrementaldecoder(self._encoding)("ptxbench.windows").decode(self.head)

    @property
    def is_text(self) -> bool:
        """Whether its first bytes are text."""
        return "\x00" not in self.opening

    def blocks(self) -> Iterator[bytes]:
        """Yield the unpacked bytes in blocks.

        Raises:
            InputError: The file cannot be read, its gzip stream is damaged, or it is too large.
        """
        size = 0
        try:
            with opened(self.path, "name a file of readings or counts") as file:
                packed = file.read(len(_GZIP)) == _GZIP
                file.seek(0)
                stream = gzip.GzipFile(fileobj=file) if packed else file
                # No more than the limit is ever unpacked, however small the file is.
                while block := stream.read(_BLOCK):
                    size += len(block)
                    if self.max_bytes is not None and size > self.max_bytes:
                        verb = "unpacks to" if packed else "holds"
                        raise InputError(
                            f"{self.path} {verb} more than {self.max_bytes >> 20} MiB;"
                            " cut it to the time of the kernels"
                        )
                    yield block
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise InputError(f"{self.path} cannot be read: {error}") from error

    def lines(self) -> Iterator[list[str]]:
        """Yield the lines in pieces, without their ends.

        Raises:
            InputError: As `blocks`, or a line is too long.
        """
        decoder = io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder(self._encoding)("ptxbench.windows"), translate=True
        )
        rest = ""
        for block in self.blocks():
            *lines, rest = (rest + decoder.decode(block)).split("\n")
            if max(map(len, (*lines, rest))) > self.max_line:
                raise InputError(
                    f"{self.path} has lines of more than {self.max_line} characters:"
                    " it is no such table of text"
                )
            yield lines
        yield (rest + decoder.decode(b"", final=True)).split("\n")

    @cached_property
    def _encoding(self) -> str:
        marked = next((name for mark, name in _MARKS.items() if self.head.startswith(mark)), None)
        if marked is not None:
            return marked
        even, odd = self.head[:_SHOWN:2], self.head[1:_SHOWN:2]
        if even and odd and not any(odd) and all(even):
            return "utf-16-le"
        return "utf-16-be" if even and odd and not any(even) and all(odd) else "utf-8"
