import json
import shutil
from dataclasses import replace
from pathlib import Path

from fakes.measuring import asked, measured
from fakes.script import run_script

from ptxbench.core.status import Status
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.storage.records import read_records, write_records
from ptxbench.storage.run_folder import RunFolder

RUNNER = Path(__file__).parents[2] / "runners" / "recompute_table.py"
FINAL = ("records.parquet", "table.csv", "traces.parquet")


def recompute(path):
    return run_script(RUNNER, path)


def test_records_and_table_follow_from_the_traces_alone(tmp_path):
    path = tmp_path / "run"
    measured(SimulatedGpu(), path, asked("fma.rn.f32", "add.f32"))
    before = {name: (path / name).read_bytes() for name in FINAL}
    # As an arithmetic that was wrong would have left it.
    spoilt = [
        r if r.repeat < 0 else replace(r, steady_power_w=1.0, status=Status.OK)
        for r in read_records(path / "records.parquet")
    ]
    write_records(path / "records.parquet", spoilt)
    shutil.copy(path / "manifest.json", tmp_path / "manifest.json")
    done = recompute(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 rows, 0 of them with another status" in done.stdout
    assert {name: (path / name).read_bytes() for name in FINAL} == before
    manifest, old = (json.loads((p / "manifest.json").read_text()) for p in (path, tmp_path))
    assert manifest["part"].pop("recomputed")["ptxbench_version"] == manifest["ptxbench_version"]
    assert old["part"].pop("recomputed") is None
    assert manifest == old


def test_a_run_that_is_not_finished_is_refused_in_a_line(tmp_path):
    gpu = SimulatedGpu()
    with start_run(gpu, replace(asked("fma.rn.f32"), seed=1), tmp_path / "run") as folder:
        measure_table(gpu, folder, budget_s=1e-6)
    done = recompute(tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr.startswith("recompute_table: ")
    assert done.stderr.count("\n") == 1
    with RunFolder.open(tmp_path / "run") as folder:
        assert not folder.finished
