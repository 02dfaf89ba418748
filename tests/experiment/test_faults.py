"""Faults in the middle of a run: nothing measured before is lost, and the row says what happened."""

import errno
import math
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from fakes.faults import DroppingGpu, FaultyGpu, LostGpu, ThrottlingGpu, failed
from fakes.measuring import WatchedGpu, asked, measured

from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.status import Status
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import resume_run, start_run
from ptxbench.sensors.base import SourceName
from ptxbench.storage.codec import encode
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role

# One profile for each kind of source: the driver's buffer, the energy counter, a slow running mean.
SOURCES = {"h200": SourceName.SAMPLES, "rtx2080ti": SourceName.COUNTER, "slow-sensor": SourceName.USAGE}
THREE = asked("fma.rn.f32", min_repeats=3, max_repeats=3)
UNIT = "fma.rn.f32/O3/dynamic/random"
HIT = f"{UNIT}/target/1"
FIRST = "popc.b32/O3/dynamic/random/target/0"

every_source = pytest.mark.parametrize("profile", SOURCES)


def only(name):
    """A profile with the source that it measures with alone, to be quick."""
    profile = find_profile(name)
    return replace(profile, sensors=tuple(s for s in profile.sensors if s.source is SOURCES[name]))


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The row of each profile where nothing goes wrong."""
    return {
        name: measured(FaultyGpu(only(name)), tmp_path_factory.mktemp(name) / "run", THREE)[0]
        for name in SOURCES
    }


def with_fault(path, profile, fault):
    """Measure with a fault; return the row and the finished run."""
    (row,) = measured(FaultyGpu(only(profile), fault), path, THREE)
    return row, RunFolder.open(path)


def assert_like(row, clean):
    # Two trials that are left tell the energy to within 10% on some of these sensors only.
    assert row.status.has_number
    assert abs(row.dynamic_pj - clean.dynamic_pj) < row.dynamic_ci95_pj + clean.dynamic_ci95_pj


def left_out(run):
    """Trials of the target that do not count."""
    rounds = [r for r in run.records() if r.role is Role.TARGET and r.repeat >= 0]
    return {r.trial_id: r.reason for r in rounds if r.status is not Status.OK}


@every_source
def test_a_reading_that_fails_once_costs_no_trial_and_is_said_and_kept(tmp_path, clean, profile):
    failures = []

    def fails_once(moment, readings):
        due = moment.trial_id == HIT and moment.since_s > 0.15 and moment.source is SOURCES[profile]
        if due and readings and not failures:
            failures.append(moment)
            return failed(999)
        return readings

    row, run = with_fault(tmp_path / "run", profile, fails_once)
    assert len(failures) == 1
    assert_like(row, clean[profile])
    assert row.repeats == clean[profile].repeats
    assert row.reason.startswith(f"in 1 of {row.repeats} trials: 1 of ")
    assert row.reason.endswith(f"readings of {SOURCES[profile]} left out: 1 failed")
    series = run.trace(HIT).of(SOURCES[profile])
    assert list(series.code[series.code != 0]) == [999]
    assert np.isnan(series.value[series.code != 0]).all()


@every_source
def test_readings_that_fail_for_good_leave_the_rounds_before(tmp_path, clean, profile):
    broken = []

    def fails_for_good(moment, readings):
        if moment.trial_id == f"{UNIT}/target/2":
            broken.append(True)
        return failed(999) if broken else readings

    row, run = with_fault(tmp_path / "run", profile, fails_for_good)
    assert_like(row, clean[profile])
    assert row.repeats == 2
    assert "sensor_stale" in row.reason
    assert "NVML codes [999]" in row.reason
    # Every trial was run and kept, also those without a reading.
    assert {r.repeat for r in run.records() if r.role is Role.TARGET and r.repeat >= 0} == {0, 1, 2}


@every_source
def test_readings_that_fail_from_the_second_round_on_give_a_reason_and_no_number(tmp_path, profile):
    broken = []

    def fails_for_good(moment, readings):
        if moment.trial_id == HIT:
            broken.append(True)
        return failed(15) if broken else readings

    row, run = with_fault(tmp_path / "run", profile, fails_for_good)
    assert row.status is Status.SENSOR_STALE
    assert "NVML codes [15]" in row.reason
    assert math.isnan(row.dynamic_pj)
    assert run.record(f"{UNIT}/target/0").status is Status.OK


@every_source
def test_nan_for_a_while_spoils_that_trial_at_most(tmp_path, clean, profile):
    def not_a_number(moment, readings):
        if moment.trial_id == HIT and moment.since_s < 1:
            return tuple(replace(reading, value=math.nan) for reading in readings)
        return readings

    row, run = with_fault(tmp_path / "run", profile, not_a_number)
    assert_like(row, clean[profile])
    assert set(left_out(run)) <= {HIT}
    assert bool(left_out(run)) is bool(
        re.search(r"1 trial left out \(1 sensor_(stale|implausible)", row.reason)
    )


@every_source
@pytest.mark.parametrize("stale_s", [1.0, 1.8])
def test_a_value_that_is_stale_for_a_while_spoils_that_trial_at_most(tmp_path, clean, profile, stale_s):
    last = {}

    def stale(moment, readings):
        if moment.trial_id == HIT and moment.since_s < stale_s:
            # The driver's buffer gets no new sample; the others repeat what they gave last.
            return () if moment.source is SourceName.SAMPLES else last[moment.source]
        if readings:
            last[moment.source] = readings
        return readings

    row, run = with_fault(tmp_path / "run", profile, stale)
    assert_like(row, clean[profile])
    assert set(left_out(run)) <= {HIT}
    if profile != "slow-sensor" or stale_s > 1.5:
        # The slow sensor's window is longer than a second of stale values, and it had not settled before.
        assert re.search(r"1 trial left out \(1 sensor_(stale|implausible)", row.reason)


def test_time_stamps_that_jump_back_are_said(tmp_path, clean):
    def set_back(moment, readings):
        if moment.trial_id == HIT and moment.since_s > 0.15 and moment.source is SourceName.SAMPLES:
            return tuple(replace(r, stamp_epoch_ns=r.stamp_epoch_ns - 5_000_000_000) for r in readings)
        return readings

    row, run = with_fault(tmp_path / "run", "h200", set_back)
    assert_like(row, clean["h200"])
    assert not left_out(run)
    assert "2 stamped before an earlier one" in row.reason


@pytest.mark.parametrize("drop_j", [1e4, 60.0], ids=["reset", "wrap"])
def test_a_counter_that_falls_is_said_and_gives_no_energy(tmp_path, clean, drop_j):
    def falls(moment, readings):
        if moment.trial_id == HIT and moment.since_s > 0.3 and moment.source is SourceName.COUNTER:
            return tuple(replace(r, value=r.value - drop_j) for r in readings)
        return readings

    row, run = with_fault(tmp_path / "run", "rtx2080ti", falls)
    assert_like(row, clean["rtx2080ti"])
    assert "the energy counter fell from" in left_out(run)[HIT]
    assert "it wrapped or was reset" in row.reason
    record = run.record(HIT)
    assert math.isnan(record.counter_j)
    assert math.isnan(record.steady_power_w)


def test_a_counter_that_falls_before_the_kernel_does_no_harm(tmp_path, clean):
    """It is back at zero since the last recording: only differences count."""
    fallen = []

    def falls(moment, readings):
        if moment.trial_id == HIT and moment.source is SourceName.COUNTER:
            fallen.append(True)
        off_j = 1e4 if fallen and moment.source is SourceName.COUNTER else 0.0
        return tuple(replace(r, value=r.value - off_j) for r in readings)

    row, run = with_fault(tmp_path / "run", "rtx2080ti", falls)
    assert_like(row, clean["rtx2080ti"])
    assert (left_out(run), row.reason) == ({}, "")


def test_a_lost_gpu_keeps_what_was_measured_says_so_and_the_run_goes_on(tmp_path):
    two = asked("fma.rn.f32", "add.f32", min_repeats=3, max_repeats=3)
    path = tmp_path / "run"
    with pytest.raises(GpuError, match="GPU is lost"):
        measured(LostGpu(f"{UNIT}/target/2", only("h200")), path, two)
    with RunFolder.open(path) as run:
        assert not run.finished
        kept = {r.trial_id: encode(r) for r in run.records()}
        rows = {row.instruction: row for row in run.rows()}
    assert f"{UNIT}/target/1" in kept
    assert set(rows) == {"fma.rn.f32", "add.f32"}
    assert all(row.status is Status.OK for row in rows.values())  # two whole rounds each
    gpu = WatchedGpu(only("h200"))
    with resume_run(gpu, RunOptions(), path) as run:
        rows = measure_table(gpu, run)
        after = {r.trial_id: encode(r) for r in run.records()}
    assert {name: after[name] for name in kept} == kept
    assert not set(gpu.trials) & set(kept)
    assert [(row.status, row.repeats) for row in rows] == [(Status.OK, 3)] * 2


def test_a_gpu_that_is_lost_at_once_leaves_rows_that_say_why(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(GpuError):
        measured(LostGpu(f"{UNIT}/target/-1", only("h200")), path, asked("fma.rn.f32"))
    with RunFolder.open(path) as run:
        (row,) = run.rows()
    assert row.status is Status.NOT_REACHED
    assert "GPU is lost" in row.reason
    assert "--resume" in row.reason


def test_an_overhead_loop_of_a_batch_that_throttled_is_measured_for_the_next_one(tmp_path, monkeypatch):
    for module in ("plan", "protocols.dynamic"):
        monkeypatch.setattr(f"ptxbench.experiment.{module}.BATCH_SIZE", 1)
    monkeypatch.setattr("ptxbench.experiment.protocols.dynamic._RETRIED", 1)

    def says(trial):
        # One still throttles on 99 SMs, where the other does not: both have the same overhead loop.
        throttles = trial.endswith("target/0") or (trial.startswith("and.b32/") and "/1000" in trial)
        return 0x20 if throttles else 0

    gpu = ThrottlingGpu(says, only("h200"))
    rows = measured(gpu, tmp_path / "run", asked("and.b32", "or.b32", min_repeats=3, max_repeats=3))
    assert [(row.status, row.repeats) for row in rows] == [(Status.OK, 3)] * 2
    assert "on 99 of 132 SMs" in rows[1].reason


def test_a_power_cap_is_said_also_where_fewer_sms_stay_under_it(tmp_path):
    capped = replace(only("h200"), board=replace(H200.board, power_cap_w=450.0))
    (row,) = measured(WatchedGpu(capped), tmp_path / "run", asked("fma.rn.f32"))
    assert row.status is Status.OK
    assert "on 99 of 132 SMs, because the GPU throttled on more" in row.reason


def test_a_power_cap_that_another_kernel_left_behind_is_not_laid_to_the_next(tmp_path):
    """A third of the limit is drawn: nothing slowed the kernel, so the trial counts."""
    gpu = ThrottlingGpu(lambda trial: 0x4 if trial == FIRST else 0, only("h200"))
    (row,) = measured(gpu, tmp_path / "run", replace(THREE, instructions=("popc.b32",)))
    assert (row.status, row.repeats, row.reason) == (Status.OK, 3, "")


@pytest.mark.parametrize("reasons", [0x8, 0x4 | 0x40])
def test_any_other_throttling_is_the_kernels_own_at_any_power(tmp_path, reasons):
    gpu = ThrottlingGpu(lambda trial: reasons if trial == FIRST else 0, only("h200"))
    (row,) = measured(gpu, tmp_path / "run", replace(THREE, instructions=("popc.b32",)))
    assert "on 99 of 132 SMs, because the GPU throttled on more" in row.reason


def test_a_clock_that_drops_in_one_trial_is_left_out_and_said(tmp_path, clean):
    (row,) = measured(DroppingGpu(lambda trial: trial == HIT, only("h200")), tmp_path / "run", THREE)
    assert_like(row, clean["h200"])
    assert row.repeats == 2
    assert "1 trial left out (1 clock_drift: the SM clock was 1584 MHz" in row.reason


def test_a_clock_that_drops_under_the_target_alone_is_said_and_in_the_interval(tmp_path):
    (calm,) = measured(WatchedGpu(only("h200")), tmp_path / "calm", THREE)
    gpu = DroppingGpu(lambda trial: "/target/" in trial, only("h200"))
    (row,) = measured(gpu, tmp_path / "run", THREE)
    assert row.status is Status.OK
    assert "the target ran at 1584 MHz, its overhead loop at 1980" in row.reason
    assert row.clock_mhz == pytest.approx(1584.0, abs=1.0)
    assert row.dynamic_ci95_pj > 2 * calm.dynamic_ci95_pj


def full_after(calls, real):
    """os.fsync of a disk that has room for so many more writes."""
    left = calls

    def fsync(descriptor):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    return fsync


@pytest.mark.parametrize("calls", [1, 27, 41])
def test_a_full_disk_keeps_what_was_written_and_the_run_goes_on(tmp_path, monkeypatch, calls):
    path = tmp_path / "run"
    gpu = WatchedGpu(only("h200"))
    with start_run(gpu, asked("fma.rn.f32"), path) as run, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_after(calls, os.fsync))
        with pytest.raises(InputError, match=r"No space left on device; free some space.*`resume`"):
            measure_table(gpu, run)
        kept = {r.trial_id: encode(r) for r in run.records()}
    with RunFolder.open(path) as run:
        assert {r.trial_id: encode(r) for r in run.records()} == kept
    gpu = WatchedGpu(only("h200"))
    with resume_run(gpu, RunOptions(), path) as run:
        (row,) = measure_table(gpu, run)
        assert {r.trial_id: encode(r) for r in run.records()} | kept == {
            r.trial_id: encode(r) for r in run.records()
        }
    assert row.status is Status.OK
    assert not set(gpu.trials) & set(kept)
