"""From the readings of a folder to points, fitted energies and balance points: pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ptxbench.catalogue.architecture import architecture_of
from ptxbench.catalogue.product import dram_bytes_per_s
from ptxbench.core.distributions import student_quantile
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.roofline.document import (
    ChasedByte,
    FittedEnergy,
    FittedMachine,
    KindExponent,
    RooflineDocument,
    TriedPower,
)
from ptxbench.experiment.roofline.kernel import loop_of
from ptxbench.experiment.roofline.kinds import KINDS, LEVELS
from ptxbench.experiment.roofline.limited import limited_points
from ptxbench.experiment.roofline.point import MeasuredPoint, PointKernel, read_kernels
from ptxbench.experiment.roofline.regression import (
    SLOPE,
    as_chase,
    fit_twice,
    highest_bandwidth,
    loop_terms,
    on_few,
    regression_point,
    static_of,
)
from ptxbench.experiment.roofline.slowed import slowed_kernels
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import low_clock_note, recorded_kernel
from ptxbench.model.clocks.law import BestClock, PowerLaw, law_of_kind
from ptxbench.model.roofline.chase import chased_byte
from ptxbench.model.roofline.equations import RooflineMachine
from ptxbench.model.roofline.exponent import fit_exponent
from ptxbench.model.roofline.fit import RooflineFit, RooflinePoint, RoughTerm
from ptxbench.model.roofline.kernels import DRAM, L2
from ptxbench.model.roofline.power_capping import lower_clock
from ptxbench.model.roofline.quantity import machine_quantities
from ptxbench.model.roofline.third_power import ThirdPower
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.kernels import KernelEntry
from ptxbench.storage.recording import Recording, RecordingFolder

RESULT = "roofline.json"
# Kernels within this share of the highest rate are bound by it; so many of them tell how sure it is.
_NEAR_PEAK, _FEWEST_NEAR = 0.05, 3


@dataclass(frozen=True, kw_only=True)
class RooflineResult(RooflineDocument):
    """What a folder says.

    Attributes:
        fit: The regression.
        regression: The points as the regression takes them.
    """

    fit: RooflineFit
    regression: tuple[RooflinePoint, ...]

    def document(self) -> RooflineDocument:
        """Return what is printed as JSON."""
        return RooflineDocument(**{f.name: getattr(self, f.name) for f in fields(RooflineDocument)})


@dataclass(frozen=True)
class MeasuredKernels:
    """The kernels of a folder.

    Attributes:
        points: Each with its time and power.
        scale: What must be said of the scale of all powers, and of the clock; "" for nothing.
    """

    points: tuple[MeasuredPoint, ...]
    scale: str = ""


def measured_kernels(folder: RecordingFolder) -> MeasuredKernels:
    """Return every kernel of a folder with its time and power, worked out from the readings.

    Raises:
        InputError: The folder is empty, its power source is not believed, or bytes came faster than DRAM can
            be.
    """
    kernels = [_with_loop(folder, kernel) for kernel in read_kernels(folder)]
    if not kernels:
        raise InputError(f"{folder.path} holds no measured kernel; continue it with `resume`")
    source = SourceCheck(board_sensor(folder.manifest.sensors), folder.manifest.sensors)
    recordings = {recording.name: recording for recording in folder.recordings}
    in_time = sorted(kernels, key=lambda kernel: recordings[kernel.name].windows[0].start_ns)
    points = {k.name: _measured(folder, k, recordings[k.name], source) for k in in_time}
    if source.objection:
        raise InputError(f"the powers of {folder.path} cannot be believed: {source.objection}")
    free = [recordings[name] for name, point in points.items() if not point.slowed]
    said = "; ".join(filter(None, (source.scale, _clock_note(free))))
    return MeasuredKernels(tuple(points[kernel.name] for kernel in kernels), said)


def _clock_note(recordings: Iterable[Recording]) -> str:
    """Return what must be said where kernels that were not slowed ran at unlike clocks."""
    clocks_mhz = [window.clock_mhz for one in recordings for window in one.windows]
    clocks_mhz = [clock_mhz for clock_mhz in clocks_mhz if math.isfinite(clock_mhz)]
    return low_clock_note(min(clocks_mhz), max(clocks_mhz)) if clocks_mhz else ""


def code_of(folder: RecordingFolder, kernel: PointKernel) -> KernelEntry | None:
    """Return the machine code of a kernel with a loop of loads; None where the folder does not hold it."""
    name = kernel.name.replace(f"-{kernel.level}-", "-", 1).partition(f"-{kernel.pattern}")[0]
    name += LEVELS[kernel.level].code
    return next((entry for entry in folder.kernels.entries if entry.name == name), None)


def _with_loop(folder: RecordingFolder, kernel: PointKernel) -> PointKernel:
    """Return a kernel with the instructions of its loop, counted in its code where the run did not."""
    if not kernel.kind or not math.isnan(kernel.counting_instructions):
        return kernel
    entry = code_of(folder, kernel)
    if entry is None:
        raise InputError(f"{folder.path} does not hold the machine code of {kernel.name}")
    trips, beside = loop_of(folder.kernels.sass(entry), KINDS[kernel.kind], kernel.bytes_moved)
    return replace(
        kernel,
        counting_instructions=trips * beside.counting,
        mixing_instructions=trips * beside.mixing,
    )


def _measured(
    folder: RecordingFolder, kernel: PointKernel, recording: Recording, source: SourceCheck
) -> MeasuredPoint:
    read = recorded_kernel(folder, recording, kernel.launches, source)
    point = MeasuredPoint(
        kernel,
        read.power.launch_s,
        read.power.power.power_w,
        read.power.power.standard_error_w,
        read.temperature_c,
        read.power.slowed,
        settled=not read.power.unsettled,
        note=read.power.note,
        fault=read.fault,
    )
    limit = dram_bytes_per_s(folder.manifest.gpu)
    if kernel.level == DRAM and point.bytes_per_s > limit:
        raise InputError(
            f"{kernel.name} in {folder.path} read {point.bytes_per_s / 1e12:.3g} TB/s, "
            f"faster than DRAM can be ({limit / 1e12:.3g} TB/s): the bytes come from a cache"
        )
    return point


def work_out(folder: RecordingFolder, pattern: str = "random") -> RooflineResult:
    """Work everything out from the readings of a folder.

    Raises:
        InputError: The folder does not fit, or its points are too few or too alike for a fit.
    """
    return fitted(folder.manifest.gpu, measured_kernels(folder), pattern)


def write_result(folder: RecordingFolder, pattern: str) -> None:
    """Work everything out and write it into the folder, as `roofline.json`.

    Raises:
        InputError: As `work_out`, or the file cannot be written.
    """
    write_text(folder.path / RESULT, codec.to_text(work_out(folder, pattern).document()))


def fitted(gpu: GpuInfo, kernels: MeasuredKernels, pattern: str) -> RooflineResult:
    """Fit the kernels of one operand pattern.

    Raises:
        InputError: No kernel has the pattern, or the points are too few or too alike for a fit.
    """
    measured: Sequence[MeasuredPoint] = kernels.points
    disturbed = tuple(p.kernel.name for p in measured if p.kernel.other_processes)
    unread = tuple(
        f"{p.kernel.name}: {p.fault}" for p in measured if p.fault and not p.kernel.other_processes
    )
    measured = [p for p in measured if not p.kernel.other_processes and not p.fault]
    points = tuple(p for p in measured if p.kernel.is_regressed and p.kernel.pattern == pattern)
    if not points:
        others = f" while no other program was on the GPU ({len(disturbed)} did then)" if disturbed else ""
        there = sorted({p.kernel.pattern for p in measured if p.kernel.is_regressed})
        instead = f"; this run has `operands` {' and '.join(there)}" if there else ""
        others += f"; of {len(unread)} the power is not believed, first {unread[0]}" if unread else ""
        raise InputError(f"no kernel ran with operand pattern {pattern!r}{others}{instead}")
    asleep = [p for p in measured if p.kernel.sleeps]
    beside = [p for p in measured if p.kernel.is_peak]
    at_c = float(np.median([p.temperature_c for p in points]))
    architecture = architecture_of(gpu.target)
    static, assumed = static_of(asleep, at_c, architecture.static_growth_per_k.value)
    slope = RoughTerm(SLOPE, static.slope_w_per_c, static.slope_error_w_per_c)
    highest = highest_bandwidth([*points, *beside])
    regression = tuple(regression_point(point, at_c, highest, gpu.sm_count) for point in points)
    fit, tried = fit_twice(regression, [*loop_terms(architecture, pattern), slope])
    return RooflineResult(
        gpu=gpu,
        pattern=pattern,
        fit=fit,
        regression=regression,
        energies=_energies(fit, points),
        tried=tuple(_tried(one, points, chosen=one is fit) for one in tried),
        saved=tuple(
            FittedEnergy(name, "pJ/flop", fit.coefficient(name).scaled(1e12))
            for name in map(on_few, dict.fromkeys(p.kernel.kind for p in points))
            if name in fit.rough
        ),
        machines=tuple(
            _machine(fit, [*points, *beside], kind, level, gpu)
            for kind, level in dict.fromkeys((p.kernel.kind, p.kernel.level) for p in points)
        ),
        sleeping_w=static.at(at_c),
        slope_w_per_k=slope.value,
        slope_error_w_per_k=slope.error,
        slope_is_assumed=assumed,
        temperature_c=at_c,
        residual=fit.residual,
        left_out=fit.left_out,
        disturbed=disturbed,
        points=points,
        unread=unread,
        scale=kernels.scale,
        exponents=tuple(
            KindExponent(kind, found)
            for kind in dict.fromkeys(p.kernel.kind for p in points)
            if (found := fit_exponent(fit, slowed_kernels(points, regression, fit, kind))) is not None
        ),
        chased=_chased([p for p in measured if p.kernel.chases], fit, at_c, highest, gpu.sm_count),
    )


def _chased(
    points: Sequence[MeasuredPoint], fit: RooflineFit, at_c: float, highest: float, sm_count: int
) -> tuple[ChasedByte, ...]:
    """Return a byte of each level that pointer chases went through at the full clock, L2 before L1."""
    found: dict[str, ChasedByte] = {}
    for level in LEVELS:
        own = [p for p in points if p.kernel.level == level and not p.slowed]
        if own:
            l2 = found.get(L2)
            chases = [as_chase(p, fit, at_c, highest, sm_count) for p in own]
            value = chased_byte(fit, chases, l2.value.scaled(1e-12) if l2 else None).scaled(1e12)
            found[level] = ChasedByte(level, value, len(own), max(p.bytes_per_s for p in own))
    return tuple(found.values())


def _tried(fit: RooflineFit, points: Sequence[MeasuredPoint], *, chosen: bool) -> TriedPower:
    used = [point for point in points if not point.slowed]
    by_sms: dict[int, list[float]] = {}
    for point, residual in zip(used, fit.residuals, strict=True):
        by_sms.setdefault(point.kernel.sms, []).append(100 * residual)
    return TriedPower(
        name=fit.third or "",
        chosen=chosen,
        rms_pct=100 * fit.rms_residual,
        unseen_pct=100 * fit.unseen,
        aic=fit.aic,
        by_sms=tuple((sms, float(np.mean(found))) for sms, found in sorted(by_sms.items())),
    )


def _energies(fit: RooflineFit, points: Sequence[MeasuredPoint]) -> tuple[FittedEnergy, ...]:
    kinds = {p.kernel.kind for p in points}
    made = []
    for name in fit.names:
        in_watts = name in ("constant", fit.third)
        unit = "W" if in_watts else "pJ/flop" if name in kinds else "pJ/byte"
        made.append(FittedEnergy(name, unit, fit.coefficient(name).scaled(1.0 if unit == "W" else 1e12)))
    return tuple(made)


def fitted_machine(
    result: RooflineResult, kind: str, level: str
) -> tuple[RooflineMachine, list[RooflineMachine]]:
    """Return the machine of one kind of flop and memory level, and draws from its errors.

    Raises:
        InputError: The run has no such kind or level.
    """
    for name in (kind, level):
        result.fit.coefficient(name)
    found = next(one for one in result.machines if (one.kind, one.level) == (kind, level))
    peaks = Estimate(found.flops_per_s, found.flops_ci95), Estimate(found.bytes_per_s, found.bytes_ci95)
    return _machines(result.fit, peaks, kind, level, result.gpu)


def _machines(
    fit: RooflineFit, peaks: tuple[Estimate, Estimate], kind: str, level: str, gpu: GpuInfo
) -> tuple[RooflineMachine, list[RooflineMachine]]:
    """Return the machine of the highest speed and bandwidth, and draws from the errors of all of it."""
    cap_w = gpu.power_limit_w if gpu.power_limit_w > 0 else math.inf
    law = _law(kind, gpu)
    like = RooflineMachine(
        1 / peaks[0].value, 1 / peaks[1].value, 1.0, 1.0, 0.0, cap_w,
        law.gamma, 0.0, fit.third or ThirdPower.AWAKE,
    )  # fmt: skip
    scatter = [float(np.nan_to_num(peak.uncertainty / COVERAGE_FACTOR / peak.value)) for peak in peaks]
    draws = fit.machines(kind, level, like, (scatter[0], scatter[1]), law.gamma_error)
    return fit.machine(kind, level, like), draws


def _machine(
    fit: RooflineFit, measured: Sequence[MeasuredPoint], kind: str, level: str, gpu: GpuInfo
) -> FittedMachine:
    """Return what follows for a kind and level from a fit, its points and what they are held against."""
    points = [p for p in measured if p.kernel.is_regressed]
    peaks = _peaks(measured, kind, level)
    machine, draws = _machines(fit, peaks, kind, level, gpu)
    alone = [p.flops_per_s for p in measured if p.kernel.is_peak and p.kernel.kind == kind]
    copied = [p.bytes_per_s for p in measured if p.kernel.is_peak and p.kernel.level == level]
    own = [p for p in points if (p.kernel.kind, p.kernel.level) == (kind, level)]
    reached = _peaks(points, kind, level)
    return FittedMachine(
        kind=kind,
        level=level,
        flops_per_s=peaks[0].value,
        flops_ci95=peaks[0].uncertainty,
        bytes_per_s=peaks[1].value,
        bytes_ci95=peaks[1].uncertainty,
        flops_share=reached[0].value / max(alone, default=math.nan),
        bytes_share=reached[1].value / max(copied, default=math.nan),
        quantities=machine_quantities(machine, draws),
        races_to_halt=machine.races_to_halt,
        lower_clock=_lower_clock(machine, kind, gpu),
        # A law that comes of such kernels themselves would be no test.
        limited=limited_points(replace(machine, clock_exponent=_law("", gpu).gamma), own),
    )


def _law(kind: str, gpu: GpuInfo) -> PowerLaw:
    """Return the law of the clock of a kind of flop, or else that of the GPU's generation."""
    known = architecture_of(gpu.target)
    exponent = known.limited_exponent
    of_generation = PowerLaw(exponent.value, exponent.error, known.limited_ratio.value)
    return law_of_kind(gpu.name, kind) or of_generation


def _lower_clock(machine: RooflineMachine, kind: str, gpu: GpuInfo) -> BestClock | None:
    """Predict what a lower clock saves."""
    full_mhz = gpu.max_sm_clock_mhz
    return lower_clock(machine, _law(kind, gpu), full_mhz) if math.isfinite(full_mhz) else None


def _peaks(points: Sequence[MeasuredPoint], kind: str, level: str) -> tuple[Estimate, Estimate]:
    """Return the highest speed of a kind, flop/s, and the highest bandwidth of a level, byte/s, reached."""
    return (
        _peak([(p.flops_per_s, p.slowed) for p in points if p.kernel.kind == kind]),
        _peak([(p.bytes_per_s, p.slowed) for p in points if p.kernel.level == level]),
    )


def _peak(rates: Sequence[tuple[float, bool]]) -> Estimate:
    """Return the highest rate, and how much kernels near it scatter; of each, its rate and whether slowed."""
    highest = max(rate for rate, _ in rates)
    near = [rate for rate, slowed in rates if not slowed and rate > (1 - _NEAR_PEAK) * highest]
    if len(near) < _FEWEST_NEAR:
        return Estimate(highest, math.nan)
    return Estimate(highest, student_quantile(len(near) - 1) * float(np.std(near, ddof=1)))
