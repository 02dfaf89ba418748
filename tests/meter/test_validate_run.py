"""A run and bursts of the simulated GPU, with the power that it really drew as a meter's CSV."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from ptxbench.cli import main
from ptxbench.cli.meter_validate import validate
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.experiment.play_sync_pulse import record_burst
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import start_run
from ptxbench.meter.host import log_from_run
from ptxbench.sensors.base import SourceName
from ptxbench.storage.recording import RecordingFolder

GAIN, OFFSET_W, LAG_S = 0.94, 9.0, 0.080
CLOCK_OFFSET_S, DRIFT_PPM = 0.337, 42.0
METER_HZ, POLL_S = 1000.0, 0.0013
# Time on either side of the run: the drift is known to one sample over the length of the session.
PAUSE_S = 80.0
ASKED = {"opt_levels": (OptLevel.O3,), "protocols": (DYNAMIC,), "max_repeats": 2}


def hidden_gpu():
    usage = next(one for one in H200.sensors if one.source is SourceName.INSTANT)
    # The run's windows are multiples of 20 ms: were that the refresh, too, each would begin at the same phase
    # of it, and the lag be known to a refresh only.
    usage = replace(
        usage, gain=GAIN, offset=OFFSET_W, lag_s=LAG_S, refresh_s=0.017, averaging_s=0.02, noise_w=0.1
    )
    return SimulatedGpu(replace(H200, sensors=(usage,)), poll_interval_s=POLL_S)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A folder with a run, a burst on either side, and what a meter logged of all three."""
    folder = tmp_path_factory.mktemp("session")
    gpu = hidden_gpu()
    begin_ns = gpu.clock.now_ns()
    gpu.clock.sleep_s(1.0)
    record_burst(gpu, folder / "before")
    gpu.clock.sleep_s(PAUSE_S)
    asked = RunOptions(instructions=("fma.rn.f32", "add.u32"), seed=3, **ASKED)
    with start_run(gpu, asked, folder / "run") as run:
        measure_table(gpu, run)
    gpu.clock.sleep_s(PAUSE_S)
    record_burst(gpu, folder / "after")
    gpu.clock.sleep_s(1.0)
    host_ns = np.arange(begin_ns, gpu.clock.now_ns(), 1e9 / METER_HZ).astype(np.int64)
    power_w = np.array([gpu._physics.power_w(int(t)) for t in host_ns])
    power_w += np.random.default_rng(1).normal(0, 1.0, len(power_w))
    meter_us = 1e6 * CLOCK_OFFSET_S + (1 + 1e-6 * DRIFT_PPM) * host_ns / 1e3
    rows = np.column_stack([np.round(meter_us), power_w])
    np.savetxt(
        folder / "meter.csv", rows, fmt=["%d", "%.3f"], delimiter=",", header="t_us,power_w", comments=""
    )
    return folder


def validated(session, *bursts):
    arguments = ["--meter", session / "meter.csv", "--run", session / "run", "--json"]
    arguments += [text for burst in bursts for text in ("--sync", session / burst)]
    result = CliRunner().invoke(validate, [str(a) for a in arguments], catch_exceptions=False)
    return json.loads(result.output)


BURSTS = ("before", "after")


@pytest.fixture(scope="module")
def alone(session):
    return validated(session)


@pytest.fixture(scope="module")
def aligned(session):
    return validated(session, *BURSTS)


@pytest.mark.parametrize("which", ["alone", "aligned"])
def test_hidden_gain_and_offset_are_recovered_from_the_runs_own_traces(which, request):
    found = request.getfixturevalue(which)
    assert found["kind"] == "simulated"
    assert [one["source"] for one in found["sensors"]] == ["instant"]
    assert found["gain"]["value"] == pytest.approx(GAIN, rel=0.01)
    assert found["offset_w"]["value"] == pytest.approx(OFFSET_W, rel=0.03)
    instructions = {one["instruction"] for one in found["instructions"]}
    assert any(name.startswith("fma.rn.f32 O3") for name in instructions)
    assert not any("burst" in name for name in instructions)


def test_hidden_lag_and_clock_are_recovered_by_the_bursts(session, alone, aligned):
    # When a reading changed is known to a poll.
    assert aligned["lag_ms"]["value"] == pytest.approx(1e3 * LAG_S, abs=1e3 * POLL_S)
    assert aligned["drift_ppm"]["value"] == pytest.approx(DRIFT_PPM, abs=5)
    assert aligned["drift_ppm"]["uncertainty"] < 10
    begin_ns = log_from_run(session / "run", [session / name for name in BURSTS]).begin_ns
    expected_ms = 1e3 * CLOCK_OFFSET_S + 1e-6 * DRIFT_PPM * begin_ns / 1e6
    assert found_within(aligned["offset_ms"], expected_ms)
    assert aligned["offset_ms"]["uncertainty"] < 1
    assert aligned["alignment"]["edges"] > alone["alignment"]["edges"]
    assert len(aligned["windows"]) == len(alone["windows"])


def found_within(found, expected):
    return abs(found["value"] - expected) < 2 * found["uncertainty"]


def test_burst_is_the_code_and_holds_its_readings(session):
    folder = RecordingFolder.open(session / "before", "burst")
    (recording,) = folder.recordings
    on_s = np.array([w.elapsed_s for w in recording.windows])
    # Runs of a maximum-length sequence of 63 chips: 32 chips are on, in 16 stretches of up to 6.
    assert len(on_s) == 16
    assert np.round(on_s / 0.06).sum() == 32
    assert on_s == pytest.approx(0.06 * np.round(on_s / 0.06), rel=0.02)
    assert folder.trace("burst").of(SourceName.INSTANT) is not None


def edit(session, tmp_path, **changes):
    """A copy of a burst's folder with another manifest."""
    folder = tmp_path / "burst"
    folder.mkdir()
    for file in (session / "before").iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    plain = json.loads((folder / "manifest.json").read_text())
    for level in (plain, plain["part"], plain["gpus"][0]):
        level.update({key: value for key, value in changes.items() if key in level})
    (folder / "manifest.json").write_text(json.dumps(plain))
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uuid_hash": "0123456789ab"}, "another board"),
        ({"epoch_offset_ns": 1}, "the machine was restarted"),
        ({"purpose": "sensor"}, "made by `ptxbench doctor sensor`"),
    ],
)
def test_burst_that_does_not_belong_to_the_run_is_refused(session, tmp_path, changes, message):
    with pytest.raises(InputError, match=message) as error:
        log_from_run(session / "run", [edit(session, tmp_path, **changes)])
    assert "\n" not in str(error.value)


def test_burst_within_the_run_is_refused(session, tmp_path):
    folder = edit(session, tmp_path)
    first = log_from_run(session / "run").trials[3].window.start_ns
    plain = json.loads((folder / "recordings.json").read_text())
    shift_ns = first - plain[0]["windows"][0]["start_ns"]
    for window in plain[0]["windows"]:
        window["start_ns"] += shift_ns
        window["end_ns"] += shift_ns
    (folder / "recordings.json").write_text(json.dumps(plain))
    with pytest.raises(InputError, match="while the run measured"):
        log_from_run(session / "run", [folder])


def test_command_plays_a_burst(tmp_path, capsys):
    assert (
        main.run(["meter", "sync", "--gpu", "simulated:rtx4090", "--out", str(tmp_path / "b"), "--json"]) == 0
    )
    plain = json.loads(capsys.readouterr().out)
    assert plain["windows"] == 16
    assert RecordingFolder.open(tmp_path / "b", "burst").recordings


def test_burst_needs_a_run(capsys):
    assert (
        main.run(["meter", "validate", "--meter", "m", "--nvml", "n", "--windows", "w", "--sync", "b"]) == 2
    )
    assert "--sync goes with --run" in capsys.readouterr().err
