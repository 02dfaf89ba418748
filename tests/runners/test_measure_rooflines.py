"""The runner of several rooflines: its runs can be rendered, fit a budget, and become one file each."""

import importlib
import sys
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ptxbench.experiment.roofline.measure import measure, wanted_kernels

RUNNERS = Path(__file__).parents[2] / "runners"


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(RUNNERS))
    yield importlib.import_module("measure_rooflines")
    sys.modules.pop("measure_rooflines", None)


def test_every_run_has_kernels_that_its_kinds_can_reach(module):
    for wanted in module.RUNS:
        if wanted.options is not None:
            assert len(wanted_kernels(wanted.options)) >= 7


def test_a_run_becomes_one_file_and_what_has_no_time_is_left_out(module, monkeypatch, tmp_path, capsys):
    short = replace(module.RUNS[0].options, levels=("l1",), intensities=(1.0, 8.0), sms=(8,))
    monkeypatch.setattr(module, "RUNS", (module.Wanted("short", short), module.RUNS[1]))
    monkeypatch.setattr(module, "measure", partial(measure, peaks=False))
    out = tmp_path / "out"
    arguments = ["--gpu", "simulated:h200-memory", "--out", str(out), "--only", "short", "--budget-s", "60"]
    monkeypatch.setattr(sys, "argv", ["measure_rooflines", *arguments])
    assert module.main() == 0
    assert [path.name for path in out.iterdir()] == ["short.tar"]
    with tarfile.open(out / "short.tar") as archive:
        names = archive.getnames()
    assert {"short/kernels.jsonl", "short/traces.parquet", "short/manifest.json"} <= set(names)
    said = capsys.readouterr().out
    # Two kernels are too few for a fit; their readings are kept.
    assert "points are too few" in said
    assert "fmm: left out" in said
