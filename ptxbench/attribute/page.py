"""A program's energy as one page for a browser, without a network and without a script."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from ptxbench.attribute.attribution import NO_KERNEL, Share
from ptxbench.attribute.powers import Expected
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.recorded import RecordedBoard, RecordedProgram
from ptxbench.attribute.replay.cut import without_replays
from ptxbench.attribute.replay.profile import Profile, ProfileRow
from ptxbench.attribute.replay.shown import foot, head, launch_shape
from ptxbench.attribute.report import energy_line, figure_cells
from ptxbench.attribute.stacks import Frame, program_stacks, tree
from ptxbench.core.demangle import shortened
from ptxbench.core.version import VERSION
from ptxbench.report.web_page import render_page
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Float64s

_WIDTH, _HEIGHT, _FOOT = 1000, 160, 16
_MOST_POINTS = 1500  # more than its width shows
_LONGEST_TITLE = 200
_LONGEST_NAME = 300
# Of the flame graph: a frame of less, of the whole, is one with the others.
_LEAST_FRAME, _LONGEST_FRAME = 0.004, 120


@dataclass(frozen=True)
class _Plot:
    title: str
    kind: str
    points: str
    low: str
    middle: str
    high: str
    width: int = _WIDTH
    height: int = _HEIGHT


@dataclass(frozen=True)
class _Row:
    cells: tuple[str, ...]
    percent: str
    names: tuple[str, ...]
    method: str
    members: tuple[_Row, ...] = ()


@dataclass(frozen=True)
class _Table:
    title: str
    what: str
    rows: tuple[_Row, ...]


@dataclass(frozen=True)
class _Gpu:
    name: str
    energy: str
    notes: tuple[str, ...]
    plots: tuple[_Plot, ...]
    tables: tuple[_Table, ...]


@dataclass(frozen=True)
class _Frame:
    """A frame of the flame graph, with its part of the one that holds it."""

    name: str
    said: str
    percent: str
    within: tuple[_Frame, ...]


def page(
    recorded: RecordedProgram,
    program: ProgramEnergy,
    profiles: Sequence[Profile] = (),
    expected: Mapping[str, Expected] | None = None,
) -> str:
    """Return the report as a page; every text of the run is escaped.

    Args:
        recorded: The run.
        program: What it took.
        profiles: Its kernels by what was launched again.
        expected: What a table expects, by kernel name.
    """
    text = files("ptxbench.attribute").joinpath("program.html").read_text(encoding="utf-8")
    recorded = without_replays(recorded)
    pairs = zip(recorded.boards, program.gpus, strict=True)
    by_gpu = {one.gpu: one for one in profiles}
    gpus = [_gpu(recorded, board, gpu, program, by_gpu.get(gpu.energy.gpu)) for board, gpu in pairs]
    title = shlex.join(program.command)
    title = title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE]}..."
    root = tree(program_stacks(recorded, program, profiles, expected))
    flame = _frames(root, root.energy_j) if any(gpu.kernels for gpu in program.gpus) else ()
    return render_page(
        text,
        f"Energy of {title}",
        command=title,
        program=program,
        gpus=gpus,
        flame=flame,
        version=VERSION,
    )


def _frames(holding: Frame, whole_j: float) -> tuple[_Frame, ...]:
    """Return the frames in a frame, the largest first, and the small ones as one."""
    shown = [one for one in holding.within() if one.energy_j >= _LEAST_FRAME * whole_j]
    found = [
        _Frame(
            shortened(one.name, _LONGEST_FRAME),
            f"{one.name}: {one.energy_j:.4g} J, {one.energy_j / whole_j:.1%}, {one.time_s:.4g} s",
            f"{100 * one.energy_j / holding.energy_j:.3f}",
            _frames(one, whole_j),
        )
        for one in shown
    ]
    left, left_j = len(holding.within()) - len(shown), holding.energy_j - sum(one.energy_j for one in shown)
    if left and left_j > 0:
        said = f"{left} smaller ones: {left_j:.4g} J, {left_j / whole_j:.1%}"
        found.append(_Frame(f"{left} more", said, f"{100 * left_j / holding.energy_j:.3f}", ()))
    return tuple(found)


def _gpu(
    recorded: RecordedProgram,
    board: RecordedBoard,
    gpu: GpuShare,
    program: ProgramEnergy,
    profile: Profile | None,
) -> _Gpu:
    window = recorded.facts.window
    power = board.power(window)
    at_s = (power.at_ns - window.start_ns) / 1e9 - gpu.delay_s
    plots = [_plot("power", "W", "power", at_s, power.power_w, window.elapsed_s)]
    clock = board.of(SourceName.CLOCK)
    if clock is not None:
        at_s = (clock.time_ns - window.start_ns) / 1e9
        plots.append(_plot("SM clock", "MHz", "clock", at_s, clock.value, window.elapsed_s))
    kernels = sorted(gpu.kernels, key=lambda share: (share.names == (NO_KERNEL,), -share.energy_j))
    ranges = sorted(gpu.ranges, key=lambda share: -share.energy_j)
    whole_j = gpu.energy.energy_j
    replayed = () if profile is None else tuple(_profile_row(row, profile) for row in profile.rows)
    tables = (
        _Table("Kernels by themselves, launched again when the program was over", "kernel", replayed),
        _Table("Kernels", "kernel", tuple(_row(share, whole_j) for share in kernels)),
        _Table("Ranges of the program", "range", tuple(_row(share, whole_j) for share in ranges)),
    )
    replay = () if profile is None else (*head(profile), *foot(profile))
    notes = tuple(text for text in (gpu.energy.reason, *gpu.energy.notes, *replay) if text)
    kept = tuple(plot for plot in plots if plot is not None)
    return _Gpu(gpu.energy.gpu, energy_line(gpu, program.time_s), notes, kept, tables)


def _profile_row(row: ProfileRow, profile: Profile) -> _Row:
    """Return a kernel that was launched again as a row; what is not known is blank."""
    low_j, high_j = row.interval_j
    part = profile.share(row)
    cells = (
        _known(f"{row.energy_j:.4g}"),
        "" if math.isnan(low_j) else f"{low_j:.4g} to {high_j:.4g}",
        _known(f"{part:.1%}"),
        _known(f"{row.power_w:.1f}"),
        _known(f"{row.time_s:.4g}"),
        str(row.calls),
    )
    shape = "" if row.kind is None else f", {launch_shape(row.kind.node)}"
    said = f"{row.status}: {row.reason}" if row.reason else str(row.status)
    return _Row(cells, _percent(part), (f"{shortened(row.name, _LONGEST_NAME)}{shape}",), said)


def _percent(part: float) -> str:
    return f"{100 * min(max(part, 0.0), 1.0):.2f}" if math.isfinite(part) else "0"


def _known(text: str) -> str:
    return "" if text.startswith("nan") else text


def _row(share: Share, whole_j: float) -> _Row:
    names = tuple(shortened(name, _LONGEST_NAME) for name in share.names)
    members = tuple(_row(one, whole_j) for one in share.members)
    percent = _percent(share.energy_j / whole_j if whole_j > 0 else 0.0)
    return _Row(figure_cells(share, whole_j), percent, names, share.method, members)


def _plot(title: str, unit: str, kind: str, at_s: Float64s, value: Float64s, length_s: float) -> _Plot | None:
    """Return a line of values over the run, thinned; None where there are none."""
    if len(at_s) < 2 or at_s[-1] <= 0 or at_s[0] >= length_s:
        return None
    # Equal readings are kept as the first and the last of them, which may be outside of the run.
    ends_s = np.array([0.0, length_s])
    at_ends = np.interp(ends_s, at_s, value)
    inside = (at_s > 0) & (at_s < length_s)
    at_s = np.concatenate((ends_s[:1], at_s[inside], ends_s[1:]))
    value = np.concatenate((at_ends[:1], value[inside], at_ends[1:]))
    step = -(-len(at_s) // _MOST_POINTS)
    low, high = float(np.min(value)), float(np.max(value))
    x = at_s[::step] / length_s * _WIDTH
    y = (_HEIGHT - _FOOT - 2) - (value[::step] - low) / max(high - low, 1e-9) * (_HEIGHT - _FOOT - 14)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return _Plot(f"{title}, {unit}", kind, points, f"{low:.4g}", f"{(low + high) / 2:.4g}", f"{high:.4g}")
