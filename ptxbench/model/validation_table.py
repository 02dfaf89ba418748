"""kernel_validation.csv: measured and estimated energy of whole kernels, one row a kernel and operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from ptxbench.core.printable import render_csv
from ptxbench.storage.atomic import write_text


@dataclass(frozen=True)
class ValidatedKernel:
    """One row of kernel_validation.csv.

    Attributes:
        kernel: Name and size.
        operands: "random" or "zeros".
        measured_j: Energy of a call.
        measured_ci95_j: Half-width of its 95% interval over the rounds.
        estimated_j: By the model, from counts and the measured time and clock; the power limit is not used.
        error_pct: 100 (estimated / measured - 1).
        low_j: Lower end of the estimate's 95% interval.
        high_j: Upper end.
        estimated_by_limit_j: The same where the clock is not known: found by the power limit.
        time_s: Measured time of a call.
        power_w: Measured power.
        clock_mhz: Measured SM clock.
        capped: Whether the power cap was on.
        estimated_capped: Whether the model says so.
        uncovered_share: Share of the executed instructions that the table does not have.
        parts: Where the estimated joules go, JSON.
        full_clock_j: The same at the full clock, as if there were no limit and no clock term.
        own_row_share: Share of the executed instructions whose opcode has a row of its own.
    """

    kernel: str
    operands: str
    measured_j: float
    measured_ci95_j: float
    estimated_j: float
    error_pct: float
    low_j: float
    high_j: float
    estimated_by_limit_j: float
    time_s: float
    power_w: float
    clock_mhz: float
    capped: bool
    estimated_capped: bool
    uncovered_share: float
    parts: str
    full_clock_j: float
    own_row_share: float


def write_validated(path: Path, kernels: Sequence[ValidatedKernel]) -> None:
    """Write kernel_validation.csv atomically: floats with 5 significant digits, NaN as an empty cell."""
    names = [field.name for field in fields(ValidatedKernel)]
    rows = [[_cell(getattr(kernel, name)) for name in names] for kernel in kernels]
    write_text(path, render_csv([names, *rows]))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.5g}"
    return str(value)


def mean_absolute_error_pct(kernels: Sequence[ValidatedKernel]) -> float:
    """Return the MAPE of some kernels, NaN where there is none."""
    return float(np.mean([abs(k.error_pct) for k in kernels])) if kernels else math.nan
