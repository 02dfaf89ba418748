"""Rooflines of one or several runs as one page for a browser, without a network.

The page is ptxbench/report/roofline.html with the kernels, the fitted energies and the lines of each run in
it as JSON. Lines are worked out here, so that the equations stand in one place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptxbench.core.errors import InputError, ToolError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.gpu_info import without_maker
from ptxbench.core.version import VERSION
from ptxbench.experiment.roofline.kernel import loop_counts
from ptxbench.experiment.roofline.point import MeasuredPoint, open_folder
from ptxbench.experiment.roofline.result import (
    MeasuredKernels,
    RooflineResult,
    code_of,
    fitted,
    fitted_machine,
    measured_kernels,
)
from ptxbench.model.atlas import UNIT_ROWS, Atlas, open_atlas
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.kernels import DRAM
from ptxbench.model.roofline.power_capping import under_limit
from ptxbench.report.roofline_kernels import PlacedKernel
from ptxbench.report.web_page import fill_page, plain
from ptxbench.sass.loop import LoopError
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.recording import RecordingFolder, RecordingManifest
from ptxbench.storage.shipped import SHIPPED

_TEMPLATE = "roofline.html"
_STEPS_PER_OCTAVE = 6
_SPAN = (1 / 8, 512.0)
_POINT_COLUMNS = (
    *("series", "kernel", "sms", "flop_per_byte", "power_w", "power_ci95_w", "energy_j", "gflop_per_j"),
    *("gflop_per_s", "gbyte_per_s", "time_ms", "temperature_c", "status", "sass"),
)
_OK, _SLOWED, _DISTURBED = "ok", "slowed by the power limit", "another program was on the GPU"
_OTHER = "of others"
_UNSETTLED = "slowed by the power limit, not settled"


@dataclass(frozen=True)
class PatternFit:
    """The kernels of one operand pattern, and what they say.

    Attributes:
        pattern: Operand pattern.
        points: All of its kernels whose power is believed.
        result: The fit, None where there is none.
        reason: Why there is none.
    """

    pattern: str
    points: tuple[MeasuredPoint, ...]
    result: RooflineResult | None
    reason: str

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Kinds of flop with memory levels that kernels have."""
        return tuple(dict.fromkeys((p.kernel.kind, p.kernel.level) for p in self.points))


@dataclass(frozen=True)
class RooflineReport:
    """One run that is shown.

    Attributes:
        path: Its folder, as the page calls it.
        manifest: What it is.
        fits: What the kernels of each operand pattern say.
        sass: What the loop of each kernel executes, by the kernel's name; without those that are not known.
    """

    path: str
    manifest: RecordingManifest
    fits: tuple[PatternFit, ...]
    sass: Mapping[str, str]

    def result_of(self, pattern: str) -> RooflineResult:
        """Return the fit of an operand pattern.

        Raises:
            InputError: There is none.
        """
        fits = {fit.pattern: fit for fit in self.fits}
        if pattern not in fits:
            raise InputError(
                f"no kernel ran with operand pattern {pattern!r}; this run has `operands`"
                f" {' and '.join(fits)}"
            )
        found = fits[pattern]
        if found.result is None:
            raise InputError(found.reason)
        return found.result


def read_roofline(path: Path, name: str = "") -> RooflineReport:
    """Read a folder of `ptxbench roofline run` and work everything out again from its readings.

    Args:
        path: The folder.
        name: What the page calls it; "": its path.

    Raises:
        InputError: It is no such folder, or its kernels have no power. Kernels that are too few for a fit
            are no error.
    """
    folder = open_folder(path)
    measured = measured_kernels(folder)
    loads = [p for p in measured.points if p.kernel.is_regressed]
    fits = tuple(
        _fit(folder, measured, pattern) for pattern in dict.fromkeys(p.kernel.pattern for p in loads)
    )
    if not fits:
        raise InputError(f"{path} holds no kernel of the roofline yet; continue it with `resume`")
    return RooflineReport(name or str(path), folder.manifest, fits, dict(_loops(folder, loads)))


def _fit(folder: RecordingFolder, measured: MeasuredKernels, pattern: str) -> PatternFit:
    points = tuple(
        p for p in measured.points if p.kernel.is_regressed and p.kernel.pattern == pattern and not p.fault
    )
    try:
        return PatternFit(pattern, points, fitted(folder.manifest.gpu, measured, pattern), "")
    except InputError as error:
        return PatternFit(pattern, points, None, str(error))


def _loops(folder: RecordingFolder, points: Sequence[MeasuredPoint]) -> Iterator[tuple[str, str]]:
    """Return what the loop of each kernel executes, such as "8 LDG.E.128, 512 FFMA"."""
    texts: dict[str, str] = {}
    for kernel in (point.kernel for point in points):
        entry = code_of(folder, kernel)
        if entry is None:
            continue
        if entry.cubin_sha256 not in texts:
            try:
                counts = loop_counts(folder.kernels.sass(entry))
            except (LoopError, ToolError, KeyError):
                continue
            texts[entry.cubin_sha256] = ", ".join(f"{n} {opcode}" for opcode, n in counts.most_common())
        yield kernel.name, texts[entry.cubin_sha256]


def missing_fits(reports: Sequence[RooflineReport]) -> tuple[str, ...]:
    """Return a line for each run and operand pattern that has no fit: which, and why."""
    return tuple(
        f"{report.path}, operands {fit.pattern}: no line: {fit.reason}"
        for report in reports
        for fit in report.fits
        if fit.result is None
    )


def render_rooflines(reports: Sequence[RooflineReport], placed: Sequence[PlacedKernel] = ()) -> str:
    """Return the page.

    Args:
        reports: The runs.
        placed: Kernels of others, which stand on the roofline of the first run.
    """
    titles = dict.fromkeys(report.manifest.gpu.title for report in reports)
    return fill_page(_TEMPLATE, "Energy rooflines: " + ", ".join(titles), _document(reports, placed))


def _document(reports: Sequence[RooflineReport], placed: Sequence[PlacedKernel]) -> dict[str, object]:
    labels, tables = _gpu_labels(reports), _shipped_tables(reports)
    sass: dict[str, int] = {}
    series: list[dict[str, object]] = []
    energies: list[dict[str, object]] = []
    points: list[list[object]] = []
    for number, report in enumerate(reports):
        table = tables.get(report.manifest.gpu.title)
        for fit in report.fits:
            energies += _energies(fit, number, table)
            for kind, level in fit.pairs:
                own = [p for p in fit.points if (p.kernel.kind, p.kernel.level) == (kind, level)]
                for point in sorted(own, key=lambda p: (-p.kernel.sms, p.kernel.intensity)):
                    text = report.sass.get(point.kernel.name, "")
                    place = sass.setdefault(text, len(sass))
                    points.append([len(series), *map(plain, _cells(point)), place])
                most = max(p.kernel.sms for p in own)
                if not number and level == DRAM:
                    place = sass.setdefault("", len(sass))
                    of_others = [_placed_cells(one, most) for one in placed if one.kind == kind]
                    points += [[len(series), *map(plain, cells), place] for cells in of_others]
                series.append({
                    "run": number, "gpu": labels[number], "kind": kind, "level": level,
                    "operands": fit.pattern, "sms": most, "reason": fit.reason,
                    **(_lines(fit.result, kind, level, own) if fit.result else {}),
                })  # fmt: skip
    return {
        "version": VERSION,
        "runs": [_run(report) for report in reports],
        "series": series,
        "energies": energies,
        "point_columns": list(_POINT_COLUMNS),
        "points": points,
        "sass": list(sass),
    }


def _gpu_labels(reports: Sequence[RooflineReport]) -> list[str]:
    """Return what each run's GPU is called: its board, too, where there are several of that GPU."""
    gpus = [report.manifest.gpu for report in reports]
    boards: dict[str, set[str]] = {}
    for gpu in gpus:
        boards.setdefault(gpu.title, set()).add(gpu.uuid_hash)
    short = [without_maker(gpu.title) for gpu in gpus]
    return [
        f"{name}, board {gpu.uuid_hash[:4]}" if len(boards[gpu.title]) > 1 else name
        for name, gpu in zip(short, gpus, strict=True)
    ]


def _shipped_tables(reports: Sequence[RooflineReport]) -> dict[str, Atlas]:
    """Return the tables that come along for the GPUs of some runs, by title: what a flop and a byte cost."""
    titles = {report.manifest.gpu.title for report in reports}
    own = {read_run_manifest(folder).gpu.title: (name, folder) for name, folder in SHIPPED.items()}
    return {
        title: open_atlas(folder, UNIT_ROWS.__contains__, name)
        for title, (name, folder) in own.items()
        if title in titles
    }


def _energies(fit: PatternFit, run: int, table: Atlas | None) -> Iterator[dict[str, object]]:
    for one in fit.result.energies if fit.result else ():
        beside = table.unit_energy(one.name, fit.pattern) if table else None
        yield {
            "run": run,
            "operands": fit.pattern,
            "name": one.name,
            "unit": one.unit,
            "value": plain(one.value.value),
            "ci95": plain(one.value.uncertainty),
            "table": table.name if table else None,
            "table_value": beside.value_pj if beside else None,
            "table_note": beside.note if beside else None,
        }


def _cells(point: MeasuredPoint) -> tuple[object, ...]:
    """Return a kernel's cells of `_POINT_COLUMNS`, from its name to its status."""
    kernel = point.kernel
    slowed = _SLOWED if point.settled else _UNSETTLED
    status = _DISTURBED if kernel.other_processes else slowed if point.slowed else _OK
    return (
        kernel.name,
        kernel.sms,
        kernel.intensity,
        point.power_w,
        COVERAGE_FACTOR * point.power_error_w,
        point.power_w * point.time_s,
        point.flops_per_s / point.power_w / 1e9,
        point.flops_per_s / 1e9,
        point.bytes_per_s / 1e9,
        1e3 * point.time_s,
        point.temperature_c,
        status,
    )


def _placed_cells(one: PlacedKernel, sms: int) -> tuple[object, ...]:
    """Return the same of a kernel of others, which stands with those on all SMs."""
    moved_gb = one.gflops / one.intensity
    unknown = math.nan
    return (
        one.name, sms, one.intensity, one.power_w, unknown, unknown, one.gflops_per_w, one.gflops, moved_gb,
        unknown, unknown, _OTHER + (", at the power limit" if one.capped else ""),
    )  # fmt: skip


def _lines(
    result: RooflineResult, kind: str, level: str, points: Sequence[MeasuredPoint]
) -> dict[str, object]:
    """Return the lines of one kind of flop and memory level, and what follows from them."""
    machine, _ = fitted_machine(result, kind, level)
    found = next(m for m in result.machines if (m.kind, m.level) == (kind, level))
    return {
        "cap_w": plain(machine.cap_w),
        "flops_per_s": plain(found.flops_per_s),
        "bytes_per_s": plain(found.bytes_per_s),
        "flop_pj": plain(1e12 * machine.flop_j),
        "byte_pj": plain(1e12 * machine.byte_j),
        "constant_w": plain(machine.constant_w),
        "memory_w": plain(machine.memory_w),
        "memory_form": machine.memory_form.value,
        "average_byte_pj": plain(1e12 * machine.average_byte_j),
        "best_gflop_per_j": plain(1e-9 / machine.full_flop_j),
        "quantities": {q.name: [plain(q.value), plain(q.low), plain(q.high)] for q in found.quantities},
        "races_to_halt": found.races_to_halt,
        "lines": _curves(result, machine, kind, level, points),
    }


def _curves(
    result: RooflineResult, machine: RooflineMachine, kind: str, level: str, points: Sequence[MeasuredPoint]
) -> dict[str, list[object]]:
    """Return the roofline, the energy of a flop with its interval, and what the power limit leaves.

    Speed is in Gflop/s, energy in pJ a flop; power is their product.
    """
    free = replace(machine, cap_w=math.inf)
    columns: dict[str, list[object]] = {
        name: []
        for name in (
            "flop_per_byte",
            "gflop_per_s",
            "pj_per_flop",
            "ci95_pj",
            "limited_gflop_per_s",
            "limited_w",
        )
    }
    for intensity in _grid(machine, [point.kernel.intensity for point in points]):
        algorithm = Algorithm(intensity, 1.0)
        time_s = free.time_s(algorithm)
        energy = result.fit.energy(kind, level, intensity, 1.0, time_s, free.byte_s / time_s)
        energy = energy.scaled(1e12 / intensity)
        speed = intensity / time_s / 1e9
        row = [intensity, speed, energy.value, energy.uncertainty, math.nan, math.nan]
        if math.isfinite(machine.cap_w):
            run = under_limit(machine, algorithm, on_chip=level != "dram")
            row[4:] = intensity / run.time_s / 1e9, run.power_w
        for column, value in zip(columns.values(), row, strict=True):
            column.append(plain(value))
    return columns


def _grid(machine: RooflineMachine, seen: Sequence[float]) -> list[float]:
    """Return intensities in equal steps of the logarithm, and those at which a line bends."""
    low, high = min(_SPAN[0], *seen), max(_SPAN[1], *seen)
    steps = math.ceil(_STEPS_PER_OCTAVE * math.log2(high / low))
    bends = [machine.time_balance, machine.half_efficiency_intensity]
    return sorted({*map(float, np.geomspace(low, high, steps + 1)), *(b for b in bends if low < b < high)})


def _run(report: RooflineReport) -> dict[str, object]:
    gpu, manifest = report.manifest.gpu, report.manifest
    return {
        "name": report.path,
        "title": gpu.title,
        "board": gpu.uuid_hash,
        "driver": gpu.driver,
        "power_limit_w": plain(gpu.power_limit_w),
        "created": manifest.day,
        "commit": manifest.commit or "",
        "fits": [_about(fit) for fit in report.fits],
    }


def _about(fit: PatternFit) -> dict[str, object]:
    if fit.result is None:
        return {"operands": fit.pattern, "reason": fit.reason}
    result = fit.result
    return {
        "operands": fit.pattern,
        "residual": plain(result.residual),
        "third_power": result.fit.third or "",
        "sleeping_w": plain(result.sleeping_w),
        "temperature_c": plain(result.temperature_c),
        "kernels": result.fit.points,
        "left_out": len(result.left_out),
        "disturbed": len(result.disturbed),
        "unread": len(result.unread),
        "scale": result.scale,
    }
