"""A table as an object: looked up, shown, and turned into a DataFrame."""

from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.api.table import Table, cost, load_table
from ptxbench.core.condition import lanes_key
from ptxbench.core.errors import InputError, NoSuchRowError
from ptxbench.core.status import Status
from ptxbench.model.atlas import open_atlas
from ptxbench.report.cost import find_costs, reached


@pytest.fixture
def table():
    plain = replace(fake.row(), protocol="dynamic", status=Status.OK, operands="random", reason="")
    rows = (
        replace(plain, instruction="add.f32", opt_level="O3", dynamic_pj=10.0, dynamic_ci95_pj=0.1),
        replace(plain, instruction="add.f32", opt_level="O0", dynamic_pj=11.0, dynamic_ci95_pj=0.2),
        replace(
            plain,
            instruction="bad<script>",
            opt_level="O3",
            dynamic_pj=float("nan"),
            status=Status.GATE_FAILED,
            reason="<b>&",
        ),
    )
    return Table(rows, fake.manifest())


def test_rows_are_looked_up_by_name_and_condition(table):
    assert table["add.f32"].energy_pj == 10.0
    assert table["add.f32", "O0"].interval_pj == (10.8, 11.2)
    assert table.find("add.f32", opt_level="O0") == table["add.f32", "O0", "dynamic", "random"]
    assert "add.f32" in table
    assert "sub.f32" not in table
    assert 3 not in table
    assert len(table) == len(list(table)) == 3
    assert not table["bad<script>"].is_valid


def test_a_row_is_found_by_ptx_and_sass_where_they_stand_for_one_instruction(table):
    assert table["add.f32 %f1, %f2, %f3;"] is table["add.f32"]
    assert table["FADD"] is table["add.f32"]
    assert "FADD" in table
    assert "HMMA" not in table


def test_a_word_for_several_instructions_is_no_row():
    h200 = load_table("h200")
    mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    assert h200[mma] is h200["mma.m16n8k16.f32.f16.f16.f32"]
    with pytest.raises(InputError, match="is an operation of a library: `ptxbench cost --json` looks it up"):
        cost("gemm 4096x4096x4096 bf16")
    with pytest.raises(NoSuchRowError, match=r"'FFMA' stands for \d+ instructions; name one of fma"):
        h200["FFMA"]


def test_a_row_that_is_not_there_is_named_with_what_is(table):
    with pytest.raises(
        NoSuchRowError,
        match=r"add\.f32 not with opt_level='O3', .*'zeros'.*, but with \('O3', 'dynamic', 'random'",
    ):
        table.find("add.f32", operands="zeros")
    with pytest.raises(KeyError, match=r"no 'add\.f64'; it has add\.f32"):
        table["add.f64"]


def test_it_becomes_a_dataframe_with_the_columns_of_the_csv(table):
    frame = table.to_dataframe()
    assert list(frame["dynamic_pj"])[:2] == [10.0, 11.0]
    assert list(frame["status"]) == ["ok", "ok", "gate_failed"]
    assert frame.set_index(["instruction", "opt_level"]).loc[("add.f32", "O0"), "dynamic_ci95_pj"] == 0.2


def test_its_html_shows_numbers_and_escapes_texts(table):
    html = table._repr_html_()
    assert "10 ± 0.1" in html
    assert "<script>" not in html
    assert "&lt;b&gt;&amp;" in html
    assert str(table.gpu.name) in html
    assert "3 rows, 2 valid" in repr(table)


def test_rows_that_the_run_did_not_reach_are_counted_and_not_shown(table):
    rows = [one.row for one in table]
    missing = replace(rows[0], instruction="never", status=Status.NOT_REACHED)
    html = Table((*rows, missing), table.manifest)._repr_html_()
    assert "never" not in html
    assert "not shown: 1" in html


def test_the_table_that_comes_with_ptxbench_is_found_by_name():
    table = load_table("h200")
    assert table.gpu.name == "NVIDIA H200"
    assert table["fma.rn.f32"].energy_pj == pytest.approx(14.4, abs=0.2)
    assert table["fma.rn.f32"].half_width_pj < 0.15


@pytest.mark.parametrize("name", ["h100", "h200"])
def test_a_table_that_comes_with_ptxbench_has_the_numbers_that_cost_has(name):
    costs = find_costs("*", [open_atlas(name)])
    shown = {
        (c.instruction, c.opt_level, c.protocol, c.operands, *lanes_key(c.lanes)): (c.energy_pj, c.reason)
        for c in reached(costs)
    }
    found = {
        one.row.key: (one.energy_pj, one.row.reason) for one in load_table(name) if one.status.has_number
    }
    assert found == shown
    assert len(found) > 600


def test_a_row_of_another_board_says_that_its_loops_ran_at_unlike_clocks():
    row = load_table("h100")["mma.m16n8k16.f32.f16.f16.f32"].row
    assert "its overhead loop at" in row.reason
    assert row.reason.startswith("measured on 2 other boards; ")
    assert "left out" not in row.reason


def test_an_unknown_table_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="h2000"):
        load_table("h2000")
    with pytest.raises(InputError, match="holds no run"):
        load_table(tmp_path)
