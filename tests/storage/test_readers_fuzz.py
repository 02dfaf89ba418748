"""Readers of files that others may have written, fed damaged ones: they read them, or refuse in one line."""

import pytest
from fakes.no_files import MAKERS, not_hanging
from fakes.reader_fuzz import READERS, damaged, outcome, prepared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptxbench.core.errors import PtxbenchError

pytestmark = pytest.mark.hostile

# Each example has a hundred damages: what hypothesis does around an example takes longer than to read a file.
_DAMAGES = 10
# The launches of a program lie in a folder of ptxbench's own.
_OF_USERS = [reader for reader in READERS if reader.name != "launches of a program"]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_undamaged_file_is_read(tmp_path, reader):
    assert outcome(reader, tmp_path / "folder", prepared(reader, tmp_path / "folder")) == "read"


@pytest.mark.parametrize("reader", _OF_USERS, ids=lambda reader: reader.name)
@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_no_file_is_refused_in_one_line(tmp_path, reader, kind):
    folder = tmp_path / "folder"
    prepared(reader, folder)
    path = folder / reader.file
    path.unlink(missing_ok=True)
    MAKERS[kind](path)
    with not_hanging(), pytest.raises(PtxbenchError) as refused:
        reader.read(folder)
    assert str(path) in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@settings(
    max_examples=max(1, settings.default.max_examples // 100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(random=st.randoms(use_true_random=True))
def test_damaged_file_is_read_or_refused_in_one_line(tmp_path_factory, reader, random):
    folder = tmp_path_factory.mktemp("fuzz") / "folder"
    data = prepared(reader, folder)
    for _ in range(_DAMAGES):
        assert outcome(reader, folder, damaged(data, random)) in ("read", "refused")
