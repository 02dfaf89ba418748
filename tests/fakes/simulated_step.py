"""A captured step on the simulated GPU: each node has a hidden time and power, and memory that it changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ptxbench.devices.sequence import STRETCHES, launch_times_s, stretches
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.physics import Phase
from ptxbench.devices.step import NOTHING, SLEEP, SLEEP_NS, UNDO, StepNode
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.sensors.rate_limited import RateLimitedReader
from ptxbench.sensors.sampler import Sampler
from ptxbench.sensors.trace import KernelWindow

GAP_S = 1e-6
# What waits between launches, and one thread that sleeps, add to the static power.
GAP_W, SLEEP_W = 15.0, 4.0
# From how long on a launch is a phase of its own: sensors see it.
LONG_S = 0.02
# What writing memory back takes.
UNDO_S, UNDO_W = 30e-6, 120.0


class ReplayingGpu(SimulatedGpu):
    """A simulated GPU on which replays can be timed and recorded."""

    ordinal = 0

    def __init__(self, seed: int = 0, profile=H200) -> None:
        super().__init__(profile, seed)
        _, self._clock_source = self.open_beside()

    def time_calls_s(self, call: Callable[[], object], times: int) -> float:
        return self._called(call, times).elapsed_s

    def run_calls(self, call: Callable[[], object], times: int) -> KernelRun:
        before = self.telemetry()
        sources = [*self._sources, RateLimitedReader(self._clock_source, self._clock)]
        sampler = Sampler(sources, self._clock, self._poll_interval_s, self._throttle_reasons)
        self._clock.start_ticker(sampler.poll, sampler.wait_s)
        try:
            window = self._called(call, times)
            after = self.telemetry()
        finally:
            self._clock.stop_ticker(sampler.poll)
        return KernelRun(window, sampler.finish(), before, after, sampler.throttle_reasons(window))

    def draw(self, phase: Phase) -> None:
        """Let work pass."""
        start_ns = self._clock.now_ns()
        (end_ns,) = self._physics.run(start_ns, (phase,))
        self._clock.sleep_s((end_ns - start_ns) * 1e-9)

    def _called(self, call: Callable[[], object], times: int) -> KernelWindow:
        start_ns = self._clock.now_ns()
        lengths = stretches(times, STRETCHES)
        ends_ns = []
        for count in lengths:
            for _ in range(count):
                call()
            ends_ns.append(self._clock.now_ns())
        ends_s = [(end_ns - start_ns) * 1e-9 for end_ns in ends_ns]
        return KernelWindow(start_ns, ends_ns[-1], ends_s[-1], launch_times_s=launch_times_s(lengths, ends_s))


@dataclass(frozen=True)
class HiddenLaunch:
    """A launch, and what it really takes.

    Attributes:
        node: The launch.
        time_s: Its time at the full clock.
        power_w: What it draws beside the static power.
        growth: By what it changes the one number in memory; its power falls with what has come together.
        counts: Whether it ends at once where its counter is not zero, and counts.
        zeroes: Whether it zeroes the counter.
    """

    node: StepNode
    time_s: float
    power_w: float
    growth: float = 0.0
    counts: bool = False
    zeroes: bool = False

    @property
    def energy_j(self) -> float:
        return self.time_s * self.power_w


@dataclass
class SimulatedStep:
    """A step; the memory is one number, which launches let grow."""

    gpu: ReplayingGpu
    launches: Sequence[HiddenLaunch]
    saved_bytes: int = 8
    extra_gap_s: float = 0.0
    state: float = 0.0
    counter: int = 0
    kept: tuple[float, int] = (0.0, 0)
    cannot_look: bool = False
    is_full: bool = False
    restored: int = 0
    orders: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[StepNode, ...]:
        return tuple(one.node for one in self.launches)

    @property
    def created(self) -> tuple[int, ...]:
        return tuple(range(len(self.launches)))

    def whole(self) -> SimulatedReplay:
        return SimulatedReplay(self, tuple(range(len(self.launches))), self.extra_gap_s)

    def replay(self, order: Sequence[int]) -> SimulatedReplay:
        self.orders.append(tuple(order))
        return SimulatedReplay(self, tuple(order))

    def restore(self) -> None:
        self.restored += 1
        self.state, self.counter = 0.0, 0

    def find_changing(self, order: Sequence[int]) -> int:
        if self.cannot_look:
            return -1
        replay = self.replay(order)
        replay.change()
        before = (self.state, self.counter)
        replay.change()
        return self.saved_bytes if (self.state, self.counter) != before else 0

    def keep_changing(self) -> bool:
        self.kept = (self.state, self.counter)
        return not self.is_full

    def changed_bytes(self) -> int:
        return 0 if self.state == 0.0 else self.saved_bytes

    def close(self) -> None:
        pass


@dataclass
class SimulatedReplay:
    """Launches in an order, drawn as one phase of their mean power up to each one that is long."""

    step: SimulatedStep
    order: tuple[int, ...]
    extra_gap_s: float = 0.0
    is_closed: bool = False

    def __call__(self) -> None:
        assert not self.is_closed
        step = self.step
        time_s = energy_j = 0.0
        for number in self.order:
            if number == SLEEP:
                time_s, energy_j = time_s + SLEEP_NS * 1e-9, energy_j + SLEEP_NS * 1e-9 * SLEEP_W
            elif number == UNDO:
                step.state, step.counter = step.kept
                time_s, energy_j = time_s + UNDO_S, energy_j + UNDO_S * UNDO_W
            elif number != NOTHING:
                launch = step.launches[number]
                weakened = 1 / (1 + step.state)
                done = 0.01 if launch.counts and step.counter else 1.0
                time_s, energy_j = time_s + done * launch.time_s, energy_j + done * launch.energy_j * weakened
                step.state += launch.growth
                step.counter = 0 if launch.zeroes else step.counter + launch.counts
            gap_s = GAP_S + (self.extra_gap_s if number >= 0 else 0.0)
            time_s, energy_j = time_s + gap_s, energy_j + gap_s * GAP_W
            if time_s >= LONG_S:
                time_s = energy_j = self._draw(time_s, energy_j)
        self._draw(time_s, energy_j)

    def _draw(self, time_s: float, energy_j: float) -> float:
        if time_s:
            gpu = self.step.gpu
            gpu.draw(Phase(time_s * gpu._physics.governor.full_mhz * 1e6, energy_j))
        return 0.0

    def change(self) -> None:
        """Change the memory, in no time."""
        step = self.step
        for number in self.order:
            if number >= 0:
                launch = step.launches[number]
                step.state += launch.growth
                step.counter = 0 if launch.zeroes else step.counter + launch.counts

    def close(self) -> None:
        self.is_closed = True
