"""Loop counts are worked out once for the same listing."""

import pytest
from fakes.modules import built

from ptxbench.sass import loop_counts as counting
from ptxbench.sass.loop_counts import loop_counts


@pytest.fixture(autouse=True)
def kept_in(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def parsed(monkeypatch):
    texts = []
    plain = counting.parse_listing
    monkeypatch.setattr(counting, "parse_listing", lambda text: (texts.append(text), plain(text))[1])
    return texts


def test_counts_are_those_of_the_loop_and_are_read_back(parsed):
    module = built("fma.rn.f32")
    first = loop_counts(module.listing)
    assert dict(first["target"])["FFMA"] == module.instruction.copies
    assert loop_counts(module.listing) == first
    assert parsed == [module.listing]


@pytest.mark.parametrize("damage", [b"", b"[1]", b'{"target": [["FFMA"]]}', b"\xff"])
def test_damaged_counts_are_worked_out_again(kept_in, parsed, damage):
    listing = built("fma.rn.f32").listing
    first = loop_counts(listing)
    (kept,) = (path for path in kept_in.rglob("*") if path.is_file())
    kept.write_bytes(damage)
    assert loop_counts(listing) == first
    assert loop_counts(listing) == first
    assert len(parsed) == 2


def test_another_listing_has_counts_of_its_own_and_a_kernel_without_a_loop_none():
    listing = built("fma.rn.f32").listing
    first = loop_counts(listing)
    assert (
        dict(loop_counts(listing.replace("FFMA", "FADD"))["target"])["FADD"] == dict(first["target"])["FFMA"]
    )
    assert loop_counts(listing.replace(" BRA ", " NOP ")) == {}
