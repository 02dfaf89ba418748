import math
from dataclasses import replace

import numpy as np
import pytest
from fakes import power
from fakes import run as fake

from ptxbench.analysis.throttling import describe_throttling
from ptxbench.core.condition import DYNAMIC, Condition, OptLevel, Pattern
from ptxbench.core.status import Status
from ptxbench.experiment.kernel import Kernel
from ptxbench.experiment.trial_record import make_failure, validated
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.kernel_run import KernelRun, Telemetry
from ptxbench.sensors.trace import Trace
from ptxbench.storage.schema import Role

# A kernel from 1 s to 3 s; the sensor shows it wholly from 1.2 s on.
SENSOR = power.sensor(refresh_s=0.1, averaging_s=0.1)
WINDOW = replace(power.window(1.0, 3.0), cycles=3_960_000_000, globaltimer_ns=2_000_000_000)
STATE = Telemetry(40.0, 1755.0, 3201.0, 0, 0)
KERNEL = Kernel(
    subject="fma.rn.f32/O3/dynamic/random",
    instruction="fma.rn.f32",
    condition=Condition(OptLevel.O3, DYNAMIC, Pattern.RANDOM),
    role=Role.TARGET_2N,
    copies=128,
    cubin=fake.CUBIN,
    grid=132,
    block=1024,
    operands=np.zeros(8, np.uint8),
    scratch_bytes=0,
    iterations=777,
)


def kernel_run(**change):
    time_s = np.arange(0.05, 4.0, 0.1)
    # 100 W asleep, 500 W in the kernel; one ramp reading at each end; the last digit moves.
    watts = np.where((time_s > 1.0) & (time_s < 3.0), 500.0, 100.0) + 0.001 * np.arange(len(time_s))
    watts[10] = 300.0
    # What a reading of power taken at t speaks of lies 0.05 s before it.
    degrees = np.where(time_s < 1.14, 40.0, 50.0)
    degrees[time_s > 2.96] = 45.0
    joules = np.cumsum(watts) * 0.1
    trace = Trace(
        0,
        4_000_000_000,
        (
            power.series(time_s, watts),
            power.series(time_s, degrees, SourceName.TEMPERATURE),
            power.series(time_s, joules, SourceName.COUNTER),
        ),
    )
    plain = KernelRun(WINDOW, trace, STATE, replace(STATE, temperature_c=48.0), 0)
    return replace(plain, **change)


def recorded(run=None, sensor=SENSOR, gpu=fake.GPU):
    launched = make_failure(KERNEL, 3, 17, "0123456789ab", 0, "")
    return validated(launched, run or kernel_run(), sensor, gpu)


def test_a_record_says_what_ran_when_and_with_what_power():
    record = recorded()
    assert record.trial_id == "fma.rn.f32/O3/dynamic/random/target_2n/3"
    assert (record.status, record.reason) == (Status.OK, "")
    assert (record.role, record.copies, record.iterations, record.repeat, record.order) == (
        Role.TARGET_2N,
        128,
        777,
        3,
        17,
    )
    assert (record.start_ns, record.end_ns, record.elapsed_s) == (1_000_000_000, 3_000_000_000, 2.0)
    assert (record.record_begin_ns, record.record_end_ns) == (0, 4_000_000_000)
    assert record.steady_power_w == pytest.approx(500, abs=0.1)  # the ramp is left out
    assert record.mtsm_j == pytest.approx(2 * (19 * 500 + 300) / 20, abs=0.2)  # and is in Eq. 2
    assert record.papi_j == pytest.approx(1000, abs=0.2)
    assert record.counter_j == pytest.approx(1000, rel=0.03)
    assert record.sma_j < 700
    assert record.sm_clock_mhz == 1980.0
    assert (record.source, record.cubin_sha256) == ("usage", fake.CUBIN.sha256)


def test_temperature_is_that_of_the_settled_part():
    record = recorded()
    assert record.temperature_c == 50.0
    assert (record.temperature_before_c, record.temperature_after_c) == (40.0, 48.0)
    slower = recorded(sensor=replace(SENSOR, averaging_s=0.0, refresh_s=0.05))
    assert 40.0 < slower.temperature_c < 50.0  # counted from 1.05 s on, when it was still cold


def test_without_a_thermometer_in_the_trace_it_is_the_mean_of_before_and_after():
    run = kernel_run()
    bare = replace(run, trace=replace(run.trace, series=run.trace.series[:1]))
    assert recorded(bare).temperature_c == 44.0


def test_the_clock_is_nvmls_where_the_kernel_gave_no_stamps():
    assert recorded(kernel_run(window=power.window(1.0, 3.0))).sm_clock_mhz == 1755.0


@pytest.mark.parametrize(
    ("reasons", "names"),
    [
        (0x4 | 0x8, "HwSlowdown"),
        (0x8, "HwSlowdown"),
        (0x20 | 0x40, "SwThermalSlowdown, HwThermalSlowdown"),
        (0x80 | 0x1, "HwPowerBrakeSlowdown"),
    ],
)
def test_throttling_is_named(reasons, names):
    record = recorded(kernel_run(throttle_reasons=reasons))
    assert record.status is Status.THROTTLED
    assert f"({names})" in record.reason
    assert record.throttle_reasons == reasons


@pytest.mark.parametrize(("limit_w", "status"), [(600.0, Status.THROTTLED), (700.0, Status.OK)])
def test_a_power_cap_slows_what_draws_about_the_limit(limit_w, status):
    # It draws 500 W.
    record = recorded(kernel_run(throttle_reasons=0x4), gpu=replace(fake.GPU, power_limit_w=limit_w))
    assert (record.status, "SwPowerCap" in record.reason) == (status, status is Status.THROTTLED)


def test_a_power_cap_counts_where_the_limit_is_not_known():
    record = recorded(kernel_run(throttle_reasons=0x4), gpu=replace(fake.GPU, power_limit_w=math.nan))
    assert record.status is Status.THROTTLED


@pytest.mark.parametrize("reasons", [0, 0x1, 0x2, 0x10, 0x100])
def test_idling_and_chosen_clocks_are_no_throttling(reasons):
    assert describe_throttling(reasons) == ""
    assert recorded(kernel_run(throttle_reasons=reasons)).status is Status.OK


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_foreign_process_is_counted_whenever_it_was_seen(when):
    record = recorded(kernel_run(**{when: replace(STATE, other_processes=2)}))
    assert record.status is Status.FOREIGN_PROCESS
    assert "2 other" in record.reason
    assert record.other_processes == 2


def test_a_driver_that_does_not_tell_processes_is_not_suspected():
    unknown = replace(STATE, other_processes=-1)
    assert recorded(kernel_run(before=unknown, after=unknown)).status is Status.OK


def test_a_source_that_was_not_recorded_is_not_supported_and_gives_no_number():
    record = recorded(sensor=power.sensor(source=SourceName.SAMPLES))
    assert record.status is Status.NOT_SUPPORTED
    assert "samples" in record.reason
    assert all(math.isnan(x) for x in (record.steady_power_w, record.mtsm_j, record.papi_j, record.sma_j))
    assert record.counter_j == pytest.approx(1000, rel=0.03)


def test_what_the_sensor_could_not_see_has_its_own_status():
    short = recorded(kernel_run(window=power.window(1.0, 1.15)))
    assert short.status is Status.WINDOW_TOO_SHORT
    assert short.reason
    assert math.isnan(short.steady_power_w)
    # Throttling explains more than what the sensor made of it.
    both = recorded(kernel_run(window=power.window(1.0, 1.15), throttle_reasons=4))
    assert both.status is Status.THROTTLED


@pytest.mark.parametrize(("factor", "status"), [(0.98, Status.OK), (0.94, Status.UNEVEN_POWER)])
def test_a_power_that_changes_while_the_kernel_runs_stands_for_nothing(factor, status):
    run = kernel_run()
    (usage, *others) = run.trace.series
    later = np.where(usage.end_ns > 2_100_000_000, factor, 1.0)
    sagging = replace(usage, value=usage.value * later)
    record = recorded(replace(run, trace=replace(run.trace, series=(sagging, *others))))
    assert record.status is status
    assert ("changed by -6% while the kernel ran" in record.reason) == (status is not Status.OK)


def test_a_step_of_a_coarse_source_is_no_change_of_power():
    coarse = replace(SENSOR, quantum=30.0)
    run = kernel_run()
    (usage, *others) = run.trace.series
    later = np.where(usage.end_ns > 2_100_000_000, -30.0, 0.0)
    stepping = replace(usage, value=usage.value + later)
    record = recorded(replace(run, trace=replace(run.trace, series=(stepping, *others))), coarse)
    assert record.status is Status.OK


@pytest.mark.parametrize(
    ("watts", "status"),
    [
        ((100, 100, 100, 98, 90, 80), Status.UNEVEN_POWER),
        ((100, 98, 96, 94, 92, 90), Status.UNEVEN_POWER),
        ((126.9, 120.0, 124.4, 129.6, 127.1, 131.5), Status.OK),
    ],
)
def test_noise_is_no_change_of_power_and_a_sag_at_the_end_is_one(watts, status):
    time_s = np.arange(0.05, 4.0, 0.1)
    values = 50 + 0.01 * np.arange(len(time_s))
    values[10:18] = [90.0, 95.0, *watts]
    trace = Trace(0, 4_000_000_000, (power.series(time_s, values),))
    record = recorded(kernel_run(window=power.window(1.0, 1.79), trace=trace))
    assert record.status is status


def test_a_failure_has_no_number_but_its_reason():
    record = make_failure(KERNEL, 3, 17, "0123456789ab", 5_000, "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert (record.status, record.reason) == (Status.LAUNCH_FAILED, "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert record.trial_id == recorded().trial_id
    assert (record.record_begin_ns, record.record_end_ns) == (5_000, 5_000)
    numbers = (record.elapsed_s, record.steady_power_w, record.mtsm_j, record.counter_j, record.temperature_c)
    assert all(math.isnan(x) for x in numbers)


def low_until(end_s, run=None):
    """A run whose power lies 2% lower up to a moment."""
    run = run or kernel_run()
    (usage, *others) = run.trace.series
    lower = replace(usage, value=usage.value * np.where(usage.end_ns < end_s * 1e9, 0.98, 1.0))
    return replace(run, trace=replace(run.trace, series=(lower, *others)))


def test_power_is_read_behind_the_gpus_own_regulation():
    regulated = replace(SENSOR, regulation_s=0.8)
    assert recorded(low_until(1.75), regulated).steady_power_w == pytest.approx(500, abs=0.1)
    # A sensor that knows nothing of it takes the lower readings for the kernel's.
    assert recorded(low_until(1.75)).steady_power_w < 498


def test_a_kernel_that_is_too_short_to_wait_for_regulation_gives_its_later_half():
    short = kernel_run(window=power.window(1.0, 2.0))
    regulated = replace(SENSOR, regulation_s=5.0)
    assert recorded(low_until(1.45, short), regulated).steady_power_w == pytest.approx(500, abs=0.1)
    assert recorded(low_until(1.75, short), regulated).steady_power_w < 499


def test_power_is_not_read_while_sms_run_out_of_blocks():
    def low_at_the_end(grid):
        run = kernel_run()
        (usage, *others) = run.trace.series
        ending = (usage.end_ns > 2.8e9) & (usage.end_ns < 3e9)
        trace = replace(run.trace, series=(replace(usage, value=usage.value - 40.0 * ending), *others))
        kernel = replace(KERNEL, grid=grid)
        launched = make_failure(kernel, 3, 17, "", 0, "")
        return validated(launched, replace(run, trace=trace), SENSOR, fake.GPU)

    # Of 30 blocks an SM the last three take a tenth of the 2 s; one block has no such end.
    assert low_at_the_end(30 * 132).steady_power_w == pytest.approx(500, abs=0.1)
    assert low_at_the_end(132).steady_power_w < 497
