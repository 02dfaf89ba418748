"""Runs a kernel until its clock and power have settled: at the power limit that takes seconds.

A board lets power overshoot its limit for most of a second, then holds it as far below: on an H100 of 700 W a
product drew 780 W, then 510, then 770 again. What a window of 0.4 s reads there hangs on when it began.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from ptxbench.analysis.throttling import describe_throttling, is_near_limit, slowing_reasons
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.core.status import Status
from ptxbench.energy.settled import SettledPower, SourceCheck, settled_power
from ptxbench.energy.steady import PowerReading, power_change, settled_after_s
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.sensors.trace import KernelWindow, Trace
from ptxbench.storage.recording import Recording, RecordingFolder

# Launches that a host makes in a second at most.
_MOST_PER_S = 250_000
# Below the limit a change of the time of a launch is a drift beyond so many of its standard errors, by so
# many stretches of each half: kernels at once, and what waits for the host, scatter by percents throughout.
_DRIFT_ERRORS, _LEAST_STRETCHES = 3.0, 4


@dataclass(frozen=True)
class SettleLimits:
    """When clock and power count as settled."""

    longer_s: tuple[float, ...] = (4.0, 8.0)
    """Windows that are run where a shorter one has not settled; the later half counts. Where an H100's first
    second was modelled, 20 W of ringing are left after 2 s and 3 W after 4 s (`Regulator`)."""
    long_s: float = 3.5
    """Window of which the later half counts: those above, and what is nearly as long."""
    even: float = 0.01
    """Change of power, and of the time of a launch, from the earlier to the later half, up to which a kernel
    at the limit has settled; likewise the standard error of its power."""
    even_below: float = 0.04
    """The same change of power below the limit: a step of the supply voltage changed the power of a kernel by
    2.9% (results/nvidia-h200/roofline)."""
    filled: float = 0.7
    """Share of a window that launches must fill; where they fill less, more of them are run."""
    low_clock: float = 0.02
    """Fraction by which a clock is below that of the board, or that of another kernel, from which on it is
    said where NVML gives no reason: H100s went to and fro between 1980 and 1995 MHz."""
    over_limit: float = 0.01
    """Power over the limit, as a fraction, that no board holds for long."""


SETTLE = SettleLimits()

Attempt = Callable[[float], tuple[KernelRun, int]]


@dataclass(frozen=True)
class KernelPower:
    """Power and time of a kernel, as far as they had settled.

    Attributes:
        found: Its settled power.
        launch_s: Time of one launch in the part of its window that counts.
        counted: That part.
        reasons: NVML's reasons that slowed the GPU down (`slowing_reasons`).
        unsettled: Why clock or power had not settled, "" where they had.
    """

    found: SettledPower
    launch_s: float
    counted: KernelWindow
    reasons: int
    unsettled: str

    @property
    def power(self) -> PowerReading:
        """Its power, with why there is none."""
        return self.found.power

    @property
    def slowed(self) -> bool:
        """Whether the power limit or heat held the clock down."""
        return self.reasons > 0

    @property
    def note(self) -> str:
        """What must be said of it; "" for nothing."""
        by = describe_throttling(self.reasons)
        return "; ".join(filter(None, (f"slowed down by {by}" if by else "", self.found.note)))

    def beside_others(self, others: int) -> KernelPower:
        """Return it without its power: other programs were on the GPU."""
        reason = f"{others} other compute process(es) on the GPU"
        power = PowerReading(math.nan, math.nan, 0, Status.FOREIGN_PROCESS, reason)
        return replace(self, found=replace(self.found, power=power), unsettled="")


def launches_in(window_s: float, time_s: float) -> int:
    """Return how many launches of a time fill a window, at least one; a host cannot launch any faster."""
    most = window_s * _MOST_PER_S
    # What launches nothing may take no time at all by the GPU's clock.
    return max(1, math.ceil(min(window_s / time_s, most) if time_s > 0 else most))


def calls_in(window_s: float, call_s: float, sensor: SensorDescription) -> int:
    """Return how many calls fill a window: of long ones, a whole one is left once the sensor has settled."""
    times = launches_in(window_s, call_s)
    if call_s < sensor.refresh_s:
        return times
    return max(times, 1 + math.ceil((sensor.settle_s + 2 * sensor.refresh_s) / call_s))


def mean_clock_mhz(trace: Trace, window: KernelWindow) -> float:
    """Return the mean SM clock in the later half of a window, NaN where it was not read there."""
    series = trace.of(SourceName.CLOCK)
    if series is None:
        return math.nan
    good = series.good()
    middle_ns = (window.start_ns + window.end_ns) // 2
    values = good.value[(good.time_ns >= middle_ns) & (good.time_ns <= window.end_ns)]
    return float(values.mean()) if len(values) else math.nan


def low_clock_note(clock_mhz: float, full_mhz: float) -> str:
    """Return what must be said where the clock of a kernel that was not slowed down is low, else "".

    Args:
        clock_mhz: Its clock; NaN where it is not known.
        full_mhz: The one that it should have; NaN where it is not known.
    """
    if not clock_mhz < (1 - SETTLE.low_clock) * full_mhz:
        return ""
    return f"the SM clock was {clock_mhz:.0f} MHz, not {full_mhz:.0f}, and no reason of NVML explains it"


@dataclass(frozen=True)
class BoardLimits:
    """Power limits of a board.

    Attributes:
        set_w: The one that is set, W; NaN where it is not known.
        max_w: The highest that can be set, W; NaN where it is not known.
    """

    set_w: float
    max_w: float

    @classmethod
    def of(cls, gpu: GpuInfo, settings: GpuSettings | None = None) -> BoardLimits:
        """Return those of a board, perhaps under settings."""
        set_mw = settings.power_limit_mw if settings else None
        return cls(gpu.power_limit_w if set_mw is None else set_mw / 1000, gpu.max_power_w)


def run_until_settled(
    attempt: Attempt, window_s: float, source: SourceCheck, board: BoardLimits
) -> tuple[KernelRun, KernelPower]:
    """Run a kernel for a window, and longer where the board is at its power limit or still changes.

    Args:
        attempt: Runs the kernel back to back for so many seconds; returns the run and how many launches it
            had.
        window_s: Length of the first window.
        source: Judges the power source by all that ran, and is told of each run.
        board: Power limits of the board.

    Returns:
        The run that counts, and what it gave.

    Raises:
        LaunchError: A launch failed.
        GpuError: The GPU stopped answering.
    """
    for length_s in (window_s, *(longer_s for longer_s in SETTLE.longer_s if longer_s > window_s)):
        run, times = attempt(length_s)
        if 0 < run.window.elapsed_s < SETTLE.filled * length_s:
            # A launch among others takes less than the one by itself that it was planned by.
            run, times = attempt(length_s**2 / run.window.elapsed_s)
        result = kernel_power(run.trace, run.window, times, source, run.throttle_reasons, board)
        far = not result.slowed and not is_near_limit(result.power.power_w, board.set_w)
        if not result.unsettled or (far and length_s >= SETTLE.longer_s[0]):
            break  # far from the limit nothing takes longer to settle
    others = run.other_processes
    return run, result.beside_others(others) if others > 0 else result


def kernel_power(
    trace: Trace,
    window: KernelWindow,
    times: int,
    source: SourceCheck,
    reasons: int,
    board: BoardLimits,
    long_s: float = SETTLE.long_s,
    *,
    has_phases: bool = False,
) -> KernelPower:
    """Return the settled power and the launch time of a kernel, and whether both had settled.

    Args:
        trace: The recording.
        window: When it ran.
        times: Launches in the window.
        source: Its power source, which is told of it.
        reasons: NVML's bit mask of what slowed the GPU down meanwhile.
        board: Power limits of the board.
        long_s: Window of which the later half counts.
        has_phases: Whether the power may differ within a launch, as in a graph of several kernels. Whole
            launches count then where they are longer than a refresh.
    """
    is_long = window.elapsed_s >= long_s
    counted = later_half(window) if is_long else window
    period_s = window.elapsed_s / times if has_phases else 0.0
    if period_s < source.sensor.refresh_s:
        period_s = 0.0

    def found_at(slowing: int) -> SettledPower:
        even = slowing == 0 and not period_s
        return settled_power(
            trace,
            window,
            source.sensor,
            board.max_w,
            counted,
            source.sensors,
            even=even,
            period_s=period_s,
        )

    named = slowing_reasons(reasons, math.nan, board.set_w)
    found = found_at(named)
    slowing = slowing_reasons(reasons, found.power.power_w, board.set_w)
    if named and not slowing:
        found = found_at(slowing)
    slowed = slowing != 0
    source.add(found, window, even=not slowed and not period_s)
    times_s = counted.launch_times_s
    launch_s = sum(times_s) / len(times_s) if is_long and times_s else window.elapsed_s / times
    unsettled = _unsettled(found, counted, source.sensor, slowed, board.set_w, period_s)
    if not unsettled and slowed and not is_long:
        unsettled = f"the power limit was met in a window of {window.elapsed_s:.2g} s"
    return KernelPower(found, launch_s, counted, slowing, unsettled)


@dataclass(frozen=True)
class RecordedKernel:
    """What one recording of a folder says of the kernel that ran in it.

    Attributes:
        power: Its power and time.
        temperature_c: Mean GPU temperature while power was read.
        clock_mhz: Mean SM clock by its own stamps, NaN where it has none.
        fault: Why its power is not believed, "" where it is.
    """

    power: KernelPower
    temperature_c: float
    clock_mhz: float
    fault: str


def recorded_kernel(
    folder: RecordingFolder, recording: Recording, launches: int, source: SourceCheck
) -> RecordedKernel:
    """Return what a recording of one kernel says.

    Args:
        folder: The folder.
        recording: One of it; not before the last one that `source` was told of.
        launches: Launches in its window.
        source: Judges the power source by all kernels of the folder.

    Raises:
        InputError: The recording does not say whether clocks were lowered.
    """
    (window,), (reasons,) = recording.windows, recording.throttle_reasons
    if reasons < 0:
        raise InputError(f"{recording.name} in {folder.path} does not say whether its clocks were lowered")
    trace = folder.trace(recording.name)
    read = kernel_power(trace, window, launches, source, reasons, BoardLimits.of(folder.manifest.gpu))
    begin_ns = read.counted.start_ns + round(settled_after_s(read.counted, source.sensor) * 1e9)
    temperature_c = math.nan
    if (series := trace.of(SourceName.TEMPERATURE)) is not None:
        good = series.good()
        inside = good.value[(good.time_ns >= begin_ns) & (good.time_ns < window.end_ns)]
        temperature_c = float(inside.mean()) if len(inside) else math.nan
    if math.isnan(temperature_c):
        temperature_c = (recording.temperature_before_c + recording.temperature_after_c) / 2
    fault = read.power.reason or ("" if read.slowed else read.unsettled)
    return RecordedKernel(read, temperature_c, window.clock_mhz, fault)


def later_half(window: KernelWindow) -> KernelWindow:
    """Return the later half of a window, by time and by the stretches of its launches."""
    middle_ns = (window.start_ns + window.end_ns) // 2
    times_s = window.launch_times_s
    return replace(
        window,
        start_ns=middle_ns,
        elapsed_s=window.elapsed_s / 2,
        launch_times_s=times_s[len(times_s) // 2 :],
    )


def _unsettled(
    found: SettledPower,
    counted: KernelWindow,
    sensor: SensorDescription,
    slowed: bool,
    limit_w: float,
    period_s: float,
) -> str:
    """Return why clock or power had not settled in the part that counts, "" where they had."""
    power = found.power
    if power.status is Status.UNEVEN_POWER:
        return power.reason
    if power.status is not Status.OK or found.series is None:
        return ""
    if power.power_w > (1 + SETTLE.over_limit) * limit_w:
        return f"the power of {power.power_w:.4g} W is above the limit of {limit_w:.4g} W"
    even = SETTLE.even if slowed else SETTLE.even_below
    change = 0.0 if sensor.counts_energy else power_change(found.series, counted, sensor, period_s)
    if abs(change) > even:
        return f"the power still changed by {change:+.1%}"
    slower = _change(counted.launch_times_s)
    scatters = not slowed and abs(slower) < _DRIFT_ERRORS * _change_error(counted.launch_times_s)
    if abs(slower) > SETTLE.even and not scatters:
        return f"the time of a launch still changed by {slower:+.1%}"
    if slowed and power.standard_error_w > SETTLE.even * power.power_w:
        return f"the power went up and down, so that it is known to {power.standard_error_w:.2g} W only"
    return ""


def _change_error(times_s: Sequence[float]) -> float:
    """Return the standard error of that change, by the scatter within both halves; 0 of too few stretches."""
    half = len(times_s) // 2
    if half < _LEAST_STRETCHES or not sum(times_s[:half]) > 0:
        return 0.0
    spread_s = math.hypot(stdev(times_s[:half]), stdev(times_s[-half:]))
    return spread_s / math.sqrt(half) / fmean(times_s[:half])


def _change(times_s: Sequence[float]) -> float:
    """Return by what fraction a launch takes longer in the later half of some stretches."""
    half = len(times_s) // 2
    earlier_s = sum(times_s[:half])
    return sum(times_s[-half:]) / earlier_s - 1 if earlier_s > 0 else 0.0
