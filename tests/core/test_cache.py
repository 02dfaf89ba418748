"""What a cache believes, and what it passes over."""

import os

import pytest
from fakes.no_files import not_hanging

from ptxbench.core.cache import Cache, base_folder

pytestmark = pytest.mark.hostile


@pytest.fixture
def kept(tmp_path):
    """A cache folder that holds a file."""
    folder = tmp_path / "user" / "cache"
    Cache("kind", folder).put("ab/name", b"data")
    return folder / "ptxbench" / "kind" / "ab" / "name"


def get(kept):
    return Cache("kind", kept.parents[3]).get("ab/name")


def test_a_file_is_kept_and_nobody_else_reads_or_writes_it(kept):
    assert get(kept) == b"data"
    for one in (kept, *kept.parents[:4]):
        assert one.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("depth", range(6), ids=["file", "prefix", "kind", "ptxbench", "cache", "above"])
@pytest.mark.parametrize("bit", [0o020, 0o002])
def test_what_others_may_write_is_passed_over_with_one_line(kept, caplog, depth, bit):
    opened = (kept, *kept.parents)[depth]
    opened.chmod(opened.stat().st_mode | bit)
    cache = Cache("kind", kept.parents[3])
    assert cache.get("ab/name") is None
    assert cache.path("ab/name") is None
    assert len(caplog.records) == 1
    assert f"others may write {opened}" in caplog.text
    assert Cache("kind", kept.parents[3], quiet=True).get("ab/name") is None
    assert len(caplog.records) == 1, "a cache that saves a moment is passed over in silence"


@pytest.mark.parametrize("depth", range(5))
def test_what_another_user_owns_is_passed_over(kept, caplog, monkeypatch, depth):
    theirs, lstat = (kept, *kept.parents)[depth], type(kept).lstat

    def owned(path):
        found = list(lstat(path))
        found[4] += path == theirs
        return os.stat_result(found)

    monkeypatch.setattr(type(kept), "lstat", owned)
    assert get(kept) is None
    assert f"{theirs} belongs to another user" in caplog.text


def test_a_link_below_the_cache_is_passed_over(kept, tmp_path, caplog):
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert get(kept) is None
    assert "is a link" in caplog.text


def test_nothing_is_written_where_others_write(kept):
    kept.parents[1].chmod(0o777)
    kept.unlink()
    Cache("kind", kept.parents[3]).put("ab/name", b"data")
    assert not kept.exists()


def test_a_file_of_others_is_replaced(kept):
    kept.chmod(0o666)
    Cache("kind", kept.parents[3]).put("ab/name", b"mine")
    assert get(kept) == b"mine"


def test_the_cache_folder_itself_may_be_a_link_of_the_user(kept, tmp_path):
    (tmp_path / "link").symlink_to(kept.parents[3])
    assert Cache("kind", tmp_path / "link").get("ab/name") == b"data"


def test_a_folder_above_where_nobody_renames_what_is_anothers_does_no_harm(kept):
    kept.parents[4].chmod(0o1777)
    assert get(kept) == b"data"


def test_a_pipe_in_the_cache_is_not_waited_for(kept):
    kept.unlink()
    os.mkfifo(kept, 0o600)
    with not_hanging():
        assert get(kept) is None


@pytest.mark.parametrize("name", ["with a space", "with:colon", "with\nline"])
def test_any_path_will_do(tmp_path, name):
    cache = Cache("kind", tmp_path / name)
    cache.put("x", b"data")
    assert cache.get("x") == b"data"


def test_a_relative_folder_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    Cache("kind").put("x", b"data")
    assert [p.name for p in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home" / ".cache" / "ptxbench" / "kind" / "x").exists()


@pytest.mark.parametrize("value", ["", "relative", "./relative", "~/x"])
def test_a_base_folder_is_absolute(monkeypatch, tmp_path, value):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", value)
    assert base_folder("XDG_STATE_HOME", ".local/state") == tmp_path / ".local" / "state"
    monkeypatch.setenv("XDG_STATE_HOME", "/absolute")
    assert base_folder("XDG_STATE_HOME", ".local/state").as_posix() == "/absolute"
