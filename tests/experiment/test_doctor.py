"""`ptxbench doctor` on simulated GPUs of known faults, and where there is no GPU."""

import json
from dataclasses import replace

import pytest
from fakes.measuring import asked
from fakes.nvml import LOST, FakeDevice, use_nvml
from fakes.profile_file import write_profile

from ptxbench.cli.main import run
from ptxbench.core.errors import GpuError
from ptxbench.devices import machine_checks, select
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.profile import SensorSpec
from ptxbench.energy.gate.comparison import Comparison
from ptxbench.energy.gate.source import judge_source
from ptxbench.energy.gate.verdict import UNJUDGED
from ptxbench.experiment.counter_study import CounterStudy
from ptxbench.experiment.doctor import counter_verdicts, examine
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.sensor_choice import sensors_for
from ptxbench.experiment.session import start_run
from ptxbench.sensors.base import SourceName
from ptxbench.storage.doctor_file import CounterCheck, State, Verdict, known_difference
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.sensor_file import read_sensor_file

SENSORS = (
    SensorSpec(SourceName.USAGE, refresh_s=0.1, averaging_s=1.0, lag_s=0.004, noise_w=0.5),
    # As in issue 181 of zeus: the counter has little more than half of the energy.
    SensorSpec(SourceName.COUNTER, refresh_s=0.1, lag_s=0.004, gain=0.57),
)


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    out = tmp_path_factory.mktemp("doctor") / "out"
    faulty = write_profile(out.parent / "faulty.toml", SENSORS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptxbench.experiment.sampling.RUNS", {0.3: 1, 1.0: 1})
        assert run(["doctor", "--deep", "--gpu", f"simulated:{faulty}", "--out", str(out)]) == 1
    return json.loads((out / "doctor.json").read_text()), out


def of(document, subject):
    return [one for one in document["verdicts"] if one["subject"] == subject]


def test_a_counter_that_has_half_of_the_energy_is_found_idle_and_under_load(document):
    idle, loaded, both = of(document[0], "counter")[-3:]
    assert idle["state"] == loaded["state"] == both["state"] == "bad"
    assert "`ptxbench table` gives no number" in both["text"]
    assert "idle" in idle["text"]
    assert "-43" in loaded["text"]
    for check in document[0]["counter"]:
        assert check["counter_j"] / check["integral_j"] == pytest.approx(0.57, rel=0.01)


def test_the_running_mean_is_found_and_its_line_has_the_methods(document):
    (usage,) = of(document[0], "usage")
    assert "1 s mean" in usage["text"]
    assert "14% low for 3 s" in usage["text"]
    assert of(document[0], "samples")[0]["text"].startswith("does not answer")
    assert of(document[0], "DCGM")[0]["state"] == "do not use"
    assert [one["text"].split(":")[0] for one in of(document[0], "use")] == [
        "for steady power",
        "for the energy of one kernel",
    ]


def test_what_the_sensors_make_of_other_tools_is_said(document):
    mean, counter = of(document[0], "other tools")
    # A share of (1 - idle / load) x (1 - T / 2 A) is missed in a window of T after idle time.
    assert "means over 1 s" in mean["text"]
    assert "% for 0.3 s" in mean["text"]
    assert "renewed every 0.1 s" in counter["text"]
    assert "stale" not in counter["text"]


def test_what_was_measured_is_kept_and_serves_a_run(document):
    assert {s.source for s in read_sensor_file(document[1] / "sensor").sensors} == {"usage", "counter"}
    assert (document[1] / "counter" / "traces.parquet").exists()


def test_a_counter_that_agrees_is_ok_and_one_that_cannot_be_compared_says_so():
    def of_counter(energy_j):
        check = CounterCheck("idle", 4.0, energy_j, 500.0, 0.5, SourceName.SAMPLES)
        compared = Comparison(0, 4_000_000_000, energy_j, 500.0, 0.5)
        return counter_verdicts(CounterStudy((check,), judge_source([compared])))

    states = [[one.state for one in of_counter(j)] for j in (500.4, 510.0, 560.0)]
    assert states == [[State.OK] * 2, [State.NOTE] * 2, [State.BAD] * 2]
    # Both lines have the 95% interval of an error of 0.5 J in 500 J.
    stretch, together = (one.text for one in of_counter(500.0))
    assert "(+0.00 ± 0.2%)" in stretch
    assert "1.0000 ± 0.002" in together
    assert counter_verdicts(CounterStudy((), UNJUDGED))[0].state is State.NOTE


def test_what_a_source_gave_that_cannot_be_is_said_in_the_place_of_a_comparison():
    wrong = replace(UNJUDGED, objection="samples: 1,000 times too high")
    assert counter_verdicts(CounterStudy((), wrong)) == (Verdict("counter", State.BAD, wrong.objection),)


def test_without_a_driver_it_says_what_is_missing_and_checks_the_rest(capsys, monkeypatch):
    monkeypatch.setattr(machine_checks, "driver_traces", lambda *_: ())
    assert run(["doctor"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("missing") and "no NVIDIA driver" in line for line in lines)
    assert any("ptxas" in line for line in lines)
    assert run(["doctor", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["gpu"], found["folder"]) == (None, None)


def test_a_driver_that_shows_no_gpu_is_exit_3(capsys, monkeypatch):
    ready = (Verdict("driver", State.OK, "found"),)
    monkeypatch.setattr(machine_checks, "machine_verdicts", lambda: ready)

    def no_gpu():
        raise GpuError("CUDA sees no GPU")

    monkeypatch.setattr(select, "open_first", no_gpu)
    assert run(["doctor"]) == 3
    assert "CUDA sees no GPU" in capsys.readouterr().out


def test_a_lost_board_has_its_line_and_named_it_is_exit_3(capsys, monkeypatch):
    pytest.importorskip("ptxbench.devices.cuda", exc_type=GpuError)
    use_nvml(monkeypatch, FakeDevice(), FakeDevice(errors={"nvmlDeviceGetHandleByIndex": LOST}))
    monkeypatch.setattr(machine_checks, "machine_verdicts", lambda: (Verdict("driver", State.OK, "found"),))
    assert run(["doctor", "--gpu", "1"]) == 3
    _, line, missing = capsys.readouterr().out.splitlines()
    assert line.startswith("bad      GPU 1   left out: NVML says 'error text 15' (code 15); reset the GPU")
    assert missing.startswith("missing  GPU     GPU 1 cannot be opened: NVML says 'error text 15' (code 15)")


def test_deep_also_compares_the_methods_by_what_it_measured(document):
    _, out = document
    kept = json.loads((out / "methods" / "methods.json").read_text())
    assert {one["source"] for one in kept["points"]} == {"usage", "counter"}
    assert not any("documented, not measured" in note for note in kept["notes"])


def test_an_option_before_a_command_of_doctor_is_refused_not_lost(capsys):
    assert run(["doctor", "--json", "sensor", "--gpu", "simulated"]) == 2
    assert "give --json after 'sensor'" in capsys.readouterr().err


def test_a_recorded_run_is_refused(capsys):
    assert run(["doctor", "--gpu", "replay:runs/x"]) == 2
    assert "name a GPU" in capsys.readouterr().err


@pytest.fixture(scope="module")
def of_two_percent(tmp_path_factory):
    """The folder of a doctor on a board whose counter shows 2% too little."""
    out = tmp_path_factory.mktemp("doctor") / "out"
    sensors = tuple(replace(s, gain=0.98) if s.source is SourceName.COUNTER else s for s in H200.sensors[:2])
    board = SimulatedGpu(replace(H200, sensors=sensors))
    examine(board, (), out)
    return board, out


def test_table_knows_what_doctor_found_of_this_board_and_of_no_other(of_two_percent):
    board, out = of_two_percent
    assert {s.source for s in read_sensor_file(out).sensors} == {"samples", "counter"}
    for named in (out, out / "sensor", out / "sensor" / "sensor.json"):
        # With its error: all that the difference may be.
        assert 0.02 < known_difference(named, board.info) < 0.03
    assert known_difference(out, replace(board.info, uuid_hash="another")) == 0.0
    assert known_difference(out / "sensor" / "none" / "of" / "it", board.info) == 0.0


def test_a_run_with_doctors_folder_has_that_difference_in_its_scale(of_two_percent, tmp_path):
    board, out = of_two_percent
    what = asked("fma.rn.f32")
    known = known_difference(out, board.info)
    with start_run(board, what, tmp_path / "run", sensors_for(out, board), known) as folder:
        rows = measure_table(board, folder)
    assert [row.status for row in rows] == ["ok"]
    manifest = read_run_manifest(tmp_path / "run")
    assert manifest.part.known_difference == known
    assert manifest.part.scale_ci95 >= known
