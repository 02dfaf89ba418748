"""A small run that a test writes down: manifest, trials, traces, kernels, rows."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel, Pattern
from ptxbench.core.cubin import Cubin
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.status import Status
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import Series, Trace
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.manifest import RunArguments, Session, TableManifest, TablePart, new_manifest
from ptxbench.storage.schema import Role, TableRow, TrialRecord

START = datetime(2026, 11, 21, 3, 13, 7, 250_000, tzinfo=UTC)
END = START + timedelta(minutes=4)
LATER = START + timedelta(days=1)

GPU = GpuInfo(
    index=0,
    kind=GpuKind.REAL,
    name="NVIDIA H200",
    uuid_hash="0123456789ab",
    target="sm_90a",
    sm_count=132,
    max_threads_per_sm=2048,
    power_limit_w=700.0,
    max_sm_clock_mhz=math.nan,
    driver="580.159.04",
    cuda="13.0",
    vbios="96.00.89.00.01",
    clocks_locked=None,
)

SENSORS = (
    SensorDescription(SourceName.SAMPLES, 0.02, 0.02, 0.0, 0.001, "measured"),
    SensorDescription(SourceName.USAGE, 0.1, 1.0, 0.05, 0.001, "documented"),
)

ARGUMENTS = RunArguments(
    instructions=("add.f32", "fma.rn.f32"),
    opt_levels=(OptLevel.O0, OptLevel.O3),
    protocols=(ARAFA, DYNAMIC),
    patterns=(Pattern.RANDOM,),
    precision=0.005,
    min_repeats=3,
    max_repeats=20,
    window_s=2.0,
    source=None,
    seed=None,
)

SESSION = Session(START, None, 1_763_694_787_250_000_000)
LATER_SESSION = Session(LATER, None, 1_763_781_187_250_000_000)

PTX = ".version 8.0\n.target sm_90a\n// Größe\n"
SASS = "/*0000*/ FFMA R0, R1, R2, R0 ;\n"
CUBIN = Cubin(b"\x7fELF" + bytes(range(256)) * 4, "sm_90a", OptLevel.O3, "driver 580.159.04 (CUDA 13.0)")


def manifest(gpu: GpuInfo = GPU) -> TableManifest:
    part = TablePart(
        run_id="2026-11-21T0313Z-a1b2",
        source=SourceName.SAMPLES,
        arguments=ARGUMENTS,
        order_seed=7,
        sessions=(SESSION,),
    )
    return replace(new_manifest(Kind.TABLE, part, (gpu,), SENSORS, START), commit="f" * 40)


def record(number: int) -> TrialRecord:
    """The trial that ran as the `number`th; some fields are NaN or -1, as on a GPU that does not tell."""
    begin_ns = 5_000_000_000 + number * 3_000_000_000
    return TrialRecord(
        trial_id=f"fma.rn.f32/O3/dynamic/random/target/{number}",
        order=number,
        instruction="fma.rn.f32",
        opt_level=OptLevel.O3,
        protocol=DYNAMIC,
        operands="random",
        role=Role.TARGET,
        repeat=number,
        gpu=GPU.uuid_hash,
        cubin_sha256=CUBIN.sha256,
        kernel="target",
        grid=264,
        block=1024,
        iterations=1_000_000 + number,
        copies=128,
        start_ns=begin_ns + 400_000_000,
        end_ns=begin_ns + 2_400_000_123,
        elapsed_s=2.000000123 + number,
        cycles=-1 if number % 2 else 3_960_000_000,
        globaltimer_ns=-1 if number % 2 else 2_000_000_096,
        record_begin_ns=begin_ns,
        record_end_ns=begin_ns + 2_800_000_001,
        sma_j=1060.1 / 3,
        papi_j=math.nan,
        mtsm_j=1e-300,
        counter_j=math.nan,
        steady_power_w=530.25,
        source="samples",
        temperature_c=40.5,
        temperature_before_c=39.0,
        temperature_after_c=47.0 + number,
        sm_clock_mhz=1980.0,
        memory_clock_mhz=math.nan,
        throttle_reasons=1 << 5,
        other_processes=-1,
        status=Status.CLOCK_DRIFT if number % 2 else Status.OK,
        reason='clock fell, by 3% ("why?")\nµ' if number % 2 else "",
    )


def trace(number: int) -> Trace:
    """The readings of `record(number)`: two sources of unlike length, with failed reads among them."""
    begin_ns, end_ns = record(number).record_begin_ns, record(number).record_end_ns
    return Trace(
        begin_ns,
        end_ns,
        (_readings(SourceName.SAMPLES, begin_ns, 7), _readings(SourceName.COUNTER, begin_ns, 3)),
    )


def _readings(source: SourceName, begin_ns: int, count: int) -> Series:
    times = begin_ns + np.arange(count, dtype=np.int64) * 20_000_003
    value = np.linspace(500.0, 530.0, count)
    value[1] = np.nan
    stamps = times - 7 if source is SourceName.SAMPLES else np.full(count, -1, np.int64)
    return Series(source, times, times + 1234, value, stamps, np.where(np.isnan(value), 999, 0))


def row(instruction: str = "fma.rn.f32") -> TableRow:
    return TableRow(
        instruction=instruction,
        category="Floating-Point Instructions",
        opt_level=OptLevel.O3,
        protocol=DYNAMIC,
        operands="random",
        sass="IADD3*0.5 IMAD.IADD*0.5",
        sass_per_ptx=1.0,
        executions=12_800_000_000_000_000,
        threads=270336,
        sma_pj=math.nan,
        papi_pj=math.nan,
        mtsm_pj=math.nan,
        counter_pj=math.nan,
        dynamic_pj=12.4,
        dynamic_ci95_pj=0.0123456,
        latency_cycles=math.nan,
        issue_cycles=2.0,
        power_w=530.25,
        static_w=125.5,
        clock_mhz=1980.0,
        temperature_c=47.0,
        repeats=10,
        status=Status.OK,
        reason="",
        unit="thread",
    )


def simulated() -> GpuInfo:
    return replace(GPU, kind=GpuKind.SIMULATED, name="Simulated H200")


def same_record(a: TrialRecord, b: TrialRecord) -> bool:
    """Whether all fields and their types are equal, NaN with NaN; repr of a float is exact."""
    return repr(a) == repr(b)


def same_trace(a: Trace, b: Trace) -> bool:
    """Whether all readings and their types are equal, NaN with NaN."""
    return (a.begin_ns, a.end_ns, len(a.series)) == (b.begin_ns, b.end_ns, len(b.series)) and all(
        map(_same_series, a.series, b.series)
    )


def _same_series(a: Series, b: Series) -> bool:
    names = ("begin_ns", "end_ns", "value", "stamp_ns", "code")
    pairs = [(getattr(a, name), getattr(b, name)) for name in names]
    return a.source == b.source and all(
        x.dtype == y.dtype and np.array_equal(x, y, equal_nan=True) for x, y in pairs
    )
