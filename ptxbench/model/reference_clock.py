"""The energy of a row at a clock that it did not run at."""

from __future__ import annotations

import math

from ptxbench.catalogue.architecture import architecture_of
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.storage.schema import TableRow

_UNKNOWN = Estimate(math.nan, math.nan)


def at_reference_clock(row: TableRow, gpu: GpuInfo) -> Estimate:
    """Return a row's dynamic energy at the GPU's highest clock, pJ, with its 95% interval.

    E(f) = E(f0) (f / f0)^gamma, with gamma and its error those of the GPU's generation
    (`Architecture.clock_exponent`). A row without a dynamic energy or a known clock has none.

    Args:
        row: A row of a table of this GPU.
        gpu: The GPU.
    """
    # A clock that is not known is NaN, which is not above 0.
    is_known = row.clock_mhz > 0 and gpu.max_sm_clock_mhz > 0
    if not row.status.has_number or row.protocol != DYNAMIC or not is_known:
        return _UNKNOWN
    ratio = gpu.max_sm_clock_mhz / row.clock_mhz
    if ratio == 1:
        return Estimate(row.dynamic_pj, row.dynamic_ci95_pj)
    gamma = architecture_of(gpu.target).clock_exponent
    of_gamma_pj = COVERAGE_FACTOR * gamma.error * abs(math.log(ratio)) * row.dynamic_pj
    here = Estimate(row.dynamic_pj, math.hypot(row.dynamic_ci95_pj, of_gamma_pj))
    return here.scaled(ratio**gamma.value)
