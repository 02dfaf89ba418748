"""The benchmark of intervals runs on a simulated GPU whose voltage moves in steps."""

import re

from fakes.script import load_script


def test_rows_are_judged_beside_the_level_of_their_run(monkeypatch, capsys):
    benchmark = load_script("benchmarks/interval_coverage.py")
    options = "--profile h200-steps --runs 1 --rows 2 --min-repeats 2 --max-repeats 2"
    monkeypatch.setattr("sys.argv", ["interval_coverage.py", *options.split()])
    benchmark.main()
    judged = re.search(r"^all +(\d+) ", capsys.readouterr().out, re.MULTILINE)
    assert int(judged[1]) >= 2
