"""A table and its terms judged by kernels of another GPU, as the pages say."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest

from ptxbench.core.errors import InputError
from ptxbench.model.terms import FILE, read_terms
from ptxbench.model.work import Level

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "runners"))
    yield importlib.import_module("transfer_model")
    sys.modules.pop("transfer_model", None)


def test_what_the_page_says_of_the_h100(module, monkeypatch, capsys):
    table, suite = RESULTS / "nvidia-h200" / "table-6eda", RESULTS / "nvidia-h200" / "suite"
    words = ["--validation", RESULTS / "nvidia-h100" / "suite", "--counts", suite, "--table", table]
    monkeypatch.setattr(sys, "argv", ["transfer_model.py", *map(str, words)])
    assert module.main() == 0
    last = capsys.readouterr().out.splitlines()[-1]
    _, cases, error, _, inside = (cell.strip() for cell in last.strip("| ").split("|"))
    said = f"the {cases} suite cases on an H100 are off by {error}%, {inside} of them inside"
    assert said in " ".join((ROOT / "docs" / "model.md").read_text().split())


def test_a_session_without_counts_is_refused(module):
    suite, table = RESULTS / "nvidia-h100" / "suite", RESULTS / "nvidia-h200" / "table-6eda"
    machine = module.machine_of(table, table)
    with pytest.raises(InputError):
        module.transfer(suite, suite, machine)


def test_kept_terms_say_whose_they_are_and_leave_out_the_rate_of_its_dram(module, tmp_path):
    shipped = ROOT / "ptxbench" / "tables"
    table = tmp_path / "h100"
    shutil.copytree(shipped / "nvidia-h100", table)
    (table / FILE).unlink()
    module.keep_terms(table, shipped / "nvidia-h200")
    kept, own = read_terms(table), read_terms(shipped / "nvidia-h200")
    assert kept.fitted_on == "NVIDIA H200"
    assert kept.bytes_pj == own.bytes_pj
    assert {one.level for one in kept.time.bytes} == {one.level for one in own.time.bytes} - {Level.DRAM}
    # What comes with ptxbench was made so.
    assert read_terms(shipped / "nvidia-h100") == kept
