"""`ptxbench doctor sensor` on the simulated GPUs: the hidden figures of every source are found."""

import json
import math
import shutil
from dataclasses import replace
from functools import cache, partial

import pytest
from click.testing import CliRunner

from ptxbench.cli.main import group, run
from ptxbench.core.errors import GpuError, InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200, find_profile, profile_names
from ptxbench.devices.simulated.profile import SensorSpec
from ptxbench.experiment.load import prepare_load
from ptxbench.experiment.recordings import open_recordings
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.sensor_choice import sensors_for
from ptxbench.experiment.sensor_study import PURPOSE, describe, sense, square_wave
from ptxbench.experiment.session import resume_run, start_run
from ptxbench.sensors.base import SourceName
from ptxbench.storage.kernels import KernelStore
from ptxbench.storage.recording import RecordingFolder
from ptxbench.storage.sensor_file import read_sensor_file

A100 = find_profile("a100")
RTX3090 = find_profile("rtx3090")

QUICK = replace(
    A100, sensors=(SensorSpec(SourceName.USAGE, refresh_s=0.02, averaging_s=0.03, lag_s=0.005, noise_w=1.0),)
)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    path = tmp_path_factory.mktemp("quick") / "sensor"
    found, where = sense(SimulatedGpu(QUICK), path)
    assert where == path
    return found, path


class Spoiled:
    """A folder whose sources give readings that a test has changed."""

    def __init__(self, folder, change):
        self.manifest, self.recordings, self.path = folder.manifest, folder.recordings, folder.path
        self._folder, self._change = folder, change

    def trace(self, name):
        whole = self._folder.trace(name)
        usage = whole.of(SourceName.USAGE)
        return whole.with_series(replace(usage, value=self._change(usage.value.copy())))


def zeros(value):
    value[::9] = 0.0
    return value


def test_readings_that_cannot_be_true_are_left_out_of_the_description_and_said(quick):
    found, path = quick
    with RecordingFolder.open(path, PURPOSE) as folder:
        spoiled = describe(Spoiled(folder, zeros))
        with pytest.raises(GpuError, match="above what the board can draw"):
            describe(Spoiled(folder, lambda value: 1000 * value))
    assert any("zero or negative" in note for note in spoiled.notes)
    assert not any("left out" in note for note in found.notes)
    (usage,), (was,) = spoiled.sources, found.sources
    assert usage.step_w.value == pytest.approx(was.step_w.value, rel=0.01)
    assert usage.sensor.averaging_s == pytest.approx(was.sensor.averaging_s, rel=0.05)


# A running mean over longer than this cannot tell its lag of a few ms to 5%.
SLOW_S = 0.1
# A lag of nothing, or nearly nothing, is found to this.
LEAST_LAG_S = 1.5e-4
# These have the sensors of another, and differ from it in what a kernel does.
SAME_SENSORS = {"b200", "b300", "h200-memory", "h200-ridge", "h200-clocks", "rtx3090-memory", "rtx5090"}
# These have the sensors of another, too, on a board whose power moves by itself: two sources tell it.
MOVING = {"h200-steps", "h200-warm"}
CASES = [
    (replace(one, sensors=one.sensors[:2]) if one.name in MOVING else one, 0)
    for one in map(find_profile, profile_names())
    if one.name not in SAME_SENSORS
]
CASES += [(find_profile("slow-sensor"), 1)]


@pytest.mark.parametrize(("profile", "seed"), CASES, ids=lambda value: getattr(value, "name", value))
def test_hidden_figures_are_found(profile, seed, tmp_path):
    found, _ = sense(SimulatedGpu(profile, seed), tmp_path / "sensor")
    hidden = {spec.source: spec for spec in profile.sensors}
    assert {sensor.source for sensor in found.sensors} == set(hidden)
    lags_s = {source.sensor.source: source.lag_s for source in found.sources}
    for sensor in found.sensors:
        spec = hidden[sensor.source]
        averaging_s = 0.0 if spec.source is SourceName.COUNTER else spec.averaging_s
        assert sensor.refresh_s == pytest.approx(spec.refresh_s, rel=0.05)
        assert sensor.averaging_s == pytest.approx(averaging_s, rel=0.05)
        if averaging_s < SLOW_S:
            assert sensor.lag_s == pytest.approx(spec.lag_s, rel=0.05, abs=LEAST_LAG_S)
        else:
            # As well as it says itself; the age of what a value speaks of is found to 5% in any case.
            # But a board whose power moves under a steady load, by warmth or by steps, seems to lag.
            if profile.voltage_steps is None:
                assert abs(sensor.lag_s - spec.lag_s) < 1.5 * lags_s[spec.source].uncertainty
            assert sensor.delay_s == pytest.approx(spec.lag_s + averaging_s / 2, rel=0.05)
        assert sensor.quantum == pytest.approx(spec.quantum, rel=0.05)
        assert sensor.origin == "measured"
    assert found.best.source is profile.sensors[0].source
    # The counter of one profile shows 1% less than its best source.
    assert [note for note in found.notes if "differs from the energy counter by +1.0" not in note] == []
    assert bool(found.notes) is (profile.name == "a100")
    for source in found.sources:
        # The driver's buffer is there where it is, filled up, and nowhere else; the others repeat themselves.
        is_buffer = source.sensor.source is SourceName.SAMPLES
        assert (source.buffer is not None) is is_buffer
        if source.buffer is not None:
            assert source.buffer.readings == 119
            assert source.buffer.span_s == pytest.approx(118 * hidden[SourceName.SAMPLES].refresh_s, rel=0.05)
        else:
            assert source.cost.stale_share == pytest.approx(
                1 - 0.0013 / hidden[source.sensor.source].refresh_s, abs=0.05
            )


def test_buffer_of_samples_is_found(tmp_path):
    samples_only = replace(H200, sensors=H200.sensors[:1])
    found, _ = sense(SimulatedGpu(samples_only), tmp_path / "sensor")
    buffer = found.sources[0].buffer
    assert buffer.readings == 119
    assert buffer.span_s == pytest.approx(118 * 0.02)
    assert buffer.waited_s > buffer.span_s + 1


def test_load_takes_under_a_minute_and_reaches_from_5_ms_to_a_second():
    pulses = square_wave()
    assert square_wave() == pulses
    assert 20 < sum(pulse.on_s + pulse.off_s for pulse in pulses) < 50
    shortest, longest = min(p.on_s for p in pulses), max(p.on_s for p in pulses)
    assert 0.004 < shortest < 0.007
    assert longest > 1.5


@cache
def load():
    return prepare_load(SimulatedGpu(H200))


def test_load_lasts_as_long_as_asked():
    gpu = SimulatedGpu(H200)
    for duration_s in (0.01, 0.5):
        assert gpu.run(load().launch("x", duration_s)).window.elapsed_s == pytest.approx(duration_s, rel=0.01)
    assert load().launch("x", 0.1, share=0.5).grid == H200.chip.sm_count // 2


def test_load_leaves_out_sms_where_the_gpu_throttles():
    capped = replace(H200, board=replace(H200.board, power_cap_w=450.0))
    lighter = prepare_load(SimulatedGpu(capped))
    assert lighter.sm_count == round(0.75 * H200.chip.sm_count)
    hopeless = replace(H200, board=replace(H200.board, power_cap_w=150.0))
    with pytest.raises(GpuError, match="SwPowerCap"):
        prepare_load(SimulatedGpu(hopeless))


def test_description_is_kept_and_read_back(quick):
    found, path = quick
    for name in (path, path / "sensor.json"):
        assert read_sensor_file(name) == found
    assert sensors_for(path, SimulatedGpu(QUICK)) == found.sensors


def test_description_is_the_same_when_worked_out_again_from_the_raw_readings(quick):
    found, path = quick
    assert describe(RecordingFolder.open(path, PURPOSE)) == found


def test_folder_holds_kernel_windows_and_readings(quick):
    _, path = quick
    folder = RecordingFolder.open(path, PURPOSE)
    (recording,) = folder.recordings
    assert len(recording.windows) == len(square_wave())
    trace = folder.trace(recording.name)
    assert trace.begin_ns < recording.windows[0].start_ns
    assert len(trace.of(SourceName.USAGE)) > 10_000
    assert folder.kernels.entries
    with pytest.raises(InputError, match="made by `ptxbench doctor sensor`"):
        RecordingFolder.open(path, "methods")


@pytest.mark.parametrize(
    ("other", "word"),
    [(RTX3090, "name"), (replace(QUICK, name="x", sensors=RTX3090.sensors[:0]), "no power")],
)
def test_description_of_another_gpu_is_refused(quick, other, word):
    with pytest.raises(InputError, match=word):
        sensors_for(quick[1], SimulatedGpu(other))


@pytest.mark.parametrize("damage", ["{", "{}", "[]", '{"sensor_version": 99}'])
def test_damaged_file_is_one_line(tmp_path, damage):
    (tmp_path / "sensor.json").write_text(damage)
    with pytest.raises(InputError) as error:
        read_sensor_file(tmp_path)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_folder_in_use_and_missing_folder_are_refused(tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(InputError, match="not empty"):
        sense(SimulatedGpu(QUICK), tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        read_sensor_file(tmp_path / "nothing")


def test_a_folder_whose_kernel_cannot_be_kept_is_released(tmp_path, monkeypatch):
    def full(*_):
        raise InputError("the disk is full")

    path, begin = tmp_path / "sensor", partial(open_recordings, SimulatedGpu(H200), PURPOSE, load=load())
    with monkeypatch.context() as patch:
        patch.setattr(KernelStore, "add", full)
        with pytest.raises(InputError, match="disk is full"):
            begin(path)
    with begin(path, resume=True) as folder:
        assert folder.kernels.entries


def test_simulated_description_stays_out_of_results(tmp_path):
    with pytest.raises(InputError, match="results"):
        sense(SimulatedGpu(QUICK), tmp_path / "results" / "x")


def test_source_that_never_moves_is_refused_and_its_readings_are_kept(tmp_path):
    dead = replace(QUICK, sensors=(replace(QUICK.sensors[0], gain=0.0, noise_w=0.0),))
    with pytest.raises(GpuError, match="followed the load"):
        sense(SimulatedGpu(dead), tmp_path / "sensor")
    assert RecordingFolder.open(tmp_path / "sensor", PURPOSE).recordings


def test_throttling_is_noted(tmp_path):
    # Under the cap for the trial second, over it once the chip is warm.
    board = replace(H200.board, power_cap_w=533.0, static_slope_w_per_k=1.2, static_at_c=40.0)
    found, _ = sense(SimulatedGpu(replace(H200, board=board, sensors=H200.sensors[:1])), tmp_path / "s")
    assert "SwPowerCap" in found.notes[0]


def test_run_uses_the_measured_description_and_goes_on_with_it(quick, tmp_path):
    found, path = quick
    gpu = SimulatedGpu(QUICK)
    asked = RunOptions(instructions=("fma.rn.f32",))
    with start_run(gpu, asked, tmp_path / "run", sensors_for(path, gpu)) as folder:
        assert folder.manifest.sensors == found.sensors
        assert folder.manifest.part.source is SourceName.USAGE
    with resume_run(gpu, asked, tmp_path / "run") as folder:
        assert folder.manifest.sensors[0].origin == "measured"


# Command line ----------------------------------------------------------------------------------


def test_command_prints_measured_beside_documented(quick, tmp_path):
    _, path = quick
    picture = tmp_path / "p.png"
    result = CliRunner().invoke(
        group, ["doctor", "sensor", "--gpu", f"replay:{path}", "--plot", str(picture)]
    )
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "SIMULATED" in lines[0]
    assert lines[2].startswith("usage")
    assert "measured" in lines[2]
    assert "documented" in lines[3]
    assert any(line.startswith("default source: usage") for line in lines)
    assert picture.read_bytes().startswith(b"\x89PNG")


def contents(path):
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_folder_given_to_read_is_never_written(quick, tmp_path):
    found, path = quick
    other, out = tmp_path / "recorded", tmp_path / "out"
    shutil.copytree(path, other)
    (other / "sensor.json").write_text("what somebody keeps here")
    before = contents(other)
    replay = ["doctor", "sensor", "--gpu", f"replay:{other}"]
    assert run(replay) == 0
    assert run([*replay, "--out", str(out)]) == 0
    assert contents(other) == before
    assert read_sensor_file(out) == found
    assert run([*replay, "--out", str(other)]) == 2
    assert contents(other) == before
    with pytest.raises(InputError, match="already holds a run"):
        RecordingFolder.open(path, PURPOSE).copy(out)


def test_command_prints_json_without_nan(quick):
    result = CliRunner().invoke(group, ["doctor", "sensor", "--gpu", f"replay:{quick[1]}", "--json"])
    plain = json.loads(result.output, parse_constant=pytest.fail)
    assert plain["sources"][0]["sensor"]["averaging_s"] == pytest.approx(0.03, rel=0.05)
    assert plain["folder"] == str(quick[1])


def test_table_takes_the_description(quick, tmp_path, capsys):
    _, path = quick
    arguments = [
        "table",
        "fma.rn.f32",
        "--opt-level",
        "O3",
        "--protocol",
        "dynamic",
        "--gpu",
        "simulated:a100",
    ]
    assert run([*arguments, "--sensor", str(path), "--out", str(tmp_path / "run")]) in (0, 1)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert {s["origin"] for s in manifest["sensors"]} == {"measured"}
    assert manifest["sensors"][0]["averaging_s"] == pytest.approx(0.03, rel=0.05)
    assert run([*arguments, "--resume", "--out", str(tmp_path / "run"), "--sensor", str(path)]) == 2
    assert "leave out --sensor" in capsys.readouterr().err


def test_noise_and_needed_window_are_numbers(quick):
    source = quick[0].sources[0]
    assert source.noise_w == pytest.approx(1.0, rel=0.2)
    assert 0.05 < source.needed_s < 1
    assert not math.isnan(source.explained)
