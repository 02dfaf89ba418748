"""The same samples by ptxbench and by Kernel Tuner's energy module."""

import sys
from pathlib import Path

import pytest
from fakes.script import load_script


def test_a_ridge_below_twice_the_lowest_clock_is_found_here_and_not_by_kernel_tuner():
    pytest.importorskip("kernel_tuner", reason="the extra tune is not installed")
    bench = load_script("benchmarks/ridge_fit.py")
    samples = bench.draw_samples(600, 1 / 3000, 0.001, 0)
    assert bench.ptxbench_mhz(samples) == pytest.approx(600, abs=15)
    # Its bounds start at the lowest clock, of clocks that have the lowest already subtracted.
    assert bench.kernel_tuner_mhz(samples) == 2 * 345


def test_the_script_prints_both_for_every_ridge(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ridge_fit.py", "--seeds", "1"])
    load_script("benchmarks/ridge_fit.py").main()
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[-3:] == ["Kernel", "Tuner", "MHz"]
    assert len(rows) == 15
    for row in rows:
        hidden, _, ours, *_ = row.split()
        assert abs(float(ours) - float(hidden)) <= 15


def test_published_samples_are_compared_from_a_file(monkeypatch, capsys):
    data = Path(__file__).parents[1] / "model" / "data" / "a100_workloads.csv"
    monkeypatch.setattr(sys, "argv", ["ridge_fit.py", "--samples", str(data), "--cap-w", "250"])
    load_script("benchmarks/ridge_fit.py").main()
    _, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 4
    for row in rows:
        assert 990 <= float(row[40:].split()[0]) <= 1050
