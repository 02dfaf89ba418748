"""Measures a captured step: the step, idle and gaps, then each kind of its launches, then the step again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ptxbench.attribute.replay.kinds import Kind, with_fills
from ptxbench.attribute.replay.plan import SETTINGS, ReplaySettings, Wanted, next_idle_share, plan_kind
from ptxbench.attribute.replay.profile import Measured, measured, step_energy, wanted_of
from ptxbench.attribute.replay.replayed import (
    AFTER,
    BEFORE,
    GAPS,
    IDLE,
    Beside,
    ProfileFolder,
    ReplayRun,
    undo_name,
)
from ptxbench.devices.calling import CallingGpu
from ptxbench.devices.cuda_step import CudaReplay, CudaStep
from ptxbench.devices.step import NOTHING, SLEEP, UNDO
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.settled_run import (
    SETTLE,
    BoardLimits,
    KernelPower,
    calls_in,
    kernel_power,
    launches_in,
)
from ptxbench.sensors.kernel_run import KernelRun, SequenceRun
from ptxbench.sensors.trace import NS_PER_S

# In a graph whose time tells what one takes; chosen.
_SLEEPS = 128
_UNDOS = 32
# Calls by which it is found how often a graph fits a window.
_TIMED_CALLS = 3


class StepMeasurement:
    """One step on one GPU.

    Args:
        gpu: The GPU.
        step: The captured step.
        folder: Where recordings are kept.
        settings: How long, and how.
        say: Is told what is measured now.
    """

    def __init__(
        self,
        gpu: CallingGpu,
        step: CudaStep,
        folder: ProfileFolder,
        settings: ReplaySettings = SETTINGS,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._gpu = gpu
        self._step = step
        self._folder = folder
        self._settings = settings
        self._say = say
        self._check = SourceCheck(gpu.sensors[0], gpu.sensors)
        self._board = BoardLimits.of(gpu.info)
        sensor = gpu.sensors[0]
        settle_s = max(sensor.settle_s, sensor.regulation_s)
        self._window_s = max(settings.window_s, settle_s + settings.readings * sensor.refresh_s)
        self._whole = step.whole()
        self._whole_s = math.nan
        self._changing, self._undo_s = 0, 0.0
        self._kind_of = {
            node: number for number, kind in enumerate(folder.step.kinds) for node in kind.instances
        }

    def run(self) -> None:
        """Measure everything; the memory of the step is then as it was, and the folder is finished.

        Raises:
            LaunchError: A launch failed; what was measured is kept.
            GpuError: The GPU stopped answering.
            InputError: The folder cannot be written.
        """
        begun_ns = self._gpu.clock.now_ns()
        try:
            self._measure()
        finally:
            self._whole.close()
        self._step.restore()
        wall_s = (self._gpu.clock.now_ns() - begun_ns) / NS_PER_S
        changed = self._step.changed_bytes()
        self._folder.keep(replace(self._folder.step, changed_bytes=changed, wall_s=wall_s))
        self._folder.recordings.finish()

    def _measure(self) -> None:
        self._say("the step")
        self._step.restore()
        self._whole_s = self._gpu.time_calls_s(self._whole, _TIMED_CALLS) / _TIMED_CALLS
        before = self._of_step(BEFORE)
        # A graph of few launches would end before the next one is there.
        launches = max(len(self._step.nodes), self._settings.most_nodes)
        idle = self._beside(ReplayRun(IDLE, 0, 0, _SLEEPS), [SLEEP] * _SLEEPS)
        self._beside(ReplayRun(GAPS, 0, launches), [NOTHING] * launches)
        wanted = wanted_of(step_energy([before]), idle)
        kinds = self._folder.step.kinds
        for number, kind in enumerate(kinds):
            self._say(f"kind {number + 1} of {len(kinds)}")
            attempts = [self._of_kind(number, kind, 0.0, 0, wanted).attempt]
            while (share := next_idle_share(attempts, wanted, self._settings)) is not None:
                attempts.append(self._of_kind(number, kind, share, len(attempts), wanted).attempt)
        self._say("the step again")
        self._of_step(AFTER)

    def _of_step(self, name: str) -> Measured:
        """Measure the step, for longer where the board is at its power limit."""
        self._step.restore()
        self._warm(2 * self._settings.warm_s)
        windows_s = (self._settings.step_s, *SETTLE.longer_s)
        return self._recorded(ReplayRun(name, 0, 1), self._whole, self._whole_s, windows_s)

    def _beside(self, run: ReplayRun, order: Sequence[int]) -> Measured:
        """Measure what no kind has."""
        self._warm(self._settings.warm_s)
        return self._replayed(run, order, (self._window_s,))

    def _of_kind(self, number: int, kind: Kind, idle_share: float, attempt: int, wanted: Wanted) -> Measured:
        """Measure a kind, with some idle time between its launches.

        The step leaves the board warm, and the memory restored and as it is before the kind's first launch.
        """
        nodes = self._step.nodes
        launches = [with_fills(nodes, instance) for instance in kind.instances]
        order = [node for launch in launches for node in launch]
        if not attempt:
            self._look(number, kind, order)
        self._step.restore()
        self._warm(self._settings.warm_s)
        first_s, launch_s = self._timed(kind, order)
        undo_s, every = self._undo_s, 0
        if undo_s:
            # Before each launch where that is short, as of a counter; else before each round of them.
            launch_s = max(launch_s, first_s / kind.calls)
            every = 1 if undo_s <= launch_s else len(launches)
            launch_s += undo_s / every
        plan = plan_kind(launches, launch_s, idle_share, self._settings, undo_every=every)
        name = f"kind {number}" + (f", attempt {attempt + 1}" if attempt else "")
        run = ReplayRun(
            name,
            0,
            plan.launches,
            plan.sleeps,
            number,
            idle_share,
            beside=self._beside_of(number, plan.order),
            undone=plan.order.count(UNDO) if self._changing >= 0 else -1,
            first_s=first_s,
        )
        self._begin(kind)
        # At the limit, as the step is, power takes seconds to settle.
        longer_s = SETTLE.longer_s if wanted.is_limited else ()
        return self._replayed(run, plan.order, (self._window_s, *longer_s))

    def _timed(self, kind: Kind, order: Sequence[int]) -> tuple[float, float]:
        """Return how long all launches of a kind take the first time, and one of them when launched again."""
        replay = self._step.replay(order)
        try:
            # What the first launch of a graph takes is not the kernels' time.
            replay()
            self._begin(kind)
            first_s = self._gpu.time_calls_s(replay, 1)
            return first_s, self._gpu.time_calls_s(replay, _TIMED_CALLS) / _TIMED_CALLS / kind.calls
        finally:
            replay.close()

    def _look(self, number: int, kind: Kind, order: Sequence[int]) -> None:
        """See whether a kind changes what it reads, and measure what it takes to write that back."""
        self._begin(kind)
        self._changing, self._undo_s = self._step.find_changing(order), 0.0
        if self._changing <= 0:
            return
        self._begin(kind)
        if not self._step.keep_changing():
            self._changing = -1
            return
        run = ReplayRun(undo_name(number), 0, _UNDOS)
        self._undo_s = self._beside(run, [UNDO] * _UNDOS).graph_s / _UNDOS

    def _begin(self, kind: Kind) -> None:
        """Let the memory be as it is in the step before the first launch of a kind."""
        self._step.restore()
        self._whole()
        if kind.instances[0]:
            self._once(range(kind.instances[0]))

    def _beside_of(self, number: int, order: Sequence[int]) -> tuple[Beside, ...]:
        """Return how many launches of other kinds are in the graph of a kind."""
        counts = Counter(self._kind_of[node] for node in order if node >= 0)
        return tuple(Beside(kind, n) for kind, n in counts.items() if kind != number)

    def _once(self, order: Sequence[int]) -> None:
        replay = self._step.replay(order)
        try:
            replay()
        finally:
            replay.close()

    def _warm(self, seconds: float) -> None:
        self._gpu.time_calls_s(self._whole, launches_in(seconds, self._whole_s))

    def _replayed(self, run: ReplayRun, order: Sequence[int], windows_s: Sequence[float]) -> Measured:
        replay = self._step.replay(order)
        try:
            graph_s = self._gpu.time_calls_s(replay, _TIMED_CALLS) / _TIMED_CALLS
            return self._recorded(run, replay, graph_s, windows_s)
        finally:
            replay.close()

    def _recorded(
        self, run: ReplayRun, replay: CudaReplay, graph_s: float, windows_s: Sequence[float]
    ) -> Measured:
        """Replay for a window, for a longer one where the board is at its power limit; keep the last.

        Args:
            run: What it is; how often is filled in.
            replay: What is launched.
            graph_s: About how long it takes.
            windows_s: The windows, at least one.
        """
        for window_s in windows_s:
            times = calls_in(window_s, graph_s, self._check.sensor)
            recorded = self._gpu.run_calls(replay, times)
            if recorded.window.elapsed_s < SETTLE.filled * window_s:
                # The first launches took longer than the others.
                times = calls_in(window_s, recorded.window.elapsed_s / times, self._check.sensor)
                recorded = self._gpu.run_calls(replay, times)
            found = self._judged(recorded, times)
            if not found.slowed or window_s >= SETTLE.long_s:
                break
        run = replace(run, times=times)
        self._keep(run, recorded)
        return measured(run, recorded.trace, found, recorded.after.temperature_c)

    def _judged(self, recorded: KernelRun, times: int) -> KernelPower:
        reasons = recorded.throttle_reasons
        return kernel_power(
            recorded.trace, recorded.window, times, self._check, reasons, self._board, has_phases=True
        )

    def _keep(self, run: ReplayRun, recorded: KernelRun) -> None:
        """Let a recording be on the disk."""
        windows, reasons = (recorded.window,), (recorded.throttle_reasons,)
        sequence = SequenceRun(windows, recorded.trace, recorded.before, recorded.after, reasons)
        self._folder.recordings.add(run.name, sequence)
        self._folder.keep(self._folder.step.with_run(run))
