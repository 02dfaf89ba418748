"""Find out in a minute what can be measured on a GPU, and how: `ptxbench doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.analysis.source_reach import source_reach, source_verdict, use_verdicts
from ptxbench.catalogue.architecture import capability_of
from ptxbench.core.errors import GpuError, ToolError
from ptxbench.devices.base import Gpu
from ptxbench.devices.machine_checks import dcgm_verdict
from ptxbench.experiment.counter_study import record_counter
from ptxbench.experiment.sensor_study import sense
from ptxbench.storage.doctor_file import (
    DOCTOR_VERSION,
    CounterCheck,
    DoctorFile,
    SourceReach,
    State,
    Verdict,
    write_doctor_file,
)
from ptxbench.storage.location import default_run_path, make_place
from ptxbench.storage.sensor_file import SensorFile

# Shares of the energy by which the counter and a power source may differ: one that is worth a word, and one
# that leaves one of them wrong.
_WORTH_A_WORD, _WRONG = 0.01, 0.05
_ERRORS = 3.0
_STEPS = 2


@dataclass(frozen=True)
class Examined:
    """What was measured on a GPU.

    Attributes:
        verdicts: A line a source, and what to use.
        sources: What can be measured with each.
        counter: The counter beside the best other source.
    """

    verdicts: tuple[Verdict, ...]
    sources: tuple[SourceReach, ...] = ()
    counter: tuple[CounterCheck, ...] = ()


def examine(
    gpu: Gpu,
    before: Iterable[Verdict],
    path: Path | None = None,
    on_progress: Callable[[int, int, str], None] = lambda *_: None,
) -> tuple[DoctorFile, Path]:
    """Measure what the GPU's power sources are like, and judge them; keep everything.

    Args:
        gpu: A real or simulated GPU; it is busy for about a minute.
        before: Lines about the machine.
        path: Folder, or None for the default below results/ (or runs/ where nothing is measured).
        on_progress: Told how many steps are done, of how many, and the one in hand.

    Returns:
        The document, and the folder that holds it and the readings: `sensor` is what `--sensor` takes.

    Raises:
        InputError: The folder cannot be written.
        ReplayError: The GPU is a replayed run.
    """
    place = path or default_run_path(gpu.info, datetime.now(UTC), prefix="doctor-")
    make_place(place, gpu.info.kind)
    verdicts = [*before, _gpu_verdict(gpu), dcgm_verdict(capability_of(gpu.info.target))]
    found = _examined(gpu, place, on_progress)
    document = DoctorFile(
        DOCTOR_VERSION, gpu.info, (*verdicts, *found.verdicts), found.sources, found.counter
    )
    write_doctor_file(place, document)
    return document, place


def _examined(gpu: Gpu, place: Path, on_progress: Callable[[int, int, str], None]) -> Examined:
    """Return what could be measured; a GPU that fails on the way is a line as well."""
    on_progress(0, _STEPS, "square wave, 50 s")
    try:
        sensor, _ = sense(gpu, place / "sensor")
    except (GpuError, ToolError) as error:
        return Examined((Verdict("sources", State.MISSING, str(error)),))
    judged = judge_sources(sensor)
    on_progress(1, _STEPS, "counter, 12 s")
    try:
        checks = record_counter(gpu, place / "counter", sensor.sensors)
    except (GpuError, ToolError) as error:
        return Examined((*judged.verdicts, Verdict("counter", State.MISSING, str(error))), judged.sources)
    on_progress(_STEPS, _STEPS, "")
    return Examined(
        (*judged.verdicts[:-2], *counter_verdicts(checks), *judged.verdicts[-2:]), judged.sources, checks
    )


def judge_sources(sensor: SensorFile) -> Examined:
    """Return a line about every source, and what to use: pure arithmetic.

    Args:
        sensor: What was measured about them.
    """
    reaches = {
        probe.sensor.source: source_reach(probe)
        for probe in sensor.sources
        if probe.needed_s == probe.needed_s  # NaN: it did not follow the load
    }
    verdicts = [source_verdict(probe, reaches.get(probe.sensor.source)) for probe in sensor.sources]
    verdicts += [Verdict("load", State.BAD, note) for note in sensor.notes]
    found = tuple(reaches.values())
    return Examined((*verdicts, *use_verdicts(sensor.sources, found)), found)


def counter_verdicts(checks: Iterable[CounterCheck]) -> tuple[Verdict, ...]:
    """Return a line for each stretch over which the counter was compared."""
    verdicts = tuple(_counter_verdict(check) for check in checks)
    return verdicts or (
        Verdict("counter", State.NOTE, "it cannot be compared: it, or a power source beside it, is missing"),
    )


def _counter_verdict(check: CounterCheck) -> Verdict:
    differs = check.counter_j / check.integral_j - 1
    is_clear = abs(check.counter_j - check.integral_j) > _ERRORS * check.error_j
    text = (
        f"{check.load}, {check.span_s:.3g} s: {check.counter_j:.4g} J, {check.source} adds up to"
        f" {check.integral_j:.4g} J ({100 * differs:+.2f} ± {100 * check.error_j / check.integral_j:.2g}%)"
    )
    if is_clear and abs(differs) > _WRONG:
        return Verdict("counter", State.BAD, f"{text}: one of them is wrong; believe neither without a meter")
    if is_clear and abs(differs) > _WORTH_A_WORD:
        return Verdict("counter", State.NOTE, f"{text}: do not mix the two")
    return Verdict("counter", State.OK, text)


def _gpu_verdict(gpu: Gpu) -> Verdict:
    info = gpu.info
    state = gpu.telemetry()
    text = f"{info.title}, board {info.uuid_hash}, {info.target}, limit {info.power_limit_w:g} W"
    return Verdict("GPU", State.OK, f"{text}, {state.temperature_c:g} C, {state.sm_clock_mhz:g} MHz")
