"""`ptxbench doctor methods` on the simulated GPUs: what is measured is what was predicted."""

import json
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fakes.full_disk import fill_disk
from fakes.script import load_script

from ptxbench.analysis.recommendation import recommend
from ptxbench.cli import main
from ptxbench.cli.main import group
from ptxbench.core.errors import GpuError, InputError, LaunchError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.experiment.load import prepare_load
from ptxbench.experiment.method_errors import compare
from ptxbench.experiment.sampling import PURPOSE, again, measure_methods, phase_s
from ptxbench.experiment.sampling import RUNS as RUNS_OF_THE_COMMAND
from ptxbench.experiment.sampling_cases import Case, Reference, parse_name
from ptxbench.experiment.sensor_study import sense
from ptxbench.sensors.base import SourceName
from ptxbench.storage.document import read_document
from ptxbench.storage.methods_file import METHODS_FILE, LoadKind, MethodPoint, MethodsFile
from ptxbench.storage.recording import RecordingFolder

RTX2080TI = find_profile("rtx2080ti")
RTX4090 = find_profile("rtx4090")
SLOW_SENSOR = find_profile("slow-sensor")

RUNS = {0.03: 3, 0.3: 3, 1.0: 3, 3.0: 2}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    path = tmp_path_factory.mktemp("compared") / "methods"
    found, where = measure_methods(SimulatedGpu(H200), path, runs=RUNS)
    assert where == path
    return found, path


def test_a_source_that_cannot_be_true_is_left_out_of_the_comparison_and_said(compared):
    found, path = compared

    class Spoiled:
        def __init__(self, folder):
            self.manifest, self.recordings, self.path = folder.manifest, folder.recordings, folder.path
            self._folder = folder

        def trace(self, name):
            whole = self._folder.trace(name)
            average = whole.of(SourceName.AVERAGE)
            return whole.with_series(replace(average, value=1000 * average.value))

    with RecordingFolder.open(path, PURPOSE) as folder:
        spoiled = compare(Spoiled(folder))
    assert SourceName.AVERAGE in {one.source for one in found.levels}
    assert SourceName.AVERAGE not in {one.source for one in spoiled.levels}
    assert any("above what the board can draw" in note for note in spoiled.notes)
    assert not any("cannot be true" in note for note in found.notes)


def points(found, **want):
    return [p for p in found.points if all(getattr(p, key) == value for key, value in want.items())]


def within(found, allowed):
    """Whether every measured bias is as predicted to 3 points, or to what its own noise allows."""
    for point in found.points:
        if not point.answered or math.isnan(point.predicted_pct):
            continue
        spread = 0.0 if math.isnan(point.spread_pct) else point.spread_pct
        slack = allowed(point) * max(spread, point.predicted_spread_pct) / math.sqrt(point.answered)
        assert abs(point.bias_pct - point.predicted_pct) < 3 + slack, point


@pytest.mark.parametrize("profile", [RTX2080TI, RTX4090, SLOW_SENSOR], ids=lambda profile: profile.name)
def test_measured_bias_is_the_one_predicted(profile, tmp_path):
    found, _ = measure_methods(SimulatedGpu(profile), tmp_path / "methods", runs={0.03: 4, 0.3: 3, 1.0: 2})
    # A mean over a few phases differs from the mean over all where a phase decides everything.
    within(found, lambda _: 2.0)
    assert {sensor.source for sensor in found.sensors} == {s.source for s in profile.sensors}


def test_published_methods_on_usage_are_predicted_within_3_points(compared):
    found, _ = compared
    within(found, lambda _: 2.0)
    of_usage = [p for p in points(found, source="usage") if p.method != "corrected"]
    assert len(of_usage) == 6 * 3 * len(RUNS)
    for point in of_usage:
        # A median says one value or the other, by the phase of the refresh.
        assert abs(point.bias_pct - point.predicted_pct) < (6 if point.method == "median" else 3), point
    # A running mean of a second makes the methods of the paper miss most of a 0.3 s kernel.
    short = points(found, source="usage", kind=LoadKind.CONSTANT, method="mtsm")[1]
    assert short.bias_pct < -60


def test_corrected_energy_is_right_where_the_source_sees_enough(compared):
    found, _ = compared
    for source in ("samples", "usage", "average", "counter"):
        for point in points(found, source=source, method="corrected"):
            if point.duration_s > 0.2:
                assert abs(point.bias_pct) < 1.5, point
    assert not points(found, source="memory")


def test_levels_and_recommendation(compared):
    found, _ = compared
    assert [one.source for one in found.levels] == [s.source for s in found.sensors]
    for one in found.levels:
        assert one.steady_w == pytest.approx(531, rel=0.01)
        assert one.idle_w == pytest.approx(126.5, rel=0.01)
        assert one.ratio == pytest.approx(1.0, abs=0.003)
    assert found.recommendations[0].startswith("use corrected on ")
    assert found.recommendations[1].startswith("without correction: use ")
    assert "sma" in found.recommendations[2]
    # Two sources are named where they differ by more than 1.96 errors: one comparison in 20, by chance.
    assert len(found.notes) <= 2
    assert all("where their errors allow" in note or note.startswith("instant: ") for note in found.notes)


def test_result_is_kept_and_can_be_worked_out_again(small):
    found, path = small
    assert repr(read_document(path / METHODS_FILE, MethodsFile, "methods_version")) == repr(found)
    assert repr(again(RecordingFolder.open(path, PURPOSE), None)[0]) == repr(found)


def test_sources_of_unlike_gain_are_compared_each_with_itself_and_flagged(tmp_path):
    sensors = tuple(
        replace(s, gain=1.05 if s.source is SourceName.USAGE else s.gain)
        for s in H200.sensors
        if s.source in (SourceName.SAMPLES, SourceName.USAGE)
    )
    found, _ = measure_methods(
        SimulatedGpu(replace(H200, sensors=sensors)), tmp_path / "methods", runs={3.0: 1}
    )
    for point in points(found, method="corrected"):
        assert abs(point.bias_pct) < 1
    assert found.levels[1].ratio == pytest.approx(1.05, abs=0.003)
    assert len(found.notes) == 1
    assert "samples gives" in found.notes[0]
    assert "+5" in found.notes[0]


class Failing(SimulatedGpu):
    """A GPU on which one recording ends in an error."""

    def __init__(self, profile, good, error):
        super().__init__(profile)
        self.left, self.error = good, error

    def run_sequence(self, launches, gaps_s, poll_interval_s=None):
        if launches[0].before_s:
            if not self.left:
                raise self.error
            self.left -= 1
        return super().run_sequence(launches, gaps_s, poll_interval_s)


def test_what_was_recorded_is_kept_where_the_gpu_fails(tmp_path):
    gpu = Failing(RTX2080TI, 5, LaunchError("cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS"))
    with pytest.raises(LaunchError):
        measure_methods(gpu, tmp_path / "methods", runs={0.03: 2})
    folder = RecordingFolder.open(tmp_path / "methods", PURPOSE)
    assert len(folder.recordings) == 5
    assert {p.runs for p in again(folder, None)[0].points} == {1}


def test_ctrl_c_keeps_what_was_recorded_and_says_how_to_see_it(tmp_path, monkeypatch, capsys):
    def stopped_after(good):
        gpu = Failing(RTX2080TI, good, KeyboardInterrupt())
        monkeypatch.setattr("ptxbench.cli.doctor_methods.open_chosen_gpu", lambda _: gpu)
        out = tmp_path / str(good)
        assert main.run(["doctor", "methods", "--gpu", "simulated", "--out", str(out)]) == 130
        said = capsys.readouterr().err
        assert f"{good} of 104 recordings are kept" in said
        assert f"Continue with: ptxbench doctor methods --resume --out {out} --gpu simulated\n" in said
        replay = said.split("so far with: ptxbench ")[1].splitlines()[0].split()
        return main.run(replay), capsys.readouterr()

    code, printed = stopped_after(9)
    assert code == 0
    assert "use " in printed.out
    code, printed = stopped_after(3)
    assert code == 2
    assert "holds 3 recordings, too few to compare" in printed.err


SHORT = {0.03: 2}


def names(path):
    with RecordingFolder.open(path, PURPOSE) as folder:
        return [recording.name for recording in folder.recordings]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A comparison of few recordings, and its folder."""
    path = tmp_path_factory.mktemp("small") / "methods"
    return measure_methods(SimulatedGpu(RTX2080TI), path, runs=SHORT)


@pytest.fixture(scope="module")
def stopped(small, tmp_path_factory):
    """A comparison that ended without a word after nine recordings, and the names of one that did not."""
    path = tmp_path_factory.mktemp("stopped")
    with pytest.raises(KeyboardInterrupt):
        measure_methods(Failing(RTX2080TI, 9, KeyboardInterrupt()), path / "methods", runs=SHORT)
    return path / "methods", names(small[1])


@pytest.mark.hostile
def test_every_recording_is_kept_at_once_and_a_stopped_comparison_goes_on(stopped, tmp_path):
    path, whole = tmp_path / "methods", stopped[1]
    shutil.copytree(stopped[0], path)
    assert names(path) == whole[:9]
    gpu = Failing(RTX2080TI, len(whole) - 9, AssertionError("a recording was made again"))
    found, _ = measure_methods(gpu, path, runs=SHORT, resume=True)
    assert names(path) == whole
    assert repr(read_document(path / METHODS_FILE, MethodsFile, "methods_version")) == repr(found)
    assert not (path / "partial").exists()
    # Of one that is complete nothing is left to measure.
    again_, _ = measure_methods(
        Failing(RTX2080TI, 0, AssertionError("measured again")), path, runs=SHORT, resume=True
    )
    assert repr(again_) == repr(found)


def test_a_stopped_comparison_is_closed_with_what_it_holds(stopped, tmp_path, monkeypatch, capsys):
    path = tmp_path / "methods"
    shutil.copytree(stopped[0], path)
    monkeypatch.setattr(sys, "argv", ["close_run", "--methods", str(path)])
    assert load_script("runners/close_run.py").main() == 0
    assert "9 recordings" in capsys.readouterr().out
    assert names(path) == stopped[1][:9]
    assert not (path / "partial").exists()
    with RecordingFolder.open(path, PURPOSE) as folder:
        assert repr(read_document(path / METHODS_FILE, MethodsFile, "methods_version")) == repr(
            again(folder, None)[0]
        )


@pytest.mark.hostile
def test_lost_readings_are_said_and_recorded_again(stopped, tmp_path):
    path, whole = tmp_path / "methods", stopped[1]
    shutil.copytree(stopped[0], path)
    for file in sorted((path / "partial" / "traces").iterdir())[:2]:
        file.unlink()
    lost = []
    measure_methods(SimulatedGpu(RTX2080TI), path, runs=SHORT, resume=True, on_lost=lost.extend)
    assert len(lost) == 2
    assert sorted(names(path)) == sorted(whole)


@pytest.mark.hostile
@pytest.mark.parametrize("full", ["traces.parquet", "recordings.json"])
def test_a_disk_that_is_full_at_the_end_loses_no_recording(tmp_path, monkeypatch, full):
    path = tmp_path / "methods"
    gpu = Failing(RTX2080TI, 9, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        measure_methods(gpu, path, runs=SHORT)
    with monkeypatch.context() as patch:
        fill_disk(patch, full)
        with pytest.raises(InputError, match=r"No space left on device; free some space.*`resume`"):
            measure_methods(SimulatedGpu(RTX2080TI), path, runs=SHORT, resume=True)
    held = names(path)
    found, _ = measure_methods(
        Failing(RTX2080TI, 0, AssertionError("measured again")), path, runs=SHORT, resume=True
    )
    assert names(path) == held
    assert repr(again(RecordingFolder.open(path, PURPOSE), None)[0]) == repr(found)


@pytest.mark.hostile
def test_recordings_of_another_gpu_load_or_purpose_are_not_gone_on_with(stopped, tmp_path, monkeypatch):
    path = stopped[0]
    before = contents(path)
    with pytest.raises(InputError, match="was measured with name"):
        measure_methods(SimulatedGpu(RTX4090), path, runs=SHORT, resume=True)
    with pytest.raises(InputError, match="was measured with command methods, this is sensor"):
        sense(SimulatedGpu(RTX2080TI), path, resume=True)
    real = prepare_load
    monkeypatch.setattr(
        "ptxbench.experiment.sampling.prepare_load", lambda gpu: replace(real(gpu), sm_count=17)
    )
    with pytest.raises(InputError, match="was measured with the load on so many SMs: 68, this is 17"):
        measure_methods(SimulatedGpu(RTX2080TI), path, runs=SHORT, resume=True)
    monkeypatch.undo()
    with pytest.raises(InputError, match="holds no run"):
        measure_methods(SimulatedGpu(RTX2080TI), tmp_path / "none", runs=SHORT, resume=True)
    assert contents(path) == before


@pytest.mark.hostile
def test_two_processes_never_write_one_folder(tmp_path):
    gpu = SimulatedGpu(RTX2080TI)

    def second(at):
        if at.done == 2:
            with pytest.raises(InputError, match="another process"):
                measure_methods(SimulatedGpu(RTX2080TI), at.folder, runs=SHORT, resume=True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_methods(gpu, tmp_path / "methods", on_progress=second, runs=SHORT)
    assert len(names(tmp_path / "methods")) == 2


@pytest.mark.parametrize("command", ["methods", "sensor"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--resume"], "--resume needs --out"),
        (["--resume", "--out", "x", "--gpu", "replay:y"], "name a GPU, not a recorded folder"),
    ],
)
def test_resume_without_something_to_continue_is_refused(command, wrong, said, capsys):
    assert main.run(["doctor", command, *wrong]) == 2
    assert said in capsys.readouterr().err


def test_idle_time_leaves_room_to_forget_and_fits_six_minutes(compared):
    _, path = compared
    folder = RecordingFolder.open(path, PURPOSE)
    slowest_s = max(sensor.settle_s for sensor in folder.manifest.sensors)
    spare_s, kernels_s = 0.0, 0.0
    for one in folder.recordings:
        assert (one.end_ns - one.windows[-1].end_ns) / 1e9 > slowest_s
        if isinstance(parse_name(one.name), Case):
            spare_s = max(spare_s, (one.end_ns - one.begin_ns) / 1e9 - parse_name(one.name).duration_s)
    cases = len(LoadKind) * sum(RUNS_OF_THE_COMMAND.values())
    kernels_s = len(LoadKind) * sum(duration_s * n for duration_s, n in RUNS_OF_THE_COMMAND.items())
    long_s = sum((r.end_ns - r.begin_ns) / 1e9 for r in folder.recordings if r.name.startswith("reference"))
    assert cases * spare_s + kernels_s + long_s < 360


def test_sensors_that_are_documented_only_are_said_so(tmp_path):
    gpu = SimulatedGpu(RTX2080TI)
    sensors = [replace(sensor, origin="documented") for sensor in gpu.sensors]
    found, _ = measure_methods(gpu, tmp_path / "methods", sensors, runs={0.03: 1})
    documented = [note for note in found.notes if "documented, not measured" in note]
    assert len(documented) == len(found.levels)


def test_gpu_whose_sources_never_settle_is_refused(tmp_path):
    dead = replace(RTX2080TI, sensors=(replace(RTX2080TI.sensors[1], averaging_s=20.0),))
    with pytest.raises(GpuError, match="steady power"):
        measure_methods(SimulatedGpu(dead), tmp_path / "methods", runs={0.03: 1})


# The plan --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LoadKind)
def test_case_lasts_as_long_as_asked(kind, compared):
    _, path = compared
    for recording in RecordingFolder.open(path, PURPOSE).recordings:
        case = parse_name(recording.name)
        if isinstance(case, Case) and case.kind is kind:
            span_s = (recording.windows[-1].end_ns - recording.windows[0].start_ns) / 1e9
            assert span_s == pytest.approx(case.duration_s, rel=0.02)
            assert len(recording.windows) == {"constant": 1, "ramped": 4, "bursty": 5}[kind]


def test_names_of_recordings_are_read_back():
    for one in (Case(LoadKind.BURSTY, 0.03, 4), Reference(0.25, 1)):
        assert parse_name(one.name) == one
    for name in ("square-wave", "constant/x/0", "other/0.1/0"):
        with pytest.raises(InputError, match="none of"):
            parse_name(name)


@pytest.mark.parametrize("repeats", [2, 3, 4, 5])
@pytest.mark.parametrize("refresh_s", [0.1, 0.02])
def test_repeats_spread_over_both_refreshes(repeats, refresh_s):
    at = np.sort([phase_s(k, repeats) % refresh_s for k in range(repeats)])
    gaps = np.diff([*at, at[0] + refresh_s]) / refresh_s
    assert gaps.max() < 1.6 / repeats


# Recommendation --------------------------------------------------------------------------------


def point(duration_s, method, bias_pct, source="usage", spread_pct=0.1, answered=5, kind=LoadKind.CONSTANT):
    source = SourceName(source)
    lasted_s = 1.04 * duration_s
    return MethodPoint(
        kind, duration_s, lasted_s, method, source, 5, answered, 1.0, bias_pct, spread_pct, 0.0, 0.0
    )


def test_the_way_that_serves_the_shortest_kernels_is_named():
    sentences = recommend(
        [
            *(point(d, "mtsm", b) for d, b in ((0.1, -70.0), (1.0, -40.0), (10.0, -1.0))),
            *(point(d, "corrected", b, "samples") for d, b in ((0.1, -9.0), (1.0, 0.1), (10.0, 0.1))),
            # One load that it cannot serve is enough; a gap in between counts too.
            *(point(d, "papi", b) for d, b in ((0.1, 0.0), (1.0, 5.0), (10.0, 0.0))),
            point(1.0, "corrected", 1.5, "samples", kind=LoadKind.BURSTY),
        ]
    )
    assert sentences[0] == (
        "use corrected on samples, with idle time recorded around the kernel: within 2% from 1 s on;"
        " repeat shorter kernels until they fill 1 s"
    )
    assert sentences[1].startswith("without correction: use papi on usage: within 2% from 10 s on")
    assert sentences[2] == "on usage, as published, a 0.1 s kernel of even power reads: mtsm -70%, papi +0%"


def test_a_method_that_is_silent_at_times_does_not_serve():
    assert "from 10 s on" in recommend([point(1.0, "mtsm", 0.0, answered=4), point(10.0, "mtsm", 0.0)])[0]
    off = recommend([point(10.0, "mtsm", 30.0, spread_pct=0.0)])
    assert "least wrong, 30.0% off on a 10 s kernel" in off[0]
    # One run shows no scatter.
    once = recommend([point(10.0, "mtsm", 5.0, spread_pct=math.nan)])
    assert "least wrong, 5.0% off on a 10 s kernel" in once[0]
    assert recommend([]) == ("no method gave an energy",)


# Command line ----------------------------------------------------------------------------------


def test_command_prints_tables_and_draws(small, tmp_path):
    _, path = small
    picture = tmp_path / "p.png"
    words = ["doctor", "methods", "--gpu", f"replay:{path}", "--plot", str(picture)]
    result = CliRunner().invoke(group, words)
    assert result.exit_code == 0, result.output
    assert "SIMULATED" in result.output
    for kind in LoadKind:
        assert f"\n{kind} power: bias" in result.output
    assert "corrected on" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def contents(path):
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_folder_given_to_read_is_never_written(small, tmp_path):
    found, path = small
    other, out = tmp_path / "recorded", tmp_path / "out"
    shutil.copytree(path, other)
    (other / "methods.json").write_text("what somebody keeps here")
    before = contents(other)
    replay = ["doctor", "methods", "--gpu", f"replay:{other}"]
    assert main.run(replay) == 0
    assert main.run([*replay, "--out", str(out)]) == 0
    assert contents(other) == before
    assert repr(read_document(out / METHODS_FILE, MethodsFile, "methods_version")) == repr(found)
    assert repr(again(RecordingFolder.open(out, PURPOSE), None)[0]) == repr(found)
    assert main.run([*replay, "--out", str(other)]) == 2
    assert contents(other) == before


def test_other_sensors_change_what_is_predicted_and_not_the_folder(compared, monkeypatch):
    found, path = compared
    faster = [replace(sensor, averaging_s=sensor.averaging_s / 2) for sensor in found.sensors]
    monkeypatch.setattr("ptxbench.experiment.sampling.sensors_of", lambda *_: faster)
    other, _ = again(RecordingFolder.open(path, PURPOSE), Path("sensor.json"))
    (old,), (new,) = (
        points(of, kind=LoadKind.CONSTANT, source="usage", method="mtsm", requested_s=1.0)
        for of in (found, other)
    )
    # The reference, too, is read with the other sensor.
    assert new.bias_pct == pytest.approx(old.bias_pct, abs=4)
    assert new.predicted_pct > old.predicted_pct + 10
    assert repr(read_document(path / METHODS_FILE, MethodsFile, "methods_version")) == repr(found)


def test_picture_that_cannot_be_drawn_is_refused_before_measuring(tmp_path):
    out = tmp_path / "out"
    arguments = ["--gpu", "simulated", "--out", str(out), "--plot", str(tmp_path / "p.xyz")]
    assert main.run(["doctor", "methods", *arguments]) == 2
    assert not out.exists()


def test_command_prints_json_without_nan(small):
    result = CliRunner().invoke(group, ["doctor", "methods", "--gpu", f"replay:{small[1]}", "--json"])
    plain = json.loads(result.output, parse_constant=pytest.fail)
    assert plain["points"][0]["kind"] == "constant"
    assert plain["folder"] == str(small[1])
    assert any(p["bias_pct"] is None for p in plain["points"])
