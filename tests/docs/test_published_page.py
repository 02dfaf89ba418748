"""The page of published figures has the numbers of the tables that come with ptxbench."""

from pathlib import Path

from fakes.script import load_script

from ptxbench.model.atlas import open_atlas
from ptxbench.report.cost import costs_text, find_costs
from ptxbench.storage.shipped import SHIPPED

PAGE = Path(__file__).parents[2] / "docs" / "published.md"
TABLE_ONE = PAGE.parents[1] / "studies" / "published" / "table_one.md"


def test_its_tables_are_those_of_the_tables_that_come_with_ptxbench():
    compare = load_script("runners/compare_costs.py")
    page = PAGE.read_text()
    for name, text in compare.blocks().items():
        assert f"<!-- {name}:begin -->\n{text}<!-- {name}:end -->" in page, (
            "run runners/compare_costs.py --write"
        )
    assert len(compare.NAMES) == 20


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


def test_the_example_of_the_how_to_is_what_cost_prints_on_100_columns():
    tables = [open_atlas(name, lambda one: one == "fma.rn.f32") for name in SHIPPED]
    text = costs_text(find_costs("fma.rn.f32", tables), tables, 100).split("\n\n")[0]
    assert text in (PAGE.parent / "howto" / "look_up.md").read_text()


def test_what_is_said_of_table_one_is_what_it_has():
    rows = [line.split(" | ") for line in TABLE_ONE.read_text().splitlines() if "`" in line and " ± " in line]
    ways = [[cell.split(" ± ")[0] for cell in row[at : at + 3]] for row in rows for at in (2, 5)]
    known = [list(map(float, of)) for of in ways if "-" not in of]
    apart = sorted(100 * (max(of) / min(of) - 1) for of in known)
    said = f"agree** to {apart[-1]:.1f}%, and to {apart[len(apart) // 2]:.1f}% at the median"
    assert said in " ".join(PAGE.read_text().split())


def test_eq_1_is_beside_turing_and_beside_the_h100_what_the_page_says():
    lines = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    found = {row[0][3:-1]: [float(cell.strip("| ")) for cell in row[1:]] for row in lines if len(row) == 7}
    turing = {name: cells[3] / cells[5] for name, cells in found.items()}
    groups = {
        "1.02 to 1.27": "add.u32 mad.lo.u32 xor.b32 shl.b32 sad.u32 add.f32 fma.rn.f32 add.f16",
        "1.10 to 1.50": "abs.s32 cnot.b32 clz.b32 bfind.u32 popc.b32 div.u32 rem.u32",
        "0.06 to 0.08": "rcp.approx.ftz.f32 ex2.approx.ftz.f32",
    }
    for said, names in groups.items():
        ratios = [turing[name] for name in names.split()]
        assert f"{min(ratios):.2f} to {max(ratios):.2f}" == said
        assert f"| {said} |" in PAGE.read_text()
    same = [1 - found[name][2] / found[name][3] for name in groups["1.02 to 1.27"].split()]
    assert f"is {100 * min(same):.0f} to {100 * max(same):.0f}% below that of the H200" in PAGE.read_text()
    h100, h200 = (found["add.u32"][at + 2] / found["add.u32"][at] for at in (0, 1))
    assert f"of an addition is {h100:.0f} (H100) and {h200:.0f} (H200) thousand times" in " ".join(
        PAGE.read_text().split()
    )


def test_the_rooflines_say_of_a_byte_of_l2_what_this_page_says():
    l2 = next(row for row in PAGE.read_text().splitlines() if row.startswith("| L2, pJ/byte |"))
    words = f"table of H200s has 124, {l2.split('|')[3].strip()}, 5.0"
    assert words in " ".join(PAGE.with_name("roofline.md").read_text().split())
