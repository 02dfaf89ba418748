"""What is kept of each variant that was tried."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.tune.candidate import DEFAULT_SETTINGS, Candidate, name_of
from ptxbench.tune.check import Correct
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.estimate import OpcodeCount, Work, work_by_tiles
from ptxbench.tune.outcome import PowerOutcome, Settled, TrialStatus
from ptxbench.tune.variant import Problem, Variant

if TYPE_CHECKING:
    from ptxbench.tune.model_energy import ModelEnergy

_NAN = math.nan


_NEVER_NEGATIVE = (
    "occupancy",
    "l2_bytes",
    "dram_bytes",
    "modelled_s",
    "time_s",
    "steady_s",
    "power_w",
    "power_error_w",
    "energy_j",
    "estimated_j",
    "estimated_high_j",
    "estimated_s",
    "foreseen_j",
    "clock_mhz",
    "flops",
)


@dataclass(frozen=True, kw_only=True)
class Trial(PowerOutcome):
    """One variant on one problem; NaN where nothing was measured or estimated.

    Attributes:
        variant: Its parameters.
        correct: Whether its results are right.
        cubin_sha256: Hash of its machine code; "" where there is none.
        registers: Registers a thread; 0 where there is no kernel.
        occupancy: By Eq. 5, 0 to 1.
        executed: Every opcode that one launch executes.
        l2_bytes: Bytes between L2 and the SMs.
        dram_bytes: Bytes between memory and L2, at least.
        modelled_s: Time of one launch by the model.
        time_s: Time of one launch, timed briefly.
        steady_s: Time of one launch while power was read, which the power cap may lengthen.
        estimated_j: Energy by the estimator, with the briefest time that is known.
        estimated_low_j: Lower end of its 95% interval.
        estimated_high_j: Upper end.
        estimated_s: Time that the estimate is for, which the power cap may lengthen.
        clock_mhz: SM clock of the launches, or where it is not known right after them.
        temperature_c: Temperature of the GPU.
        build_wall_s: Host time to assemble and to disassemble.
        check_wall_s: Host time of the check.
        timing_wall_s: Host time of the short timing.
        power_wall_s: Host time of the power window.
        flops: Floating-point operations of one launch; NaN where only the problem says them, or nothing.
        foreseen_j: Energy by the estimator from the code alone, with the modelled time.
        sampled: Whether it was drawn at random beside those that the estimator put first.
        settings: What clocks and power limit were set for it.
        source_key: Hash of the files and flags that its code follows from beside the problem (see
            `TunableKernel.source_key`).
        figures: What observers saw, and the user's own metrics, by name.
    """

    _TIME: ClassVar[str] = "steady_s"
    _WALL: ClassVar[str] = "power_wall_s"

    variant: Variant | Configuration
    correct: Correct = Correct.UNCHECKED
    cubin_sha256: str = ""
    registers: int = 0
    occupancy: float = _NAN
    executed: tuple[OpcodeCount, ...] = ()
    l2_bytes: float = _NAN
    dram_bytes: float = _NAN
    modelled_s: float = _NAN
    time_s: float = _NAN
    steady_s: float = _NAN
    estimated_j: float = _NAN
    estimated_low_j: float = _NAN
    estimated_high_j: float = _NAN
    estimated_s: float = _NAN
    clock_mhz: float = _NAN
    temperature_c: float = _NAN
    build_wall_s: float = _NAN
    check_wall_s: float = _NAN
    timing_wall_s: float = _NAN
    power_wall_s: float = _NAN
    flops: float = _NAN
    foreseen_j: float = _NAN
    sampled: bool = False
    settings: GpuSettings = DEFAULT_SETTINGS
    source_key: str = ""
    figures: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """Name of its variant, with its settings where there are any."""
        return name_of(self.variant, self.settings)

    @property
    def candidate(self) -> Candidate:
        """What was tried."""
        return Candidate(self.variant, self.settings)

    def fault(self) -> str:
        """Return what a trial cannot hold, for the reader of a file; "" where all is well."""
        for name in _NEVER_NEGATIVE:
            value = float(getattr(self, name))
            if value < 0 or math.isinf(value):
                return f"has {name} {value:g}, which is negative or endless"
        return ""

    @property
    def settled_at_limit(self) -> Settled:
        """Whether clock and power had settled; below the power limit they do."""
        return self.settled if self.capped else Settled.YES

    @property
    def best_energy_j(self) -> float:
        """Energy as it was measured, or else as it is estimated."""
        return self.estimated_j if math.isnan(self.energy_j) else self.energy_j

    @property
    def best_time_s(self) -> float:
        """Time at the power that goes with it, or else as it was timed briefly or predicted."""
        known = (self.steady_s, self.estimated_s, self.time_s, self.modelled_s)
        return next((time_s for time_s in known if math.isfinite(time_s)), _NAN)

    @property
    def best_power_w(self) -> float:
        """Power as it was measured, or else estimated energy over time."""
        return self.best_energy_j / self.best_time_s if math.isnan(self.power_w) else self.power_w

    @property
    def as_timed(self) -> Trial:
        """What was known of it when it was timed and no power was read."""
        return replace(self, status=TrialStatus.OK, reason="", energy_j=_NAN, power_w=_NAN, steady_s=_NAN)

    def estimated_by(
        self, model: ModelEnergy, problem: Problem | KernelProblem, time_s: float, temperature_c: float
    ) -> Trial:
        """Return the trial with the energy that a model predicts; as it is without a time or work.

        Args:
            model: What turns work and time into joules.
            problem: What the kernel computes.
            time_s: Time of one launch at the clocks that are set.
            temperature_c: Temperature of the GPU.
        """
        if not math.isfinite(time_s) or not self.executed:
            return self
        energy = model.energy_j(self._work(problem), time_s, temperature_c, self.settings)
        return replace(
            self,
            estimated_j=energy.energy_j,
            estimated_low_j=energy.low_j,
            estimated_high_j=energy.high_j,
            estimated_s=energy.time_s,
        )

    def _work(self, problem: Problem | KernelProblem) -> Work:
        if isinstance(self.variant, Variant) and isinstance(problem, Problem):
            return work_by_tiles(self.variant, self.executed, problem)
        return Work.of_bytes(self.executed, self.l2_bytes, self.dram_bytes)

    def flops_of(self, problem: Problem | KernelProblem) -> float:
        """Return the floating-point operations of one launch, NaN where nobody says them."""
        return float(problem.flops) if isinstance(problem, Problem) else self.flops

    def gflops(self, flops: float) -> float:
        """Return 1e9 floating-point operations a second, by the short timing."""
        return flops / self.time_s * 1e-9
