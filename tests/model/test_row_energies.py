"""Energies of opcodes by the rows of a table."""

from dataclasses import replace

import pytest

from ptxbench.core.status import Status
from ptxbench.model.atlas import open_atlas
from ptxbench.model.row_energies import (
    isolated_energies,
    kin_scale,
    row_energies,
    warp_shares,
)
from ptxbench.storage.schema import TableRow

FMA = next(row for row in open_atlas("h200").rows if row.key == ("fma.rn.f32", "O3", "dynamic", "random"))


def row(sass: str, energy_pj: float, name: str = "", **others: object) -> TableRow:
    copies = sum(float(word.partition("*")[2] or 1) for word in sass.split())
    made = replace(
        FMA, instruction=name or sass.lower(), sass=sass, sass_per_ptx=copies, dynamic_pj=energy_pj
    )
    return replace(made, dynamic_ci95_pj=0.01 * energy_pj, **others)  # type: ignore[arg-type]


def test_an_opcode_has_the_median_of_the_rows_that_isolate_it():
    found = isolated_energies(
        [row("LOP3.LUT", pj, name) for pj, name in ((14.0, "and.b32"), (15.0, "or.b32"), (9.0, "not.b16"))],
        "random",
    )
    assert found["LOP3.LUT"].energy_pj == 14.0
    assert found["LOP3.LUT"].error_pj == 3.0


def test_rows_that_are_no_plain_copy_at_one_clock_do_not_count():
    rows = [
        row("IMAD", 1.7, "mad.lo.u32:off"),
        row("FFMA", 10.0, "fma.rn.f32:shared"),
        row("DADD", 20.0, opt_level="O0"),
        row("DMUL", 20.0, operands="zeros"),
        row("MUFU.EX2", 20.0, lanes=16),
        row("HADD2", 20.0, reason="the target ran at 1700 MHz, its overhead loop at 1980"),
        row("LDG.E", 20.0),
        row("IADD3*2", 20.0),
        row("SHF.L.U32", 20.0, status=Status.NOT_LINEAR),
    ]
    assert isolated_energies(rows, "random") == {}


def test_an_imprecise_row_counts_where_an_opcode_has_no_other():
    poor = {"status": Status.IMPRECISE}
    rows = [row("FFMA", 14.0), row("FFMA", 99.0, "mad.rn.f32", **poor), row("FADD", 11.0, **poor)]
    found = isolated_energies(rows, "random")
    assert {opcode: known.energy_pj for opcode, known in found.items()} == {"FFMA": 14.0, "FADD": 11.0}


def test_opcodes_that_run_with_others_have_what_is_left():
    rows = [
        row("IADD3", 15.0),
        row("IMAD", 16.0),
        row("IADD3*0.5 IMAD.IADD*0.5", 13.5),
        row("IMAD IMAD.X", 30.0),
        # A branch jumps over what stands in its row.
        row("IMAD*16 BRA", 26.0),
    ]
    found = row_energies(rows)
    assert set(found.isolated) == {"IADD3", "IMAD"}
    assert found.together["IMAD.IADD"].energy_pj == pytest.approx(12.0, rel=0.1)
    assert found.together["IMAD.X"].energy_pj == pytest.approx(14.0, rel=0.1)
    assert "BRA" not in found.together


def test_rows_of_another_gpu_are_taken_at_the_ratio_of_what_both_have():
    own = [row("FFMA", 14.0), row("IADD3", 15.0)]
    other = [
        row("FFMA", 28.0),
        row("IADD3", 30.0),
        row("IMAD", 32.0),
        row("IMAD LEA.HI", 52.0),
        row("IMAD", 10.0, "mad.lo.u32", operands="zeros"),
    ]
    assert kin_scale(isolated_energies(own, "random"), isolated_energies(other, "random")) == 0.5
    found = row_energies(own, [other])
    assert found.isolated["IMAD"].energy_pj == 16.0
    assert found.isolated["FFMA"].energy_pj == 14.0
    assert found.together["LEA.HI"].energy_pj == pytest.approx(10.0, rel=0.2)
    assert found.zeros["IMAD"].energy_pj == 5.0
    assert row_energies(own, [[row("DADD", 30.0)]]).isolated.keys() == {"FFMA", "IADD3"}


def test_a_warp_has_a_part_that_does_not_depend_on_its_lanes():
    # A quarter whatever the lanes do: the energy a lane of 16 and of one.
    by_lanes = {32: 16.0, 16: 16.0 * (0.25 * 2 + 0.75), 1: 16.0 * (0.25 * 32 + 0.75)}
    rows = [row("IADD3", pj, "add.u32", lanes=lanes) for lanes, pj in by_lanes.items()]
    assert warp_shares(rows) == {"IADD3": pytest.approx(0.25)}
    both = [replace(one, sass="HFMA2*0.5 HFMA2.MMA*0.5") for one in rows]
    assert warp_shares(both) == {"HFMA2": pytest.approx(0.25), "HFMA2.MMA": pytest.approx(0.25)}
    assert warp_shares(rows[:1]) == {}
