"""What a model says of a kernel, and how far it was from kernels that were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SetErrors:
    """How far a model was from a set of judged kernels, with counts by ncu, measured time and clock.

    Attributes:
        kernels: Which set, such as "library".
        cases: How many cases it has.
        mean_absolute_pct: Mean absolute error, %.
        worst_pct: Largest absolute error, %.
        worse_low_pct: Lower end of the 95% interval of how much larger the mean error is than the table's;
            NaN for the table.
        worse_high_pct: Upper end.
    """

    kernels: str
    cases: int
    mean_absolute_pct: float
    worst_pct: float
    worse_low_pct: float = math.nan
    worse_high_pct: float = math.nan


@dataclass(frozen=True)
class NullAnswer:
    """What one model says of a kernel.

    Attributes:
        name: The model.
        energy_j: Its energy of one launch.
        errors: How far it was from judged kernels.
    """

    name: str
    energy_j: float
    errors: tuple[SetErrors, ...]
