"""The energy of a program, or of a step, as a page for a browser: flame graph, tables, power over time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptxbench.attribute.attribution import Share
from ptxbench.attribute.powers import Expected
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.recorded import RecordedBoard, RecordedProgram
from ptxbench.attribute.replay.cut import without_replays
from ptxbench.attribute.replay.profile import Profile, ProfileRow
from ptxbench.attribute.replay.replayed import ProfileFolder
from ptxbench.attribute.replay.shown import foot, head, launch_shape
from ptxbench.attribute.report import energy_line, kernel_names, named
from ptxbench.attribute.stacks import Frame, profile_stacks, program_stacks, tree
from ptxbench.core.demangle import short_name, shortened
from ptxbench.core.version import VERSION
from ptxbench.report.web_page import fill_page, plain
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Float64s

_MOST_POINTS = 3000  # more than a page is wide
_LONGEST_TITLE, _LONGEST_NAME = 200, 300
# A frame of less, of the whole, is one with the others of its kind: it is narrower than a line.
_LEAST_FRAME = 0.0005
_Object = dict[str, Any]


def _column(head: str, key: str, kind: str = "number", scale: float = 1.0) -> _Object:
    """Return a column of a table, as `energy.html` has it."""
    return {"head": head, "key": key, "kind": kind, "scale": scale}


_SHARE_COLUMNS = (
    _column("J", "energy_j"),
    _column("95% interval, J", "interval_j", "interval"),
    _column("share", "share", "share"),
    _column("W", "power_w"),
    _column("s", "time_s"),
    _column("calls", "calls"),
    _column("method", "method", "text"),
)
_LAUNCH_COLUMNS = (
    _column("share", "share", "share"),
    _column("calls", "calls"),
    _column("us a launch", "launch_s", scale=1e6),
    _column("mJ a launch", "launch_j", scale=1e3),
    _column("W", "power_w"),
    _column("status", "status", "status"),
)


def program_page(
    recorded: RecordedProgram,
    program: ProgramEnergy,
    profiles: Sequence[Profile] = (),
    expected: Mapping[str, Expected] | None = None,
) -> str:
    """Return the page of a program.

    Args:
        recorded: The run.
        program: What it took.
        profiles: Its kernels by what was launched again.
        expected: What a table expects, by kernel name.
    """
    recorded = without_replays(recorded)
    by_gpu = {one.gpu: one for one in profiles}
    command = shortened(shlex.join(program.command), _LONGEST_TITLE)
    code = "not known" if program.exit_code is None else program.exit_code
    has_kernels = any(gpu.kernels for gpu in program.gpus)
    return _page(
        f"Energy of {command}",
        [f"{program.time_s:.4g} s, exit code {code}, by {program.method}", *program.remarks],
        [
            _section(recorded, board, gpu, program, by_gpu.get(gpu.energy.gpu))
            for board, gpu in zip(recorded.boards, program.gpus, strict=True)
        ],
        tree(program_stacks(recorded, program, profiles, expected)) if has_kernels else None,
        simulated=program.is_simulated,
        notes=[
            "All kernels of a GPU, with the time without a kernel, add up to its energy; ranges may overlap."
        ],
        how="docs/howto/run.md",
    )


def step_page(folder: ProfileFolder, profile: Profile) -> str:
    """Return the page of a step.

    Args:
        folder: The run, for its readings.
        profile: What it gave.
    """
    plot = _plot("Power while it was measured, one window after the other", "W", *_power(folder))
    return _page(
        f"The joules of a step on {profile.gpu}",
        head(profile),
        [{"title": "", "lines": [], "tables": [_launch_table("Kernels", profile)], "plots": plot}],
        tree(profile_stacks(profile)),
        simulated=profile.is_simulated,
        notes=foot(profile),
        how="docs/howto/profile.md",
    )


def _page(
    title: str,
    lines: Sequence[str],
    sections: Sequence[_Object],
    root: Frame | None,
    *,
    simulated: bool,
    notes: Sequence[str],
    how: str,
) -> str:
    document = {
        "title": title,
        "simulated": simulated,
        "head": list(lines),
        "tree": None if root is None else _frame(root, root.energy_j),
        "sections": list(sections),
        "notes": list(notes),
        "version": VERSION,
        "how": how,
    }
    return fill_page("energy.html", title, document)


def _frame(frame: Frame, whole_j: float) -> _Object:
    """Return a frame with those in it, the largest first, and the small ones as one."""
    within = frame.within()
    shown = [one for one in within if one.energy_j >= _LEAST_FRAME * whole_j]
    children = [_frame(one, whole_j) for one in shown]
    left_j = frame.energy_j - frame.own_j - sum(one.energy_j for one in shown)
    if len(shown) < len(within) and left_j > 0:
        name = f"{len(within) - len(shown)} smaller ones"
        children.append({"name": name, "energy": plain(left_j), "time": None, "children": []})
    name = shortened(frame.name, _LONGEST_NAME)
    return {"name": name, "energy": plain(frame.energy_j), "time": plain(frame.time_s), "children": children}


def _section(
    recorded: RecordedProgram,
    board: RecordedBoard,
    gpu: GpuShare,
    program: ProgramEnergy,
    profile: Profile | None,
) -> _Object:
    """Return what the page says of one GPU."""
    window, whole_j = recorded.facts.window, gpu.energy.energy_j
    power, clock = board.power(window), board.of(SourceName.CLOCK)
    power_s = (power.at_ns - window.start_ns) / 1e9 - gpu.delay_s
    plots = _plot("Power", "W", *_within(power_s, power.power_w, window.elapsed_s))
    if clock is not None:
        clock_s = (clock.time_ns - window.start_ns) / 1e9
        plots += _plot("SM clock", "MHz", *_within(clock_s, clock.value, window.elapsed_s))
    short = kernel_names(gpu.kernels)
    replayed = "Kernels by themselves, launched again when the program was over"
    tables = [
        *([] if profile is None else [_launch_table(replayed, profile)]),
        _share_table(
            "Kernels", "kernel", [_share_row(one, whole_j, named(one, short), short) for one in gpu.kernels]
        ),
        _share_table(
            "Ranges of the program", "range", [_share_row(one, whole_j, one.names[0]) for one in gpu.ranges]
        ),
    ]
    replay = () if profile is None else (*head(profile), *foot(profile))
    lines = (energy_line(gpu, program.time_s), gpu.energy.reason, *gpu.energy.notes, *replay)
    return {
        "title": gpu.energy.gpu,
        "lines": [line for line in lines if line],
        "tables": [table for table in tables if table["rows"]],
        "plots": plots,
    }


def _share_table(title: str, what: str, rows: Sequence[_Object]) -> _Object:
    return {"title": title, "columns": [_column(what, "short", "name"), *_SHARE_COLUMNS], "rows": rows}


def _share_row(share: Share, whole_j: float, name: str, short: Mapping[str, str] | None = None) -> _Object:
    return {
        "name": " | ".join(shortened(one, _LONGEST_NAME) for one in share.names),
        "short": name,
        "energy_j": plain(share.energy_j),
        "interval_j": [plain(end) for end in share.interval_j],
        "share": plain(share.energy_j / whole_j if whole_j > 0 else 0.0),
        "power_w": plain(share.energy_j / share.time_s) if share.time_s > 0 else None,
        "time_s": plain(share.time_s),
        "calls": share.calls,
        "method": share.method,
        "members": [_share_row(one, whole_j, named(one, short or {}), short) for one in share.members],
    }


def _launch_table(title: str, profile: Profile) -> _Object:
    unit, scale = ("J", 1.0) if profile.is_program else ("mJ a step", 1e3)
    columns = (
        _column("kernel", "short", "name"),
        _column("grid x block", "shape", "text"),
        _column(unit, "energy_j", scale=scale),
        _column("±", "half_j", scale=scale),
        *_LAUNCH_COLUMNS,
    )
    return {"title": title, "columns": columns, "rows": [_launch_row(row, profile) for row in profile.rows]}


def _launch_row(row: ProfileRow, profile: Profile) -> _Object:
    return {
        "name": row.name,
        "short": row.name if row.kind is None else short_name(row.name),
        "shape": "" if row.kind is None else launch_shape(row.kind.node),
        "energy_j": plain(row.energy_j),
        "half_j": plain(row.half_j),
        "share": plain(profile.share(row)),
        "calls": row.calls,
        "launch_s": plain(row.launch_s),
        "launch_j": plain(row.launch_j),
        "power_w": plain(row.power_w),
        "status": str(row.status),
        "reason": row.reason,
    }


def _plot(title: str, unit: str, at_s: Float64s, value: Float64s) -> list[_Object]:
    """Return a line of values from 0 s on, thinned; none where there are none."""
    if len(at_s) < 2:
        return []
    step = -(-len(at_s) // _MOST_POINTS)
    pairs = zip(at_s[::step].tolist(), value[::step].tolist(), strict=True)
    return [{"title": title, "unit": unit, "points": [[plain(at), plain(one)] for at, one in pairs]}]


def _within(at_s: Float64s, value: Float64s, length_s: float) -> tuple[Float64s, Float64s]:
    """Return values from the begin of a run to its end; nothing where none was there."""
    if len(at_s) < 2 or at_s[-1] <= 0 or at_s[0] >= length_s:
        return np.empty(0), np.empty(0)
    # Equal readings are kept as the first and the last of them, which may be outside of the run.
    inside = (at_s > 0) & (at_s < length_s)
    moments_s = np.concatenate(([0.0], at_s[inside], [length_s]))
    return moments_s, np.interp(moments_s, at_s, value)


def _power(folder: ProfileFolder) -> tuple[Float64s, Float64s]:
    """Return time and power of the best source within the windows of all recordings."""
    found = list(_powers(folder))
    if not found:
        return np.empty(0), np.empty(0)
    at_s, power_w = (np.concatenate(side) for side in zip(*found, strict=True))
    return at_s - at_s[:1], power_w


def _powers(folder: ProfileFolder) -> Iterator[tuple[Float64s, Float64s]]:
    source = folder.recordings.manifest.sensors[0]
    for one in folder.recordings.recordings:
        series = folder.recordings.trace(one.name).of(source.source)
        if series is None or series.counts_energy:
            continue
        good = series.good()
        inside = (good.time_ns >= one.windows[0].start_ns) & (good.time_ns <= one.windows[0].end_ns)
        yield good.time_ns[inside] / 1e9, good.value[inside]
