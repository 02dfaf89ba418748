from typing import ClassVar

import pytest
from fakes import run as fake
from fakes.measuring import WatchedGpu, asked, measured

from ptxbench.analysis.solved_rows import SolvedRows
from ptxbench.core.condition import Form
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.experiment import protocols
from ptxbench.experiment.protocols.base import Measurement, Protocol
from ptxbench.experiment.run_options import RunOptions
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role


class Once(Protocol, Measurement):
    """One launch of the target kernel on every SM."""

    name: ClassVar[str] = "once"

    def form(self, instruction, opt_level):
        return Form.LATENCY

    def begin(self, state, sleep):
        self.state = state
        return self

    def measure(self, batch, *, more_follow, is_last):
        for prepared in batch:
            self.state.bench.trial(
                self.state.bench.calibrated(prepared.kernel(Role.TARGET, 132, 256), 0.5), 0
            )

    def solve(self, subjects, records, sm_count):
        return SolvedRows(
            {s.name: s.row(Status.OK, f"{len(records)} trials, {sm_count} SMs") for s in subjects}
        )


def test_a_new_protocol_is_one_object_of_the_registry(tmp_path, monkeypatch):
    monkeypatch.setitem(protocols.PROTOCOLS, "once", Once())
    (row,) = measured(WatchedGpu(), tmp_path / "run", asked("fma.rn.f32", protocols=("once",)))
    assert (row.protocol, row.status) == ("once", Status.OK)
    assert row.reason.endswith("132 SMs")
    with RunFolder.open(tmp_path / "run") as folder:
        assert folder.rows() == (row,)
        assert folder.records()[-1].trial_id == "fma.rn.f32/O3/once/random/target/0"


def test_an_unknown_protocol_is_refused_before_anything_runs():
    with pytest.raises(InputError, match="'luck'; known protocols: arafa, dynamic"):
        RunOptions(protocols=("luck",)).over(fake.ARGUMENTS)
