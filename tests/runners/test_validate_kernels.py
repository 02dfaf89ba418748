"""The stages of validate_kernels.py that need no GPU: counting through a stand-in for ncu, and judging."""

import csv
import importlib.util
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.sitting import Sitting, mixture

from ptxbench.model.validation_file import Purpose

RUNNERS = Path(__file__).parents[2] / "runners"
TABLE = Path(__file__).parents[2] / "results" / "nvidia-h200" / "operands"

NCU = """#!{python}
import sys
from pathlib import Path
arguments = sys.argv[1:]
log = Path(arguments[arguments.index("--log-file") + 1])
cases = arguments[arguments.index("child") + 1:]
metrics = arguments[arguments.index("--metrics") + 1]
with open({calls!r}, "a") as calls:
    calls.write(" ".join(cases) + "\\n")
if "thread_inst" in metrics:
    log.write_text("==ERROR== Failed to find metric sass__thread_inst_executed\\n")
    sys.exit(1)
lines = ['"ID","Kernel Name","sass__inst_executed_per_opcode"']
for case in cases:
    if case == "3" and len(cases) > 1:
        # The kernel of this case crashes the process.
        lines.append('"0","ptxbench_case_3()","1 (EXIT: 1)"')
        log.write_text("\\n".join(lines))
        sys.exit(9)
    lines += [f'"0","ptxbench_case_{{case}}()","1 (EXIT: 1)"', '"1","work","5 (FFMA: 5)"']
log.write_text("\\n".join(lines))
"""


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """The module kernel_counts, with a stand-in for ncu on PATH and the cases of each of its calls."""
    spec = importlib.util.spec_from_file_location("kernel_counts", RUNNERS / "kernel_counts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    calls = tmp_path / "calls"
    ncu = tmp_path / "bin" / "ncu"
    ncu.parent.mkdir()
    ncu.write_text(NCU.format(python=sys.executable, calls=str(calls)))
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(ncu.parent))
    return module, calls


def test_metrics_that_ncu_lacks_are_left_out_and_a_case_that_crashes_takes_no_other_with_it(counts, tmp_path):
    module, calls = counts
    missing = module.count(Path("runner.py"), [1, 2, 3, 4], tmp_path / "out", budget_s=60.0)
    assert missing == []
    asked = calls.read_text().splitlines()
    # Two sets of metrics are refused; then all together, and those behind the crash again, one by one.
    assert asked == ["1 2 3 4"] * 3 + ["3", "4"]
    assert len(list((tmp_path / "out").glob("*.csv"))) == 3


def test_when_time_is_up_what_is_left_is_said_to_be_missing(counts, tmp_path):
    module, calls = counts
    assert module.count(Path("runner.py"), [1, 2], tmp_path / "out", budget_s=-1.0) == [1, 2]
    assert not calls.exists()


def estimated(*arguments):
    command = [sys.executable, str(RUNNERS / "validate_kernels.py"), "estimate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_judging_writes_the_table_and_the_model_and_prints_both_kinds_apart(tmp_path):
    sitting = Sitting(tmp_path / "validation")
    for n in range(6):
        sitting.add(f"fit{n}", "random", Purpose.FIT, mixture(n, tensor=n % 3), n * 2e9, 6e-3)
    sitting.add("judged", "random", Purpose.JUDGED, mixture(9), 1e9, 6e-3)
    sitting.write()
    out = [tmp_path / name for name in ("v.csv", "model.json")]
    done = estimated("--out", sitting.folder, "--table", TABLE, "--csv", out[0], "--model", out[1])
    assert (done.returncode, done.stderr) == (0, "")
    assert "uncapped: 1 kernels, MAPE" in done.stdout
    assert "capped: 0 kernels" in done.stdout
    (row,) = csv.DictReader(out[0].read_text().splitlines())
    assert row["kernel"] == "judged"
    assert '"kernels"' in out[1].read_text()


def test_a_folder_without_a_sitting_is_one_line(tmp_path):
    done = estimated("--out", tmp_path, "--table", TABLE, "--csv", tmp_path / "v.csv")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "measured.json" in done.stderr
