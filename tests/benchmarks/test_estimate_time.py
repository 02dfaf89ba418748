"""A look-up reads what it needs, and an estimate starts from what is solved already."""

import re
import sys

from fakes.script import load_script


def test_look_ups_and_estimates_of_the_readme_take_a_few_times_an_import_of_numpy(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["estimate_time.py", "--repeats", "1"])
    assert load_script("benchmarks/estimate_time.py").main() == 0
    ratios = [float(one) for one in re.findall(r"([\d.]+) times", capsys.readouterr().out)]
    assert len(ratios) == 5
    # 1 to 9 when written; solving the trials takes 600 times.
    assert max(ratios) < 20
