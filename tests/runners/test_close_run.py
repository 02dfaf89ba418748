import csv
from pathlib import Path

from fakes.script import run_script

from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import start_run
from ptxbench.storage.run_folder import RunFolder

RUNNER = Path(__file__).parents[2] / "runners" / "close_run.py"
# A batch a level.
ASKED = RunOptions(
    instructions=("fma.rn.f32", "add.f32"),
    opt_levels=tuple(OptLevel),
    protocols=(DYNAMIC,),
    max_repeats=2,
)

# By the simulated clock the first batch, with its warm-ups, takes some 3 s.
BUDGET_S = 3.0


def close(path):
    return run_script(RUNNER, path)


def test_an_unfinished_run_gets_its_final_files_and_no_trial_is_lost(tmp_path):
    path = tmp_path / "run"
    gpu = SimulatedGpu()
    with start_run(gpu, ASKED, path) as folder:
        measure_table(gpu, folder, budget_s=BUDGET_S)
        trials = [record.trial_id for record in folder.records()]
    assert not RunFolder.open(path).finished
    done = close(path)
    assert (done.returncode, done.stderr) == (0, "")
    with RunFolder.open(path) as closed:
        assert closed.finished
        assert [record.trial_id for record in closed.records()] == trials
        assert all(closed.trace(name) is not None for name in trials)
    rows = list(csv.DictReader((path / "table.csv").read_text().splitlines()))
    assert (
        [row["status"] for row in rows].count("not_reached")
        == [row["status"] for row in rows].count("ok")
        == 2
    )
    assert close(path).stdout == f"{path} is finished already\n"


def test_a_run_that_was_killed_before_it_wrote_a_table_is_closed_and_can_be_recomputed(tmp_path):
    path = tmp_path / "run"
    with start_run(SimulatedGpu(), ASKED, path) as folder:
        measure_table(SimulatedGpu(), folder, budget_s=BUDGET_S)
    (path / "table.csv").unlink()
    done = close(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{path}: 0 rows, 4 more were not reached\n"
    again = run_script("runners/recompute_table.py", path)
    assert (again.returncode, again.stderr) == (0, "")
    rows = list(csv.DictReader((path / "table.csv").read_text().splitlines()))
    assert [row["status"] for row in rows].count("ok") == 2


def test_a_folder_without_a_run_or_a_trial_is_one_line(tmp_path):
    none = close(tmp_path)
    assert (none.returncode, none.stderr.count("\n")) == (2, 1)
    with start_run(SimulatedGpu(), ASKED, tmp_path / "run"):
        pass
    empty = close(tmp_path / "run")
    assert empty.returncode == 2
    assert "holds no trial yet" in empty.stderr
