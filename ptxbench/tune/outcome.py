"""What the power of one try of a kernel came to, and several tries of it taken together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, median, median_high, median_low, stdev
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.energy.gate.comparison import Comparison, joined

if TYPE_CHECKING:
    from ptxbench.experiment.settled_run import KernelPower


class TrialStatus(StrEnum):
    """How a trial ended."""

    OK = "ok"
    REFUSED = "refused"
    WRONG = "wrong_result"
    LAUNCH_FAILED = "launch_failed"
    NO_POWER = "no_power"
    NOT_SETTLED = "not_settled"
    PRUNED = "pruned"
    HUNG = "hung"


class Settled(StrEnum):
    """Whether clock and power had settled where the power limit or heat held the clock down."""

    YES = "yes"
    NO = "no"
    UNTESTED = "untested"


@dataclass(frozen=True, kw_only=True)
class PowerOutcome:
    """The power that was read while something ran; NaN where nothing was measured.

    Attributes:
        status: How it ended.
        reason: One sentence where `status` is not OK.
        power_w: Power of launches back to back.
        power_error_w: Standard error of it.
        energy_j: Energy of one launch, or of one round: `power_w` times its time.
        capped: Whether the power limit or heat held the clock down, or power was over the limit without that.
        settled: Whether clock and power had settled; tunings of before this was tested do not say it.
        note: What must be said of its power; "" for nothing.
        compared: Its power source beside the energy counter.
        energies_j: Energy of each measurement where there were several; `energy_j` is their median.
    """

    # Names of the attributes that hold the time which goes with the power, and the host's time for it.
    _TIME: ClassVar[str]
    _WALL: ClassVar[str]

    status: TrialStatus
    reason: str = ""
    power_w: float = math.nan
    power_error_w: float = math.nan
    energy_j: float = math.nan
    capped: bool = False
    settled: Settled = Settled.UNTESTED
    note: str = ""
    compared: Comparison | None = None
    energies_j: tuple[float, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether its figures count."""
        return self.status is TrialStatus.OK

    @property
    def at_limit(self) -> str:
        """What tables say of it at the power limit, "-" for nothing."""
        if self.settled is Settled.NO:
            return "not settled"
        if not self.capped:
            return "-"
        return "capped" if self.settled is Settled.YES else "capped, untested"

    @property
    def error_j(self) -> float:
        """Standard error of its energy, J."""
        return self.power_error_w * float(getattr(self, self._TIME))

    def repeated(self, before: Sequence[Self]) -> Self:
        """Return it as one with those before it: their median, with the error that their scatter shows."""
        every = (*before, self)
        energies_j = tuple(one.energy_j for one in every)
        middle = (median_low(energies_j), median_high(energies_j))
        time_s = fmean(getattr(one, self._TIME) for one in every if one.energy_j in middle)
        error_j = max(fmean(one.error_j for one in every), stdev(energies_j)) / math.sqrt(len(every))
        times: dict[str, Any] = {
            self._TIME: time_s,
            self._WALL: sum(getattr(one, self._WALL) for one in every),
        }
        return replace(
            self,
            power_w=median(energies_j) / time_s,
            power_error_w=error_j / time_s,
            energy_j=median(energies_j),
            energies_j=energies_j,
            compared=joined([one.compared for one in every if one.compared]),
            **times,
        )

    def with_power(self, found: KernelPower) -> Self:
        """Return it with what was read while it ran back to back, and whether that counts."""
        power, capped, note = found.power, found.slowed, found.note
        times: dict[str, Any] = {self._TIME: found.launch_s}
        outcome = replace(self, capped=capped, note=note, compared=found.found.compared, **times)
        is_known = power.status is Status.OK
        if is_known:
            outcome = replace(
                outcome,
                power_w=power.power_w,
                power_error_w=power.standard_error_w,
                energy_j=power.power_w * found.launch_s,
            )
        if found.unsettled:
            reason = found.unsettled
            return replace(outcome, settled=Settled.NO, status=TrialStatus.NOT_SETTLED, reason=reason)
        if not is_known:
            return replace(outcome, status=TrialStatus.NO_POWER, reason=power.reason)
        return replace(outcome, settled=Settled.YES)

    def without(self, time_s: float, energy_j: float, error_j: float) -> Self:
        """Return it less what was done beside it each time; no energy where its 95% interval then has zero.

        Args:
            time_s: Time of that.
            energy_j: Its energy.
            error_j: Standard error of it.
        """
        own_s, own_j = float(getattr(self, self._TIME)) - time_s, self.energy_j - energy_j
        own_error_j = math.hypot(self.error_j, error_j)
        times: dict[str, Any] = {self._TIME: own_s}
        found = replace(
            self, power_w=own_j / own_s, power_error_w=own_error_j / own_s, energy_j=own_j, **times
        )
        if found.ok and own_j <= COVERAGE_FACTOR * own_error_j:
            return found.without_power("its energy is too little beside what is done with each launch")
        return found

    def without_power(self, reason: str) -> Self:
        """Return it without the power that was read, which is not believed."""
        nan = math.nan
        return replace(
            self, status=TrialStatus.NO_POWER, reason=reason, power_w=nan, power_error_w=nan, energy_j=nan
        )
