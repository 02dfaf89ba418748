import sys

import pytest
from fakes import run as fake
from fakes.measuring import WatchedGpu, asked, measured

from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.experiment import protocols
from ptxbench.experiment.run_options import RunOptions
from ptxbench.report.text import tables_text
from ptxbench.storage.run_folder import RunFolder

# One launch of the target kernel on every SM; its row is the power and energy that it draws.
ONCE = """
from dataclasses import replace

from ptxbench.analysis.solved_rows import SolvedRows, by_subject
from ptxbench.core.condition import Form
from ptxbench.core.status import Status
from ptxbench.experiment.protocol import Measurement, Protocol
from ptxbench.storage.schema import Role


class Once(Protocol, Measurement):
    def form(self, instruction, opt_level):
        return Form.LATENCY

    def begin(self, state, sleep):
        self.state = state
        return self

    def measure(self, batch, *, more_follow, is_last):
        for prepared in batch:
            kernel = prepared.kernel(Role.TARGET, 132, 256)
            self.state.runner.trial(self.state.runner.calibrated(kernel, 0.5), 0)

    def solve(self, subjects, records, gpu):
        last = {name: trials[-1] for name, trials in by_subject(records).items()}
        rows = {s.name: s.row(Status.OK, "") for s in subjects}
        for name, trial in last.items():
            rows[name] = replace(rows[name], power_w=trial.steady_power_w, mtsm_pj=trial.mtsm_j * 1e12)
        return SolvedRows(rows)


PROTOCOL = Once()
"""


def test_a_new_protocol_is_one_file(tmp_path, monkeypatch):
    folder = tmp_path / "protocols"
    folder.mkdir()
    (folder / "once.py").write_text(ONCE)
    monkeypatch.setattr(protocols, "__path__", [*protocols.__path__, str(folder)])
    gpu = WatchedGpu()
    try:
        (row,) = measured(gpu, tmp_path / "run", asked("fma.rn.f32", protocols=("once",)))
    finally:
        sys.modules.pop("ptxbench.experiment.protocols.once", None)
    assert (row.protocol, row.status) == ("once", Status.OK)
    assert row.power_w > 100
    with RunFolder.open(tmp_path / "run") as run:
        assert run.records()[-1].trial_id == "fma.rn.f32/O3/once/random/target/0"
        assert [(r.protocol, r.subject) for r in run.rows()] == [("once", "fma.rn.f32/O3/once/random")]
    shown = tables_text([row], gpu.info, None)
    assert shown.startswith("once (SIMULATED)")
    assert "power_w" in shown


def test_an_unknown_protocol_is_refused_before_anything_runs():
    with pytest.raises(InputError, match="'luck'; known: arafa, dynamic"):
        RunOptions(protocols=("luck",)).over(fake.ARGUMENTS)
