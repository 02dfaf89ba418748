"""Texts of others: their encodings, and what is read of them at once."""

import gzip
import os

import pytest

from ptxbench.core.errors import InputError
from ptxbench.storage.text_file import TextFile

TEXT = "Größe,µV,\u2019\r\n1,2,3\n"


def lines(file):
    return [line for piece in file.lines() for line in piece]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_each_encoding_is_told(tmp_path, encoding, packed):
    data = TEXT.encode(encoding)
    (tmp_path / "t").write_bytes(gzip.compress(data) if packed else data)
    file = TextFile(tmp_path / "t", 100)
    assert lines(file) == lines(file) == ["Größe,µV,\u2019", "1,2,3", ""]
    assert file.opening == TEXT
    assert file.is_text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_its_mark_is_told_by_its_zeros(tmp_path, encoding):
    (tmp_path / "t").write_bytes("a,b\n1,2\n".encode(encoding))
    assert lines(TextFile(tmp_path / "t", 100)) == ["a,b", "1,2", ""]


def test_lines_end_at_line_ends_alone_and_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("ptxbench.storage.text_file._BLOCK", 3)
    (tmp_path / "t").write_bytes("kérnel\u2028name\r\nb\rc".encode())
    assert lines(TextFile(tmp_path / "t", 100)) == ["kérnel\u2028name", "b", "c"]


def test_line_without_end_is_refused_before_all_of_it_is_read(tmp_path):
    (tmp_path / "t").write_bytes(b"1" * (3 << 20))
    file = TextFile(tmp_path / "t", 1000)
    with pytest.raises(InputError, match="lines of more than 1000 characters"):
        next(file.lines())


def test_pipe_is_refused_in_place_of_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="it is a pipe; name a regular file"):
        lines(TextFile(tmp_path / "pipe", 100))
    with pytest.raises(InputError, match="Is a directory; name a file of readings or counts"):
        lines(TextFile(tmp_path, 100))
