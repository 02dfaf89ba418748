"""What an atlas knows beside the rows of its run."""

import os
import shutil
from dataclasses import replace
from unittest.mock import MagicMock

import pytest

from ptxbench.catalogue import load
from ptxbench.core.gpu_info import GpuKind
from ptxbench.model.atlas import open_atlas
from ptxbench.model.opcode_energies import Rule
from ptxbench.model.row_energies import isolated_energies, kin_scale
from ptxbench.storage.shipped import SHIPPED
from ptxbench.storage.table import TABLE


def test_a_row_of_its_own_comes_before_what_loops_tell():
    atlas = open_atlas("h200")
    (row,) = (one for one in atlas.rows if one.key[:4] == ("max.s32", "O3", "dynamic", "random"))
    loops = atlas.solved.opcode_energies.random
    found = atlas.opcode_energies
    assert found.energy("VIMNMX", 1.0).rule is Rule.ROW
    assert found.random["VIMNMX"].energy_pj == pytest.approx(row.dynamic_pj, rel=0.01)
    assert found.random["VIMNMX"] != loops["VIMNMX"]
    # No row has a branch whose copies are all executed.
    assert found.random["BRA"] == loops["BRA"]


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_opcodes_of_other_boards_are_no_longer_filled(gpu):
    atlas = open_atlas(gpu)
    row = next(row for row in atlas.rows if row.sass == "SHF.R.W.U32" and row.opt_level == "O3")
    assert "other board" in row.reason
    assert "SHF.R.W.U32" not in atlas.solved.opcode_energies.random
    assert atlas.machine.opcode_energies.energy(row.sass, 1.0).rule is Rule.ROW


def test_a_table_is_opened_without_making_all_rows_of_the_catalogue(monkeypatch):
    whole = MagicMock(side_effect=AssertionError("all rows take 0.15 s"))
    whole.cache_info.return_value.currsize = 0
    monkeypatch.setattr(load, "_catalogue", whole)
    refused = [row for row in open_atlas("h200", lambda _: True).rows if row.status == "not_supported"]
    assert all(row.reason for row in refused)
    assert len(refused) > 100


# An opcode that rows of H200s isolate and those of H100s do not yet.
H200_ALONE = "QGMMA.64x64x32.F32.E4M3.E4M3"


def test_what_a_gpu_lacks_is_that_of_another_with_the_same_machine_code():
    h100, h200 = open_atlas("h100"), open_atlas("h200")
    own, kin = (isolated_energies(one.rows, "random") for one in (h100, h200))
    assert H200_ALONE not in own
    scale = kin_scale(own, kin)
    assert 1 < scale < 1.1
    assert h100.opcode_energies.random[H200_ALONE].energy_pj == pytest.approx(
        scale * kin[H200_ALONE].energy_pj
    )
    # Lanes of an addition were measured on H200s alone, those of FFMA on both.
    shares, other = h100.opcode_energies.warp_shares, h200.opcode_energies.warp_shares
    assert shares["FADD"] == other["FADD"]
    assert shares["FFMA"] == pytest.approx(other["FFMA"], rel=0.2)
    assert shares["FFMA"] != other["FFMA"]
    assert h200.opcode_energies.warp_shares["FADD"] == pytest.approx(0.26, abs=0.03)


def test_a_simulated_gpu_has_its_own_energies_alone():
    atlas = open_atlas("h100")
    gpu = replace(atlas.gpu, kind=GpuKind.SIMULATED)
    simulated = replace(atlas, manifest=replace(atlas.manifest, gpus=(gpu,)))
    assert H200_ALONE not in simulated.opcode_energies.random


def test_a_figure_has_value_interval_boards_run_and_reason():
    atlas = open_atlas("h200")
    row = next(row for row in atlas.rows if row.key == ("ld.global.cg.v4.b32:l2", "O3", "dynamic", "random"))
    figure = atlas.unit_energy("l2")
    assert figure is not None
    assert figure.value_pj == pytest.approx(row.dynamic_pj / 16)
    assert figure.ci95_pj == pytest.approx(row.dynamic_ci95_pj / 16)
    assert (figure.boards, figure.run, figure.reason) == (3, "table-6eda", row.reason)
    assert atlas.unit_energy("l2", "uniform") is None
    assert atlas.unit_energy("l9") is None


def test_other_terms_take_nothing_else_along():
    atlas = open_atlas("h200")
    kept = atlas.terms.opcode_share
    other = atlas.with_terms(replace(atlas.terms, opcode_share=0.5))
    own_pj, other_pj = (one.machine.opcode_energies.random["POPC"].energy_pj for one in (atlas, other))
    assert own_pj < other_pj
    assert atlas.terms.opcode_share == kept
    assert other.rows == atlas.rows


def test_a_table_is_opened_again_once_a_file_of_it_changed(tmp_path):
    for name in (TABLE, "manifest.json"):
        shutil.copy(SHIPPED["h200"] / name, tmp_path)
    # An editor's lock is a link that leads nowhere.
    (tmp_path / ".#lock").symlink_to("nowhere")
    first = open_atlas(tmp_path)
    assert open_atlas(tmp_path) is first
    os.utime(tmp_path / TABLE, ns=(0, 0))
    assert open_atlas(tmp_path) is not first
