"""A program's energy as text, JSON and CSV."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ptxbench.api.window_energy import energy_text
from ptxbench.attribute.attribution import BY_REPLAY, BY_TABLE, BY_TIME, NO_KERNEL, WHOLE_RUN, Share
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.replay.profile import Profile
from ptxbench.attribute.replay.shown import document as profile_document
from ptxbench.attribute.replay.shown import text as profile_text
from ptxbench.core.demangle import demangled, distinct_names
from ptxbench.core.estimate import finite
from ptxbench.core.printable import render_csv
from ptxbench.report.text_table import Column, Kind, render_table

# Beside how many they are, the name of the largest kernel of a group.
_LONGEST_OF_GROUP = 40
_HEAD = tuple(
    Column(heading, Kind.NUMBER) for heading in ("J", "J (95% interval)", "share", "mean W", "s", "calls")
)
_COLUMNS = (
    *("gpu", "kernels", "calls", "time_s", "energy_j", "low_j", "high_j", "share"),
    *("mean_power_w", "method", "expected_j", "member_of"),
)
# Names of a group that are shown.
_MOST_MEMBERS = 8
_ABOUT_REPLAY = "each kind of kernel by itself, launched again when the program was over:"
_ABOUT_MEMBERS = (
    "~: the energy of kernels that the readings cannot tell apart, shared by {}; only the sum is measured"
)
_SHARED_BY = {
    BY_TIME: "time",
    BY_TABLE: "the table's estimates",
    BY_REPLAY: "what they drew in the earlier replay",
}


def rows(program: ProgramEnergy) -> list[dict[str, Any]]:
    """Return one row for each GPU and kernel, or group of kernels that cannot be told apart."""
    return [
        {
            "gpu": gpu.energy.gpu,
            "kernels": [demangled(name) for name in share.names],
            "calls": share.calls,
            **_figures(share, gpu),
            "members": [
                {"kernel": demangled(one.names[0]), "calls": one.calls, **_figures(one, gpu)}
                for one in share.members
            ],
        }
        for gpu in program.gpus
        for share in gpu.kernels
    ]


def range_rows(program: ProgramEnergy) -> list[dict[str, Any]]:
    """Return one row for each GPU and name of NVTX ranges or windows of `EnergyMonitor`; they may overlap."""
    return [
        {"gpu": gpu.energy.gpu, "range": share.names[0], "count": share.calls, **_figures(share, gpu)}
        for gpu in program.gpus
        for share in gpu.ranges
    ]


def document(program: ProgramEnergy, profiles: Sequence[Profile] = ()) -> dict[str, Any]:
    """Return everything that is known, for JSON; what is not known is None.

    Args:
        program: What was measured.
        profiles: Its kernels by what was launched again.
    """
    whole = [
        {
            "gpu": gpu.energy.gpu,
            "energy_j": finite(gpu.energy.energy_j),
            "interval_j": [finite(end) for end in gpu.energy.interval_j],
            "mean_power_w": finite(gpu.energy.energy_j / program.time_s) if program.time_s else None,
            "status": str(gpu.energy.status),
            "reason": gpu.energy.reason,
            "notes": list(gpu.energy.notes),
            "left_out": gpu.energy.left_out,
            "idle_w": finite(gpu.idle_w),
        }
        for gpu in program.gpus
    ]
    return {
        "command": list(program.command),
        "exit_code": program.exit_code,
        "simulated": program.is_simulated,
        "time_s": program.time_s,
        "energy_j": finite(program.energy_j),
        "method": program.method,
        "remarks": list(program.remarks),
        "gpus": whole,
        "kernels": rows(program),
        "ranges": range_rows(program),
        **_units(program),
        **({"replay": [profile_document(one) for one in profiles]} if profiles else {}),
    }


def csv_text(program: ProgramEnergy) -> str:
    """Return the rows as CSV.

    Names that cannot be told apart have a row, "group 1" and so on, and below it one each, by time, whose
    `member_of` names it. The rows without a `member_of` add up to the whole.
    """
    lines: list[Sequence[object]] = [_COLUMNS]
    groups = 0
    for row in rows(program):
        members = row.pop("members")
        groups += bool(members)
        name = f"group {groups}" if members else " | ".join(row["kernels"])
        lines.append(_csv_row(row, name, ""))
        for one in members:
            kernel = one.pop("kernel")
            lines.append(_csv_row({"gpu": row["gpu"], **one}, kernel, name))
    return render_csv(lines)


def _csv_row(row: dict[str, Any], name: str, member_of: str) -> Sequence[object]:
    low_j, high_j = row["interval_j"]
    cells = {**row, "kernels": name, "low_j": low_j, "high_j": high_j, "member_of": member_of}
    return [cells[column] for column in _COLUMNS]


def energy_line(gpu: GpuShare, time_s: float) -> str:
    """Return what a GPU drew in a run, in a line."""
    return energy_text(gpu.energy.energy_j, gpu.energy.interval_j, time_s, digits=5)


def lines(
    program: ProgramEnergy,
    profiles: Sequence[Profile] = (),
    *,
    most: int = 25,
    width: int | None = None,
) -> list[str]:
    """Return the report for people, a line each.

    Args:
        program: What was measured.
        profiles: Its kernels by what was launched again.
        most: How many kernels of a GPU are shown.
        width: Columns of the terminal, None where there is none.
    """
    said = []
    if program.is_simulated:
        said.append("SIMULATED: these numbers are no measurements")
    for gpu in program.gpus:
        said.append(f"{gpu.energy.gpu}: {energy_line(gpu, program.time_s)}")
        said += [text for text in (gpu.energy.reason, *gpu.energy.notes) if text]
        if gpu.kernels:
            ordered = [share for share in gpu.kernels if share.names != (NO_KERNEL,)]
            without = [share for share in gpu.kernels if share.names == (NO_KERNEL,)]
            shown = ordered[:most]
            short = kernel_names(gpu.kernels)
            cells: list[Sequence[str]] = []
            for share in [*shown, *without]:
                cells.append((named(share, short), *_figure_cells(share, gpu.energy.energy_j)))
                cells += _member_cells(share, gpu.energy.energy_j, short)
            said += render_table((Column("kernel"), *_HEAD), cells, width).split("\n")
            left = len(ordered) - len(shown)
            said += [f"and {left} kernels more (`ptxbench run --out FOLDER` keeps all)"] if left > 0 else []
        if gpu.ranges:
            ordered = sorted(gpu.ranges, key=lambda share: -share.energy_j)
            cells = [
                (f"{share.names[0]}, {share.method}", *_figure_cells(share, gpu.energy.energy_j))
                for share in ordered[:most]
            ]
            heading = Column("range of the program (they may overlap)")
            said += render_table((heading, *_HEAD), cells, width).split("\n")
            left = len(ordered) - most
            said += [f"and {left} ranges more (`ptxbench run --out FOLDER` keeps all)"] if left > 0 else []
    said += unit_lines(program)
    methods = {one.method for gpu in program.gpus for share in gpu.kernels for one in share.members}
    by = [text for method, text in _SHARED_BY.items() if method in methods]
    about = [_ABOUT_MEMBERS.format(" and ".join(by))] if by else []
    replayed = [line for one in profiles for line in profile_text(one, width).split("\n")]
    if replayed:
        replayed = ["", _ABOUT_REPLAY, *replayed]
    return [*said, f"by {program.method}", *about, *program.remarks, *replayed]


def _units(program: ProgramEnergy) -> dict[str, Any]:
    """Return what is known above idle, and of units, for JSON."""
    each = {
        unit: {
            "count": n,
            "energy_j": finite(program.energy_j / n),
            "above_idle_j": finite(program.above_idle_j / n),
        }
        for unit, n in program.units.items()
    }
    return {"above_idle_j": finite(program.above_idle_j), "units": each}


def unit_lines(program: ProgramEnergy) -> list[str]:
    """Return what the program took above idle, and for each of a unit, a line each."""
    above_j, lines = program.above_idle_j, []
    if math.isfinite(above_j):
        idle_w = sum(gpu.idle_w for gpu in program.gpus)
        lines.append(f"above idle ({idle_w:.4g} W before the command): {above_j:.5g} J")
    for unit, n in program.units.items():
        each_j = program.energy_j / n
        above = f"; above idle {above_j / n:.4g} J per {unit}" if math.isfinite(above_j) else ""
        lines.append(
            f"{each_j:.4g} J per {unit} ({n:,.6g} of them), {1 / each_j:.4g} per J,"
            f" idle power included{above}"
        )
    return lines


def _figures(share: Share, gpu: GpuShare) -> dict[str, Any]:
    whole_j = gpu.energy.energy_j
    return {
        "time_s": share.time_s,
        "energy_j": finite(share.energy_j),
        "interval_j": [finite(end) for end in share.interval_j],
        "share": finite(share.energy_j / whole_j) if whole_j else None,
        "mean_power_w": finite(share.energy_j / share.time_s) if share.time_s > 0 else None,
        "method": share.method,
        "expected_j": finite(share.expected_j),
    }


def _beside(share: Share) -> str:
    """Return what a line says behind a name: the table's number, and why the row's is none."""
    table = f", table: {share.expected_j:.4g} J" if math.isfinite(share.expected_j) else ""
    return table + (", too short to tell" if share.method.startswith("too short") else "")


def _member_cells(share: Share, whole_j: float, short: Mapping[str, str]) -> list[Sequence[str]]:
    """Return what each name of a group may have taken, a row each."""
    found: list[Sequence[str]] = [
        (f"~ {named(one, short)}", *_figure_cells(one, whole_j)) for one in share.members[:_MOST_MEMBERS]
    ]
    left = len(share.members) - len(found)
    if left > 0:
        found.append((f"~ and {left} more (`ptxbench run --out FOLDER` keeps all)", *("" for _ in _HEAD)))
    return found


def kernel_names(shares: Sequence[Share]) -> dict[str, str]:
    """Return the short names of kernels and of those of groups, each another one."""
    return distinct_names(
        name for share in shares for one in (share, *share.members) for name in one.names[:1]
    )


def named(share: Share, short: Mapping[str, str]) -> str:
    """Return the short name of a kernel, or of the largest of a group, and what is said behind it."""
    name = short[share.names[0]]
    if share.is_whole:
        return f"{WHOLE_RUN}: {share.method}"
    if len(share.names) > 1:
        name = name if len(name) <= _LONGEST_OF_GROUP else f"{name[: _LONGEST_OF_GROUP - 3]}..."
        name = f"{len(share.names)} kernels, not separable; the largest is {name}"
    return f"{name}{_beside(share)}"


def _figure_cells(share: Share, whole_j: float) -> tuple[str, ...]:
    """Return what a row says behind its name, of a run that took so much."""
    low_j, high_j = share.interval_j
    part = share.energy_j / whole_j if whole_j > 0 else 0.0
    return (
        f"{share.energy_j:.4g}",
        f"{low_j:.4g} to {high_j:.4g}",
        f"{part:.1%}",
        f"{share.energy_j / share.time_s:.1f}" if share.time_s > 0 else "",
        f"{share.time_s:.4g}",
        "" if share.calls is None else str(share.calls),
    )
