"""The examples and the page of the interface run as they stand, on the simulated GPU."""

import ast
import runpy
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

import ptxbench

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEED_A_GPU = {"torch", "cupy"}


def imports(path):
    tree = ast.parse(path.read_text())
    return {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


def test_there_are_at_most_eight_examples():
    assert 1 <= len(EXAMPLES) <= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_uses_the_public_interface_alone(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 30
    assert "from ptxbench" not in text
    assert [name for name in imports(path) if name.startswith("ptxbench")] == ["ptxbench"]
    used = {
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ptxbench"
    }
    assert used <= set(ptxbench.__all__)


@pytest.mark.parametrize(
    "path", [p for p in EXAMPLES if not imports(p) & NEED_A_GPU], ids=lambda path: path.stem
)
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    if "matplotlib" in imports(path):
        pytest.importorskip("matplotlib")
    kernels = Path("tests", "model", "kernels")
    shutil.copytree(ROOT / kernels, tmp_path / kernels)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed
    assert "nan" not in printed


def test_every_name_of_the_interface_is_on_its_page():
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    missing = {name for name in ptxbench.__all__ if f".{name}\n" not in page} - {"__version__"}
    assert not missing


@pytest.mark.skipif(not shutil.which("cc"), reason="nvcc needs a C++ compiler")
def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "tests" / "model" / "kernels" / "elementwise.ptx", tmp_path / "kernel.ptx")
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    blocks = [part for part in page.split("\n\n") if part.startswith("    ")]
    assert len(blocks) >= 6
    names = {}
    for block in blocks:
        exec(compile(textwrap.dedent(block), "api.md", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out
    assert "FFMA" in printed
    assert "h2000 holds no run" in printed
