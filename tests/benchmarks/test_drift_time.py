"""What the drift fit costs, in passes of its smoother."""

import re
import sys
from pathlib import Path

from fakes.script import load_script

RUN = Path(__file__).parents[2] / "results" / "nvidia-h200" / "operands"


def test_the_search_for_the_drift_of_a_run_is_printed_in_passes_of_the_smoother(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["drift_time.py", str(RUN)])
    assert load_script("benchmarks/drift_time.py").main() == 0
    printed = capsys.readouterr().out
    assert "operands: 192 trials, 144 of them with a drift level" in printed
    (ratio,) = re.findall(r"([\d.]+) times the smoother", printed)
    # 500 to 2000 when written, as busy as the machine was.
    assert 10 < float(ratio) < 5000
