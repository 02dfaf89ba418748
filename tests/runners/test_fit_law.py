"""The law of operands from kept runs: loops of a row, the cycles of its copies, and the page's tables."""

from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.core.condition import Pattern
from ptxbench.storage.schema import Role

RESULTS = Path(__file__).parents[2] / "results"
H200 = [RESULTS / "nvidia-h200" / name for name in ("law-32c2", "law-439f")]
fit_law = load_script("runners/fit_law.py")
LoopBits = fit_law.LoopBits


@pytest.fixture(scope="module")
def boards():
    return [fit_law.read_board(folder) for folder in H200]


def test_cycles_of_a_copy_are_those_of_the_run_that_has_its_records():
    cycles = fit_law.cycles_of(H200)
    # Warps of an SM share its four parts, and 132 SMs the GPU.
    assert cycles["fma.rn.f32"] * 4 * 132 == pytest.approx(1.5, rel=0.02)
    assert fit_law.cycles_of(H200[:1]) == {}


def test_a_row_of_two_loops_gives_both_and_leaves_out_what_is_refused_since(boards, monkeypatch):
    monkeypatch.setattr(fit_law, "bits_of", lambda *_: LoopBits(1.0, 1.0, 1.0, 1.0))
    points = fit_law.points_of(boards[0], "popc.b32", {"popc.b32": 0.0152})
    patterns = 4 + 4  # Moving and still ones; no moving halves that differ in a few bits.
    assert len(points) == 2 * patterns
    assert all(0 < one.zeros_pj < one.energy_pj for one in points)
    assert fit_law.points_of(boards[0], "popc.b32", {}) == []


def test_what_stands_still_in_a_mixed_loop_changes_places_and_registers():
    mixed, alone = (
        fit_law.bits_of("xor.b32", Pattern.STILL_HALVES, role) for role in (Role.TARGET, Role.OVERHEAD)
    )
    assert mixed.flips > 900 > 50 > alone.flips
    assert mixed.ports > 1000 > 100 > alone.ports
    assert mixed.halves < 5


def test_tables_have_a_row_for_what_was_measured_alone(boards):
    assert "| POPC |" in fit_law.fewer_table(boards[0])
    assert "| FFMA | random | 529 | 326 | 423 |" in fit_law.lanes_table(boards[1])
    assert fit_law.lanes_table(boards[0]) == ""
    measured = [(one, {}) for one in boards]
    assert "| H200 8e53 | 780 |" in fit_law.operands_table(measured, fit_law.TENSOR_ROW, ("zeros",))
    assert "| H200 5354 | 917 |" in fit_law.operands_table(measured, "st.shared.b32", ("halves",))
