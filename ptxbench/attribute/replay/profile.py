"""What every kind of launch of a step draws, and whether the kinds add up to the step: from recordings alone.

A graph of a kind with n launches and m times asleep takes T at the mean power P. A time asleep takes t_i at
P_i, by a recording of its own; so do fills of memory that a kernel needs. So a launch takes (T - m t_i) / n,
and (P T - P_i m t_i) / n of energy. What the kinds leave of the time of the step are gaps between launches;
their power is that of as many launches that do nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.attribute.replay.kinds import Kind
from ptxbench.attribute.replay.plan import SETTINGS, Attempt, ReplaySettings, Wanted, difference_from_step
from ptxbench.attribute.replay.replayed import (
    AFTER,
    BEFORE,
    GAPS,
    IDLE,
    ProfileFolder,
    ReplayRun,
    undo_name,
)
from ptxbench.catalogue.architecture import architecture_of
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.settled_run import BoardLimits, KernelPower, kernel_power, mean_clock_mhz
from ptxbench.sensors.trace import Trace

# Relative error of the times asleep and the fills in a kind's graph, by what they take alone.
_TAKEN_OFF_ERROR = 0.01
# How many times longer the first launches may take, and how much longer beside: their code and their operands
# are in no cache yet, and the host has only begun to launch.
_EARLY, _EARLY_S = 2.0, 30e-6
# Share of the step's time by which two measurements of its launches may differ.
_TIMES_AGREE = 0.002
# By how much a kind may be warmer or cooler than the step without a word: an H100 that is idle draws 0.8 W a
# degree more.
_SAME_TEMPERATURE_C = 5.0
_UNSEEN = "it works on too much memory to see, or to undo, what it changes of what it reads"


@dataclass(frozen=True)
class Measured:
    """What one recording gave.

    Attributes:
        run: What ran.
        power_w: Mean power, NaN where it is not known.
        error_w: Standard error of it.
        graph_s: Time of one graph.
        graph_error_s: Standard error of it.
        clock_mhz: Mean SM clock, NaN where it was not read.
        temperature_c: GPU temperature.
        is_limited: Whether the power limit or heat held the clock down.
        status: Whether the power counts.
        reason: What must be said of it; "" for nothing.
    """

    run: ReplayRun
    power_w: float
    error_w: float
    graph_s: float
    graph_error_s: float
    clock_mhz: float
    temperature_c: float
    is_limited: bool
    status: Status
    reason: str

    @property
    def attempt(self) -> Attempt:
        """How a kind ran."""
        return Attempt(self.run.idle_share, self.power_w, self.clock_mhz, self.is_limited)


def measured(run: ReplayRun, trace: Trace, found: KernelPower, temperature_c: float) -> Measured:
    """Return what one recording gave.

    Args:
        run: What ran.
        trace: The recording.
        found: Its power and time.
        temperature_c: GPU temperature.
    """
    power, counted = found.power, found.counted
    times_s = np.asarray(counted.launch_times_s or (found.launch_s,))
    scatter_s = float(times_s.std(ddof=1)) / math.sqrt(len(times_s)) if len(times_s) > 1 else 0.0
    status, reason = power.status, power.reason
    if status is Status.OK and found.unsettled:
        status, reason = Status.IMPRECISE, found.unsettled
    return Measured(
        run,
        power.power_w,
        power.standard_error_w,
        found.launch_s,
        scatter_s,
        mean_clock_mhz(trace, counted),
        temperature_c,
        found.slowed,
        status,
        reason,
    )


@dataclass(frozen=True)
class ProfileRow:
    """What one kind of launch, or the gaps between launches, take of a step.

    Attributes:
        name: Name of the kernel, demangled; of a copy from where to where; "gaps".
        kind: The kind; None for gaps.
        calls: Launches a step.
        time_s: Time a step.
        energy_j: Energy a step, J; NaN where it is not known.
        half_j: Half-width of its 95% interval.
        status: OK, or why the number is none or no measurement.
        reason: What must be said of it; "" for nothing.
        clock_mhz: SM clock that it was measured at.
        idle_share: Share of idle time that was put between its launches.
    """

    name: str
    kind: Kind | None
    calls: int
    time_s: float
    energy_j: float
    half_j: float
    status: Status = Status.OK
    reason: str = ""
    clock_mhz: float = math.nan
    idle_share: float = 0.0

    @property
    def power_w(self) -> float:
        """Mean power while it runs, W."""
        return self.energy_j / self.time_s if self.time_s > 0 else math.nan

    @property
    def launch_j(self) -> float:
        """Energy of one launch, J."""
        return self.energy_j / self.calls

    @property
    def launch_s(self) -> float:
        """Time of one launch, until the next begins, s."""
        return self.time_s / self.calls

    @property
    def interval_j(self) -> tuple[float, float]:
        """95% interval of the energy a step, J."""
        return self.energy_j - self.half_j, self.energy_j + self.half_j


@dataclass(frozen=True)
class StepEnergy:
    """The step itself.

    Attributes:
        time_s: Its time, as a graph.
        energy_j: Its energy.
        half_j: Half-width of the 95% interval.
        drift: By what fraction its power was higher after all kinds than before them.
        clock_mhz: Its SM clock.
        temperature_c: GPU temperature while it ran.
        is_limited: Whether the power limit held its clock down.
    """

    time_s: float
    energy_j: float
    half_j: float
    drift: float
    clock_mhz: float
    temperature_c: float
    is_limited: bool

    @property
    def power_w(self) -> float:
        """Mean power, W."""
        return self.energy_j / self.time_s


@dataclass(frozen=True)
class Profile:
    """The joules of every kernel of a step.

    Attributes:
        gpu: Name and index of the GPU.
        is_simulated: Whether it is simulated.
        step: The step itself.
        rows: What it consists of, the largest first.
        idle_w: Power while one thread sleeps.
        notes: What else to know, a sentence each.
        units: How many of a unit, such as a token, one step makes.
        saved_bytes: Memory that was saved and restored.
        changed_bytes: Memory that differed at the end from what it was; -1 where it was not compared.
        wall_s: How long all of it took.
        closure_limit: Difference of the sum from the step beyond which the rows are no measurement.
        is_program: Whether the step is a whole program, while kernels of it ran.
        modules: The module of each launch, "" for none; none: they are not known.
    """

    gpu: str
    is_simulated: bool
    step: StepEnergy
    rows: tuple[ProfileRow, ...]
    idle_w: float
    notes: tuple[str, ...]
    units: Mapping[str, float]
    saved_bytes: int
    changed_bytes: int
    wall_s: float
    closure_limit: float = SETTINGS.closure
    is_program: bool = False
    modules: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What was measured, in a word."""
        return "program" if self.is_program else "step"

    @property
    def sum_j(self) -> float:
        """Energy of all rows that have one, J a step."""
        return float(np.nansum([row.energy_j for row in self.rows]))

    @property
    def closure(self) -> float:
        """Energy of the rows over that of the step."""
        return self.sum_j / self.step.energy_j

    @property
    def is_closed(self) -> bool:
        """Whether the rows add up to the step: only then they count as measured."""
        return abs(self.closure - 1) <= self.closure_limit

    @property
    def above_idle_j(self) -> float:
        """Energy of the step above what the board draws while one thread sleeps, J."""
        return self.step.energy_j - self.idle_w * self.step.time_s

    def modules_of(self, row: ProfileRow) -> dict[str, int]:
        """Return how many launches of a row each module makes, "" for none; nothing if not known."""
        if row.kind is None or not self.modules:
            return {}
        return dict(Counter(self.modules[number] for number in row.kind.instances))

    def share(self, row: ProfileRow) -> float:
        """Return a row's share of the energy of the step."""
        return row.energy_j / self.step.energy_j

    def per(self, unit: str) -> float:
        """Return the energy of one of the `units`, J.

        Raises:
            KeyError: There is no such unit.
        """
        return self.step.energy_j / self.units[unit]

    def __str__(self) -> str:
        from ptxbench.attribute.replay.shown import text

        return text(self, None)


def profile_of(folder: ProfileFolder, settings: ReplaySettings = SETTINGS) -> Profile:
    """Return what a kept run says.

    Args:
        folder: The run.
        settings: When rows count as measured.

    Raises:
        InputError: A file of it is damaged, or it was stopped before the step itself was measured.
    """
    gpu, kept = folder.recordings.manifest.gpu, folder.step
    sensors = folder.recordings.manifest.sensors
    check = SourceCheck(sensors[0], sensors)
    board = BoardLimits.of(gpu)
    found = {}
    named = {one.name: one for one in folder.recordings.recordings}
    for run in kept.runs:
        if (one := named.get(run.name)) is None:
            continue
        trace, window = folder.recordings.trace(run.name), one.windows[0]
        power = kernel_power(trace, window, run.times, check, one.throttle_reasons[0], board, has_phases=True)
        found[run.name] = measured(run, trace, power, one.temperature_after_c)
    missing = [name for name in (BEFORE, IDLE, GAPS) if name not in found]
    if missing:
        raise InputError(f"{folder.recordings.path}: stopped before {missing[0]!r} was measured")
    of_kind = {one.run.kind: one for one in found.values() if one.run.kind >= 0 and one.run.is_final}
    step = step_energy([found[name] for name in (BEFORE, AFTER) if name in found])
    exponent = architecture_of(gpu.target).clock_exponent.value
    undos = {number: found[undo_name(number)] for number in of_kind if undo_name(number) in found}
    rows = kind_rows(kept.kinds, of_kind, step, found[IDLE], exponent, undos)
    rows, notes = with_gaps(rows, step, found[GAPS])
    if check.objection:
        rows = tuple(replace(r, status=Status.SENSOR_IMPLAUSIBLE, reason=check.objection) for r in rows)
        notes = (check.objection, *notes)
    profile = Profile(
        gpu.title,
        gpu.kind != "real",
        step,
        by_size(rows),
        found[IDLE].power_w,
        (*notes, *filter(None, [check.scale, _of_step(step), at_other_temperature(step, of_kind.values())])),
        kept.units,
        kept.saved_bytes,
        kept.changed_bytes,
        kept.wall_s,
        settings.closure,
        modules=kept.modules,
    )
    return called(profile)


def at_other_temperature(step: StepEnergy, kinds: Iterable[Measured]) -> str:
    """Return what must be said of the temperatures of kinds beside that of the step, "" for nothing."""
    found_c = [one.temperature_c for one in kinds if math.isfinite(one.temperature_c)]
    if not any(abs(one_c - step.temperature_c) > _SAME_TEMPERATURE_C for one_c in found_c):
        return ""
    return (
        f"kinds ran at {min(found_c):.0f} to {max(found_c):.0f} C, the step at {step.temperature_c:.0f} C:"
        " a warmer board leaks more"
    )


def by_size(rows: Sequence[ProfileRow]) -> tuple[ProfileRow, ...]:
    """Return rows, the largest energy first, those without one last."""
    return tuple(sorted(rows, key=lambda row: -row.energy_j if row.energy_j == row.energy_j else 0.0))


def step_energy(runs: Sequence[Measured]) -> StepEnergy:
    """Return the energy of the step, by what ran before all kinds and, where it did, after them."""
    powers_w, times_s = ([getattr(one, name) for one in runs] for name in ("power_w", "graph_s"))
    power_w, time_s = float(np.mean(powers_w)), float(np.mean(times_s))
    drift = powers_w[-1] / powers_w[0] - 1
    relative = math.hypot(*(one.error_w / one.power_w for one in runs)) / len(runs)
    half = math.hypot(COVERAGE_FACTOR * relative, drift / 2)
    return StepEnergy(
        time_s,
        power_w * time_s,
        half * power_w * time_s,
        drift,
        float(np.mean([one.clock_mhz for one in runs])),
        float(np.mean([one.temperature_c for one in runs])),
        any(one.is_limited for one in runs),
    )


def wanted_of(step: StepEnergy, idle: Measured) -> Wanted:
    """Return what kinds run like in the step."""
    return Wanted(step.power_w, step.clock_mhz, step.is_limited, idle.power_w)


def kind_rows(
    kinds: Sequence[Kind],
    found: Mapping[int, Measured],
    step: StepEnergy,
    idle: Measured,
    clock_exponent: float,
    undos: Mapping[int, Measured] | None = None,
) -> tuple[ProfileRow, ...]:
    """Return a row for each kind.

    Args:
        kinds: The kinds.
        found: What the recording of each gave, by its number.
        step: The step.
        idle: What times asleep gave.
        clock_exponent: Exponent by which the dynamic energy of a kernel grows with the clock.
        undos: Of kinds whose memory is written back, what that takes, by their numbers.
    """
    rows: dict[int, ProfileRow] = {}
    # What stands beside others, such as fills, has nothing beside itself.
    for number in sorted(range(len(kinds)), key=lambda n: n in found and bool(found[n].run.beside)):
        kind, one = kinds[number], found.get(number)
        rows[number] = (
            _kind_row(kind, one, rows, step, idle, clock_exponent, (undos or {}).get(number))
            if one is not None
            else ProfileRow(
                kind.name,
                kind,
                kind.calls,
                math.nan,
                math.nan,
                math.nan,
                Status.NOT_REACHED,
                "the run was stopped before",
            )
        )
    return tuple(rows[number] for number in range(len(kinds)))


def _kind_row(
    kind: Kind,
    one: Measured,
    others: Mapping[int, ProfileRow],
    step: StepEnergy,
    idle: Measured,
    clock_exponent: float,
    undo: Measured | None,
) -> ProfileRow:
    run = one.run
    sleep_s = idle.graph_s / idle.run.sleeps * run.sleeps
    beside_s = sum(others[other.kind].launch_s * other.launches for other in run.beside)
    beside_j = sum(others[other.kind].launch_j * other.launches for other in run.beside)
    if undo is not None:
        undo_s = undo.graph_s / undo.run.launches * run.undone
        beside_s, beside_j = beside_s + undo_s, beside_j + undo.power_w * undo_s
    launch_s = (one.graph_s - sleep_s - beside_s) / run.launches
    energy_j = (one.power_w * one.graph_s - idle.power_w * sleep_s - beside_j) / run.launches
    error_j = math.hypot(
        one.error_w * one.graph_s,
        one.power_w * one.graph_error_s,
        idle.error_w * sleep_s,
        _TAKEN_OFF_ERROR * idle.power_w * sleep_s,
        _TAKEN_OFF_ERROR * beside_j,
    )
    wanted = wanted_of(step, idle)
    note = difference_from_step(one.attempt, wanted)
    half_j = math.hypot(COVERAGE_FACTOR * error_j / run.launches, step.drift / 2 * energy_j)
    if note and step.clock_mhz > 0 and one.clock_mhz > 0:
        dynamic_j = energy_j - idle.power_w * launch_s
        half_j = math.hypot(half_j, dynamic_j * (1 - (step.clock_mhz / one.clock_mhz) ** clock_exponent))
    status = one.status
    early = _ends_early(run.first_s, (launch_s + beside_s / run.launches) * kind.calls)
    if early and status is Status.OK:
        status = Status.IMPRECISE
    return ProfileRow(
        kind.name,
        kind,
        kind.calls,
        launch_s * kind.calls,
        energy_j * kind.calls,
        half_j * kind.calls,
        status,
        "; ".join(filter(None, (one.reason, early, note, _UNSEEN if run.undone < 0 else ""))),
        one.clock_mhz,
        run.idle_share,
    )


def _ends_early(first_s: float, again_s: float) -> str:
    """Return what must be said of a kind that takes far less time when it is launched again, else ""."""
    if not first_s > _EARLY * again_s + _EARLY_S:
        return ""
    return (
        f"its launches took {first_s * 1e6:.4g} us at first and {again_s * 1e6:.4g} us when launched again:"
        " in the step something is set up for them in between"
    )


def with_gaps(
    rows: Sequence[ProfileRow], step: StepEnergy, gaps: Measured
) -> tuple[tuple[ProfileRow, ...], tuple[str, ...]]:
    """Return rows with that of the gaps, and what must be said of the times.

    Args:
        rows: Those of the kinds.
        step: The step.
        gaps: What launches that do nothing gave.
    """
    unknown = [row for row in rows if not math.isfinite(row.energy_j)]
    taken_s = sum(row.time_s for row in rows if math.isfinite(row.time_s))
    left_s = step.time_s - taken_s
    if left_s < 0:
        if left_s > -_TIMES_AGREE * step.time_s:
            return tuple(rows), ()
        many = f"one after the other the kinds take {taken_s / step.time_s:.1%} of the time of the step"
        return tuple(rows), (f"{many}: in the step launches overlap, and rows count each by itself",)
    calls = sum(row.calls for row in rows)
    name = "gaps" if not unknown else "gaps, and what was not measured"
    half_j = COVERAGE_FACTOR * gaps.error_w * left_s
    row = ProfileRow(name, None, calls, left_s, gaps.power_w * left_s, half_j, gaps.status, gaps.reason)
    return (*rows, row), ()


def called(profile: Profile) -> Profile:
    """Return a profile whose rows do not count as measured where they do not add up to the step."""
    if profile.is_closed:
        return profile
    note = (
        f"the rows add up to {profile.closure:.1%} of the {profile.what}: they are estimates, not"
        " measurements (a kernel by itself may find its operands in a nearer cache, or run beside no other)"
    )
    rows = tuple(
        replace(row, status=Status.IMPRECISE) if row.status is Status.OK else row for row in profile.rows
    )
    return replace(profile, rows=rows, notes=(note, *profile.notes))


def _of_step(step: StepEnergy) -> str:
    if abs(step.drift) <= 0.01:
        return ""
    return f"the step drew {step.drift:+.1%} more after all kinds than before them: every interval holds it"
