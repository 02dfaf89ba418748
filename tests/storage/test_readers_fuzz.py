"""Readers of files that others may have written, fed damaged ones: they read them, or refuse in one line."""

import pytest
from fakes.reader_fuzz import READERS, damaged, outcome, prepared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.hostile

# Each example has a hundred damages: what hypothesis does around an example takes longer than to read a file.
_DAMAGES = 10


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_undamaged_file_is_read(tmp_path, reader):
    assert outcome(reader, tmp_path / "folder", prepared(reader, tmp_path / "folder")) == "read"


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
