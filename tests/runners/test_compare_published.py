"""A run beside Table I of Arafa et al. (2020)."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import run as fake
from fakes.script import load_script, run_script

from ptxbench.catalogue.arafa import load_arafa_table
from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.storage.run_folder import RunFolder

RUNNER = Path(__file__).parents[2] / "runners" / "compare_published.py"


@pytest.fixture(scope="module")
def runner():
    return load_script("runners/compare_published.py")


def row(instruction, mtsm_nj, **change):
    return replace(fake.row(instruction), protocol=ARAFA, mtsm_pj=1000 * mtsm_nj, **change)


ROWS = [row("add.u32", 100.0), row("mad.lo.u32", 150.0), row("div.u32", 4000.0), row("popc.b32", 300.0)]


def test_ratios_are_those_of_the_run_and_of_the_paper(runner):
    found = {one.paper: one for one in runner.compare([ROWS])}
    division = found["Integer Arithmetic: {u} div"]
    assert (division.ratio, division.instructions) == (40.0, 1)
    volta = {
        e.instructions: e.mtsm_uj
        for e in load_arafa_table()
        if (e.category, e.optimization, e.architecture) == ("Integer Arithmetic", "O3", "volta")
    }
    expected = volta["{u} div"] / volta["add / sub / min / max"]
    assert division.published[runner.ARCHITECTURES.index("volta")] == pytest.approx(expected)


def test_instructions_of_one_merged_row_are_averaged_and_invalid_ones_left_out(runner):
    more = [row("sub.u32", 300.0), row("min.u32", math.nan, status=Status.SENSOR_STALE)]
    (merged,) = (one for one in runner.compare([[*ROWS, *more]]) if one.paper == runner.REFERENCE)
    assert (merged.instructions, merged.mtsm_nj) == (2, 200.0)


def test_levels_are_not_mixed(runner):
    both = [*ROWS, *(replace(r, opt_level=OptLevel.O0, mtsm_pj=10 * r.mtsm_pj) for r in ROWS)]
    ratios = {(one.paper, one.opt_level): one.ratio for one in runner.compare([both])}
    assert ratios["Integer Arithmetic: mul / mad", OptLevel.O0] == 1.5
    assert ratios["Integer Arithmetic: mul / mad", OptLevel.O3] == 1.5


def test_a_run_in_the_papers_order_correlates_and_in_reverse_it_does_not(runner):
    found = runner.compare([ROWS])
    volta = runner.ARCHITECTURES.index("volta")
    order = sorted(found, key=lambda one: one.published[volta])
    alike = [replace(one, ratio=float(n)) for n, one in enumerate(order)]
    unlike = [replace(one, ratio=-float(n)) for n, one in enumerate(order)]
    assert runner.correlations(alike)[volta] == pytest.approx(1)
    assert runner.correlations(unlike)[volta] == pytest.approx(-1)
    assert all(math.isnan(r) for r in runner.correlations(found[:2]))


def test_each_run_is_divided_by_its_own_reference(runner):
    other_board = [row("add.u32", 200.0), row("popc.b32", 800.0)]
    found = {one.paper: one for one in runner.compare([ROWS, other_board])}
    assert found["Integer Intrinsic: popc()"].ratio == pytest.approx((3.0 + 4.0) / 2)
    with pytest.raises(InputError, match="no valid arafa row"):
        runner.compare([ROWS, [row("popc.b32", 800.0)]])


def test_an_instruction_with_ftz_counts_only_where_the_one_without_is_missing(runner):
    with_ftz = row("ex2.approx.ftz.f32", 120.0)
    (alone,) = (one for one in runner.compare([[*ROWS, with_ftz]]) if one.paper.endswith("ex2"))
    plain = row("ex2.approx.f32", 1600.0)
    (both,) = (one for one in runner.compare([[*ROWS, with_ftz, plain]]) if one.paper.endswith("ex2"))
    assert (alone.ratio, both.ratio, both.instructions) == (1.2, 16.0, 1)


def test_the_factor_between_the_ratios_counts_up_and_down_alike(runner):
    found = runner.compare([ROWS])
    volta = runner.ARCHITECTURES.index("volta")
    others = [one for one in found if one.paper != runner.REFERENCE]
    scaled = [
        replace(one, ratio=one.published[volta] * by) for one, by in zip(others, (2, 0.5, 4), strict=True)
    ]
    assert runner.factors(scaled)[volta] == pytest.approx(2)


def test_a_run_without_the_reference_is_refused(runner):
    with pytest.raises(InputError, match="no valid arafa row"):
        runner.compare([[row("mad.lo.u32", 150.0), replace(ROWS[0], protocol=DYNAMIC)]])


def test_the_command_prints_markdown(tmp_path):
    with RunFolder.create(tmp_path / "run", fake.manifest(fake.simulated())) as made:
        made.finish(ROWS, fake.END)
    done = run_script(RUNNER, tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "SIMULATED, no measurement" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 4
    assert "Median factor" in done.stdout
    assert {line.count("|") for line in lines} == {10}
