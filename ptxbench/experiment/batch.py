"""A batch: the kernels of some forty subjects, run in rounds, so that the rounds of one lie seconds apart.

Rounds run their kernels from the hottest to the coldest and in random order by turns (`order`), after the
first kernel has warmed the chip unrecorded. Two kernels of the first batch of each optimization level run in
every other round of all later batches too, so that batches can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from ptxbench.analysis.dynamic_energy import solve_dynamic
from ptxbench.analysis.loop_energy import LoopEnergy, RunCalibration, loop_energy
from ptxbench.analysis.subject import nan_mean
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import LaunchError
from ptxbench.core.status import Status
from ptxbench.experiment.criterion import StoppingCriterion
from ptxbench.experiment.dynamic_state import DynamicState
from ptxbench.experiment.kernel import Kernel
from ptxbench.experiment.launch_configuration import SHARES, LaunchConfiguration
from ptxbench.experiment.order import runs_by_chance
from ptxbench.storage.manifest import RunArguments
from ptxbench.storage.schema import Role, TrialRecord

# Repeats of an attempt are numbered from this times the number of the attempt; those of the sleeping kernel
# from this times the number of the batch.
_ATTEMPT = 1000
# A kernel whose duration is further than this from its target gets another loop count.
_WINDOW_TOLERANCE = 0.1
# So many sleeping kernels tell static power: before that, rows wait for one more.
_SLEEPING = 2
# Where the kernels that all batches run stand among the first batch's, from the hottest to the coldest.
_REFERENCES = (0.25, 0.75)


@dataclass
class _BatchKernel:
    """One kernel of a batch, which runs once a round as long as a subject needs it.

    Attributes:
        kernel: The kernel, calibrated.
        subjects: Names of the subjects that need it; none for a reference.
        first: Number of its first repeat in this batch.
        is_open: Whether it runs in the next round.
        is_reference: Whether it runs as long as any other does.
        heat: Kernels run by this, the highest first: their power once it is known, before that the rate
            at which they run through their copies, and overhead loops last.
    """

    kernel: Kernel
    subjects: set[str]
    first: int
    heat: float
    is_open: bool = True
    is_reference: bool = False
    records: list[TrialRecord] = field(default_factory=list)

    @property
    def role(self) -> Role:
        return self.kernel.role


class Batch:
    """The rounds of some subjects of one optimization level.

    Args:
        state: The protocol's trials so far; it grows by the batch's.
        number: Number of the batch in the run.
        configurations: Its subjects, all of one optimization level, and how each is launched.
        sleep: The sleeping kernel, calibrated.
        arguments: What the run measures and how.
        criterion: When a row has been measured often enough.
        on_round: Called before every round with its number and how many kernels it runs; no more rounds
            are run where it returns False.
        more_follow: Whether other batches of the optimization level follow, which narrow what all rows share.
    """

    def __init__(
        self,
        state: DynamicState,
        number: int,
        configurations: Sequence[LaunchConfiguration],
        sleep: Kernel,
        arguments: RunArguments,
        criterion: StoppingCriterion,
        on_round: Callable[[int, int], bool] = lambda _number, _kernels: True,
        *,
        more_follow: bool = False,
    ) -> None:
        self._state = state
        self._number = number
        self._configurations = configurations
        self._sleep = sleep
        self._criterion = criterion
        self._on_round = on_round
        self._more_follow = more_follow
        self._window_s = arguments.dynamic_window_s or arguments.window_s
        self._kernels: list[_BatchKernel] = []
        self._retry: set[str] = set()
        self._shared: RunCalibration | None = None
        self.complete = True

    def run(self) -> list[LaunchConfiguration]:
        """Measure the subjects until the stopping criterion is met for each, or its repeats are spent.

        A subject whose kernel cannot be launched is given up; the others go on.

        Returns:
            The subjects for which the GPU throttled, to be started again on fewer SMs; none where the batch
            ended early (`complete` is then False).

        Raises:
            GpuError: The GPU stopped answering.
            InputError: A trial cannot be written.
        """
        self._open_kernels()
        least, most = self._criterion.bounds()
        for done in range(most):
            if not self._goes_on:
                break
            # The sleeping kernel is one more.
            if not self._on_round(done, 1 + len(self._opened(done))):
                self.complete = False
                return []
            self._round(done, decides=done + 1 >= least)
        if self._configurations:
            self._state.keep_scatter(self._opt_level, self._loops())
            self._state.references.setdefault(self._opt_level, self._references())
        return [
            replace(one, attempt=one.attempt + 1)
            for one in self._configurations
            if one.subject.name in self._retry and one.attempt + 1 < len(SHARES)
        ]

    @property
    def _goes_on(self) -> bool:
        """Whether any kernel but a reference runs in the next round."""
        return any(entry.is_open and not entry.is_reference for entry in self._kernels)

    @property
    def _opt_level(self) -> OptLevel:
        return self._configurations[0].subject.condition.opt_level

    def _open_kernels(self) -> None:
        """Calibrate every kernel of the batch; a subject with one that cannot run is left out."""
        for one in self._configurations:
            try:
                entries = self._kernels_of(one)
            except LaunchError as error:
                self._state.failures[one.subject.name] = str(error)
                continue
            for entry in entries:
                trial_id = entry.kernel.trial_id(0)
                same = next((e for e in self._kernels if e.kernel.trial_id(0) == trial_id), None)
                if same is None:
                    self._kernels.append(entry)
                else:
                    same.subjects |= entry.subjects
        if self._kernels:
            known = self._state.references.values()
            self._kernels += [self._reference(kernel) for kernels in known for kernel in kernels]
        self._kernels.sort(key=lambda entry: entry.heat, reverse=True)

    def _kernels_of(self, one: LaunchConfiguration) -> list[_BatchKernel]:
        """Return the target, the 2N target if linearity is checked, and their overhead loops.

        Raises:
            LaunchError: One of them cannot run.
        """
        gpu = self._state.runner.gpu
        grid, block = one.grid(gpu.info.sm_count), one.block(gpu)
        pairs = [(Role.TARGET, Role.OVERHEAD)]
        if one.check_linearity:
            pairs.append((Role.TARGET_2N, Role.OVERHEAD_2N))
        first = one.attempt * _ATTEMPT
        kernels = []
        for role, overhead_role in pairs:
            kernel = one.prepared.kernel(role, grid, block)
            kernels.append(self._batch_kernel(one, self._calibrated(kernel, first), first))
            kernels.append(self._overhead(one, overhead_role, grid, block))
        return kernels

    def _overhead(self, one: LaunchConfiguration, role: Role, grid: int, block: int) -> _BatchKernel:
        """Return an overhead loop, closed where other batches have measured it often enough."""
        name = one.subject.overhead_name(role, grid, block)
        if name in self._state.failures:
            raise LaunchError(self._state.failures[name])
        if name not in self._state.overheads:
            found = role if role in dict(one.subject.loops) else Role.OVERHEAD
            kernel = one.prepared.kernel(found, grid, block, name)
            try:
                self._state.overheads[name] = self._calibrated(kernel, 0)
            except LaunchError as error:
                self._state.failures[name] = str(error)
                raise
        held, power_w = self._held(name)
        overhead = self._batch_kernel(one, self._state.overheads[name], held)
        if held:
            # Of a batch whose subjects all throttled it has one round.
            least, _ = self._criterion.bounds()
            overhead.is_open, overhead.heat = held < least, power_w
        return overhead

    def _reference(self, kernel: Kernel) -> _BatchKernel:
        """Return a kernel that all batches run."""
        return _BatchKernel(kernel, set(), *self._held(kernel.subject), is_reference=True)

    def _held(self, name: str) -> tuple[int, float]:
        """Return how often other batches ran a kernel, and its mean power."""
        held = [r for r in self._state.trials.get(name, ()) if r.repeat >= 0]
        return len(held), nan_mean([r.steady_power_w for r in held])

    def _references(self) -> tuple[Kernel, ...]:
        """Return a hotter and a colder one of the targets that ran as they should."""
        good = [
            entry.kernel
            for entry in self._kernels
            if entry.role is Role.TARGET and len(entry.records) > 1 and not entry.is_reference
            if all(r.status is Status.OK for r in entry.records[1:])
        ]
        return tuple(good[at] for at in sorted({int(share * len(good)) for share in _REFERENCES}) if good)

    def _batch_kernel(self, one: LaunchConfiguration, kernel: Kernel, first: int) -> _BatchKernel:
        is_target = kernel.role in (Role.TARGET, Role.TARGET_2N)
        heat = float(kernel.iterations * kernel.copies) if is_target else 0.0
        return _BatchKernel(kernel, {one.subject.name}, first, heat)

    def _calibrated(self, kernel: Kernel, first: int) -> Kernel:
        return self._state.runner.calibrated(kernel, self._window_s, first)

    def _opened(self, done: int) -> list[_BatchKernel]:
        """Return the kernels of a round; references run every other round."""
        return [entry for entry in self._kernels if entry.is_open and not (entry.is_reference and done % 2)]

    def _round(self, done: int, *, decides: bool) -> None:
        """Run every open kernel once, from hot to cold or, every other round, in random order; then sleep.

        Args:
            done: Rounds before it.
            decides: Whether rows may end with it: that is worked out while the sleeping kernel runs.
        """
        warm_for = f"batch/{self._number}/{done}"
        opened = self._opened(done)
        if done % 2:
            seed = self._state.runner.folder.manifest.part.order_seed
            opened = runs_by_chance(opened, random.Random(f"{seed}/{warm_for}"))  # noqa: S311
        for entry in opened:
            record = self._state.trial(entry.kernel, entry.first + len(entry.records), warm_for)
            entry.records.append(record)
            if record.status is Status.LAUNCH_FAILED:
                self._give_up(entry, record.reason)
        if done == 0:
            self._look_at_first_round()
        asleep = self._sleep, self._number * _ATTEMPT + done, warm_for
        if decides and len(self._state.trials.get(self._sleep.subject, ())) >= _SLEEPING:
            with ThreadPoolExecutor(1, thread_name_prefix="ptxbench-decide") as other:
                lacking = other.submit(self._lacking)
                record = self._state.run(*asleep)
                self._close_what_is_done(lacking.result())
            self._state.keep(record)
            return
        self._state.keep(self._state.run(*asleep))
        if decides:
            self._close_what_is_done(self._lacking())

    def _give_up(self, entry: _BatchKernel, reason: str) -> None:
        """Leave out a kernel that cannot be launched, and the subjects that cannot do without it."""
        entry.is_open = False
        if not entry.is_reference and entry.role in (Role.TARGET, Role.OVERHEAD):
            self._state.failures[entry.kernel.subject] = reason
            for subject in tuple(entry.subjects):
                self._state.failures.setdefault(subject, reason)
                self._close(subject)

    def _look_at_first_round(self) -> None:
        """Put the hottest kernels first, correct the windows, and find what throttles."""
        for entry in self._kernels:
            if not entry.records:
                continue
            record = entry.records[-1]
            if record.status is Status.THROTTLED:
                self._retry |= entry.subjects
            if record.steady_power_w == record.steady_power_w:
                entry.heat = record.steady_power_w
            if abs(record.elapsed_s / self._window_s - 1) > _WINDOW_TOLERANCE:
                entry.kernel = entry.kernel.lasting(self._window_s, record.elapsed_s / record.iterations)
        self._kernels.sort(key=lambda entry: entry.heat, reverse=True)
        for subject in self._retry:
            self._close(subject)

    def _close(self, subject: str) -> None:
        """Close the kernels that only this subject, or others that are closed too, needed."""
        for entry in self._kernels:
            entry.subjects.discard(subject)
            entry.is_open = entry.is_open and bool(entry.subjects)

    def _lacking(self) -> dict[str, frozenset[Role]]:
        """Return which kernels need more trials, by the name of each subject that is not done."""
        open_subjects = {
            entry.kernel.subject for entry in self._kernels if entry.role is Role.TARGET and entry.subjects
        }
        self._shared = self._state.shared()
        common = self._state.common(self._opt_level, self._shared, self._loops())
        _, most = self._criterion.bounds()
        return {
            one.subject.name: solve_dynamic(one.subject, self._state.trials, common).lacks(
                self._criterion.is_met, most, more_follows=self._more_follow
            )
            for one in self._configurations
            if one.subject.name in open_subjects
        }

    def _close_what_is_done(self, lacking: Mapping[str, frozenset[Role]]) -> None:
        """Keep only those kernels running that some row still needs by the stopping criterion."""
        for name, roles in lacking.items():
            if not roles:
                self._close(name)
        for entry in self._kernels:
            entry.is_open = any(entry.role in lacking.get(name, ()) for name in entry.subjects)
        for entry in self._kernels:
            entry.is_open = entry.is_open or (entry.is_reference and self._goes_on)

    def _loops(self) -> list[LoopEnergy]:
        """Return the energies of the batch's loops so far, by what the rows shared at the last decision."""
        shared = self._shared or self._state.shared()
        return [
            loop_energy([r for r in entry.records if r.repeat >= 0], shared)
            for entry in self._kernels
            if len(entry.records) > 1
        ]
