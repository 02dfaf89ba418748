"""The page of operations: its data, and in real Chromium."""

import math
from dataclasses import replace

import pytest
from fakes.browser import CHROMIUM, Page, data_of
from fakes.operations import operation_row

from ptxbench.catalogue.operations import Operation, used_shapes
from ptxbench.report.operations_page import render_operations

HOSTILE = "</script><img src=x onerror=document.title=1>"
SOFTMAX = Operation("softmax", "f32", (16, 1024))


@pytest.fixture(scope="module")
def rows():
    made = [operation_row(one, device="NVIDIA H100 80GB HBM3") for one in used_shapes()]
    more = [
        replace(one, board="cd", energy_j=1.1 * one.energy_j, ci_high_j=1.2 * one.energy_j) for one in made
    ]
    h200 = [operation_row(one, device="NVIDIA H200", noise=0.2) for one in used_shapes()[:-1]]
    h200[0] = replace(h200[0], valid=False, energy_j=math.nan, reason=HOSTILE)
    return [*made, *more, *h200]


def test_gpus_stand_side_by_side_with_what_all_boards_tell(rows):
    text = render_operations(rows)
    assert len(text) < 1_000_000
    data = data_of(text)
    assert [gpu["name"] for gpu in data["gpus"]] == ["H100", "H200"]
    assert "2 boards (ab, cd)" in data["gpus"][0]["about"]
    by_name = {(row["op"], row["dtype"], row["shape"]): row for row in data["rows"]}
    assert len(by_name) == len(used_shapes())
    h100, h200 = (
        dict(zip(data["cells"], cells, strict=True)) for cells in by_name["softmax", "f32", "16x1024"]["gpus"]
    )
    own = next(row for row in rows if row.operation == SOFTMAX)
    assert h100["mj"] == pytest.approx(1.05e3 * own.energy_j, rel=1e-5)
    assert h100["low_mj"] < 1e3 * own.ci_low_j
    assert h100["high_mj"] == pytest.approx(1.2e3 * own.energy_j, rel=1e-5)
    assert (h100["boards"], h200["boards"]) == (2, 1)
    assert h200["pj_per_flop"] == pytest.approx(1e9 * h200["mj"] / SOFTMAX.flops, rel=1e-4)
    # What one GPU has not is no number, and says why.
    first = by_name[used_shapes()[0].op, used_shapes()[0].dtype, used_shapes()[0].shape_text]["gpus"][1]
    assert first[0] is None
    assert data["rows"][-1]["gpus"][1] is None
    assert HOSTILE not in text


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)")
def test_in_a_browser_it_searches_filters_sorts_and_exports(tmp_path, rows):
    file = tmp_path / "operations.html"
    file.write_text(render_operations(rows))
    with Page(tmp_path / "browser") as tab:
        tab.open(file.as_uri() + "#q=gemm+4096x4096&sort=-mJ+H100")
        tab.settle()
        shown = "[...document.querySelectorAll('#body tr')].map(tr => tr.textContent).join('\\n')"
        names = tab.run(shown).splitlines()
        assert 5 < len(names) < 30
        assert all("4096x4096" in name for name in names)
        energies = tab.run("view.map((row) => row.gpus[0].mj)")
        assert energies == sorted(energies, reverse=True)
        tab.open(file.as_uri() + "#status=no+number")
        tab.settle()
        assert tab.run(shown).endswith(f"no number: {HOSTILE}")
        assert tab.run("view.length") == 1
        tab.run("$('csv').click()")
        tab.settle()
        exported = (tab.downloads / "operations.csv").read_text().splitlines()
        assert len(exported) == 3
        assert exported[0].startswith("op,shape,dtype,gpu,mj,low_mj,high_mj,w,ms,mhz")
        assert tab.errors == []
        assert [one for one in tab.requests if not one.startswith(("file:", "blob:"))] == []
