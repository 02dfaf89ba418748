"""Time, energy and power of an algorithm on a machine: Eqs. 1 to 8 of Choi and Vuduc (2012).

An algorithm is W flops and Q bytes; its intensity I = W / Q is in flop per byte. Times of flops and
bytes overlap, energies add up, and constant power is paid for as long as the algorithm runs. All
functions take and return plain floats in the units of their names.

Two slips of the paper are put right here. Its tables give the energy balance in "flops per Joule"; a
ratio of J/byte to J/flop is in flop per byte. Section 4.2 calls the fitted memory energy one "per
single-precision word"; table 4, which is used here, gives it per byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptxbench.core.bounds import positive
from ptxbench.core.errors import InputError
from ptxbench.model.roofline.third_power import ThirdPower

# From a factor of two down to the last bit of a float.
_HALVINGS = 60


@dataclass(frozen=True)
class Algorithm:
    """What an algorithm does.

    Attributes:
        flops: W, useful floating-point operations; a fused multiply-add is two.
        bytes_moved: Q, bytes between the slow and the fast memory.

    Raises:
        InputError: One of the two is not a positive, finite number.
    """

    flops: float
    bytes_moved: float

    def __post_init__(self) -> None:
        positive("flops", self.flops)
        positive("bytes_moved", self.bytes_moved)

    @property
    def intensity(self) -> float:
        """I = W / Q, flop per byte."""
        return self.flops / self.bytes_moved


@dataclass(frozen=True)
class RooflineMachine:
    """What a machine takes for a flop, a byte and a second.

    Attributes:
        flop_s: tau_flop, time of one flop at full throughput, s.
        byte_s: tau_mem, time of one byte at full bandwidth, s.
        flop_j: eps_flop, energy of one flop, J.
        byte_j: eps_mem, energy of one byte, J.
        constant_w: pi_0, power that is paid whatever runs, W.
        cap_w: Power limit, W; infinite where there is none. It is no part of the 2012 paper, see `time_s`.
        clock_exponent: gamma of a flop's energy at another clock, E(f) = E(f0) (f / f0)^gamma; 0: it stays as
            it is. It is no part of the paper either.
        memory_w: Power of DRAM at work, at its highest, W; in the paper there is none. The equations below
            add it to pi_0, by as much of it as the bandwidth brings.
        memory_form: How it goes with the bandwidth.

    Raises:
        InputError: A time or energy is not positive and finite, the constant power is negative, or the
            limit leaves no power for work.
    """

    flop_s: float
    byte_s: float
    flop_j: float
    byte_j: float
    constant_w: float = 0.0
    cap_w: float = math.inf
    clock_exponent: float = 0.0
    memory_w: float = 0.0
    memory_form: ThirdPower = ThirdPower.AWAKE

    def __post_init__(self) -> None:
        for name in ("flop_s", "byte_s", "flop_j", "byte_j"):
            positive(name, getattr(self, name))
        for name in ("constant_w", "memory_w"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError(f"{name} is {getattr(self, name)}; it must be a finite number, 0 or more")
        if not self.cap_w > self.lowest_cap_w:
            raise InputError(
                f"cap_w is {self.cap_w} W and the constant power {self.lowest_cap_w} W: "
                "a limit must lie above the constant power"
            )

    @property
    def lowest_cap_w(self) -> float:
        """Power that no limit may lie below, W."""
        return self.constant_w + self.memory_w

    @property
    def time_balance(self) -> float:
        """B_tau = tau_mem / tau_flop, flop per byte: below it an algorithm is bound by memory in time."""
        return self.byte_s / self.flop_s

    @property
    def energy_balance(self) -> float:
        """B_eps = eps_mem / eps_flop, flop per byte: flops and bytes cost the same, constant power aside."""
        return self.byte_j / self.flop_j

    @property
    def constant_flop_j(self) -> float:
        """eps_0 = pi_0 tau_flop: constant energy in the time of one flop, J."""
        return self.constant_w * self.flop_s

    @property
    def full_flop_j(self) -> float:
        """eps_flop + eps_0: least energy of one flop, J."""
        return self.flop_j + self.constant_flop_j

    @property
    def flop_efficiency(self) -> float:
        """eta_flop = eps_flop / (eps_flop + eps_0), between 0 and 1."""
        return self.flop_j / self.full_flop_j

    @property
    def average_byte_j(self) -> float:
        """Energy of a byte at the highest bandwidth with the power of the memory at work, J."""
        return self.byte_j + self.memory_w * self.memory_form.share(1.0) * self.byte_s

    @property
    def half_efficiency_intensity(self) -> float:
        """The intensity at which bytes and waiting cost as much as flops: I = B-hat_eps(I), flop per byte.

        There the arch line is at one half of its best. It solves Eq. 6 for its fixed point.
        """
        waiting_j = self.average_byte_j + self.constant_w * self.byte_s
        below = waiting_j / (self.full_flop_j + self.constant_flop_j)
        if below <= self.time_balance:
            return below
        # B-hat_eps(I) bends downward where compute bounds the time: it meets I once.
        low = high = self.time_balance
        while self.effective_energy_balance(high) > high:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.effective_energy_balance(middle) > middle else (low, middle)
        return high

    @property
    def races_to_halt(self) -> bool:
        """Whether time-efficiency implies energy-efficiency: the half-efficiency point is not above B_tau.

        Then an algorithm that is bound by compute in time is within a factor of two of the best
        energy-efficiency (section 5.2), and running fast and then turning off is a sound strategy.
        """
        return self.half_efficiency_intensity <= self.time_balance

    def effective_energy_balance(self, intensity: float) -> float:
        """Return B-hat_eps(I) of Eq. 6, flop per byte."""
        flops_s = intensity * self.flop_s
        time_s = max(flops_s, self.byte_s)
        waiting_j = self.constant_w * (time_s - flops_s) + self._memory_w(intensity) * time_s
        return (self.byte_j + waiting_j) / self.full_flop_j

    def _memory_w(self, intensity: float) -> float:
        """Return the power of the memory at work at an intensity, W."""
        if not self.memory_w:
            return 0.0
        return self.memory_w * self.memory_form.share(min(1.0, self.time_balance / intensity))

    def static_w(self, intensity: float) -> float:
        """Return the power that is paid by time at an intensity, W: pi_0 and that of the memory at work."""
        return self.constant_w + self._memory_w(intensity)

    def time_s(self, algorithm: Algorithm) -> float:
        """Return the time of an algorithm, s: Eqs. 1 and 3.

        Under a power limit the work that is left above the constant power takes its time, too: the third
        term of the maximum, after Choi et al., "Algorithmic time, energy, and power on candidate HPC
        compute building blocks" (IPDPS 2014).
        """
        return max(
            algorithm.flops * self.flop_s,
            algorithm.bytes_moved * self.byte_s,
            self._work_j(algorithm) / (self.cap_w - self.static_w(algorithm.intensity)),
        )

    def energy_j(self, algorithm: Algorithm) -> float:
        """Return the energy of an algorithm, J: Eqs. 2 and 4."""
        return self._work_j(algorithm) + self.static_w(algorithm.intensity) * self.time_s(algorithm)

    def _work_j(self, algorithm: Algorithm) -> float:
        return algorithm.flops * self.flop_j + algorithm.bytes_moved * self.byte_j

    def power_w(self, intensity: float) -> float:
        """Return the mean power at an intensity, W: Eq. 7, or the limit where that is lower."""
        algorithm = Algorithm(intensity, 1.0)
        return self.energy_j(algorithm) / self.time_s(algorithm)

    def speed(self, intensity: float) -> float:
        """Return the roofline: speed as a fraction of the highest, W tau_flop / T (section 2.3)."""
        algorithm = Algorithm(intensity, 1.0)
        return algorithm.flops * self.flop_s / self.time_s(algorithm)

    def efficiency(self, intensity: float) -> float:
        """Return the arch line: energy-efficiency as a fraction of the highest (section 2.3)."""
        algorithm = Algorithm(intensity, 1.0)
        return algorithm.flops * self.full_flop_j / self.energy_j(algorithm)
