"""`ptxbench bench` and `ptxbench compare`: files of functions, exit codes, and one line for what is wrong."""

from __future__ import annotations

import json

import pytest
from fakes.simulated_step import ReplayingGpu

from ptxbench.api import benching
from ptxbench.cli.main import run

FILE = """
import numpy as np
from fakes.called import drawing

GPU = None

def inputs(seed):
    return (np.random.default_rng(seed).random(6),)

def _work(power_w):
    GPU and drawing(GPU, power_w)()

def fn(x):
    _work(330.0)
    return x * 2

def ref(x):
    _work(300.0)
    return x + x

def wrong(x):
    return x * 3

def alone():
    _work(300.0)

def fails(x):
    raise ValueError("no such thing")
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "kernels.py"
    gpu = ReplayingGpu(1)

    def opened(_gpu, _stack):
        import sys

        for name, module in sys.modules.items():
            if name.startswith("ptxbench_benched_"):
                module.GPU = gpu
        return gpu

    monkeypatch.setattr(benching, "opened_gpu", opened)
    path.write_text(FILE)
    return path


def test_more_energy_is_exit_code_1(file, capsys):
    assert run(["bench", f"{file}::fn", "--against", f"{file}::ref", "--budget", "5s", "--check"]) == 1
    printed = capsys.readouterr().out
    assert "less energy: no" in printed
    assert "+7" in printed
    assert run(["bench", f"{file}::ref", "--against", f"{file}::fn", "--budget", "5s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["others"][0]["less_energy"] == "yes"
    assert found["checked"] is True
    assert found["simulated"] is True


def test_one_function_alone_is_shown(file, capsys):
    assert run(["bench", f"{file}::alone", "--budget", "2"]) == 0
    assert "1980 MHz" in capsys.readouterr().out


def test_wrong_results_are_exit_code_1(file, capsys):
    assert run(["bench", f"{file}::wrong", "--against", f"{file}::ref", "--budget", "1s"]) == 1
    assert "wrong: 6 of 6 values" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "{file}::none"], "has no function 'none'"),
        (["bench", "{file}"], "must be FILE.py::FUNCTION"),
        (["bench", "{file}x::fn"], "is no file; name the one that has the function"),
        (["bench", "::fn"], "must be FILE.py::FUNCTION"),
        (["bench", "{file}::fails"], "kernels.py:28: ValueError: no such thing"),
        (["bench", "{file}::fn", "--budget", "5h"], "is not a number"),
        (["bench", "{file}::fn", "--budget", "0.1s"], "0.1"),
        (["bench", "{file}::fn", "--check"], "--check compares results with those of --against"),
        (["bench", "{file}::fn", "--max-difference", "0"], "--max-difference compares results with those"),
        (["compare", "python a.py"], "two commands or more"),
        (["compare", "a", "b", "--gpu", "simulated"], "no program runs on a simulated GPU"),
        (["compare", "true", "no_such_program 1"], "'no_such_program' cannot be started"),
    ],
)
def test_what_is_wrong_is_one_line(file, capsys, words, message):
    assert run([word.format(file=file) for word in words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_a_file_that_fails_or_has_no_inputs_is_said(tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text("x = 1\nimport no_such_module\n")
    assert run(["bench", f"{path}::fn"]) == 2
    assert "bad.py:2: ModuleNotFoundError" in capsys.readouterr().err
    path = tmp_path / "bare.py"
    path.write_text("def fn(x):\n    return x\n")
    assert run(["bench", f"{path}::fn"]) == 2
    assert "which a function inputs(seed)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import sys\nsys.exit(0)\n", "bad.py:2: SystemExit: 0"),
        ("def fn():\n    raise SystemExit\n", "bad.py:2: SystemExit"),
        ("x = 1\ndef fn(:\n", "bad.py:2: SyntaxError: invalid syntax"),
        ("def fn():\n    import beside_it\n", "beside_it.py:1: ZeroDivisionError"),
    ],
)
def test_code_that_ends_the_program_is_no_good_check(file, tmp_path, capsys, text, message):
    path = tmp_path / "bad.py"
    path.write_text(text)
    (tmp_path / "beside_it.py").write_text("1 / 0\n")
    assert run(["bench", f"{path}::fn"]) == 2
    assert message in capsys.readouterr().err
