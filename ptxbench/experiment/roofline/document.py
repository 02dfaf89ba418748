"""What a folder of a roofline says, as JSON has it."""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.core.estimate import Estimate
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.experiment.roofline.limited import LimitedPoint
from ptxbench.experiment.roofline.point import MeasuredPoint
from ptxbench.model.clocks.law import BestClock
from ptxbench.model.roofline.exponent import FittedExponent
from ptxbench.model.roofline.quantity import Quantity


@dataclass(frozen=True)
class FittedEnergy:
    """One coefficient of the fit.

    Attributes:
        name: Kind of flop, memory level, "constant", or the third power (`ThirdPower`).
        unit: "pJ/flop", "pJ/byte" or "W".
        value: With its 95% interval.
    """

    name: str
    unit: str
    value: Estimate


@dataclass(frozen=True)
class TriedPower:
    """A form of the regression.

    Attributes:
        name: Its third power, "" for Eq. 4 alone.
        chosen: Whether the energies are from it.
        rms_pct: Root mean square of its relative residuals, percent.
        unseen_pct: The same on groups of neighbouring intensities as the others predict them.
        aic: Akaike's information criterion.
        by_sms: Mean relative residual by the number of SMs, percent; above 0: measured above fitted.
    """

    name: str
    chosen: bool
    rms_pct: float
    unseen_pct: float
    aic: float
    by_sms: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class FittedMachine:
    """One kind of flop with one memory level.

    Attributes:
        kind: Kind of flop.
        level: Memory level.
        flops_per_s: Highest speed that any kernel reached, flop/s.
        flops_ci95: By how much kernels of the full clock that come within 5% of it scatter: half-width of
            95%, flop/s; NaN of fewer than three.
        bytes_per_s: Highest bandwidth that any kernel reached, byte/s.
        bytes_ci95: The same of the bandwidth, byte/s.
        flops_share: That speed over the one of multiply-adds without any load; NaN where it was not measured.
        bytes_share: That bandwidth over the one of a copy within DRAM; NaN for other levels.
        quantities: What follows.
        races_to_halt: Whether time-efficiency implies energy-efficiency, at the full clock.
        lower_clock: What the law of the clock predicts of work that is all flops, against the clock that it
            holds; None where the full clock is not known.
        limited: What models of the power limit are off by, on kernels that it slowed down.
    """

    kind: str
    level: str
    flops_per_s: float
    flops_ci95: float
    bytes_per_s: float
    bytes_ci95: float
    flops_share: float
    bytes_share: float
    quantities: tuple[Quantity, ...]
    races_to_halt: bool
    lower_clock: BestClock | None
    limited: tuple[LimitedPoint, ...]


@dataclass(frozen=True)
class ChasedByte:
    """A byte of one level by its pointer chases (Eqs. 11 and 12).

    Attributes:
        level: Memory level.
        value: Its energy with its 95% interval, pJ.
        chases: How many numbers of SMs they ran on.
        bytes_per_s: The highest bandwidth of them, byte/s.
    """

    level: str
    value: Estimate
    chases: int
    bytes_per_s: float


@dataclass(frozen=True)
class KindExponent:
    """How the energy of a kind of flop goes with the clock, by kernels at the power limit.

    Attributes:
        kind: Kind of flop.
        exponent: gamma of E(f) = E(f0) (f / f0)^gamma.
    """

    kind: str
    exponent: FittedExponent


@dataclass(frozen=True)
class RooflineDocument:
    """What a folder says, as JSON has it.

    Attributes:
        gpu: The board.
        pattern: Operand pattern.
        energies: Fitted energies.
        tried: Forms of the regression that were tried.
        saved: What a flop of each kind costs less on one element than on a trip's full number of them.
        machines: What follows for each kind of flop and memory level.
        sleeping_w: Power of the kernel that sleeps at `temperature_c`, W.
        slope_w_per_k: How static power grows with the temperature, W/K.
        slope_error_w_per_k: Standard error of that.
        slope_is_assumed: Whether kernels that sleep could not tell it; then it is a share of their power.
        temperature_c: What all powers were brought to, degrees C.
        residual: Median of the relative residuals, a fraction.
        left_out: Kernels that the power limit slowed down.
        disturbed: Kernels during which another program was on the GPU, left out of everything.
        points: All of the pattern's kernels.
        unread: Kernels whose power is not believed, left out of everything, with why.
        scale: What must be said of the scale of all powers, "" for nothing.
        chased: A byte of each level by pointer chases, where there are any.
        exponents: How the energy of each kind of flop goes with the clock, where the limit slowed enough.
    """

    gpu: GpuInfo
    pattern: str
    energies: tuple[FittedEnergy, ...]
    tried: tuple[TriedPower, ...]
    saved: tuple[FittedEnergy, ...]
    machines: tuple[FittedMachine, ...]
    sleeping_w: float
    slope_w_per_k: float
    slope_error_w_per_k: float
    slope_is_assumed: bool
    temperature_c: float
    residual: float
    left_out: tuple[str, ...]
    disturbed: tuple[str, ...]
    points: tuple[MeasuredPoint, ...]
    unread: tuple[str, ...] = ()
    scale: str = ""
    chased: tuple[ChasedByte, ...] = ()
    exponents: tuple[KindExponent, ...] = ()
