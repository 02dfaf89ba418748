"""The joules of every kernel of a program: its kinds launched again at its end, times how often they ran.

A kind takes of the program what one launch of it took in its window, times its calls. What the kinds leave
of the time in which kernels ran are gaps. Their power is that of launches that do nothing, as far as as
many of them fill the time, and that of one thread that sleeps for the rest. The rows stand beside the energy
that was measured in that time. A kind that was not launched again keeps what the readings of the run tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ptxbench.analysis.throttling import HELD_DOWN
from ptxbench.attribute.attribution import Share
from ptxbench.attribute.launches import busy_spans, no_launches
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.recorded import RecordedBoard, RecordedProgram
from ptxbench.attribute.replay.cut import without_replays
from ptxbench.attribute.replay.kinds import Kind
from ptxbench.attribute.replay.plan import SETTINGS, ReplaySettings
from ptxbench.attribute.replay.profile import (
    Measured,
    Profile,
    ProfileRow,
    StepEnergy,
    at_other_temperature,
    by_size,
    called,
    kind_rows,
    measured,
    with_gaps,
)
from ptxbench.attribute.replay.program_log import (
    NOTHING_TO_DO,
    SLEEPING,
    ProcessReplay,
    ProgramKind,
    ReplayWindow,
)
from ptxbench.attribute.replay.replayed import ReplayRun
from ptxbench.catalogue.architecture import architecture_of
from ptxbench.core.status import Status
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.settled_run import BoardLimits, KernelPower, kernel_power
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.kernel_run import POWER_CAP
from ptxbench.sensors.trace import NS_PER_S, KernelWindow, Trace

# Pauses between kernels that are longer are no time of work; so many of them at most.
_PAUSE_NS, _MOST_PAUSES = 1_000_000_000, 40
# Times of a launch in the program and by itself that differ by more are said.
_OTHER_TIME, _OTHER_TIME_S = 1.5, 5e-6
# A launch that is as long is so much longer than what caches and the launch itself add to it.
_LONG_S = 0.01
# Its exponent of the clock stands for all: it only widens intervals.
_ARCHITECTURE = "sm_90"


@dataclass(frozen=True)
class _Group:
    """Kinds of a process on one GPU."""

    process: ProcessReplay
    kinds: tuple[ProgramKind, ...]

    @property
    def beside(self) -> tuple[ReplayWindow, ReplayWindow] | None:
        """The windows of sleeping and of doing nothing, None where it did not come to them."""
        sleeping, nothing = (self.process.of(one, self.kinds[0].gpu) for one in (SLEEPING, NOTHING_TO_DO))
        return None if sleeping is None or nothing is None else (sleeping, nothing)


def program_profiles(
    recorded: RecordedProgram, program: ProgramEnergy, settings: ReplaySettings = SETTINGS
) -> tuple[Profile, ...]:
    """Return the kernels of a program by what was launched again, for each GPU on which anything was.

    Where the energy of the program itself is not known there is nothing to set beside it, and no profile.

    Args:
        recorded: The run.
        program: What its readings tell.
        settings: When rows count as measured.
    """
    found = []
    alone = without_replays(recorded)
    for board, own, gpu in zip(recorded.boards, alone.boards, program.gpus, strict=True):
        groups = [
            _Group(process, kinds)
            for process in recorded.facts.replays
            if (kinds := tuple(kind for kind in process.kinds if kind.gpu == board.facts.uuid))
        ]
        busy = _busy(alone, own)
        if any(one.beside for one in groups) and math.isfinite(busy.energy_j):
            found.append(_profile(board, busy, gpu, groups, settings))
    return tuple(found)


def _profile(
    board: RecordedBoard,
    busy: StepEnergy,
    gpu: GpuShare,
    groups: Sequence[_Group],
    settings: ReplaySettings,
) -> Profile:
    uuid = board.facts.uuid
    windows = _Windows(board, [one for group in groups for one in group.process.every if one.gpu == uuid])
    idle, gaps = map(windows.of, next(one.beside for one in groups if one.beside))
    rows = [_row(kind, group, gpu, busy, idle, windows) for group in groups for kind in group.kinds]
    plain, notes = with_gaps(rows, busy, _gap_power(rows, busy, idle, gaps))
    if windows.check.objection:
        objection = windows.check.objection
        plain = tuple(replace(row, status=Status.SENSOR_IMPLAUSIBLE, reason=objection) for row in plain)
        notes = (objection, *notes)
    wall_s = sum(((one.process.end_ns or one.process.begin_ns) - one.process.begin_ns) for one in groups)
    stopped = (f"process {one.process.pid}: {why}" for one in groups for why in one.process.stopped)
    return called(
        Profile(
            board.facts.name,
            not board.facts.uuid,
            busy,
            by_size(plain),
            idle.power_w,
            (*notes, *filter(None, [windows.check.scale, windows.at_other_temperature(busy)]), *stopped),
            {},
            sum(one.process.saved_bytes for one in groups),
            _changed_bytes([one.process for one in groups]),
            wall_s / NS_PER_S,
            settings.closure,
            is_program=True,
        )
    )


class _Windows:
    """The windows of a board, worked out in order of time.

    Args:
        board: The board.
        windows: Its windows.
    """

    def __init__(self, board: RecordedBoard, windows: Sequence[ReplayWindow]) -> None:
        sensors = board.facts.sensors
        self.check = SourceCheck(sensors[0], sensors)
        self._board = board
        self._limits = BoardLimits(board.facts.limit_w, board.facts.max_power_w)
        ordered = sorted(windows, key=lambda one: one.start_ns)
        self._found = {one: self._measured(one) for one in ordered}

    def of(self, window: ReplayWindow) -> Measured:
        """Return what a window gave."""
        return self._found[window]

    def at_other_temperature(self, busy: StepEnergy) -> str:
        """Return what must be said of temperatures beside that of the program, "" for nothing."""
        return at_other_temperature(busy, (one for window, one in self._found.items() if window.kind >= 0))

    def _measured(self, one: ReplayWindow) -> Measured:
        window = KernelWindow.spanning(one.start_ns, one.end_ns)
        trace = _trace(self._board, window)
        power = self._power(trace, window, one.times, 0)
        if power.power.power_w > HELD_DOWN * self._limits.set_w:
            power = self._power(trace, window, one.times, POWER_CAP)
        sleeps = one.launches if one.kind == SLEEPING else one.sleeps
        run = ReplayRun(
            f"kind {one.kind}", one.times, one.launches, sleeps, max(one.kind, -1), undone=one.undone
        )
        return measured(run, trace, power, _mean(self._board, SourceName.TEMPERATURE, [window]))

    def _power(self, trace: Trace, window: KernelWindow, times: int, reasons: int) -> KernelPower:
        return kernel_power(trace, window, times, self.check, reasons, self._limits, has_phases=True)


def _row(
    kind: ProgramKind,
    group: _Group,
    gpu: GpuShare,
    busy: StepEnergy,
    idle: Measured,
    windows: _Windows,
) -> ProfileRow:
    """Return the row of a kind: its launch, as often as the program made it."""
    window = group.process.of(kind.number, kind.gpu)
    if window is None:
        ended = f"before it {why}" if (why := "; ".join(group.process.stopped)) else ""
        refused = kind.refused or ended or "its process did not come to it"
        return _in_situ(kind, gpu, group.kinds, refused)
    one = windows.of(window)
    asleep = idle.graph_s / idle.run.sleeps * window.sleeps / one.graph_s
    one = replace(one, run=replace(one.run, first_s=kind.launch_s, idle_share=asleep))
    undo = group.process.undo_of(kind.number, kind.gpu)
    undos = {} if undo is None else {0: windows.of(undo)}
    exponent = architecture_of(_ARCHITECTURE).clock_exponent.value
    (row,) = kind_rows([Kind(kind.node, (0,))], {0: one}, busy, idle, exponent, undos)
    status, reason = row.status, row.reason
    if kind.refused:
        status, reason = Status.IMPRECISE, "; ".join(filter(None, (reason, kind.refused)))
    elif row.launch_s > _OTHER_TIME * kind.launch_s + _OTHER_TIME_S:
        slower = f"{row.launch_s * 1e6:.4g} us, in the program {kind.launch_s * 1e6:.4g} us"
        status, reason = Status.IMPRECISE, f"a launch by itself takes {slower}"
    # Of a long launch a few are made again: with their power, all of them took the time that CUPTI saw.
    times = kind.calls * (kind.launch_s / row.launch_s if kind.launch_s > _LONG_S < row.launch_s else 1.0)
    return replace(
        row,
        calls=kind.calls,
        time_s=row.time_s * times,
        energy_j=row.energy_j * times,
        half_j=row.half_j * times,
        status=status,
        reason=reason,
    )


def _in_situ(kind: ProgramKind, gpu: GpuShare, kinds: Sequence[ProgramKind], why: str) -> ProfileRow:
    """Return the row of a kind that was not launched again: its part of what its name took in the run."""
    plain = Kind(kind.node, (0,))
    time_s = kind.launch_s * kind.calls
    own = [one.launch_s * one.calls for one in kinds if one.node.name == kind.node.name]
    share, whole_s = _share_of(kind.node.name, gpu.kernels), sum(own)
    reason = f"not launched again: {why}"
    if share is None or not whole_s > 0 or not math.isfinite(share.energy_j):
        return ProfileRow(
            plain.name, plain, kind.calls, time_s, math.nan, math.nan, Status.NOT_REACHED, reason
        )
    part = time_s / whole_s
    low_j, high_j = share.interval_j
    half_j = max(high_j - share.energy_j, share.energy_j - low_j) * part
    return ProfileRow(
        plain.name, plain, kind.calls, time_s, share.energy_j * part, half_j, Status.IMPRECISE, reason
    )


def _share_of(name: str, shares: Sequence[Share]) -> Share | None:
    """Return what the readings of the run tell of a name, by time where it is one of a group."""
    for share in shares:
        if share.names == (name,):
            return share
        if (member := _share_of(name, share.members)) is not None:
            return member
    return None


def _busy(recorded: RecordedProgram, board: RecordedBoard) -> StepEnergy:
    """Return time and energy of the program while its kernels ran, short pauses with them."""
    facts = recorded.facts
    launches = recorded.log.by_gpu.get(board.facts.uuid, no_launches())
    spans = _stretches(busy_spans(launches, recorded.log.unseen_ns)) or (facts.window,)
    energies = [board.energy(span, ()) for span in spans]
    energy_j = sum(one.energy_j for one in energies)
    half_j = sum(one.interval_j[1] - one.interval_j[0] for one in energies) / 2
    time_s = sum(span.elapsed_s for span in spans)
    limited = energy_j / time_s > HELD_DOWN * board.facts.limit_w
    clock_mhz, temperature_c = (
        _mean(board, source, spans) for source in (SourceName.CLOCK, SourceName.TEMPERATURE)
    )
    return StepEnergy(time_s, energy_j, half_j, 0.0, clock_mhz, temperature_c, limited)


def _stretches(spans: Sequence[KernelWindow]) -> tuple[KernelWindow, ...]:
    """Return times of work, in order; short pauses are of them, so that the energy of each is known well."""
    pauses_ns = [after.start_ns - before.end_ns for before, after in pairwise(spans)]
    longest = sorted(pauses_ns, reverse=True)[:_MOST_PAUSES]
    least_ns = max(_PAUSE_NS, longest[-1] if len(longest) == _MOST_PAUSES else 0)
    found: list[KernelWindow] = []
    for span, pause_ns in zip(spans, [0, *pauses_ns], strict=False):
        start_ns = span.start_ns
        if found and pause_ns <= least_ns:
            start_ns = found.pop().start_ns
        found.append(KernelWindow.spanning(start_ns, span.end_ns))
    return tuple(found)


def _changed_bytes(processes: Sequence[ProcessReplay]) -> int:
    """Return the memory that was not as before, -1 where one of the processes does not tell."""
    changed = [one.changed_bytes for one in processes]
    return -1 if min(changed) < 0 else sum(changed)


def _gap_power(rows: Sequence[ProfileRow], busy: StepEnergy, idle: Measured, gaps: Measured) -> Measured:
    """Return what passes between launches: next ones that come at once, and for the rest of the time none."""
    left_s = busy.time_s - sum(row.time_s for row in rows if math.isfinite(row.time_s))
    at_once_s = min(left_s, gaps.graph_s / gaps.run.launches * sum(row.calls for row in rows))
    share = at_once_s / left_s if left_s > 0 else 1.0
    return replace(
        gaps,
        power_w=share * gaps.power_w + (1 - share) * idle.power_w,
        error_w=share * gaps.error_w + (1 - share) * idle.error_w,
    )


def _trace(board: RecordedBoard, window: KernelWindow) -> Trace:
    """Return the readings from before a window until its end: behind it another kind runs."""
    begin_ns, end_ns = window.start_ns - round(board.context_s * NS_PER_S), window.end_ns
    near = (one.select((one.time_ns >= begin_ns) & (one.time_ns <= end_ns)) for one in board.series())
    return Trace(begin_ns, end_ns, tuple(near))


def _mean(board: RecordedBoard, source: SourceName, windows: Sequence[KernelWindow]) -> float:
    """Return the mean of the readings of a source within some windows; NaN without any."""
    series = board.of(source)
    if series is None or not len(series):
        return math.nan
    inside = np.zeros(len(series), dtype=bool)
    for window in windows:
        inside |= (series.time_ns >= window.start_ns) & (series.time_ns <= window.end_ns)
    if not inside.any():
        nearest = np.argmin(np.abs(series.time_ns - windows[0].start_ns))
        return float(series.value[nearest])
    return float(series.value[inside].mean())
