import errno

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.full_disk import fill_disk

from ptxbench.core.errors import InputError
from ptxbench.storage.atomic import durable, replacing, write_bytes, write_note, write_parquet, write_text
from ptxbench.storage.file_errors import read_bytes
from ptxbench.storage.journal import Journal


def write_half_durably(path, data):
    with durable(path) as file:
        file.write(data)


def write_note_bytes(path, data):
    write_note(path, data.decode())


def test_text_keeps_its_characters_and_line_ends(tmp_path):
    write_text(tmp_path / "a", "é\r\nx\n")
    assert (tmp_path / "a").read_bytes() == "é\r\nx\n".encode()


def test_parquet_round_trip(tmp_path):
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    write_parquet(tmp_path / "a.parquet", table)
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


def test_file_is_the_old_one_until_the_block_ends(tmp_path):
    path = tmp_path / "a"
    write_bytes(path, b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def write_half(path):
    with replacing(path) as file:
        file.write(b"half of the n")
        file.flush()
        raise ZeroDivisionError


def test_failed_write_keeps_the_old_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "a"
    write_bytes(path, b"old")
    with pytest.raises(ZeroDivisionError):
        write_half(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_is_one_line_with_path_and_cure(tmp_path, monkeypatch):
    path = tmp_path / "a"
    fill_disk(monkeypatch, "a")
    with pytest.raises(InputError) as error, durable(path) as file:
        file.write(b"x")
    assert (
        str(error.value) == f"cannot write {path}: No space left on device; "
        "free some space, then repeat the command (a run goes on with `resume`)"
    )


@pytest.mark.hostile
@pytest.mark.parametrize("write", [write_bytes, write_half_durably, write_note_bytes])
def test_what_a_link_in_a_shared_folder_names_is_not_written(tmp_path, write):
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / "a").symlink_to(tmp_path / "theirs")
    write(tmp_path / "a", b"new")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    assert (tmp_path / "a").read_bytes() == b"new"
    assert not (tmp_path / "a").is_symlink()


@pytest.mark.hostile
def test_a_journal_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "theirs").write_bytes(b"")
    (tmp_path / "a").symlink_to(tmp_path / "theirs")
    with pytest.raises(InputError, match="cannot write"):
        Journal(tmp_path / "a", create=True)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_forbidden_folder_is_one_line_with_path_and_cure(tmp_path, monkeypatch, code):
    def refuse(*args, **kwargs):
        raise OSError(code, "no")

    monkeypatch.setattr("ptxbench.core.new_file.os.open", refuse)
    with pytest.raises(InputError) as error:
        write_bytes(tmp_path / "a", b"")
    assert str(error.value) == f"cannot write {tmp_path / 'a'}: no; choose a folder that you may write"


@pytest.mark.parametrize("use", [read_bytes, lambda path: write_text(path, "")])
def test_a_name_that_no_file_can_have_is_one_line(tmp_path, use):
    with pytest.raises(InputError, match="holds a NUL character"):
        use(tmp_path / "a\0b")


def test_path_below_a_file_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*/file/a: Not a directory; choose another folder"):
        write_bytes(tmp_path / "file" / "a", b"")
