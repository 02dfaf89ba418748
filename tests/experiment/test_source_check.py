"""The energy counter judges the power source of a run, over all of its trials."""

from dataclasses import replace

import pytest
from fakes.distorters import (
    changed_in_time,
    clock_set_back,
    distorted,
    frozen_while,
    lost,
    of_counter,
    spikes,
    stamps_of_another,
)
from fakes.faults import FaultyGpu, LateGpu
from fakes.measuring import asked, measured

from ptxbench.core.condition import ARAFA
from ptxbench.core.status import Status
from ptxbench.devices.simulated.load import H200
from ptxbench.sensors.base import SourceName
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.run_folder import RunFolder

pytestmark = pytest.mark.hostile

POLL_S = 0.0055
# Long enough for several steps of the counter in every trial.
WHAT = asked("fma.rn.f32", min_repeats=3, max_repeats=3, window_s=0.6)
# Two thirds of such a run.
LATE_S = 5.7


def run_of(path, gpu, what=WHAT):
    """Rows by instruction, and the manifest."""
    rows = measured(gpu, path, what)
    return {row.instruction: row for row in rows}, read_run_manifest(path)


def faulty(fault):
    return FaultyGpu(H200, fault, POLL_S)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("clean") / "run", faulty(distorted(lambda w: w)))


def held(found, clean):
    """Which valid rows have an interval, with the scale that all share, that the true energy is not in."""
    rows, manifest = found
    return [
        name
        for name, row in rows.items()
        if row.status is Status.OK
        and abs(row.dynamic_pj - clean[0][name].dynamic_pj)
        > row.dynamic_ci95_pj + clean[0][name].dynamic_ci95_pj + manifest.part.scale_ci95 * row.dynamic_pj
    ]


def test_a_source_that_the_counter_bears_out_is_said_and_widens_nothing(clean):
    rows, manifest = clean
    assert {row.status for row in rows.values()} == {Status.OK}
    assert manifest.part.source_check.ratio == pytest.approx(1.0, abs=3 * manifest.part.source_check.error)
    assert manifest.part.source_check.error < 0.005
    assert manifest.part.source_check.scale_uncertainty == 0.0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (distorted(lambda w: 0.9 * w), "differs from the energy counter by -10."),
        (distorted(lambda w: 1.06 * w), "differs from the energy counter by +5."),
        (distorted(lambda w: w if w < 400 else 400 + 0.5 * (w - 400)), "energy counter"),
        (distorted(lambda w: w + 40), "differs from the energy counter by"),
        (
            changed_in_time(lambda t, w: w * (1.1 if t > LATE_S else 1.0)),
            "of the run: one of the two is wrong",
        ),
        (of_counter(lambda _, j: 0.5 * j), "energy counter"),
        (of_counter(lambda _, j: 1.06 * j), "differs from the energy counter by -"),
    ],
    ids=["low", "high", "compressed", "offset", "gain step", "counter at half", "counter high"],
)
def test_a_source_or_counter_that_is_wrong_gives_no_number(tmp_path, clean, fault, words):
    rows, _ = found = run_of(tmp_path / "run", faulty(fault))
    assert {row.status for row in rows.values()} == {Status.SENSOR_IMPLAUSIBLE}
    assert all(words in row.reason for row in rows.values())
    assert held(found, clean) == []


def test_a_difference_up_to_3_percent_widens_the_scale_that_all_rows_share(tmp_path, clean):
    rows, manifest = found = run_of(tmp_path / "run", faulty(distorted(lambda w: 1.02 * w)))
    assert {row.status for row in rows.values()} == {Status.OK}
    assert manifest.part.scale_ci95 == pytest.approx(0.02, abs=0.01)
    assert "it differs from the energy counter by +" in manifest.part.source_check.note
    assert held(found, clean) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda t, j: j if t < LATE_S else j - 252_000.0,
        lambda _, j: j % 2_000.0,
        lambda t, j: j if t < LATE_S else 251_000.0,
        lambda _, j: -j,
    ],
    ids=["reset", "wraps", "stands still", "negative"],
)
def test_a_counter_that_fails_leaves_the_source_its_rows(tmp_path, clean, change):
    rows, manifest = found = run_of(tmp_path / "run", faulty(of_counter(change)))
    assert {row.status for row in rows.values()} == {Status.OK}
    assert held(found, clean) == []
    assert not manifest.part.source_check.objection


@pytest.mark.parametrize("late_s", [0.1, 0.2, 0.5, 1.0, 2.0])
def test_values_that_come_late_give_no_wrong_number(tmp_path, clean, late_s):
    found = run_of(tmp_path / "run", LateGpu(late_s, H200, POLL_S))
    assert held(found, clean) == []
    assert {row.status for row in found[0].values()} != {Status.OK}


@pytest.mark.parametrize(
    "fault",
    [
        spikes(7, 0.0),
        spikes(3, 0.0),
        spikes(7, -1.0),
        spikes(20, 1.7),
        lost(0.1),
        lost(0.5),
        lost(0.9),
        stamps_of_another(7),
        stamps_of_another(2),
        clock_set_back(LATE_S, 1.0),
        clock_set_back(LATE_S, -1.0),
        frozen_while(lambda moment: moment.at_s > LATE_S),
        changed_in_time(lambda t, w: w * (1 + 0.004 * t)),
    ],
    ids=[
        "some zero",
        "many zero",
        "some negative",
        "spikes",
        "lost 10%",
        "lost 50%",
        "lost 90%",
        "some stamps alike",
        "half of the stamps alike",
        "clock set back",
        "clock set forth",
        "stands still",
        "drifts",
    ],
)
def test_no_fault_of_readings_gives_a_wrong_number(tmp_path, clean, fault):
    assert held(run_of(tmp_path / "run", faulty(fault)), clean) == []


def test_a_row_and_its_trials_say_which_readings_were_left_out(tmp_path):
    rows, _ = run_of(tmp_path / "run", faulty(spikes(20, 0.0)))
    assert "readings of samples left out" in rows["fma.rn.f32"].reason
    with RunFolder.open(tmp_path / "run") as run:
        assert any("zero or negative" in r.reason for r in run.records() if r.status is Status.OK)


@pytest.mark.parametrize(("factor", "status"), [(1.0, Status.OK), (0.5, Status.SENSOR_IMPLAUSIBLE)])
def test_a_counter_as_the_source_stands_beside_the_power_that_was_read(tmp_path, factor, status):
    what = replace(WHAT, source=SourceName.COUNTER)
    rows, manifest = run_of(tmp_path / "run", faulty(of_counter(lambda _, j: factor * j)), what)
    assert {row.status for row in rows.values()} == {status}
    assert manifest.part.source_check.ratio == pytest.approx(1 / factor, rel=0.02)


def test_the_published_protocol_is_judged_as_well(tmp_path):
    what = replace(WHAT, instructions=("fma.rn.f32",), protocols=(ARAFA,))
    rows, _ = run_of(tmp_path / "run", faulty(distorted(lambda w: 1.1 * w)), what)
    assert rows["fma.rn.f32"].status is Status.SENSOR_IMPLAUSIBLE


def test_a_limit_that_a_user_lowered_is_not_what_the_board_can_draw(tmp_path):
    class Lowered(FaultyGpu):
        @property
        def info(self):
            return replace(super().info, power_limit_w=300.0, max_power_limit_w=700.0)

    rows, _ = run_of(tmp_path / "run", Lowered(H200, poll_s=POLL_S))
    assert rows["fma.rn.f32"].status is Status.OK
    assert rows["fma.rn.f32"].power_w > 1.3 * 300
