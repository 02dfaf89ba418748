"""The notebook of examples/ runs cell by cell, and each cell shows something short."""

import ast
import json
from pathlib import Path

import pytest

import ptxbench

ROOT = Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def shown(cell, names):
    """Run a cell and return what a notebook would show below it."""
    *statements, last = ast.parse(cell).body
    exec(compile(ast.Module(statements, []), "cell", "exec"), names)  # noqa: S102
    if not isinstance(last, ast.Expr):
        exec(compile(ast.Module([last], []), "cell", "exec"), names)  # noqa: S102
        return ""
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    html = getattr(value, "_repr_html_", None)
    return html() if html else repr(value)


def test_the_notebook_runs_and_shows_short_texts(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    texts = [shown(cell, names) for cell in CELLS]
    names["gpu"].close()
    assert texts[0].startswith("<Measurement fma.rn.f32 -O3 dynamic random: 14.41 ± ")
    assert texts[2].count("<Measurement ") == 3
    assert texts[3].startswith("<table><caption>NVIDIA H200 (simulated)")
    assert texts[4].startswith("<WindowEnergy measuring: ")
    assert texts[5].startswith("<KernelEstimate kernel: ")
    assert all(len(text) < 400 for text in texts if not text.startswith("<table>")), texts


def test_cells_hold_no_output():
    assert [cell.get("outputs", []) for cell in NOTEBOOK["cells"]] == [[]] * len(NOTEBOOK["cells"])


def test_cost_is_the_row_of_the_table_in_both_units():
    table = ptxbench.load_table("h100")
    for name, level in (("fma.rn.f32", "O3"), ("add.u32", "O0")):
        found = ptxbench.cost(name, table="h100", opt_level=level)
        assert found == table[name, level]
        assert found.energy_j == pytest.approx(found.energy_pj * 1e-12)
        assert len(repr(found)) < 100


def test_cost_takes_what_an_instruction_is_found_by():
    assert ptxbench.cost("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").instruction.startswith(
        "mma.m16n8k16"
    )
    with pytest.raises(ptxbench.InputError, match=r"no instruction fits 'fma\.rn\.f33'; did you mean"):
        ptxbench.cost("fma.rn.f33")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: ptxbench.measure(None, "fma.rn.f32", steps=1),
            r"^measure\(\) got an unexpected keyword .*'steps'",
        ),
        (
            lambda: ptxbench.tune_kernel(),
            r"^tune_kernel\(\) missing 3 required positional arguments: 'gpu'",
        ),
    ],
)
def test_a_wrong_argument_names_the_function_that_was_called(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_a_row_that_is_not_there_is_said_in_arguments():
    with pytest.raises(
        ptxbench.InputError, match=r"not with opt_level='O2', .* but with \('O0', 'dynamic', 'random'\)"
    ):
        ptxbench.cost("fma.rn.f32", opt_level="O2")
