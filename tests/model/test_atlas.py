"""What an atlas knows beside the rows of its run."""

from dataclasses import replace

import pytest

from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.model.atlas import open_atlas
from ptxbench.model.opcode_energies import Known, OpcodeEnergies, Rule
from ptxbench.model.opcodes import opcode_class
from ptxbench.model.zeros import MEMORY

SOLVED = {"FFMA": Known(10.0, 0.1), "FADD": Known(8.0, 0.1), "FMUL": Known(9.0, 0.1)}
DOT = "IDP.4A"
ROWS = {"FFMA": Known(11.0, 0.1), "FADD": Known(8.4, 0.1), "FMUL": Known(9.9, 0.1), DOT: Known(30.0, 0.3)}


def test_an_opcode_that_only_a_row_tells_has_the_row_s_energy():
    found = OpcodeEnergies(SOLVED, {}).with_rows(ROWS, {DOT: Known(12.0, 0.2)})
    one = found.energy(DOT, 1.0)
    assert (one.energy_pj, one.rule, one.source) == (30.0, Rule.ROW, "")
    # Rows are off from the solve by 10, 5 and 10%.
    assert one.error_pj == pytest.approx(3.0, rel=0.02)
    assert found.energy(DOT, 0.0).energy_pj == 12.0
    assert found.energy("FFMA", 1.0).energy_pj == 10.0


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_what_the_run_itself_tells_is_as_without_rows_of_other_boards(gpu):
    atlas = open_atlas(gpu)
    before = atlas.opcode_energies.drawn(atlas.terms.opcode_share)
    after = atlas.machine.opcode_energies
    assert len(after.random) > 1.2 * len(before.random)
    # Those that neither knows have the same stand-ins.
    for opcode in [*before.random, "NOT.KNOWN", "FFMA.XX", "UFOO"]:
        for activity in (0.0, 1.0):
            assert after.energy(opcode, activity) == before.energy(opcode, activity), opcode


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_opcodes_of_other_boards_are_no_longer_filled(gpu):
    atlas = open_atlas(gpu)
    row = next(row for row in atlas.rows if row.sass == "SHF.R.W.U32" and row.opt_level == "O3")
    assert "other board" in row.reason
    assert "SHF.R.W.U32" not in atlas.opcode_energies.random
    assert atlas._opcode_rows("random")[row.sass] == Known(
        row.dynamic_pj, row.dynamic_ci95_pj / COVERAGE_FACTOR
    )
    assert atlas.machine.opcode_energies.energy(row.sass, 1.0).rule is Rule.ROW


def test_rows_of_memory_and_of_unlike_clocks_are_not_added_up_in_estimates():
    atlas = open_atlas("h100")
    found = atlas._opcode_rows("random")
    assert not [opcode for opcode in found if opcode_class(opcode) in MEMORY]
    odd = {row.sass for row in atlas.rows if "its overhead loop at" in row.reason}
    assert "HMMA.16816.F32" in odd
    assert "HMMA.16816.F32" not in found


def test_an_imprecise_row_prices_an_opcode_that_has_no_other():
    atlas = open_atlas("h200")
    (good,) = (row for row in atlas.rows if row.key[:4] == ("fma.rn.f32", "O3", "dynamic", "random"))
    poor = replace(good, instruction="mad.rn.f32", dynamic_pj=99.0, status=Status.IMPRECISE)
    alone = replace(poor, instruction="other", sass="OTHER")
    found = replace(atlas, rows=(good, poor, alone))._opcode_rows("random")
    assert {opcode: known.energy_pj for opcode, known in found.items()} == {
        "FFMA": good.dynamic_pj,
        "OTHER": 99.0,
    }


def test_a_figure_has_value_interval_boards_run_and_reason():
    atlas = open_atlas("h200")
    row = next(row for row in atlas.rows if row.key == ("ld.global.cg.v4.b32:l2", "O3", "dynamic", "random"))
    figure = atlas.unit_energy("l2")
    assert figure is not None
    assert figure.value_pj == pytest.approx(row.dynamic_pj / 16)
    assert figure.ci95_pj == pytest.approx(row.dynamic_ci95_pj / 16)
    assert (figure.boards, figure.run, figure.reason) == (2, "table-6eda", row.reason)
    assert atlas.unit_energy("l2", "zeros") is None
    assert atlas.unit_energy("l9") is None


def test_other_terms_take_nothing_else_along():
    atlas = open_atlas("h200")
    other = atlas.with_terms(replace(atlas.terms, opcode_share=1.0))
    assert other.machine.opcode_energies.energy("FFMA", 1.0).energy_pj == pytest.approx(
        atlas.opcode_energies.energy("FFMA", 1.0).energy_pj
    )
    assert atlas.terms.opcode_share == 0.75
    assert other.rows == atlas.rows
