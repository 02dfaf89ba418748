"""Shares of variance come back from made-up kernels, and the page says those of the recorded ones."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "runners"))
    import decompose_energy

    return decompose_energy


def kernels(module, opcodes, kernel, operands, count=3000):
    """Kernels on random data and on zeros, whose logarithm is a sum of three independent parts."""
    random = np.random.default_rng(1)
    cases = []
    for n in range(count):
        predicted = opcodes * random.standard_normal()
        level = predicted + kernel * random.standard_normal()
        for kind in ("random", "zeros"):
            energy = level + operands * random.standard_normal()
            cases.append(module.Case(f"f{n % 10}", f"k{n}", kind, energy, predicted))
    return cases


@pytest.mark.parametrize("parts", [(2.0, 0.5, 0.5), (0.0, 1.0, 1.0), (1.0, 0.0, 2.0)])
def test_shares_of_made_up_kernels(module, parts):
    found = module.shares(kernels(module, *parts))
    opcodes, kernel, operands = (part**2 for part in parts)
    # The data of the one kind that kernels are compared on count as part of the kernel.
    total = opcodes + kernel + 2 * operands
    assert found.spread == pytest.approx(total**0.5, rel=0.05)
    expected = [opcodes / total, (kernel + operands) / total, operands / total]
    assert [found.opcodes, found.kernel, found.operands] == pytest.approx(expected, abs=0.05)


def test_what_the_page_says(module, monkeypatch, capsys):
    table, suite = RESULTS / "nvidia-h200" / "table-6eda", RESULTS / "nvidia-h200" / "suite"
    monkeypatch.setattr(module, "_DRAWS", 2)
    monkeypatch.setattr(sys, "argv", ["x", "--validation", str(suite), "--table", str(table)])
    assert module.main() == 0
    text = (ROOT / "studies" / "model" / "fit.md").read_text()
    for line in capsys.readouterr().out.splitlines()[2:]:
        cells = [cell.strip().partition(" (")[0] for cell in line.strip("| ").split("|")]
        row = next(row for row in text.splitlines() if row.startswith(f"| {cells[0]} |"))
        assert [cell.strip().partition(" (")[0] for cell in row.strip("| ").split("|")] == cells
