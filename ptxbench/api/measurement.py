"""What was measured of one instruction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ptxbench.core.status import Status
from ptxbench.storage.schema import J_PER_PJ, TableRow, TrialRecord


@dataclass(frozen=True)
class Measurement:
    """What was measured of one instruction under one condition.

        found = ptxbench.measure(gpu, "fma.rn.f32")
        print(f"{found.energy_pj:.2f} pJ as {found.sass}" if found.is_valid else found.reason)

    Attributes:
        row: All figures, as in a line of table.csv.
    """

    row: TableRow
    _trials: Callable[[], tuple[TrialRecord, ...]] = field(repr=False, compare=False)

    @property
    def instruction(self) -> str:
        """Name in the catalogue."""
        return self.row.instruction

    @property
    def energy_pj(self) -> float:
        """Energy of one execution, pJ; NaN where the measurement is not valid, unless it is `imprecise`.

        By the `dynamic` protocol: what one `unit` (thread, warp, warpgroup) adds to the power of a busy chip.
        By `arafa`: Eq. 1 of Arafa et al. (2020) with MTSM, mostly the board's power times the latency.
        """
        return self.row.energy_pj

    @property
    def energy_j(self) -> float:
        """Energy of one execution, J (`energy_pj`)."""
        return self.energy_pj * J_PER_PJ

    @property
    def half_width_pj(self) -> float:
        """Half of the width of the 95% interval, pJ; NaN where it is not known."""
        return self.row.ci95_pj

    @property
    def interval_pj(self) -> tuple[float, float]:
        """Low and high end of the 95% interval, pJ; NaN where it is not known.

        It holds the scatter of the trials, the error of what was subtracted, and what another run differs by
        where that is known of the GPU's model; not the gain of the GPU's own power sensor, which only an
        external meter tells.
        """
        return self.energy_pj - self.half_width_pj, self.energy_pj + self.half_width_pj

    @property
    def sass(self) -> str:
        """SASS instructions that one copy became, such as "FFMA" or "IADD3*0.5 IMAD.IADD*0.5"."""
        return self.row.sass

    @property
    def status(self) -> Status:
        """Validity code."""
        return self.row.status

    @property
    def reason(self) -> str:
        """Why it is not valid, or what is odd about a measurement that is."""
        return self.row.reason

    @property
    def is_valid(self) -> bool:
        """Whether `energy_pj` is a number to use."""
        return self.row.status is Status.OK

    @property
    def trials(self) -> tuple[TrialRecord, ...]:
        """Every trial behind it, in the order in which they ran.

        Raises:
            InputError: The table was read without its trials, or they cannot be read.
        """
        return tuple(trial for trial in self._trials() if trial.subject == self.row.subject)

    def __repr__(self) -> str:
        return f"<Measurement {self}>"

    def __str__(self) -> str:
        what = f"{self.row.instruction} -{self.row.opt_level} {self.row.protocol} {self.row.operands_text}"
        if not self.is_valid:
            return f"{what}: {self.row.verdict}"
        width = "" if math.isnan(self.half_width_pj) else f" ± {self.half_width_pj:.2g}"
        odd = f" ({self.reason})" if self.reason else ""
        return f"{what}: {self.energy_pj:.4g}{width} pJ a {self.row.unit} as {self.sass}{odd}"
