import os

import pytest
from fakes import run as fake

from ptxbench.core.errors import InputError
from ptxbench.storage import journal
from ptxbench.storage.codec import encode
from ptxbench.storage.journal import Journal

pytestmark = pytest.mark.hostile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records.jsonl"


def values(path):
    return [value for _, value in journal.read(path)]


def append(path, *numbers):
    writer = Journal(path, create=True)
    for number in numbers:
        writer.append(fake.record(number))
    writer.close()


def records(*numbers):
    return [encode(fake.record(n)) for n in numbers]


def test_lines_come_back_in_order_over_two_writers(path):
    append(path, 0, 1)
    append(path, 2)
    assert values(path) == records(0, 1, 2)


def test_nan_is_null_so_that_any_json_reader_takes_the_line(path):
    append(path, 0)
    assert b"NaN" not in path.read_bytes()
    assert values(path)[0]["papi_j"] is None


def test_torn_line_loses_only_itself(path):
    append(path, 0, 1)
    begin_of_last = path.stat().st_size
    append(path, 3)
    whole = path.read_bytes()
    for size in (*range(begin_of_last, len(whole), 23), begin_of_last + 1, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert values(path) == records(0, 1)
        append(path, 2)  # the next line must not join the torn one
        assert values(path) == records(0, 1, 2)


def test_damage_before_the_last_line_is_an_error_that_names_the_line(path):
    append(path, 0)
    path.write_bytes(b'{"a": 1\n' + path.read_bytes())
    with pytest.raises(InputError, match=r"records.jsonl: line 1 is not JSON") as error:
        values(path)
    assert "\n" not in str(error.value)


def test_second_writer_is_refused_until_the_first_closes(path):
    first = Journal(path, create=True)
    with pytest.raises(InputError, match="is being written by another process"):
        Journal(path, create=False)
    first.close()
    Journal(path, create=False).close()


def test_missing_file_is_made_only_on_demand(path):
    with pytest.raises(InputError, match="cannot write"):
        Journal(path, create=False)


def test_full_disk_leaves_the_journal_as_it_was(path, monkeypatch):
    writer = Journal(path, create=True)
    writer.append(fake.record(0))
    before = path.read_bytes()

    def write_some(descriptor, data):
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:100])

    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_some)
        with pytest.raises(InputError, match="No space left on device; free some space"):
            writer.append(fake.record(1))
    assert path.read_bytes() == before
    writer.append(fake.record(2))
    writer.close()
    assert values(path) == records(0, 2)
