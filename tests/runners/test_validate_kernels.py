"""The stages of validate_kernels.py: measuring and counting through stand-ins, and judging."""

import csv
import importlib
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.gpu_libraries import HOLDERS, install
from fakes.kernel_session import MadeUpSession, mixture
from fakes.script import run_script
from validation_file import KernelTrial, Purpose, launches_by_case

from ptxbench.core.errors import InputError

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
if any(name in metrics for name in {unknown!r}):
    log.write_text("==ERROR== Failed to find metric\\n")
    sys.exit(1)
lines = ['"ID","Kernel Name","sass__inst_executed_per_opcode"']
for case in cases:
    if case == "3" and len(cases) > 1:
        # The kernel of this case crashes the process.
        lines += ['"0","ptxbench_case_3()","1 (EXIT: 1)"', '"1","part of the work","5 (FFMA: 5)"']
        log.write_text("\\n".join(lines))
        sys.exit(9)
    lines += [f'"0","ptxbench_case_{{case}}()","1 (EXIT: 1)"', '"1","work","5 (FFMA: 5)"']
log.write_text("\\n".join(lines))
"""


@pytest.fixture
def runner(monkeypatch):
    """The runner and its modules, with stand-ins for PyTorch and CuPy."""
    monkeypatch.syspath_prepend(str(RUNNERS))
    install(monkeypatch)
    names = (*HOLDERS, "kernel_counts", "kernel_session", "validate_kernels")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("validate_kernels")
    for name in names:
        sys.modules.pop(name, None)


def stand_in(folder, monkeypatch, unknown=()):
    """Put a stand-in for ncu on PATH; return the file with the cases of each of its calls."""
    calls, ncu = folder / "calls", folder / "bin" / "ncu"
    ncu.parent.mkdir()
    ncu.write_text(NCU.format(python=sys.executable, calls=str(calls), unknown=unknown))
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(ncu.parent))
    return calls


@pytest.fixture
def counts(tmp_path, monkeypatch, runner):
    """The module kernel_counts, a ncu that lacks threads by opcode, and the cases of each of its calls."""
    calls = stand_in(tmp_path, monkeypatch, unknown=("thread_inst",))
    return importlib.import_module("kernel_counts"), calls


def test_metrics_that_ncu_lacks_are_left_out_and_a_case_that_crashes_takes_no_other_with_it(counts, tmp_path):
    module, calls = counts
    missing = module.count(Path("runner.py"), [1, 2, 3, 4], tmp_path / "out", budget_s=60.0)
    assert missing == []
    asked = calls.read_text().splitlines()
    # Three sets of metrics are refused; then all together, and those behind the crash again, one by one.
    assert asked == ["1 2 3 4"] * 4 + ["3", "4"]
    assert len(list((tmp_path / "out").glob("*.csv"))) == 3
    # What the crash left of its case is not kept beside its counts.
    assert "ptxbench_case_3" not in (tmp_path / "out" / "counts-1-2-3-4.csv").read_text()
    counted, problems = launches_by_case(tmp_path / "out")
    assert (sorted(counted), problems) == ([1, 2, 3, 4], [])


def test_when_time_is_up_what_is_left_is_said_to_be_missing(counts, tmp_path):
    module, calls = counts
    assert module.count(Path("runner.py"), [1, 2], tmp_path / "out", budget_s=-1.0) == [1, 2]
    assert not calls.exists()


def test_without_the_counters_of_accesses_the_rest_is_counted(tmp_path, monkeypatch, runner):
    calls = stand_in(tmp_path, monkeypatch, unknown=("lts__t_requests",))
    module = importlib.import_module("kernel_counts")
    assert module.count(Path("runner.py"), [1, 2], tmp_path / "out", budget_s=60.0) == []
    assert calls.read_text().splitlines() == ["1 2"] * 2


def test_counting_again_counts_what_is_missing(tmp_path, monkeypatch, runner, capsys):
    calls = stand_in(tmp_path, monkeypatch)
    arguments = [
        "validate_kernels.py",
        "count",
        "--out",
        str(tmp_path / "v"),
        "--only",
        "read",
        "--only",
        "sort",
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    assert runner.main() == 0
    _, cases = runner._cases("library")
    wanted = [
        c.number
        for c in cases
        if c.name.startswith("sort") or (c.name.startswith("read") and c.operands == "random")
    ]
    first = calls.read_text().split()
    assert sorted(map(int, first)) == wanted
    # A sort executes what its data ask for; all else is counted on random operands.
    assert sum(cases[n].operands == "zeros" for n in wanted) == 1
    for path in (tmp_path / "v" / "counts").glob("*.csv"):
        path.write_text(path.read_text().replace(f"ptxbench_case_{wanted[1]}(", "other("))
    assert runner.main() == 0
    assert calls.read_text().split() == [*first, str(wanted[1])]
    assert f"{len(wanted)} cases counted; missing: none" in capsys.readouterr().out


def test_counts_of_other_cases_are_not_put_beside_a_session(tmp_path, monkeypatch, runner):
    folder = MadeUpSession(tmp_path / "v").write()
    monkeypatch.setattr(sys, "argv", ["validate_kernels.py", "count", "--out", str(folder)])
    with pytest.raises(InputError, match="other cases"):
        runner.main()


def test_what_follows_a_case_that_fails_is_not_counted_to_it(monkeypatch, runner):
    heard = []
    profiler = SimpleNamespace(
        cudaProfilerStart=lambda: heard.append("start"), cudaProfilerStop=lambda: heard.append("stop")
    )
    sys.modules["torch"].cuda = SimpleNamespace(
        cudart=lambda: profiler, synchronize=lambda: None, empty_cache=lambda: None
    )

    def case(number):
        def call():
            # Once before it is profiled, then under the profiler.
            heard.append(number)
            if number == 0 and heard.count(0) == 2:
                raise RuntimeError("no such kernel")

        return SimpleNamespace(operands="random", prepare=lambda operands: call)

    cases = importlib.import_module("kernel_cases")
    monkeypatch.setattr(cases, "all_cases", lambda: [case(0), case(1)])
    monkeypatch.setattr(sys, "argv", ["validate_kernels.py", "child", "0", "1"])
    assert runner.main() == 0
    assert heard == [0, "start", 0, "stop", 1, "start", 1, "stop"]


def measuring(monkeypatch, runner, out, *arguments, deadly=""):
    """Run `measure`, a second a trial; return its exit code and the command that took its place, if any."""
    clock = SimpleNamespace(s=0.0)

    class KernelMeter:
        source = "samples"

        def __init__(self, *_):
            self.dead = False

        def time_s(self, call):
            return 1e-3

        def free_share(self):
            return 1.0

        def alive(self):
            return not self.dead

        def measure(self, call, time_s, case, repeat):
            clock.s += 1.0
            if runner._cases("library")[1][case].name == deadly:
                self.dead = True
                raise RuntimeError("an illegal memory access was encountered")
            return KernelTrial(case, repeat, 1, 1e-3, 200.0, 0.1, 0.0, 40.0, 1.0, 1.0, 0, 0, "", (), ())

    board = SimpleNamespace(
        name="NVIDIA H200", uuid_hash="0", driver="580", power_limit_w=700.0, max_sm_clock_mhz=1980.0
    )
    followed = []
    libraries = sys.modules["torch"], sys.modules["cupy"]
    for library in libraries:
        library.__version__ = "1"
    monkeypatch.setitem(sys.modules, "kernel_power", SimpleNamespace(KernelMeter=KernelMeter))
    monkeypatch.setattr("ptxbench.sensors.nvml.NvmlDevice", lambda index: board)
    monkeypatch.setattr(runner.time, "monotonic", lambda: clock.s)
    monkeypatch.setattr(runner.os, "execv", lambda program, words: followed.append(words) or sys.exit(0))
    words = ["validate_kernels.py", "measure", "--out", str(out), *arguments]
    monkeypatch.setattr(sys, "argv", words)
    try:
        return runner.main(), followed
    except SystemExit:
        return None, followed


def test_a_session_that_its_budget_ends_says_what_it_has_not_reached(tmp_path, monkeypatch, runner, capsys):
    code, _ = measuring(monkeypatch, runner, tmp_path / "v", "--budget-s", "20.5")
    assert code == 1
    said = capsys.readouterr().out
    assert "21 trials in 21 s; 0 cases failed" in said
    assert "nbody-f32 random" in said.partition("not reached: ")[2]
    assert "read-random random" not in said


def test_a_kernel_that_kills_the_device_costs_itself_alone(tmp_path, monkeypatch, runner, capsys):
    out = tmp_path / "v"
    only = ["--only", "read-l", "--only", "copy"]
    code, ((_, _, *again),) = measuring(monkeypatch, runner, out, *only, "--budget-s", "99", deadly="copy")
    assert code is None
    assert again[:6] == ["--suite", "library", "measure", "--resume", "--out", str(out)]
    assert float(again[7]) < 99
    assert again[8:] == only
    code, followed = measuring(monkeypatch, runner, out, *again[3:4], *again[6:])
    assert (code, followed) == (1, [])
    said = capsys.readouterr().out
    assert "failed: copy random: RuntimeError: an illegal memory access was encountered" in said
    assert "not reached: none" in said


def test_a_session_is_not_measured_over(tmp_path, monkeypatch, runner):
    measuring(monkeypatch, runner, tmp_path / "v", "--only", "copy")
    with pytest.raises(InputError, match="--resume"):
        measuring(monkeypatch, runner, tmp_path / "v", "--only", "copy")


def estimated(*arguments):
    return run_script("runners/validate_kernels.py", "estimate", *arguments)


def test_judging_writes_the_table_and_the_model_and_prints_both_kinds_apart(tmp_path):
    session = MadeUpSession(tmp_path / "validation")
    for n in range(6):
        session.add(f"fit{n}", "random", Purpose.FIT, mixture(n, tensor=n % 3), n * 2e9, 6e-3)
    session.add("judged", "random", Purpose.JUDGED, mixture(9), 1e9, 6e-3)
    session.write()
    out = [tmp_path / name for name in ("v.csv", "model.json")]
    done = estimated("--out", session.folder, "--table", TABLE, "--csv", out[0], "--model", out[1])
    assert (done.returncode, done.stderr) == (0, "")
    assert "uncapped: 1 kernels, MAPE" in done.stdout
    assert "capped: 0 kernels" in done.stdout
    (row,) = csv.DictReader(out[0].read_text().splitlines())
    assert row["kernel"] == "judged"
    assert '"kernels"' in out[1].read_text()


def test_a_folder_without_a_session_is_one_line(tmp_path):
    done = estimated("--out", tmp_path, "--table", TABLE, "--csv", tmp_path / "v.csv")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "measured.json" in done.stderr
