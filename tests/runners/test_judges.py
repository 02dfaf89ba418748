"""Judges of the third suite and of estimates from code alone."""

import importlib
from pathlib import Path

import pytest
from tune.test_user_kernel import require_nvcc

RUNNERS = Path(__file__).parents[2] / "runners"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(RUNNERS))
    return importlib.import_module


def test_a_softmax_a_layer_norm_and_an_adamw_step_are_estimated_from_code_and_launch_alone(load):
    require_nvcc()
    found = load("judge_code").estimate_alone("h100", ("norms",))
    assert [one.case for one in found] == [
        "norms/softmax-f32",
        "norms/layer_norm-f32",
        "norms/adamw_step-f32",
    ]
    assert all(abs(one.error_pct) < 10 and abs(one.time_error_pct) < 10 and one.inside for one in found)


def test_models_are_set_beside_each_other_by_what_bounds_a_kernel(load):
    judge = load("judge_field")
    case = load("transfer_model").Transferred
    names = [("image/median-u32", 10.0), ("biology/myers-u32", -20.0), ("linear/spmv-f32", 3.0)]
    table = [case(name, "random", off, abs(off) < 15, 30.0) for name, off in names]
    worse = [case(name, "random", 2 * off, True, 30.0) for name, off in names]
    one = judge.Judged("h100", {judge.THE_TABLE: table, "other": worse})
    blocks = judge.blocks([one])
    rows = [line for line in blocks["field-h100"].splitlines() if line.startswith("| other")]
    assert rows == [
        "| other | 22.0 | 40 | +3.0 to +20.0 | 30.0 | 40 | +10.0 to +20.0 | 6.0 | 6 | +3.0 to +3.0 |"
    ]
    assert "| H100 | instructions | 1 of 2 (50%) | 30% | 2.0 |" in blocks["field-intervals"]
    assert blocks["field-families"].startswith("| kernel | bound by | H100, % |\n| --- | --- | --- |\n")
    assert "| linear/spmv-f32 | memory | random +3 |" in blocks["field-families"]
