"""A table and its terms judged by kernels of another GPU, as the pages say."""

import importlib
import sys
from pathlib import Path

import pytest

from ptxbench.core.errors import InputError

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "runners"))
    yield importlib.import_module("transfer_model")
    sys.modules.pop("transfer_model", None)


def test_what_the_page_says_of_the_h100(module, monkeypatch, capsys):
    suite = RESULTS / "nvidia-h200" / "suite"
    words = ["--validation", RESULTS / "nvidia-h100" / "suite", "--counts", suite, "--table", "h200"]
    monkeypatch.setattr(sys, "argv", ["transfer_model.py", *map(str, words)])
    assert module.main() == 0
    last = capsys.readouterr().out.splitlines()[-1]
    _, cases, error, mean, inside = (cell.strip() for cell in last.strip("| ").split("|"))
    row = f"| `h200` | its own | {cases} suite cases on an H100 | {error}% | {mean}% | {inside} |"
    assert row in (ROOT / "studies" / "model" / "fit.md").read_text()


def test_a_session_without_counts_is_refused(module):
    suite, table = RESULTS / "nvidia-h100" / "suite", RESULTS / "nvidia-h200" / "table-6eda"
    machine = module.machine_of(table, None)
    with pytest.raises(InputError):
        module.transfer(suite, suite, machine)


def test_terms_of_one_gpu_go_with_the_table_of_another(module):
    mixed, own = module.machine_of("h100", "h200"), module.machine_of("h200", None)
    assert mixed.terms == own.terms
    assert mixed.opcode_energies.random.keys() != own.opcode_energies.random.keys()
    found = module.transfer(
        RESULTS / "nvidia-h100" / "validation", RESULTS / "nvidia-h200" / "validation", mixed
    )
    errors = [abs(one.error_pct) for one in found]
    text = " ".join((ROOT / "studies" / "model" / "fit.md").read_text().split())
    row = f"| `h100` | H200 | 51 library cases on an H100 | {sum(errors) / len(errors):.1f}% |"
    assert row in text
