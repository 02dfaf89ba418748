"""The dynamic protocol: every SM full, static power subtracted, in batches (docs/method.md, section 5).

What it computes from the trials is in `analysis.dynamic_energy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptxbench.analysis.dynamic_energy import dynamic_rows
from ptxbench.analysis.operating_point import STATIC_SUBJECT
from ptxbench.analysis.overhead import OVERHEAD_ROLES, overhead_loops
from ptxbench.analysis.solved_rows import SolvedRows
from ptxbench.analysis.subject import Subject
from ptxbench.catalogue.model import Instruction
from ptxbench.core.condition import DYNAMIC, Condition, Form, OptLevel, Pattern
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.experiment.batch import Batch
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.dynamic_state import DynamicState
from ptxbench.experiment.kernel import Kernel
from ptxbench.experiment.launch_configuration import BLOCK, LaunchConfiguration
from ptxbench.experiment.linearity import checked_for_linearity
from ptxbench.experiment.order import BATCH_SIZE
from ptxbench.experiment.protocol import Measurement, Protocol, SleepCubin
from ptxbench.experiment.run_state import RunState
from ptxbench.sass.program import SassKernel
from ptxbench.storage.schema import Role, TrialRecord

# The sleeping kernel's pass takes about 1 ms, where others take a microsecond.
_SLEEP_PASSES = 20
# So many throttled subjects make a batch of their own: enough to share overhead loops on fewer SMs.
_RETRIED = BATCH_SIZE // 2


class Dynamic(Protocol):
    """The dynamic protocol."""

    def form(self, instruction: Instruction, opt_level: OptLevel) -> Form:
        """Return the throughput form where an instruction has one: the whole chip is at work."""
        return instruction.forms(opt_level)[-1]

    def overhead_loops(self, instruction: Instruction, kernels: Mapping[str, SassKernel]) -> dict[Role, str]:
        """Return the loops of the overhead kernels, each measured once for all subjects that share it."""
        return overhead_loops(instruction, kernels)

    def shared_kernels(self, subject: Subject, launches: Sequence[tuple[int, int]]) -> set[str]:
        """Return the names of the sleeping kernel and of the subject's overhead loops."""
        names = {STATIC_SUBJECT}
        for grid, block in launches:
            names |= {name for role in OVERHEAD_ROLES for name in subject.overhead_names(role, grid, block)}
        return names

    def begin(self, state: RunState, sleep: SleepCubin) -> Measurement:
        """Begin to measure."""
        return _DynamicMeasurement(state, sleep)

    def solve(self, subjects: Sequence[Subject], records: Sequence[TrialRecord], gpu: GpuInfo) -> SolvedRows:
        """Return the rows of subjects, solved together."""
        return dynamic_rows(subjects, records, gpu)


class _DynamicMeasurement(Measurement):
    """The batches of a run, and the subjects that are started again on fewer SMs."""

    def __init__(self, state: RunState, sleep: SleepCubin) -> None:
        self._run = state
        self._state = DynamicState(state.runner, state.failures)
        self._checked = checked_for_linearity(state.arguments)
        self._sleep_cubin = sleep
        self._sleep: Kernel | None = None
        self._batches = 0
        self._throttled: list[LaunchConfiguration] = []

    def measure(self, batch: Sequence[BuiltKernels], *, more_follow: bool, is_last: bool) -> None:
        """Measure one batch; restart throttled subjects once there are many of them, or at the end."""
        self._throttled += self._measure(
            [LaunchConfiguration(one, one.subject.instruction.name in self._checked) for one in batch],
            more_follow=more_follow,
        )
        # Subjects that throttled share overhead loops when they are started again together.
        if len(self._throttled) >= _RETRIED or is_last:
            self._throttled = self._retry(self._throttled, is_last=is_last)

    def _measure(
        self, configurations: Sequence[LaunchConfiguration], *, more_follow: bool
    ) -> list[LaunchConfiguration]:
        """Measure one batch; return what must be started again on fewer SMs."""
        if not configurations:
            return []
        names = {one.subject.name for one in configurations}
        first = configurations[0].subject
        others = len(configurations) - 1
        what = f"{first.instruction.name} -{first.condition.opt_level} and {others} more"

        def on_round(done: int, kernels: int) -> bool:
            self._run.report(f"{what}, round {done + 1}")
            return not self._run.is_spent(kernels)

        batch = Batch(
            self._state,
            self._batches,
            configurations,
            self._sleeping(),
            self._run.arguments,
            self._run.criterion,
            on_round,
            more_follow=more_follow,
        )
        self._batches += 1
        self._run.unfinished |= names
        repeated = batch.run()
        if batch.complete:
            self._run.unfinished -= names - {one.subject.name for one in repeated}
            self._run.done += len(configurations) - len(repeated)
        return repeated

    def _retry(
        self, configurations: Sequence[LaunchConfiguration], *, is_last: bool
    ) -> list[LaunchConfiguration]:
        """Restart throttled subjects, by optimization level.

        Returns:
            Those that still throttle; none at the last batch, which restarts them until none does.
        """
        waiting = list(configurations)
        while waiting and not self._run.is_spent():
            repeated: list[LaunchConfiguration] = []
            for opt_level in OptLevel:
                same = [one for one in waiting if one.subject.condition.opt_level is opt_level]
                for n in range(0, len(same), BATCH_SIZE):
                    repeated += self._measure(same[n : n + BATCH_SIZE], more_follow=not is_last)
            waiting = repeated
            if not is_last:
                break
        return waiting

    def _sleeping(self) -> Kernel:
        """Return the sleeping kernel, which fills the chip, calibrated at its first use."""
        if self._sleep is None:
            runner, arguments = self._run.runner, self._run.arguments
            sm_count = runner.gpu.info.sm_count
            kernel = Kernel(
                subject=STATIC_SUBJECT,
                instruction=STATIC_SUBJECT,
                condition=Condition(OptLevel.O3, DYNAMIC, Pattern.ZEROS),
                role=Role.STATIC,
                copies=1,
                cubin=self._sleep_cubin(),
                grid=sm_count,
                block=BLOCK,
                operands=np.zeros(8 * BLOCK, np.uint8),
                scratch_bytes=8 * sm_count * BLOCK,
                iterations=_SLEEP_PASSES,
            )
            self._sleep = runner.calibrated(kernel, arguments.dynamic_window_s or arguments.window_s)
        return self._sleep


PROTOCOL = Dynamic()
