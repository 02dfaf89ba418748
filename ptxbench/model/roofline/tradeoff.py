"""More flops for fewer bytes: Eqs. 13 to 32 of Choi and Vuduc (2012), section 6 and appendix A.

A new algorithm does f W flops and moves Q / m bytes where the baseline does W and Q. Speed-up and
green-up say by what factor it is faster and takes less energy. All bounds are those of appendix A,
which hold with constant power; without it they are those of section 6. The power limit of a machine
is left out here, as in the paper; `trade_under_limit` has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ptxbench.core.errors import InputError
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine

# More than the bits of a float, for a limit that is many times the one to begin with.
_HALVINGS = 100


def in_words(speedup: float, greenup: float) -> str:
    """Return what a new algorithm is, in a few words."""
    if speedup > 1:
        return "faster, and takes less energy" if greenup > 1 else "faster, but takes no less energy"
    return "takes less energy, but is no faster" if greenup > 1 else "neither faster nor takes less energy"


class Case(StrEnum):
    """What bounds the time of the baseline and of the new algorithm (section 6.3)."""

    BOTH_MEMORY = "both are bound by memory"
    MEMORY_TO_COMPUTE = "the baseline is bound by memory, the new algorithm by compute"
    BOTH_COMPUTE = "both are bound by compute"


@dataclass(frozen=True)
class TradeOff:
    """A baseline on a machine, and the factors by which a new algorithm differs from it.

    Attributes:
        machine: The machine.
        intensity: I of the baseline, flop per byte.
        f: Factor on the flops, 1 or more.
        m: Factor that the bytes are divided by, 1 or more; infinite where nothing is moved any more.

    Raises:
        InputError: A factor is below 1, or the intensity is not positive and finite.
    """

    machine: RooflineMachine
    intensity: float
    f: float
    m: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.f) and self.f >= 1):
            raise InputError(f"f is {self.f}; it must be a finite number, 1 or more")
        if not self.m >= 1:
            raise InputError(f"m is {self.m}; it must be 1 or more")
        Algorithm(self.intensity, 1.0)

    @property
    def case(self) -> Case:
        """What bounds both algorithms in time."""
        balance = self.machine.time_balance
        if self.intensity >= balance:
            return Case.BOTH_COMPUTE
        if self.f * self.m * self.intensity <= balance:
            return Case.BOTH_MEMORY
        return Case.MEMORY_TO_COMPUTE

    @property
    def verdict(self) -> str:
        """What the new algorithm is, in a few words."""
        return in_words(self.speedup, self.greenup)

    @property
    def speedup(self) -> float:
        """Time of the baseline over that of the new algorithm: Eqs. 13 and 15."""
        penalty = self.machine.time_balance / self.intensity
        return max(1.0, penalty) / max(self.f, penalty / self.m)

    @property
    def greenup(self) -> float:
        """Energy of the baseline over that of the new algorithm: Eq. 26, or Eq. 16 without constant power."""
        return self._greenup_of(self.f, self.m)

    @property
    def most_flops(self) -> float:
        """The factor f at which an algorithm of this m takes as much energy as the baseline: Eqs. 17 and 27.

        A smaller one takes less. Eq. 27 has f on both sides, as B-hat_eps(f m I) falls with f where bytes
        bound the time; here it is solved for f.
        """
        low, high = 1.0, self.most_flops_without_bytes
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._greenup_of(middle, self.m) > 1 else (low, middle)
        return high

    @property
    def most_flops_without_bytes(self) -> float:
        """The same factor where nothing is moved any more: Eqs. 28 (compute-bound) and 29 (memory-bound)."""
        return 1 + self.machine.effective_energy_balance(self.intensity) / self.intensity

    @property
    def greenup_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the green-up in this case: appendix A.5 to A.7 (Eqs. 18 to 23, 30 to 32).

        The upper bound where both are bound by memory is not the printed one. Appendix A.5 puts the least
        1/m into one place and the least m into another, and a green-up can exceed what comes out. With one
        m in both places, the largest that keeps the new algorithm bound by memory, it is
        (1 + B-hat_eps(I) / I) / (1 + eta B_eps / B_tau); without constant power both are Eq. 19.
        """
        f, m, balance = self.f, self.m, self.machine.time_balance
        if self.case is Case.BOTH_COMPUTE:
            return self._greenup_of(f, 1.0), self._greenup_of(1.0, m)
        start = balance / self.intensity
        if self.case is Case.MEMORY_TO_COMPUTE:
            high = self._greenup_of(start / m, m) if math.isfinite(m) else math.inf
            return self._greenup_of(f, start / f), high
        return self._greenup_of(start, 1.0), self._greenup_of(1.0, start)

    def _greenup_of(self, f: float, m: float) -> float:
        """Return the green-up of other factors: Eq. 26."""
        old = 1 + self.machine.effective_energy_balance(self.intensity) / self.intensity
        return old / (f + self._penalty(f, m))

    def _penalty(self, f: float, m: float) -> float:
        """(1 / m) B-hat_eps(f m I) / I: what a new algorithm pays for its bytes, a flop of the baseline."""
        if math.isinf(m):
            return 0.0
        balance = self.machine.effective_energy_balance(f * m * self.intensity)
        return balance / (m * self.intensity)
