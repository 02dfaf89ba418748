"""Files that take the place of others, in folders that others may write as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptxbench.core.new_file import file_in_place_of

LEFT = ".ptxbench-0123456789abcdef.tmp"
HOLD = (
    "import sys; from pathlib import Path; from ptxbench.core.new_file import file_in_place_of\n"
    "with file_in_place_of(Path(sys.argv[1])) as file:\n"
    "    print(flush=True)\n"
    "    sys.stdin.read()\n"
    "    file.write(b'other')\n"
)


def write(path, data=b"new"):
    with file_in_place_of(path) as file:
        file.write(data)


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / LEFT).write_bytes(b"half")
    write(tmp_path / "a")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_folder_is_searched_once_however_many_files_are_written(tmp_path, monkeypatch):
    searched = []
    monkeypatch.setattr(Path, "glob", lambda folder, _: searched.append(folder) or iter(()))
    for name in "abc":
        write(tmp_path / name)
    assert searched == [tmp_path]


def test_a_file_that_another_process_is_writing_stays(tmp_path):
    path = tmp_path / "a"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        write(path)
        assert path.read_bytes() == b"new"
        other.communicate()
    assert other.returncode == 0
    assert path.read_bytes() == b"other"


@pytest.mark.hostile
def test_a_name_that_somebody_guessed_is_not_written(tmp_path, monkeypatch):
    names = iter(["0123456789abcdef", "ffffffffffffffff"])
    monkeypatch.setattr("ptxbench.core.new_file.secrets.token_hex", lambda _: next(names))
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / LEFT).symlink_to(tmp_path / "theirs")
    with pytest.raises(FileExistsError):
        write(tmp_path / "a")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


@pytest.mark.hostile
def test_no_two_names_are_alike_and_the_umask_counts(tmp_path):
    before = os.umask(0o027)
    try:
        with file_in_place_of(tmp_path / "a"), file_in_place_of(tmp_path / "b"):
            names = [p.name for p in tmp_path.iterdir()]
            assert len(names) == len(set(names)) == 2
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)
