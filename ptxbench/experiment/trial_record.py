"""From one kernel run to its trial record: the methods' energies and the trial's validity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ptxbench.analysis.throttling import describe_throttling, slowing_reasons
from ptxbench.catalogue.architecture import architecture_of
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.energy.gate.kernel import KernelVerdict, believed_counter, impossible_power, judge_kernel
from ptxbench.energy.methods import counter_j, mtsm_j, papi_j, sma_j
from ptxbench.energy.reading import EnergyReading
from ptxbench.energy.steady import PowerReading, power_change, settled_after_s, steady_power_w
from ptxbench.experiment.kernel import Kernel
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.sensors.trace import KernelWindow, Series, Trace
from ptxbench.storage.schema import TrialRecord, axes_of

# So many of an SM's blocks, the last ones, are not counted on: SMs run out of blocks one after the other.
_LAST_BLOCKS = 3


def validated(
    record: TrialRecord,
    run: KernelRun,
    sensor: SensorDescription,
    gpu: GpuInfo,
    sensors: Sequence[SensorDescription] = (),
) -> TrialRecord:
    """Return a trial's record with all that follows from what the GPU gave.

    Args:
        record: What was launched (`make_failure`); everything else in it is replaced.
        run: What the GPU gave.
        sensor: The source that SMA, PAPI-style, MTSM and the steady power are taken from.
        gpu: The GPU.
        sensors: What other sources of it are like, best first.
    """
    busy = _while_all_are_busy(record, run.window, gpu.sm_count)
    power_w, compared = math.nan, None
    if run.trace.of(sensor.source) is None:
        status, reason = Status.NOT_SUPPORTED, f"the recording holds no {sensor.source}"
    else:
        verdict = judge_kernel(run.trace, busy, sensor, gpu.max_power_w, sensors)
        compared = verdict.compared
        run = replace(run, trace=_believed(run.trace, verdict, gpu.max_power_w))
        steady = steady_power_w(verdict.series, busy, sensor)
        power_w = steady.power_w
        status, reason = _validate_power(verdict, steady, busy, sensor, gpu)
        fault, what = _validate_run(run, power_w, gpu.power_limit_w)
        if fault is not Status.OK:
            status, reason = fault, what
    clock_mhz = run.window.clock_mhz
    return replace(
        record,
        start_ns=run.window.start_ns,
        end_ns=run.window.end_ns,
        elapsed_s=run.window.elapsed_s,
        cycles=run.window.cycles,
        globaltimer_ns=run.window.globaltimer_ns,
        record_begin_ns=run.trace.begin_ns,
        record_end_ns=run.trace.end_ns,
        sma_j=_energy_j(sma_j, run, sensor.source),
        papi_j=_energy_j(papi_j, run, sensor.source),
        mtsm_j=_energy_j(mtsm_j, run, sensor.source),
        counter_j=_energy_j(counter_j, run, SourceName.COUNTER),
        steady_power_w=power_w,
        source=sensor.source,
        temperature_c=_settled_temperature_c(run, busy, sensor),
        temperature_before_c=run.before.temperature_c,
        temperature_after_c=run.after.temperature_c,
        sm_clock_mhz=run.after.sm_clock_mhz if math.isnan(clock_mhz) else clock_mhz,
        memory_clock_mhz=run.after.memory_clock_mhz,
        throttle_reasons=run.throttle_reasons,
        other_processes=run.other_processes,
        status=status,
        reason=reason,
        compared_s=(compared.end_ns - compared.start_ns) / 1e9 if compared else math.nan,
        compared_counter_j=compared.counter_j if compared else math.nan,
        compared_source_j=compared.source_j if compared else math.nan,
        compared_error_j=compared.error_j if compared else math.nan,
    )


def make_failure(kernel: Kernel, repeat: int, order: int, board: str, at_ns: int, reason: str) -> TrialRecord:
    """Return the record of a trial whose kernel did not run.

    Args:
        kernel: What was to run.
        repeat: Repeat number.
        order: Position of the trial in the run.
        board: Hash of the board's UUID.
        at_ns: Host time of the failure.
        reason: What went wrong.
    """
    return TrialRecord(
        trial_id=kernel.trial_id(repeat),
        order=order,
        instruction=kernel.instruction,
        **axes_of(kernel.condition),
        role=kernel.role,
        repeat=repeat,
        gpu=board,
        cubin_sha256=kernel.cubin.sha256,
        kernel=kernel.role,
        grid=kernel.grid,
        block=kernel.block,
        iterations=kernel.iterations,
        copies=kernel.copies,
        start_ns=at_ns,
        end_ns=at_ns,
        elapsed_s=math.nan,
        cycles=-1,
        globaltimer_ns=-1,
        record_begin_ns=at_ns,
        record_end_ns=at_ns,
        sma_j=math.nan,
        papi_j=math.nan,
        mtsm_j=math.nan,
        counter_j=math.nan,
        steady_power_w=math.nan,
        source="",
        temperature_c=math.nan,
        temperature_before_c=math.nan,
        temperature_after_c=math.nan,
        sm_clock_mhz=math.nan,
        memory_clock_mhz=math.nan,
        throttle_reasons=0,
        other_processes=-1,
        status=Status.LAUNCH_FAILED,
        reason=reason,
    )


def _energy_j(
    method: Callable[[Series, KernelWindow], EnergyReading], run: KernelRun, source: SourceName
) -> float:
    """Return the energy by one method, NaN where the source was not recorded."""
    series = run.trace.of(source)
    return math.nan if series is None else method(series, run.window).energy_j


def _while_all_are_busy(record: TrialRecord, window: KernelWindow, sm_count: int) -> KernelWindow:
    """Return a kernel's window without the time in which SMs run out of blocks: none with one block each."""
    if record.grid <= sm_count:
        return window
    ending_s = _LAST_BLOCKS * sm_count / record.grid * window.elapsed_s
    return replace(window, end_ns=window.end_ns - round(ending_s * 1e9))


def _settled_temperature_c(run: KernelRun, window: KernelWindow, sensor: SensorDescription) -> float:
    """Return the mean temperature of that time which the readings of the steady power cover.

    Power readings come late by the source's delay; a board that warms by degrees within a window would
    otherwise be taken for warmer than it was.
    """
    series = run.trace.of(SourceName.TEMPERATURE)
    if series is not None:
        good = series.good()
        begin_ns = window.start_ns + round((settled_after_s(window, sensor) - sensor.delay_s) * 1e9)
        end_ns = window.end_ns - round(sensor.delay_s * 1e9)
        inside = (good.end_ns >= begin_ns) & (good.end_ns <= end_ns)
        if inside.any():
            return float(good.value[inside].mean())
    return (run.before.temperature_c + run.after.temperature_c) / 2


def _believed(trace: Trace, verdict: KernelVerdict, max_power_w: float) -> Trace:
    """Return a recording with what may be believed of its source and of its energy counter."""
    counter = believed_counter(trace, max_power_w)
    trace = trace.with_series(counter) if counter is not None else trace
    return trace.with_series(verdict.series)


def _validate_power(
    verdict: KernelVerdict,
    steady: PowerReading,
    busy: KernelWindow,
    sensor: SensorDescription,
    gpu: GpuInfo,
) -> tuple[Status, str]:
    """Check the readings that the steady power is from: whether they are there, can be true and are even."""
    objection = verdict.readings.objection
    if steady.status is not Status.OK and not objection:
        return steady.status, steady.reason
    objection = objection or impossible_power(steady, sensor.source, gpu.max_power_w)
    if objection:
        return Status.SENSOR_IMPLAUSIBLE, objection
    status, reason = _validate_evenness(verdict.series, busy, sensor, gpu)
    if status is not Status.OK:
        return status, reason
    if verdict.doubt:
        return Status.SENSOR_IMPLAUSIBLE, verdict.doubt
    return Status.OK, verdict.readings.note


def _validate_evenness(
    series: Series, window: KernelWindow, sensor: SensorDescription, gpu: GpuInfo
) -> tuple[Status, str]:
    """Check that the power was even, so that its settled part stands for the whole kernel."""
    if sensor.counts_energy:
        return Status.OK, ""
    change = power_change(series, window, sensor)
    if abs(change) <= architecture_of(gpu.target).uneven_power.value:
        return Status.OK, ""
    reason = f"the power changed by {100 * change:+.0f}% while the kernel ran: some SMs end before others"
    return Status.UNEVEN_POWER, reason


def _validate_run(run: KernelRun, power_w: float, power_limit_w: float) -> tuple[Status, str]:
    """Check what the GPU says of the run; powers are NaN where they are not known."""
    throttling = describe_throttling(slowing_reasons(run.throttle_reasons, power_w, power_limit_w))
    if throttling:
        return Status.THROTTLED, f"the GPU slowed down during the kernel ({throttling})"
    if (others := run.other_processes) > 0:
        return Status.FOREIGN_PROCESS, f"{others} other compute process(es) on the GPU"
    return Status.OK, ""
