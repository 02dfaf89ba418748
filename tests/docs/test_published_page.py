"""The page of published figures has the numbers of the tables that come with ptxbench."""

from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.core.threads import WARP
from ptxbench.model.atlas import open_atlas
from ptxbench.report.cost import costs_text, find_costs
from ptxbench.storage.shipped import SHIPPED

PAGE = Path(__file__).parents[2] / "docs" / "published.md"
TABLE_ONE = PAGE.parents[1] / "studies" / "published" / "table_one.md"


def test_the_twenty_instructions_are_those_of_the_tables():
    compare = load_script("runners/compare_costs.py")
    page = PAGE.read_text()
    assert compare.with_table(page, compare.table()) == page, "run runners/compare_costs.py --write"
    assert len(compare.NAMES) == 20
    assert len(compare.table().splitlines()) == 2 + 20


def test_table_one_is_whole_and_as_the_runs_have_it():
    table_one = load_script("runners/table_one.py")
    page = TABLE_ONE.read_text()
    for name in SHIPPED:
        text = table_one.table(table_one.eq1_rows(name))
        assert table_one.with_table(page, name, text) == page, "run runners/table_one.py --write"
        rows = [line.split(" | ") for line in text.splitlines()[2:]]
        assert len(rows) == 32
        unknown = [(row[1], row[2:8].count("-")) for row in rows if "-" in row[2:8]]
        assert unknown == [("`div.rn.f64`", 3)]
        assert all(" ± " in cell for row in rows for cell in (row[4], row[7]) if cell != "-")


@pytest.mark.parametrize("name", ["fma.rn.f32", "fma.rn.f64"])
def test_a_flop_costs_what_cost_says(name):
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name[-3:]} FMA")]
    assert lines
    for line in lines:
        for gpu, cell in zip(("h100", "h200"), line.split("|")[2:4], strict=True):
            costs = find_costs(name, [open_atlas(gpu)])
            random = [
                cost
                for cost in costs
                if (cost.opt_level, cost.operands, cost.lanes) == ("O3", "random", WARP)
            ]
            (per_flop,) = (cost.pj_per_flop for cost in random)
            assert float(cell) == pytest.approx(per_flop, abs=0.06)


def test_the_example_of_the_how_to_is_what_cost_prints_on_100_columns():
    tables = [open_atlas(name, lambda one: one == "fma.rn.f32") for name in SHIPPED]
    text = costs_text(find_costs("fma.rn.f32", tables), tables, 100).split("\n\n")[0]
    assert text in (PAGE.parent / "howto" / "look_up.md").read_text()
