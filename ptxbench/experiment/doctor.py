"""Find out in a minute what can be measured on a GPU, and how: `ptxbench doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.analysis.other_tools import other_tool_verdicts
from ptxbench.analysis.source_reach import source_reach, source_verdict, use_verdicts
from ptxbench.catalogue.architecture import capability_of
from ptxbench.core.errors import GpuError, ToolError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.devices.base import Gpu
from ptxbench.devices.machine_checks import dcgm_verdict
from ptxbench.energy.gate.comparison import SETTINGS
from ptxbench.experiment.counter_study import CounterStudy, record_counter
from ptxbench.experiment.sensor_study import sense
from ptxbench.storage.doctor_file import (
    DOCTOR_FILE,
    CounterCheck,
    DoctorFile,
    SourceReach,
    State,
    Verdict,
)
from ptxbench.storage.document import write_document
from ptxbench.storage.location import default_run_path, make_place
from ptxbench.storage.sensor_file import DOCTOR_SENSOR, SensorFile

# The square wave and the counter.
_STEPS = 2


@dataclass(frozen=True)
class Examined:
    """What was measured on a GPU.

    Attributes:
        verdicts: A line a source, and what to use.
        sources: What can be measured with each.
        counter: The counter beside the best other source, None where it was not compared.
    """

    verdicts: tuple[Verdict, ...]
    sources: tuple[SourceReach, ...] = ()
    counter: CounterStudy | None = None


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
        on_progress: Told how many steps are done, of how many, and the one in progress.

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
    checks, power = (found.counter.checks, found.counter.source) if found.counter else ((), None)
    document = DoctorFile(gpu.info, (*verdicts, *found.verdicts), found.sources, checks, power)
    write_document(place / DOCTOR_FILE, document)
    return document, place


def _examined(gpu: Gpu, place: Path, on_progress: Callable[[int, int, str], None]) -> Examined:
    """Return what could be measured; a GPU that fails on the way is a line as well."""
    on_progress(0, _STEPS, "square wave, 50 s")
    try:
        sensor, _ = sense(gpu, place / DOCTOR_SENSOR)
    except (GpuError, ToolError) as error:
        return Examined((Verdict("sources", State.MISSING, str(error)),))
    judged = judge_sources(sensor)
    on_progress(1, _STEPS, "counter, 12 s")
    try:
        study = record_counter(gpu, place / "counter", sensor.sensors)
    except (GpuError, ToolError) as error:
        return Examined((*judged.verdicts, Verdict("counter", State.MISSING, str(error))), judged.sources)
    on_progress(_STEPS, _STEPS, "")
    return Examined(
        (*judged.verdicts[:-2], *counter_verdicts(study), *judged.verdicts[-2:]), judged.sources, study
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
    verdicts += other_tool_verdicts(sensor.sources)
    found = tuple(reaches.values())
    return Examined((*verdicts, *use_verdicts(sensor.sources, found)), found)


def counter_verdicts(study: CounterStudy) -> tuple[Verdict, ...]:
    """Return a line for each stretch over which the counter was compared, and one for all together."""
    if not study.checks:
        missing = "it cannot be compared: it, or a power source beside it, is missing"
        state = State.BAD if study.source.objection else State.NOTE
        return (Verdict("counter", state, study.source.objection or missing),)
    return (*(_counter_verdict(check) for check in study.checks), _together(study))


def _counter_verdict(check: CounterCheck) -> Verdict:
    differs = check.counter_j / check.integral_j - 1
    ci95 = COVERAGE_FACTOR * check.error_j / check.integral_j
    is_clear = abs(check.counter_j - check.integral_j) > SETTINGS.group_factor * check.error_j
    text = (
        f"{check.load}, {check.span_s:.3g} s: {check.counter_j:.4g} J, {check.source} adds up to"
        f" {check.integral_j:.4g} J ({100 * differs:+.2f} ± {100 * ci95:.2g}%)"
    )
    if is_clear and abs(differs) > SETTINGS.disagreement:
        return Verdict("counter", State.BAD, f"{text}: one of them is wrong; believe neither without a meter")
    if is_clear and abs(differs) > SETTINGS.usual:
        return Verdict("counter", State.NOTE, f"{text}: do not mix the two")
    return Verdict("counter", State.OK, text)


def _together(study: CounterStudy) -> Verdict:
    """Return the line on both stretches, which is what `ptxbench table` goes by."""
    source, power = study.checks[0].source, study.source
    if power.objection:
        return Verdict("counter", State.BAD, f"{source}: {power.objection}; `ptxbench table` gives no number")
    text = f"{source} over the counter: {power.ratio:.4f} ± {COVERAGE_FACTOR * power.error:.2g}"
    if not power.scale_uncertainty:
        return Verdict("counter", State.OK, text)
    known = f"`ptxbench table --sensor` adds {power.scale_uncertainty:.1%} to the uncertainty of the scale"
    return Verdict("counter", State.NOTE, f"{text}: {known}")


def _gpu_verdict(gpu: Gpu) -> Verdict:
    info = gpu.info
    state = gpu.telemetry()
    text = f"{info.title}, board {info.uuid_hash}, {info.target}, limit {info.power_limit_w:g} W"
    return Verdict("GPU", State.OK, f"{text}, {state.temperature_c:g} C, {state.sm_clock_mhz:g} MHz")
