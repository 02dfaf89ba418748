"""A look-up reads what it needs, an estimate starts from what is solved already, a page draws itself."""

import re
import sys

from fakes.script import load_script


def test_look_ups_estimates_and_pages_take_a_few_times_an_import_of_numpy(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["command_time.py", "--repeats", "1"])
    assert load_script("benchmarks/command_time.py").main() == 0
    ratios = [float(one) for one in re.findall(r"([\d.]+) times", capsys.readouterr().out)]
    assert len(ratios) == 10
    # 1 to 11 when written; solving the trials takes 600 times, pictures by matplotlib 26.
    assert max(ratios) < 20
