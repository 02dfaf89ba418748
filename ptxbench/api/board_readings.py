"""The energy of a board in a window: which of its sources are believed there, and what they say."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ptxbench.api.window_energy import GpuEnergy
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.gpu_info import ANY_BOARD_W
from ptxbench.core.status import Status
from ptxbench.energy.gate.comparison import Comparison, compare
from ptxbench.energy.gate.lateness import shift_at_windows, shift_beside_counter
from ptxbench.energy.gate.readings import LIMITS, Mark, Verdict, judge, with_objection
from ptxbench.energy.gate.source import judge_source
from ptxbench.energy.gate.stuck import mark_stuck
from ptxbench.energy.reading import EnergyReading, no_energy
from ptxbench.energy.window import blur_s, context_s, counted, noise_w_of, unresolved, window_energy
from ptxbench.sensors.base import LOST_CODES, SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, Float64s, Int64s, KernelWindow, Series

# Windows that follow each other this closely share a moment.
_SAME_NS = 1_000_000
# Between two polls of a monitor; chosen.
POLL_S = 0.005
# Refreshes of an energy counter in which it makes two steps, though they do not come evenly.
_STEPS_BESIDE = 2.3
# How much before a window is looked at for values that stand still or come late.
HISTORY_S = 10.0
# Over the next highest reading, what few are that others contradict (`energy.gate.kernel`); and what few are.
_FAR_ABOVE = 1.5
_FEW = 0.1
# A monitor asks again and again: what one of many parts says must be surer than in a run that asks once.
_GROUP_FACTOR = 4.0


@dataclass(frozen=True)
class BoardPower:
    """The power of a board around a window, by the best source that is believed there.

    Attributes:
        sensor: What the source is like.
        at_ns: Host time of each value, shape (n,).
        power_w: The values; of an energy counter the mean power from one of its steps to the next.
        left_out_ns: When the readings were read that are left out, shape (m,).
        left_out: What each of them is.
    """

    sensor: SensorDescription
    at_ns: Int64s
    power_w: Float64s
    left_out_ns: Int64s
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class GatedSource:
    """A source, and what is believed of its readings.

    Attributes:
        sensor: What it is like.
        verdict: Which of its readings are believed.
        late: Why they may not be set beside anything, "" where they come in time.
    """

    sensor: SensorDescription
    verdict: Verdict
    late: str = ""

    @property
    def believed(self) -> Series:
        """The readings that are believed."""
        return self.verdict.believed

    @property
    def objection(self) -> str:
        """Why it is not believed, "" where it is."""
        text = self.verdict.objection or self.late
        return f"{self.sensor.source}: {text}" if text else ""

    @property
    def left_out(self) -> int:
        """How many readings are left out."""
        return len(self.verdict.series) - len(self.verdict.believed)


def gated(
    series: Sequence[Series], sensors: Sequence[SensorDescription], max_power_w: float
) -> tuple[GatedSource, ...]:
    """Pass readings through the gate, those of a power source beside those of the energy counter.

    Args:
        series: All readings of some time, of each source.
        sensors: The sources that count, best first; one that was not read is passed over.
        max_power_w: The highest limit that the board can be set to.
    """
    read = {one.source: one for one in series}
    found = {s.source: judge(read[s.source], max_power_w) for s in sensors if s.source in read}
    counters = [v.believed for v in found.values() if v.series.counts_energy and not v.objection]
    counter = counters[0] if counters else None
    sources = []
    for sensor in (s for s in sensors if s.source in found):
        verdict = found[sensor.source]
        if not sensor.counts_energy:
            verdict = mark_stuck(verdict, sensor, counter)
        sources.append(GatedSource(sensor, verdict))
    return tuple(sources)


def timed(sources: Sequence[GatedSource]) -> tuple[GatedSource, ...]:
    """Return sources with an objection to one that comes late, by the energy counter beside it."""
    counters = [one.believed for one in sources if one.sensor.counts_energy and not one.objection]
    if not counters:
        return tuple(sources)
    shifts = [shift_beside_counter(one.believed, counters[0], one.sensor) for one in sources]
    return tuple(
        one if shift is None else replace(one, late=shift.objection)
        for one, shift in zip(sources, shifts, strict=True)
    )


def compare_gated(
    sources: Sequence[GatedSource], max_power_w: float, window: KernelWindow | None = None
) -> tuple[Comparison, ...]:
    """Return the power source beside the energy counter, where both are believed.

    Args:
        sources: What the gate says of them.
        max_power_w: The highest limit that the board can be set to; steps of the counter beyond it are none.
        window: Compare within it only; None: over all of the readings.
    """
    believed = {one.sensor.counts_energy: one for one in sources if not one.objection}
    if len(believed) < 2:
        return ()
    power, counter = believed[False], believed[True]
    most_w = LIMITS.power_over_limit * max_power_w
    return tuple(
        one
        for one in compare(power.believed, counter.believed, power.sensor, window)
        if one.counter_j <= most_w * (one.end_ns - one.start_ns) / NS_PER_S
    )


class BoardReadings(ABC):
    """What a board drew, from its readings.

    Two sources are read: the best one, and beside a power source the energy counter, beside the counter the
    best power source. The first of them that is believed around a window gives its energy.

    Args:
        name: Name and index of the board.
        sensors: Its power sources, best first.
        limit_w: Its power limit, NaN where it is not known.
        max_power_w: The highest limit that it can be set to, NaN where it is not known.
    """

    def __init__(
        self,
        name: str,
        sensors: Sequence[SensorDescription],
        limit_w: float,
        max_power_w: float = math.nan,
    ) -> None:
        self._name = name
        self._limit_w = limit_w
        self._max_power_w = next((w for w in (max_power_w, limit_w) if math.isfinite(w)), ANY_BOARD_W)
        others = [s for s in sensors[1:] if s.counts_energy is not sensors[0].counts_energy and s.is_of_board]
        self._sensors = (sensors[0], *others[:1])
        self._noise_w = math.inf

    @abstractmethod
    def series(self) -> tuple[Series, ...]:
        """Return all readings so far, of each source."""

    @abstractmethod
    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the power source beside the energy counter, over all that was recorded."""

    @property
    def recorded(self) -> tuple[SourceName, ...]:
        """The sources that are read, best first."""
        return tuple(sensor.source for sensor in self._sensors)

    @property
    def context_s(self) -> float:
        """How much before and after a window its energy is worked out from."""
        first, counters = self._sensors[0], [s for s in self._sensors if s.counts_energy]
        reach_s = context_s(first) + max((s.refresh_s + s.lag_s for s in counters), default=0.0)
        # The steps by which a counter can stand in for a power source.
        steps_s = max((_STEPS_BESIDE * s.refresh_s + s.lag_s for s in counters), default=0.0)
        return max(reach_s, steps_s) + 2 * POLL_S

    def method(self, energy: GpuEnergy) -> str:
        """Return how an energy of this board was found."""
        first, *others = self._sensors
        if energy.source != str(first.source):
            return f"corrected MTSM on {energy.source}"
        names = ["the energy counter" if s.counts_energy else str(s.source) for s in others]
        return f"corrected MTSM on {first.source}" + "".join(f", checked against {name}" for name in names)

    def power(self, window: KernelWindow) -> BoardPower:
        """Return the power around a window."""
        sources = self._narrowed(self._with_history(window), window)
        source = next((one for one in sources if not one.objection), sources[0])
        marks, good = source.verdict.marks, source.believed
        at_ns, power_w = good.time_ns, good.value
        if source.sensor.counts_energy:
            steps = np.flatnonzero(np.diff(good.value) > 0) + 1
            power_w = np.diff(good.value[steps]) / (np.diff(good.time_ns[steps]) / NS_PER_S)
            at_ns = good.time_ns[steps][1:]
        reach_ns = round(self.context_s * NS_PER_S)
        near = (at_ns >= window.start_ns - reach_ns) & (at_ns <= window.end_ns + reach_ns)
        at_ns, power_w = at_ns[near], power_w[near]
        left_out = marks != Mark.BELIEVED
        texts = tuple(Mark(int(mark)).text for mark in marks[left_out])
        return BoardPower(source.sensor, at_ns, power_w, source.verdict.series.end_ns[left_out], texts)

    def energy(
        self, window: KernelWindow, changes_ns: Sequence[int], busy: Sequence[KernelWindow] = ()
    ) -> GpuEnergy:
        """Return what the board drew in a window that is over for `context_s`.

        Args:
            window: The window.
            changes_ns: When other windows began or ended, where the load may have changed.
            busy: When the board worked, as far as is known, in order of time: they tell whether readings come
                late where no energy counter does.
        """
        wide = self._with_history(window)
        sources = self._narrowed(wide, window)
        found = [self._found(one, window, changes_ns) for one in sources]
        chosen = next((i for i, one in enumerate(found) if one.status is Status.OK), None)
        energy = (
            self._without(sources, found, window)
            if chosen is None
            else self._judged(sources, found, chosen, window)
        )
        alone = _alone(wide, sources, busy) if chosen is not None else ()
        notes = (*_notes(sources, found, chosen, window), *alone, *energy.notes)
        return replace(energy, notes=notes, left_out=sum(one.left_out for one in sources))

    def _with_history(self, window: KernelWindow) -> tuple[GatedSource, ...]:
        """Return what is believed of the readings around a window, and for some time before."""
        reach_ns = round((HISTORY_S + self.context_s) * NS_PER_S)
        wide = [one.select(_between(one, window, reach_ns)) for one in self.series()]
        return timed(gated(wide, self._sensors, self._max_power_w))

    def _narrowed(self, sources: Sequence[GatedSource], window: KernelWindow) -> tuple[GatedSource, ...]:
        """Return sources by their readings around a window alone."""
        near_ns = round(self.context_s * NS_PER_S)
        return tuple(_narrowed(one, window, near_ns) for one in sources)

    def _found(self, source: GatedSource, window: KernelWindow, changes_ns: Sequence[int]) -> EnergyReading:
        """Return the energy by one source."""
        if source.objection:
            return no_energy(Status.SENSOR_IMPLAUSIBLE, source.objection)
        sensor, series = source.sensor, source.believed
        noise_w = math.inf
        if not sensor.counts_energy:
            noise_w = self._noise_w = min(self._noise_w, noise_w_of(series, sensor))
        found = window_energy(series, window, sensor, _sides(window, changes_ns, sensor), noise_w)
        if not len(series) and found.status is Status.SENSOR_STALE:
            # The gate left out the readings that would tell why.
            found = window_energy(source.verdict.series, window, sensor)
        power_w = found.energy_j / window.elapsed_s if window.elapsed_s > 0 else math.nan
        if found.status is Status.OK and power_w > LIMITS.power_over_limit * self._max_power_w:
            reason = f"{sensor.source} gives {power_w:.4g} W, and the limit is {self._max_power_w:.4g} W"
            return no_energy(Status.SENSOR_IMPLAUSIBLE, reason)
        return found

    def _judged(
        self,
        sources: Sequence[GatedSource],
        found: Sequence[EnergyReading],
        chosen: int,
        window: KernelWindow,
    ) -> GpuEnergy:
        """Return an energy with its interval, widened by what the source beside it says."""
        energy_j, half_j = found[chosen].energy_j, COVERAGE_FACTOR * found[chosen].error_j
        energy = GpuEnergy(
            self._name, energy_j, _interval_j(energy_j, half_j), str(sources[chosen].sensor.source)
        )
        if len(sources) < 2 or any(one.objection for one in sources):
            return energy
        power, counter = sorted(sources, key=lambda one: one.sensor.counts_energy)
        verdict = judge_source(self.comparisons(), group_factor=_GROUP_FACTOR)
        if verdict.objection:
            other = found[1 - chosen]
            # Where only one tells the energy of the window, what the other would say follows from the ratio.
            ratio = verdict.ratio if sources[chosen].sensor.counts_energy else 1 / verdict.ratio
            other_j = other.energy_j if other.status is Status.OK else energy_j * ratio
            other_half_j = COVERAGE_FACTOR * other.error_j if other.status is Status.OK else half_j * ratio
            both = (*energy.interval_j, *_interval_j(other_j, other_half_j))
            return replace(
                energy,
                interval_j=(min(both), max(both)),
                status=Status.SENSOR_IMPLAUSIBLE,
                reason=f"{power.sensor.source}: {verdict.objection}: the interval holds both",
            )
        notes = []
        by_counter = sources[chosen].sensor.counts_energy
        # A counter is not less right where little ran to check it.
        if not by_counter or abs(verdict.ratio - 1) > COVERAGE_FACTOR * verdict.error:
            half_j = math.hypot(half_j, verdict.scale_uncertainty * energy_j)
        if verdict.note:
            notes.append(f"{power.sensor.source}: {verdict.note}")
        beside = counted(counter.believed, power.believed, window, power.sensor)
        if beside is not None and beside.disagrees:
            half_j = math.hypot(half_j, beside.difference_w * window.elapsed_s)
            notes.append(
                f"{power.sensor.source} and the energy counter differ by {beside.difference_w:+.3g} W"
                " around the window: the interval holds both"
            )
        return replace(energy, interval_j=_interval_j(energy_j, half_j), notes=tuple(notes))

    def _without(
        self, sources: Sequence[GatedSource], found: Sequence[EnergyReading], window: KernelWindow
    ) -> GpuEnergy:
        """Return what is known of a window of which no source tells the energy."""
        lost = next(filter(None, (_lost(one.verdict.series, window) for one in sources)), "")
        brief = [
            (source, one.reason)
            for source, one in zip(sources, found, strict=True)
            if one.status is Status.WINDOW_TOO_SHORT and len(source.believed) > 1
        ]
        if brief and not lost:
            return self._bounded(*brief[0], window)
        status = next((one.status for one in found if one.status is not Status.WINDOW_TOO_SHORT), None)
        reason = lost or "; ".join(dict.fromkeys(one.reason for one in found))
        return GpuEnergy(
            self._name,
            math.nan,
            (math.nan, math.nan),
            str(self._sensors[0].source),
            Status.SENSOR_STALE if lost or status is None else status,
            reason,
            is_lost=bool(lost),
        )

    def _bounded(self, source: GatedSource, reason: str, window: KernelWindow) -> GpuEnergy:
        """Return the power around a window times its length, with all that the board can have drawn."""
        good = source.believed
        near_w = float(good.value.mean())
        if source.sensor.counts_energy:
            near_w = float(np.ptp(good.value)) / (float(np.ptp(good.end_ns)) / NS_PER_S)
        highest_w = self._limit_w if math.isfinite(self._limit_w) else math.inf
        interval_j = 0.0, highest_w * window.elapsed_s
        energy_j = min(near_w * window.elapsed_s, interval_j[1])
        reason = f"{reason}: the interval is all that the GPU can have drawn"
        name = str(source.sensor.source)
        return GpuEnergy(self._name, energy_j, interval_j, name, Status.WINDOW_TOO_SHORT, reason)


def _interval_j(energy_j: float, half_j: float) -> tuple[float, float]:
    """Return an interval around an energy; no board gives energy back."""
    return max(energy_j - half_j, min(energy_j, 0.0)), energy_j + half_j


def _between(series: Series, window: KernelWindow, reach_ns: int) -> npt.NDArray[np.bool_]:
    """Return which readings were made or read around a window, shape (n,).

    A stamp may be wrong. Of equal readings without one the first and the last are kept, maybe far away.
    """
    begin_ns, end_ns = window.start_ns - reach_ns, window.end_ns + reach_ns
    kept = np.zeros(len(series), dtype=bool)
    for at_ns in (series.time_ns, series.end_ns):
        kept |= (at_ns >= begin_ns) & (at_ns <= end_ns)
    if len(series) and series.stamp_ns[0] < 0:
        first, last = np.searchsorted(series.end_ns, [begin_ns, end_ns], side="right")
        kept[max(first - 1, 0) : last + 1] = True
    return kept


def _narrowed(source: GatedSource, window: KernelWindow, reach_ns: int) -> GatedSource:
    """Return a source by its readings around a window alone."""
    kept = _between(source.verdict.series, window, reach_ns)
    return replace(source, verdict=with_objection(source.verdict.among(kept)))


def _sides(window: KernelWindow, changes_ns: Sequence[int], sensor: SensorDescription) -> int:
    """Return on how many sides of a window the load changes too near for a sensor."""
    far_ns = round(blur_s(sensor) * NS_PER_S)
    before = any(_SAME_NS < window.start_ns - at_ns < far_ns for at_ns in changes_ns)
    after = any(_SAME_NS < at_ns - window.end_ns < far_ns for at_ns in changes_ns)
    return before + after


def _notes(
    sources: Sequence[GatedSource],
    found: Sequence[EnergyReading],
    chosen: int | None,
    window: KernelWindow,
) -> tuple[str, ...]:
    """Return what was left out, and which source stands in for which."""
    notes = [one.verdict.note for one in sources if one.left_out and not one.verdict.objection]
    if chosen is None:
        return tuple(notes)
    name = sources[chosen].sensor.source
    notes += _peaks(sources[chosen], window)
    for i, (source, one) in enumerate(zip(sources, found, strict=True)):
        if i < chosen and not unresolved(window.elapsed_s, source.sensor):
            notes.append(f"{one.reason}: the energy is that by {name}")
        elif i > chosen and source.objection:
            notes.append(f"{source.objection}: nothing checks {name}")
    return tuple(notes)


def _peaks(source: GatedSource, window: KernelWindow) -> list[str]:
    """Return what to say of the few readings of a window that are far above all others; they may be right."""
    series = source.believed
    value_w = series.value[(series.time_ns > window.start_ns) & (series.time_ns <= window.end_ns)]
    highest_w = np.sort(value_w[np.diff(value_w, prepend=np.nan) != 0])[::-1]
    few = max(1, round(_FEW * len(highest_w)))
    if source.sensor.counts_energy or len(highest_w) <= few:
        return []
    above = np.flatnonzero(highest_w[:few] > _FAR_ABOVE * highest_w[1 : few + 1])
    if not len(above):
        return []
    count, name = int(above[-1]) + 1, source.sensor.source
    return [f"{count} of {len(highest_w)} values of {name} are far above all others in the window, and count"]


def _alone(
    wide: Sequence[GatedSource], sources: Sequence[GatedSource], busy: Sequence[KernelWindow]
) -> tuple[str, ...]:
    """Return what to know of a source that nothing is read beside, by when the board worked."""
    if len(sources) > 1:
        return ()
    (source,) = wide
    if source.sensor.counts_energy:
        return ("no power source is read beside the energy counter: nothing checks it",)
    name = source.sensor.source
    notes = [f"no energy counter is read beside {name}: nothing checks its scale"]
    shift = shift_at_windows(source.believed, busy, source.sensor)
    if shift is not None and shift.objection:
        notes.append(f"by when the work began and ended, {name} is not to be trusted: {shift.objection}")
    return tuple(notes)


def _lost(series: Series, window: KernelWindow) -> str:
    """Return the message for a GPU that was lost, "" for one that answers."""
    if not len(series) or int(series.code[-1]) not in LOST_CODES:
        return ""
    good = series.good()
    last = (int(good.end_ns[-1]) - window.start_ns) / NS_PER_S if len(good) else 0.0
    when = f"{max(last, 0.0):.3g} s after the window began"
    return f"it stopped answering {when} (NVML code {int(series.code[-1])}); see `nvidia-smi`"
