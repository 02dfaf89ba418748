"""One session of the validation: its cases round by round, kept as it goes, and taken up again."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from validation_file import (
    MEASURED,
    KernelCase,
    KernelSession,
    KernelTrial,
    Purpose,
    read_session,
)

from ptxbench.core.errors import InputError
from ptxbench.storage.manifest import with_part, write_manifest

Call = Callable[[], object]
Prepare = Callable[[KernelCase], Call]

ROUNDS: Mapping[Purpose, int] = {Purpose.JUDGED: 3, Purpose.FIT: 2}
# So many cases stand between two sleeping kernels.
_BETWEEN_SLEEPS = 14
# A session that is cut off has lost no more than this.
_KEEP_S = 4.0
# Operands of earlier cases are dropped, the oldest first, until so much of the device's memory is free: the
# largest case takes less.
_FREE_SHARE = 0.4


class DeviceLostError(Exception):
    """A kernel left the CUDA context unusable, for every case that follows too."""


class Meter(Protocol):
    """What measures a call: `kernel_power.KernelMeter`."""

    def time_s(self, call: Call) -> float:
        """Return the time of one call."""
        ...

    def measure(self, call: Call, time_s: float, case: int, repeat: int) -> KernelTrial:
        """Run one trial."""
        ...

    def alive(self) -> bool:
        """Return whether the device still answers."""
        ...

    def free_share(self) -> float:
        """Return the share of the device's memory that is free, what nothing refers to counted in."""
        ...


def take_up(out: Path, begun: KernelSession, resume: bool) -> KernelSession:
    """Return the session to go on with: a new one, or what the folder holds of it.

    Args:
        out: Folder of the session.
        begun: The session as it would begin now.
        resume: Whether to go on with what is there.

    Raises:
        InputError: The folder holds a session and `resume` is not set, or one of another board or of
            other cases.
    """
    if not (out / MEASURED).exists():
        return begun
    if not resume:
        raise InputError(f"{out} holds a session already; give another folder, or --resume to continue it")
    found = read_session(out)
    if (found.gpu.uuid_hash, found.gpu.power_limit_w) != (begun.gpu.uuid_hash, begun.gpu.power_limit_w):
        raise InputError(
            f"{out} was measured on another board, or at another power limit; give another folder"
        )
    require_same_cases(out, found, begun.part.cases)
    return found


def require_same_cases(out: Path, session: KernelSession, cases: Sequence[KernelCase]) -> None:
    """Refuse a session whose numbers mean other cases.

    Raises:
        InputError: They do.
    """

    def named(some: Sequence[KernelCase]) -> list[tuple[int, str, str]]:
        return [(case.number, case.name, case.operands) for case in some]

    if named(session.part.cases) != named(cases):
        raise InputError(f"{out} was measured with other cases than this runner has; give another folder")


@dataclass
class SessionRunner:
    """Measures the cases of a session, the first ones first.

    Attributes:
        out: Folder; `measured.json` is kept there.
        session: As it was begun or taken up.
        meter: Measures a call.
        prepare: Makes a case's operands and returns its call.
        now_s: A clock.
        rounds: How often each case is measured, by its purpose; a sleeping kernel runs between.
    """

    out: Path
    session: KernelSession
    meter: Meter
    prepare: Prepare
    now_s: Callable[[], float]
    rounds: Mapping[Purpose, int] = field(default_factory=lambda: ROUNDS)
    _cases: list[KernelCase] = field(init=False)
    _trials: list[KernelTrial] = field(init=False)
    _calls: dict[int, Call] = field(init=False, default_factory=dict)
    _times_s: dict[int, float] = field(init=False, default_factory=dict)
    _kept_s: float = field(init=False, default=-_KEEP_S)

    def __post_init__(self) -> None:
        """Take the session's cases and trials as they are."""
        self._cases, self._trials = list(self.session.part.cases), list(self.session.part.trials)

    def run(self, numbers: Sequence[int], budget_s: float) -> KernelSession:
        """Measure some cases and return the session; no trial begins later than the budget.

        Raises:
            DeviceLostError: The device answers no longer; what was measured is kept, and the case that did
                it has failed, so that a new process can go on.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        done = {(trial.case, trial.repeat) for trial in self._trials}
        until_s = self.now_s() + budget_s
        try:
            for repeat, case in _order([self._cases[number] for number in numbers], self.rounds):
                if self.now_s() > until_s:
                    break
                wanted = case.purpose is Purpose.STATIC or (case.number, repeat) not in done
                if wanted and not self._cases[case.number].failure:
                    self._trial(case, repeat)
                if repeat + 1 >= self.rounds.get(case.purpose, 1 << 30):
                    # What a large case holds is given back in its last round.
                    self._calls.pop(case.number, None)
        finally:
            self._keep()
        return self._now()

    def _trial(self, case: KernelCase, repeat: int) -> None:
        try:
            call = self._call(case)
            trial = self.meter.measure(call, self._times_s[case.number], case.number, repeat)
        except Exception as error:  # one kernel that fails must not end the session
            traceback.print_exc()
            failure = f"{type(error).__name__}: {error}"[:300]
            self._cases[case.number] = replace(case, failure=failure)
            self._calls.pop(case.number, None)
            if not self.meter.alive():
                raise DeviceLostError(f"{case.name} {case.operands}: {failure}") from error
            return
        self._trials.append(trial)
        print(
            f"{repeat} {case.name} {case.operands}: {trial.energy_j:.5g} J, {trial.power_w:.1f} W,"
            f" {trial.time_s * 1e3:.4g} ms, {trial.sm_clock_mhz:.0f} MHz,"
            f" {trial.temperature_c:.0f} C {trial.reason}",
            file=sys.stderr,
            flush=True,
        )
        if self.now_s() - self._kept_s > _KEEP_S:
            self._keep()

    def _call(self, case: KernelCase) -> Call:
        """Return a case's call; its operands are made again where they were dropped for want of memory."""
        if case.number not in self._calls:
            while self._calls and self.meter.free_share() < _FREE_SHARE:
                del self._calls[next(iter(self._calls))]
            self._calls[case.number] = self.prepare(case)
        call = self._calls[case.number]
        if case.number not in self._times_s:
            self._times_s[case.number] = self.meter.time_s(call)
        return call

    def _now(self) -> KernelSession:
        return with_part(self.session, cases=tuple(self._cases), trials=tuple(self._trials))

    def _keep(self) -> None:
        write_manifest(self.out / MEASURED, self._now())
        self._kept_s = self.now_s()


def _order(cases: Sequence[KernelCase], rounds: Mapping[Purpose, int]) -> list[tuple[int, KernelCase]]:
    """Return the trials in their order: round by round, a sleeping kernel now and then."""
    sleeps = [c for c in cases if c.purpose is Purpose.STATIC]
    order: list[tuple[int, KernelCase]] = []
    for repeat in range(max(rounds.values())):
        due = [c for c in cases if repeat < rounds.get(c.purpose, 0)]
        for i, case in enumerate(due):
            if i % _BETWEEN_SLEEPS == 0:
                order += [(repeat, c) for c in sleeps]
            order.append((repeat, case))
        order += [(repeat, c) for c in sleeps]
    return order
