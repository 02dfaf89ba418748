"""A roofline whose sensors are wrong, or whose kernels meet the power limit: no energy that is not true."""

import csv
import io
from dataclasses import replace

import pytest
from fakes.distorters import distorted, fresh_counted, lost
from fakes.troubled import Trouble, TroubledGpu

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated import SimulatedGpu, find_profile
from ptxbench.experiment.roofline.measure import measure
from ptxbench.experiment.roofline.options import RooflineOptions
from ptxbench.experiment.roofline.point import open_folder
from ptxbench.experiment.roofline.result import work_out
from ptxbench.report.roofline_kernels import points_csv
from ptxbench.sensors.base import SourceName

PROFILE = find_profile("h200-memory")
SAMPLES = replace(PROFILE, sensors=tuple(s for s in PROFILE.sensors if s.source is SourceName.SAMPLES))
FEW = RooflineOptions(("f32",), sms=(132, 16), intensities=(0.25, 1, 4, 64, 256))
LIMIT_W = 580.0
# Kernels of 4 flop/byte draw more than that, a multiply-add alone less.
CAPPED = replace(PROFILE, board=replace(PROFILE.board, power_cap_w=LIMIT_W))


def found(trouble, path, profile=PROFILE):
    return work_out(measure(TroubledGpu(profile, trouble), FEW, path, peaks=False))


@pytest.fixture(scope="module")
def true(tmp_path_factory):
    result = found(Trouble(""), tmp_path_factory.mktemp("true") / "run")
    return {one.name: one.value for one in result.energies}


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("trouble", "profile", "words"),
    [
        (Trouble("zeros", lambda: fresh_counted(3, lambda _: 0.0)), SAMPLES, "zero or negative"),
        (Trouble("mW", lambda: distorted(lambda w: 1000 * w)), SAMPLES, "above what the board can draw"),
        (Trouble("late", late_s=0.5), SAMPLES, "its values come 0.5 s late"),
        (Trouble("late", late_s=2.0), SAMPLES, "its values come 2 s late"),
        (Trouble("gain", lambda: distorted(lambda w: 1.1 * w)), PROFILE, "from the energy counter by +9.8"),
    ],
    ids=lambda one: one.strength if isinstance(one, Trouble) else "",
)
def test_a_source_that_cannot_be_right_gives_no_energies(tmp_path, trouble, profile, words):
    with pytest.raises(InputError, match=words.replace("+", r"\+")):
        found(trouble, tmp_path / "run", profile)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "trouble",
    [
        Trouble("zeros", lambda: fresh_counted(9, lambda _: 0.0)),
        Trouble("spikes", lambda: fresh_counted(12, lambda w: 3 * w)),
        Trouble("lost", lambda: lost(0.5)),
    ],
    ids=lambda one: one.strength,
)
def test_a_few_wrong_or_lost_readings_leave_the_energies_as_they_are(tmp_path, true, trouble):
    result = found(trouble, tmp_path / "run", SAMPLES)
    for one in result.energies:
        assert one.value.value == pytest.approx(true[one.name].value, rel=0.02), one.name
    assert "no energy counter was read beside it" in result.scale


def test_a_kernel_without_a_power_is_left_out_and_said(tmp_path, true, capsys):
    def of_one():
        broken = fresh_counted(2, lambda _: 0.0)
        return lambda moment, readings: (
            broken(moment, readings) if moment.trial_id == "f32-dram-4-random-132" else readings
        )

    result = found(Trouble("one", of_one), tmp_path / "run")
    assert [one.partition(":")[0] for one in result.unread] == ["f32-dram-4-random-132"]
    for one in result.energies:
        assert one.value.value == pytest.approx(true[one.name].value, rel=0.02), one.name
    assert run(["roofline", "show", str(tmp_path / "run")]) == 0
    assert "left out, their power is not believed: 1 kernels" in capsys.readouterr().out


def test_kernels_at_the_power_limit_run_until_they_have_settled_and_are_marked(tmp_path, true, capsys):
    result = found(Trouble(""), tmp_path / "run", CAPPED)
    slowed = [point for point in result.points if point.slowed]
    assert {point.kernel.name for point in slowed} == set(result.left_out) != set()
    for point in slowed:
        assert point.settled
        assert point.power_w == pytest.approx(LIMIT_W, rel=0.005)
    windows = {one.name: one.windows[0] for one in open_folder(tmp_path / "run").recordings}
    for point in result.points:
        is_long = windows[point.kernel.name].elapsed_s > 3.5
        assert is_long is point.slowed
        if not is_long:
            assert point.time_s == windows[point.kernel.name].elapsed_s / point.kernel.launches
    rows = list(csv.DictReader(io.StringIO(points_csv([result]))))
    assert {(row["slowed"], row["settled"]) for row in rows} == {("True", "True"), ("False", "True")}
    for one in result.energies:
        assert one.value.value == pytest.approx(true[one.name].value, rel=0.03), one.name
    assert run(["roofline", "show", str(tmp_path / "run")]) == 0
    assert "had not settled" not in capsys.readouterr().out


def test_beside_another_program_no_kernel_counts(tmp_path):
    with pytest.raises(InputError, match=r"no other program was on the GPU \(\d+ did then\)"):
        found(Trouble("others", others=1), tmp_path / "run")


def test_a_simulated_gpu_without_a_memory_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match="name one that has a limit, such as simulated:h200-memory"):
        measure(SimulatedGpu(), FEW, tmp_path / "run")
    assert not (tmp_path / "run").exists()
