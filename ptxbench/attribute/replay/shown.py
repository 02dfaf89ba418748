"""A profile as text and as JSON."""

from __future__ import annotations

import math
from typing import Any

from ptxbench.attribute.replay.profile import Profile, ProfileRow
from ptxbench.core.demangle import LONGEST_NAME, short_name
from ptxbench.core.estimate import finite
from ptxbench.core.status import Status
from ptxbench.core.wrap import wrapped
from ptxbench.devices.step import NodeType, StepNode
from ptxbench.report.text_table import Column, Kind, render_table

# Of a program, which has many small ones beside.
MOST_ROWS = 30
_SHORTEST_NAME = 28
# Columns of a terminal that the figures beside a name need.
_FIGURES = 46
_NAMED = (Column("kernel"), Column("grid x block", Kind.NUMBER, drop=1))
_COLUMNS = (
    Column("±", Kind.NUMBER, drop=5),
    Column("share", Kind.NUMBER),
    Column("calls", Kind.NUMBER, drop=3),
    Column("us", Kind.NUMBER, drop=4),
    Column("mJ a launch", Kind.NUMBER, drop=2),
    Column("W", Kind.NUMBER, drop=6),
    Column("status", Kind.STATUS),
)


def text(profile: Profile, width: int | None) -> str:
    """Return a profile as lines for people.

    Args:
        profile: The profile.
        width: Columns of the terminal; None: as wide as needed.
    """
    longest = LONGEST_NAME if width is None else max(_SHORTEST_NAME, min(LONGEST_NAME, width - _FIGURES))
    energy = Column("J" if profile.is_program else "mJ a step", Kind.NUMBER)
    rows = profile.rows[: MOST_ROWS if profile.is_program else None]
    cells = [_cells(profile, row, longest) for row in rows]
    table = render_table((*_NAMED, energy, *_COLUMNS), cells, width)
    left = len(profile.rows) - len(rows)
    more = [f"and {left} kinds more (`ptxbench run --out FOLDER` keeps all)"] if left else []
    lines = [*head(profile), "", table, *more, "", *foot(profile)]
    if width is None:
        return "\n".join(lines)
    return "\n".join(part for line in lines for part in (wrapped(line, width) if line != table else [line]))


def document(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON takes it."""
    step = profile.step
    return {
        "gpu": profile.gpu,
        "is_simulated": profile.is_simulated,
        "step": {
            "energy_j": finite(step.energy_j),
            "low_j": finite(step.energy_j - step.half_j),
            "high_j": finite(step.energy_j + step.half_j),
            "time_s": finite(step.time_s),
            "power_w": finite(step.power_w),
            "above_idle_j": finite(profile.above_idle_j),
            "drift": finite(step.drift),
            "clock_mhz": finite(step.clock_mhz),
            "temperature_c": finite(step.temperature_c),
        },
        "idle_w": finite(profile.idle_w),
        "closure": finite(profile.closure),
        "is_closed": profile.is_closed,
        "units": {
            unit: {
                "count": count,
                "energy_j": finite(profile.per(unit)),
                "above_idle_j": finite(profile.above_idle_j / count),
            }
            for unit, count in profile.units.items()
        },
        "rows": [_row_document(profile, row) for row in profile.rows],
        "saved_bytes": profile.saved_bytes,
        "changed_bytes": profile.changed_bytes,
        "wall_s": finite(profile.wall_s),
        "notes": list(profile.notes),
    }


def _row_document(profile: Profile, row: ProfileRow) -> dict[str, Any]:
    low_j, high_j = row.interval_j
    plain: dict[str, Any] = {
        "name": row.name,
        "type": "gaps" if row.kind is None else str(row.kind.node.type),
        "calls": row.calls,
        "energy_j": finite(row.energy_j),
        "low_j": finite(low_j),
        "high_j": finite(high_j),
        "share": finite(profile.share(row)),
        "launch_j": finite(row.launch_j),
        "launch_s": finite(row.launch_s),
        "time_s": finite(row.time_s),
        "power_w": finite(row.power_w),
        "clock_mhz": finite(row.clock_mhz),
        "idle_share": row.idle_share,
        "status": str(row.status),
        "reason": row.reason,
    }
    if row.kind is not None and row.kind.node.type is NodeType.KERNEL:
        node = row.kind.node
        plain |= {
            "function": node.name,
            "grid": list(node.grid),
            "block": list(node.block),
            "cluster": list(node.cluster),
            "shared_bytes": node.shared_bytes,
        }
    if modules := profile.modules_of(row):
        plain["modules"] = modules
    return plain


def _cells(profile: Profile, row: ProfileRow, longest: int) -> list[str]:
    shape = launch_shape(row.kind.node) if row.kind is not None else ""
    status = str(row.status) + (f": {row.reason}" if row.reason else "")
    scale = 1.0 if profile.is_program else 1e3
    return [
        short_name(row.name, longest) if row.kind is not None else row.name,
        shape,
        _number(row.energy_j * scale),
        _number(row.half_j * scale, 2),
        "" if math.isnan(row.energy_j) else f"{profile.share(row):.1%}",
        f"{row.calls:,}",
        _number(row.launch_s * 1e6),
        _number(row.launch_j * 1e3),
        _number(row.power_w),
        status,
    ]


def launch_shape(node: StepNode) -> str:
    """Return grid and block of a kernel, "" of anything else."""
    if node.type is not NodeType.KERNEL:
        return ""
    return " x ".join(",".join(map(str, _plain(of))) for of in (node.grid, node.block))


def _plain(dimensions: tuple[int, int, int]) -> tuple[int, ...]:
    """Return dimensions without the ones behind the last that is not one."""
    kept = max((i for i, size in enumerate(dimensions) if size != 1), default=0)
    return dimensions[: kept + 1]


def _number(value: float, digits: int = 4) -> str:
    if not math.isfinite(value):
        return ""
    return f"{value:,.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def head(profile: Profile) -> list[str]:
    """Return the lines above the table: the step, and its units."""
    step = profile.step
    at = f" at {step.clock_mhz:.0f} MHz" if math.isfinite(step.clock_mhz) else ""
    warm = f", {step.temperature_c:.0f} C" if math.isfinite(step.temperature_c) else ""
    limited = ", held down by the power limit" if step.is_limited else ""
    takes = "while kernels ran, the program took" if profile.is_program else "one step takes"
    time = f"{step.time_s:.4g} s" if profile.is_program else f"{step.time_s * 1e3:.4g} ms"
    lines = [
        f"{profile.gpu}: {takes} {step.energy_j:.4g} ± {step.half_j:.2g} J"
        f" in {time}, {step.power_w:.4g} W{at}{limited}{warm}",
        f"above idle ({profile.idle_w:.4g} W, one thread asleep): {profile.above_idle_j:.4g} J"
        + ("" if profile.is_program else " a step"),
    ]
    for unit, count in profile.units.items():
        each_j = profile.per(unit)
        above_j = profile.above_idle_j / count
        lines.append(
            f"{each_j:.4g} J per {unit}, {1 / each_j:.4g} {unit}s per J, idle power included; above idle"
            f" {above_j:.4g} J per {unit}"
        )
    return lines


def foot(profile: Profile) -> list[str]:
    """Return the lines below the table: closure, memory and notes."""
    measured = "measured" if profile.is_closed else "estimated"
    known = [row for row in profile.rows if row.status is not Status.NOT_REACHED]
    lines = [
        f"{len(known)} rows, {measured}: {profile.sum_j:.4g} J, {profile.closure:.1%} of the {profile.what}"
        f" ({profile.wall_s:.0f} s of measuring)"
    ]
    if profile.changed_bytes == 0:
        lines.append(f"{profile.saved_bytes / 1e6:,.4g} MB of memory are as they were before, byte by byte")
    elif profile.changed_bytes > 0:
        lines.append(f"{profile.changed_bytes:,} bytes of memory are not as they were before")
    return [*lines, *profile.notes]
