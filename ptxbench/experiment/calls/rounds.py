"""Calls functions in rounds, in random order, while power is read, within a time.

Each round has one window of every function, so that what changes slowly, such as temperature, is the same for
all. A function that meets the power limit gets windows of seconds, of which the later half counts. Short ones
do not tell what the board holds: in their pauses it gathers what it lets pass above its limit afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.devices.calling import Call, CallingGpu
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.calls.window import LEAST_ROUNDS, CallWindow
from ptxbench.experiment.sensor_choice import board_sensor, short_window_s
from ptxbench.experiment.settled_run import (
    SETTLE,
    BoardLimits,
    calls_in,
    kernel_power,
    launches_in,
    mean_clock_mhz,
)
from ptxbench.sensors.trace import NS_PER_S

# What a window takes beside its calls, as long as none was made.
_BESIDE_S = 0.02
# Shortest window of a function at the limit: the loop of `Regulator` rings for a second after each pause.
_LEAST_AT_LIMIT_S = 2.4
# Where the host is ahead of the GPU, more calls than these wait when the last is launched, or more time than
# it takes to see that it ended.
_AHEAD_CALLS, _SEEN_S = 2, 50e-6
_WAITED = "the GPU waited for the host between calls: give a call more work, or capture calls in a CUDA graph"


@dataclass(frozen=True)
class RoundSettings:
    """How functions are called.

    Attributes:
        budget_s: How long all of it may take, once each function was called for the first time.
        window_s: Length of a window below the power limit; longer where the sensor settles slowly.
        warm_s: For how long all functions together are called before the first round.
        first_calls: Calls before the first is timed: what is compiled or loaded is then.
        timed_calls: Calls by which it is found how many fill a window.
        most_rounds: Rounds at most.
        seed: Of the order.
    """

    budget_s: float = 5.0
    window_s: float = 0.4
    warm_s: float = 0.5
    first_calls: int = 3
    timed_calls: int = 5
    most_rounds: int = 1000
    seed: int = 0


@dataclass(frozen=True)
class Rounds:
    """What was measured.

    Attributes:
        windows: Of each function, one of each round.
        objection: Why no power of it may be believed; "" where it may.
        scale: What must be said of the scale of all powers; "" for nothing.
        short: Why there was too little time, and what would be enough; "" where it was enough.
    """

    windows: tuple[tuple[CallWindow, ...], ...]
    objection: str
    scale: str
    short: str


class RoundMeasurement:
    """Functions on one GPU.

    Args:
        gpu: Where they run.
        calls: The functions.
        settings: How they are called.
    """

    def __init__(self, gpu: CallingGpu, calls: Sequence[Call], settings: RoundSettings) -> None:
        self._gpu = gpu
        self._calls = tuple(calls)
        self._settings = settings
        self._check = SourceCheck(board_sensor(gpu.sensors), gpu.sensors)
        self._board = BoardLimits.of(gpu.info)
        window_s = max(settings.window_s, short_window_s(self._check.sensor))
        self._windows_s = [window_s] * len(self._calls)
        self._least_at_limit_s = max(_LEAST_AT_LIMIT_S, 2 * window_s)
        self._times_s: list[float] = []
        self._beside_s = _BESIDE_S

    def run(self) -> Rounds:
        """Measure.

        Raises:
            LaunchError: A launch failed.
            GpuError: The GPU stopped answering.
        """
        for call in self._calls:
            for _ in range(self._settings.first_calls):
                call()
        begun_ns = self._gpu.clock.now_ns()

        def left_s() -> float:
            return self._settings.budget_s - (self._gpu.clock.now_ns() - begun_ns) / NS_PER_S

        self._warm()
        random = np.random.default_rng(self._settings.seed)
        rounds: list[list[CallWindow]] = []
        # The first is made whatever it takes: else there is no number at all.
        while not rounds or (len(rounds) < self._settings.most_rounds and self._round_s() <= left_s()):
            order = random.permutation(len(self._calls))
            found = {int(number): self._window(int(number), len(rounds)) for number in order}
            rounds.append([found[number] for number in range(len(self._calls))])
            longer = self._longer(rounds, left_s())
            if longer != self._windows_s and self._round_s(longer) <= left_s():
                self._windows_s, rounds = longer, []
        held = [one for one in rounds[-1] if self._is_held(one)]
        short = ""
        if len(rounds) < LEAST_ROUNDS or (held and all(one.reason for one in held)):
            ample = [
                max(window_s, SETTLE.longer_s[0] if self._is_held(one) else 0.0)
                for window_s, one in zip(self._windows_s, rounds[-1], strict=True)
            ]
            needed_s = self._settings.budget_s - left_s() + (LEAST_ROUNDS + 1) * self._round_s(ample)
            short = f"{len(rounds)} round(s) is all that the time was enough for; give it {needed_s:.0f} s"
            if held:
                short = f"at the power limit windows take seconds to settle; give it {needed_s:.0f} s"
        windows = tuple(tuple(one) for one in zip(*rounds, strict=True))
        return Rounds(windows, self._check.objection, self._check.scale, short)

    def _warm(self) -> None:
        """Call each until it is known how long it takes, and the board is warm."""
        for call in self._calls:
            times = self._settings.timed_calls
            self._times_s.append(self._gpu.time_calls_s(call, times) / times)
            share_s = self._settings.warm_s / len(self._calls)
            self._gpu.time_calls_s(call, launches_in(share_s, self._times_s[-1]))

    def _round_s(self, windows_s: Sequence[float] = ()) -> float:
        """Return about how long a round takes."""
        both = zip(windows_s or self._windows_s, self._times_s, strict=True)
        return sum(
            time_s * calls_in(window_s, time_s, self._check.sensor) + self._beside_s
            for window_s, time_s in both
        )

    def _is_held(self, found: CallWindow) -> bool:
        """Tell whether the power limit holds a function down, or would where it ran without a pause."""
        return found.at_limit or found.power_w > (1 + SETTLE.over_limit) * self._board.set_w

    def _longer(self, rounds: Sequence[Sequence[CallWindow]], left_s: float) -> list[float]:
        """Return windows in which what is at the limit settles, short enough for the rounds needed."""
        held = [self._is_held(one) for one in rounds[-1]]
        if not any(held):
            return self._windows_s
        pairs = list(zip(held, self._windows_s, strict=True))
        beside_s = sum(window_s + self._beside_s for is_held, window_s in pairs if not is_held)
        ample_s, least_s = SETTLE.longer_s[0], self._least_at_limit_s

        def fitting(rounds: int) -> float:
            return (left_s / rounds - beside_s) / sum(held) - 2 * self._beside_s

        # Where the time is too short for all rounds, one that settles tells more than two that do not.
        fitting_s = fitting(LEAST_ROUNDS) if fitting(LEAST_ROUNDS) >= least_s else fitting(1)
        first_s = min(ample_s, max(least_s, fitting_s))
        # What did not settle twice needs more.
        twice = [len(rounds) > 1 and all(one[n].reason for one in rounds[-2:]) for n in range(len(held))]
        return [
            window_s
            if not is_held or (window_s >= least_s and not unsettled)
            else max(window_s, ample_s if unsettled else first_s)
            for (is_held, window_s), unsettled in zip(pairs, twice, strict=True)
        ]

    def _window(self, number: int, round_number: int) -> CallWindow:
        window_s, call = self._windows_s[number], self._calls[number]
        times = calls_in(window_s, self._times_s[number], self._check.sensor)
        begun_ns = self._gpu.clock.now_ns()
        run = self._gpu.run_calls(call, times)
        self._times_s[number] = run.window.elapsed_s / times
        long_s = SETTLE.long_s
        if window_s >= self._least_at_limit_s:
            long_s = min(long_s, SETTLE.filled * window_s)
        found = kernel_power(
            run.trace,
            run.window,
            times,
            self._check,
            run.throttle_reasons,
            self._board,
            long_s,
            has_phases=True,
        )
        if (others := run.other_processes) > 0:
            found = found.beside_others(others)
        power = found.power
        took_s = (self._gpu.clock.now_ns() - begun_ns) / NS_PER_S
        self._beside_s = max(_BESIDE_S, took_s - run.window.elapsed_s)
        return CallWindow(
            round_number,
            found.launch_s,
            power.power_w,
            power.standard_error_w,
            mean_clock_mhz(run.trace, found.counted),
            run.after.temperature_c,
            found.slowed,
            power.reason or found.unsettled,
            "; ".join(filter(None, (found.note, _waited(run.queued_s, times, found.launch_s)))),
        )


def _waited(queued_s: float, times: int, call_s: float) -> str:
    """Return what must be said where little was left for the GPU when the last call was launched."""
    ahead = times <= 5 * _AHEAD_CALLS or not queued_s < _AHEAD_CALLS * call_s + _SEEN_S
    return "" if ahead else _WAITED
