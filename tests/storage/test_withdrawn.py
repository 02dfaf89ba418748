"""Rows that are known to be wrong give no energy."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fakes import run as fake

from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.model.atlas import open_atlas
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.table import read_table
from ptxbench.storage.withdrawn import without_withdrawn

RESULTS = Path(__file__).parents[2] / "results" / "nvidia-h200"


def test_operands_that_stood_still_give_no_energy():
    names = {row.instruction for row in read_table(RESULTS / "operands-moving" / "table.csv")}
    assert len(names) == 49
    still = open_atlas(RESULTS / "operands-still")
    assert {row.status for row in still.rows} == {Status.WITHDRAWN, Status.NOT_SUPPORTED}
    assert all(math.isnan(row.dynamic_pj) for row in still.rows)
    moving = open_atlas(RESULTS / "operands-moving")
    assert sum(row.status is Status.OK for row in moving.rows) == 87
    older = {
        row.instruction for row in open_atlas(RESULTS / "table-021e").rows if row.status is Status.WITHDRAWN
    }
    assert older
    assert older < names


def test_the_shipped_table_has_them_from_boards_with_moving_operands():
    moving = {row.key: row for row in open_atlas(RESULTS / "operands-moving").rows}
    manifest = read_run_manifest(RESULTS / "table-6eda")
    rows = read_table(RESULTS / "table-6eda" / "table.csv")
    wrong = {row.key for row in without_withdrawn(rows, manifest) if row.status is Status.WITHDRAWN}
    assert len(wrong) == 12
    shipped = {row.key: row for row in open_atlas("h200").rows}
    for key in wrong:
        assert shipped[key].status is Status.OK
        assert "other board" in shipped[key].reason
        assert shipped[key].dynamic_pj == pytest.approx(moving[key].dynamic_pj, rel=0.06)


def test_eight_warps_at_o0_give_no_energy_and_other_rows_stay():
    rows = read_table(RESULTS / "full" / "table.csv")
    judged = open_atlas(RESULTS / "full").rows
    kept = {level: [] for level in ("O0", "O3")}
    for row, was in zip(judged, rows, strict=True):
        if was.status is Status.OK and row.status is Status.OK:
            kept[str(row.opt_level)].append(row)
            assert row.dynamic_pj == was.dynamic_pj
    assert kept["O0"] == []
    assert len(kept["O3"]) > 250


def test_a_run_of_today_and_a_simulated_one_keep_all_rows():
    manifest = replace(fake.manifest(), created=datetime(2026, 11, 24, tzinfo=UTC))
    rows = [fake.row("clz.b32")]
    assert without_withdrawn(rows, manifest) == tuple(rows)
    simulated = replace(manifest, gpus=(replace(fake.GPU, kind=GpuKind.SIMULATED),), created=None)
    assert without_withdrawn(rows, simulated) == tuple(rows)
