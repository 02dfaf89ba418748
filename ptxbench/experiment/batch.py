"""A batch: the kernels of some forty units, run in rounds, so that the rounds of one lie seconds apart.

Rounds run their kernels from the hottest to the coldest and in an order of chance by turns (`order`), after
the first has warmed the chip unrecorded. Two kernels of the first batch of each level run in the rounds of
all batches that follow: they tie the batches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ptxbench.analysis.dynamic_energy import solve_dynamic
from ptxbench.analysis.loop_energy import LoopEnergy, loop_energy
from ptxbench.analysis.subject import nan_mean
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import LaunchError
from ptxbench.core.status import Status
from ptxbench.experiment.launch_configuration import SHARES, LaunchConfiguration, throttled_itself
from ptxbench.experiment.order import runs_by_chance
from ptxbench.experiment.run_state import RunState
from ptxbench.experiment.trial import Work
from ptxbench.storage.manifest import RunArguments
from ptxbench.storage.schema import Role, TrialRecord

# Repeats of one attempt, and those of the sleeping kernel in one batch, are numbered from this times the
# number of the attempt or batch.
_ATTEMPT = 1000
# A kernel whose duration is further than this from what was asked for gets another loop count.
_WINDOW_TOLERANCE = 0.1
# Where among the first batch's kernels, from the hottest to the coldest, those stand that all batches run.
_REFERENCES = (0.25, 0.75)


@dataclass
class _Lane:
    """One kernel of a batch, which runs once a round as long as somebody needs it.

    Attributes:
        work: The kernel, calibrated.
        units: Names of the units that need it; none for a reference.
        first: Number of its first repeat in this batch.
        is_open: Whether it runs in the round to come.
        is_reference: Whether it runs as long as any other does.
        heat: Kernels run by this, the highest first: their power once it is known, before that the rate
            at which they run through their copies, and overhead loops last.
    """

    work: Work
    units: set[str]
    first: int
    heat: float
    is_open: bool = True
    is_reference: bool = False
    records: list[TrialRecord] = field(default_factory=list)

    @property
    def role(self) -> Role:
        return self.work.plan.role


class Batch:
    """The rounds of some units of one level.

    Args:
        flow: The run so far; it grows by the batch's trials.
        number: Number of the batch in the run.
        members: Its units, all of one level.
        sleep: The sleeping kernel, calibrated.
        arguments: Precision, repeats and window asked for.
        on_round: Called before every round with its number and how many kernels it runs; no more rounds
            are run where it returns False.
        more_follow: Whether other batches of the level follow, which narrow what all rows share.
    """

    def __init__(
        self,
        flow: RunState,
        number: int,
        members: Sequence[LaunchConfiguration],
        sleep: Work,
        arguments: RunArguments,
        on_round: Callable[[int, int], bool] = lambda _number, _kernels: True,
        *,
        more_follow: bool = False,
    ) -> None:
        self._flow = flow
        self._number = number
        self._members = members
        self._sleep = sleep
        self._arguments = arguments
        self._on_round = on_round
        self._more_follow = more_follow
        self._window_s = arguments.dynamic_window_s or arguments.window_s
        self._lanes: list[_Lane] = []
        self._retry: set[str] = set()
        self.complete = True

    def run(self) -> list[LaunchConfiguration]:
        """Measure the units until each is precise enough, or its repeats are spent.

        A unit whose kernel cannot be launched is given up; the others go on.

        Returns:
            The units for which the GPU throttled, to be begun again on fewer SMs; none where the batch was
            ended before (`complete` says so).

        Raises:
            GpuError: The GPU stopped answering.
            InputError: A trial cannot be written.
        """
        self._open_lanes()
        for done in range(self._arguments.max_repeats):
            if not self._goes_on:
                break
            # The sleeping kernel is one more.
            if not self._on_round(done, 1 + sum(lane.is_open for lane in self._lanes)):
                self.complete = False
                return []
            self._round(done)
            if done == 0:
                self._look_at_first_round()
            if done + 1 >= self._arguments.min_repeats:
                self._close_what_is_precise()
        members = {member.unit.name: member for member in self._members}
        if members:
            self._flow.keep_scatter(self._level, self._loops())
            self._flow.references.setdefault(self._level, self._references())
        return [
            replace(member, attempt=member.attempt + 1)
            for name, member in members.items()
            if name in self._retry and member.attempt + 1 < len(SHARES)
        ]

    @property
    def _goes_on(self) -> bool:
        """Whether any kernel but a reference runs in the round to come."""
        return any(lane.is_open and not lane.is_reference for lane in self._lanes)

    @property
    def _level(self) -> OptLevel:
        return self._members[0].unit.opt_level

    def _open_lanes(self) -> None:
        """Calibrate every kernel of the batch; a unit of which one cannot run is left out."""
        for member in self._members:
            try:
                lanes = self._lanes_of(member)
            except LaunchError as error:
                self._flow.failures[member.unit.name] = str(error)
                continue
            for lane in lanes:
                same = next((at for at in self._lanes if at.work.plan == lane.work.plan), None)
                if same is None:
                    self._lanes.append(lane)
                else:
                    same.units |= lane.units
        if self._lanes:
            known = self._flow.references.values()
            self._lanes += [self._reference_lane(work) for works in known for work in works]
        self._lanes.sort(key=lambda lane: lane.heat, reverse=True)

    def _lanes_of(self, member: LaunchConfiguration) -> list[_Lane]:
        """Return the target, the 2N target if it is asked for, and their overhead loops.

        Raises:
            LaunchError: One of them cannot run.
        """
        gpu = self._flow.bench.gpu
        grid, block = member.grid(gpu.info.sm_count), member.block(gpu)
        pairs = [(Role.TARGET, Role.OVERHEAD)]
        if member.check_linearity:
            pairs.append((Role.TARGET_2N, Role.OVERHEAD_2N))
        first = member.attempt * _ATTEMPT
        lanes = []
        for role, beside in pairs:
            work = member.loaded.work(role, grid, block)
            lanes.append(self._lane(member, self._calibrated(work, first), first))
            lanes.append(self._overhead_lane(member, beside, grid, block))
        return lanes

    def _overhead_lane(self, member: LaunchConfiguration, role: Role, grid: int, block: int) -> _Lane:
        """Return the lane of an overhead loop, closed where other batches measured it already."""
        name = member.unit.overhead_name(role, grid, block)
        if name in self._flow.failures:
            raise LaunchError(self._flow.failures[name])
        if name not in self._flow.overheads:
            found = role if role in dict(member.unit.loops) else Role.OVERHEAD
            work = member.loaded.work(found, grid, block, name)
            try:
                self._flow.overheads[name] = self._calibrated(work, 0)
            except LaunchError as error:
                self._flow.failures[name] = str(error)
                raise
        held, power_w = self._held(name)
        lane = self._lane(member, self._flow.overheads[name], held)
        if held:
            lane.is_open, lane.heat = False, power_w
        return lane

    def _reference_lane(self, work: Work) -> _Lane:
        """Return the lane of a kernel that other batches run, too."""
        return _Lane(work, set(), *self._held(work.plan.unit), is_reference=True)

    def _held(self, name: str) -> tuple[int, float]:
        """Return how often other batches ran a kernel, and the mean power that it drew."""
        held = [r for r in self._flow.trials.get(name, ()) if r.repeat >= 0]
        return len(held), nan_mean([r.steady_power_w for r in held])

    def _references(self) -> tuple[Work, ...]:
        """Return a hotter and a colder one of the targets that ran as they should."""
        good = [
            lane.work
            for lane in self._lanes
            if lane.role is Role.TARGET and len(lane.records) > 1 and not lane.is_reference
            if all(r.status is Status.OK for r in lane.records[1:])
        ]
        return tuple(good[at] for at in sorted({int(share * len(good)) for share in _REFERENCES}) if good)

    def _lane(self, member: LaunchConfiguration, work: Work, first: int) -> _Lane:
        is_target = work.plan.role in (Role.TARGET, Role.TARGET_2N)
        heat = float(work.iterations * work.plan.copies) if is_target else 0.0
        return _Lane(work, {member.unit.name}, first, heat)

    def _calibrated(self, work: Work, first: int) -> Work:
        return self._flow.bench.calibrated(work, self._window_s, first)

    def _round(self, done: int) -> None:
        """Run every open kernel once, from hot to cold or in every other round by chance; then the sleep."""
        warm_for = f"batch/{self._number}/{done}"
        opened = [lane for lane in self._lanes if lane.is_open]
        if done % 2:
            seed = self._flow.bench.folder.manifest.order_seed
            opened = runs_by_chance(opened, random.Random(f"{seed}/{warm_for}"))  # noqa: S311
        for lane in opened:
            record = self._flow.trial(lane.work, lane.first + len(lane.records), warm_for)
            lane.records.append(record)
            if record.status is Status.LAUNCH_FAILED:
                self._give_up(lane, record.reason)
        self._flow.trial(self._sleep, self._number * _ATTEMPT + done, warm_for)

    def _give_up(self, lane: _Lane, reason: str) -> None:
        """Leave out a kernel that cannot be launched, and the units that cannot do without it."""
        lane.is_open = False
        if not lane.is_reference and lane.role in (Role.TARGET, Role.OVERHEAD):
            self._flow.failures[lane.work.plan.unit] = reason
            for unit in tuple(lane.units):
                self._flow.failures.setdefault(unit, reason)
                self._close(unit)

    def _look_at_first_round(self) -> None:
        """Put the hottest kernels first, mend the windows, and see who throttles."""
        power_limit_w = self._flow.bench.gpu.info.power_limit_w
        for lane in self._lanes:
            if not lane.records:
                continue
            record = lane.records[-1]
            if throttled_itself(record, power_limit_w):
                self._retry |= lane.units
            if record.steady_power_w == record.steady_power_w:
                lane.heat = record.steady_power_w
            if abs(record.elapsed_s / self._window_s - 1) > _WINDOW_TOLERANCE:
                lane.work = lane.work.lasting(self._window_s, record.elapsed_s / record.iterations)
        self._lanes.sort(key=lambda lane: lane.heat, reverse=True)
        for unit in self._retry:
            self._close(unit)

    def _close(self, unit: str) -> None:
        """Close the lanes that only this unit, or others that are closed too, needed."""
        for lane in self._lanes:
            lane.units.discard(unit)
            lane.is_open = lane.is_open and bool(lane.units)

    def _close_what_is_precise(self) -> None:
        """Let only those kernels go on that make some unit's interval too wide."""
        open_units = {lane.work.plan.unit for lane in self._lanes if lane.role is Role.TARGET and lane.units}
        for lane in self._lanes:
            lane.is_open = False
        common = self._flow.common(self._level, self._loops())
        for member in self._members:
            name = member.unit.name
            if name not in open_units:
                continue
            result = solve_dynamic(member.unit, self._flow.trials, common)
            lacking = result.lacks(self._arguments.precision, more_follows=self._more_follow)
            if not lacking:
                self._close(name)
                continue
            for lane in self._lanes:
                lane.is_open = lane.is_open or (name in lane.units and lane.role in lacking)
        for lane in self._lanes:
            lane.is_open = lane.is_open or (lane.is_reference and self._goes_on)

    def _loops(self) -> list[LoopEnergy]:
        """Return the energies of the batch's loops so far."""
        shared = self._flow.shared()
        return [
            loop_energy([r for r in lane.records if r.repeat >= 0], shared)
            for lane in self._lanes
            if len(lane.records) > 1
        ]
