"""What `import ptxbench` is: light, complete and typed."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ptxbench

HEAVY = ("numpy", "pandas", "scipy", "pyarrow", "cuda", "pynvml", "click", "rich", "matplotlib")


def test_importing_it_loads_nothing_heavy():
    code = (
        "import sys, ptxbench; dir(ptxbench); ptxbench.__all__;"
        f"print(*[name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_using_it_without_a_gpu_loads_no_gpu_library_and_no_pandas(lacking_pandas):
    code = (
        "import sys, ptxbench; [getattr(ptxbench, name) for name in ptxbench.__all__];"
        "print(*[name for name in ('pandas', 'cuda', 'pynvml') if name in sys.modules])"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=lacking_pandas)
    assert done.stdout.split() == []


def test_every_public_name_is_there_documented_and_seen_by_type_checkers():
    tree = ast.parse(Path(ptxbench.__file__).read_text())
    typed = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ptxbench.")
        for alias in node.names
    }
    names = set(ptxbench.__all__) - {"__version__"}
    assert typed == names
    for name in names:
        assert getattr(ptxbench, name).__doc__
    assert set(ptxbench.__all__) <= set(dir(ptxbench))
    assert isinstance(ptxbench.__version__, str)


def test_what_other_libraries_need_is_there_with_ptxbench_alone(monkeypatch):
    for name, shown in (("triton", "do_bench"), ("torch", "labelled"), ("kernel_tuner", "EnergyObserver")):
        monkeypatch.delattr(ptxbench, name, raising=False)
        assert hasattr(getattr(ptxbench, name), shown)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'ptxbench' has no attribute 'mesure'"):
        ptxbench.mesure  # noqa: B018


@pytest.mark.parametrize("name", ["estimate_kernel", "measure", "measure_table", "tune_kernel"])
def test_every_argument_of_a_function_of_options_is_documented(name):
    function = getattr(ptxbench, name)
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"^    {argument}: [A-Z].*\w", inspect.getdoc(function), re.MULTILINE), argument
