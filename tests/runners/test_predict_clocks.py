"""Predicted clocks of the kernels that were measured on an H200."""

from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.model.atlas import open_atlas
from ptxbench.storage.shipped import find_table

SESSION = Path(__file__).parents[2] / "results" / "nvidia-h200" / "validation"


def test_the_kept_kernels_get_clocks_within_those_that_were_seen():
    runner = load_script("runners/predict_clocks.py")
    table = open_atlas(find_table(Path("h200")))
    found = list(runner.predict(SESSION, table))
    assert len(found) == 51
    lowest_mhz = table.machine.law.lowest_ratio * 1980
    for one in found:
        assert lowest_mhz - 1 <= one.best.clock_mhz.value <= 1980
        # At the clock that was held the prediction is what was measured.
        assert 0 <= one.best.saved.value < 0.4
    capped = [one for one in found if one.measured.clock_ratio < 0.75]
    assert all(one.best.saved.value < 0.07 for one in capped)
    assert {one.bound_by for one in found} == {"memory", "SM clock", "unclear"}


def test_the_demand_gives_back_the_energy_that_was_measured():
    runner = load_script("runners/predict_clocks.py")
    table = open_atlas(find_table(Path("h200")))
    session = runner.read_session(SESSION)
    works, _ = runner.read_works(SESSION / "counts", session)
    (one,) = [
        m
        for m in runner.measured_kernels(session)
        if m.case.name == "gemm-bf16-4096" and m.case.operands == "random"
    ]
    work = runner.replace(works[one.case.number], name=one.case.name, time_s=one.time_s)
    demand = runner.measured_demand(one, work, table.machine)
    assert demand.energy_at(one.clock_ratio) == pytest.approx(one.energy_j)
    assert demand.time_at(one.clock_ratio) == pytest.approx(one.time_s)
