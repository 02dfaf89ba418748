"""The benchmark of intervals runs on a simulated GPU whose voltage moves in steps."""

import re
from types import SimpleNamespace

import pytest
from fakes.script import load_script


def test_rows_are_judged_beside_the_level_of_their_run(monkeypatch, capsys):
    benchmark = load_script("benchmarks/interval_coverage.py")
    options = "--profile h200-steps --runs 1 --rows 2 --min-repeats 2 --max-repeats 2"
    monkeypatch.setattr("sys.argv", ["interval_coverage.py", *options.split()])
    benchmark.main()
    judged = re.search(r"^all +(\d+) ", capsys.readouterr().out, re.MULTILINE)
    assert int(judged[1]) >= 2


def test_a_row_that_is_hardly_known_moves_no_mean(capsys):
    benchmark = load_script("benchmarks/interval_coverage.py")
    known = [(0.001, 0.004), (0.001, 0.004), (-0.2, 0.4)]
    benchmark._print("all", [SimpleNamespace(run=0, error=e, width=w, held=True) for e, w in known])
    mean = capsys.readouterr().out.split()[-1].rstrip("%")
    assert float(mean) == pytest.approx(0.1, abs=0.01)
