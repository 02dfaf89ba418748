"""What addresses move in a pointer chase: the comparison, round by round, and what the documentation says."""

import json
from pathlib import Path

import numpy as np
import pytest
from fakes.script import load_script

ROOT = Path(__file__).parents[2]


@pytest.fixture
def address_bits(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies/h200"))
    return load_script("studies/h200/address_bits.py")


def test_places_are_compared_round_by_round(address_bits):
    places = len(address_bits.PLACES)
    # Each round is at another level, which all places share; the last one takes 1% more.
    level = np.array([1.0, 1.01, 0.99, 1.02])
    power_w = 300.0 * level[:, None] * np.array([1.0] * (places - 1) + [1.01])
    *same, last = address_bits.differences(power_w, np.full_like(power_w, 0.5), 10**9)
    assert all(one.power_percent.mean == pytest.approx(0.0) for one in same)
    assert last.power_percent.mean == pytest.approx(1.0)
    assert last.power_percent.ci95 == pytest.approx(0.0, abs=1e-9)
    assert last.load_pj.mean == pytest.approx(3.0 * level.mean() * 0.5 * 1e12 / 1e9)


def test_fewer_than_two_rounds_are_refused(address_bits, monkeypatch):
    monkeypatch.setattr("sys.argv", ["address_bits.py", "--rounds", "1"])
    with pytest.raises(address_bits.InputError, match="--rounds 1 must be at least 2"):
        address_bits.main()


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_the_documentation_says_what_was_measured(address_bits, level):
    found = json.loads((ROOT / "results/nvidia-h200/address-bits" / f"{level}.json").read_text())
    assert [one["place"] for one in found["differences"]] == list(address_bits.PLACES)
    power_w, elapsed_s = (np.array(found[name]) for name in ("power_w", "elapsed_s"))
    again = address_bits.differences(power_w, elapsed_s, 1)
    text = (ROOT / "studies/h200/power.md").read_text()
    for one in again[1:]:
        shown = f"{one.power_percent.mean:+.2f} ± {one.power_percent.ci95:.2f}%"
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `0x{one.place:012x}` ")]
        assert shown in line
