"""The SM clock of least energy of measured kernels: PREDICTED, NOT MEASURED.

    python runners/predict_clocks.py --session results/nvidia-h200/validation --table TABLE [--out FILE.csv]

The energy and time of each judged kernel were measured at the clock that the GPU held; what it executes was
counted. The table's model says which part of the energy DRAM takes, and how the rest goes with the clock: a
power law that was learned from kernels which the power limit slowed down. Nothing is predicted below the
lowest clock of these, and savings are against the clock that was held. A kernel that moves at least 70% of
the bytes that DRAM could waits for memory: its time is taken to stay as it is. Under 30% it goes with the
clock. Between them nobody knows, and the interval reaches from the one to the other.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model_validation import conditions_of
from validation_file import (
    COUNTS,
    MeasuredKernel,
    Purpose,
    measured_kernels,
    read_session,
    read_works,
)

from ptxbench.catalogue.product import dram_bytes_per_s
from ptxbench.core.estimate import Estimate
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.model.clocks.law import BestClock, Demand, best_clock
from ptxbench.model.estimate import Machine, demand_of
from ptxbench.model.work import KernelWork, Level
from ptxbench.storage.atomic import write_text

_WAITS, _COMPUTES = 0.7, 0.3
# Step of the SM clock of an H200.
_STEP_MHZ = 15.0
MEMORY, CLOCK, BOTH = "memory", "SM clock", "unclear"
COLUMNS = (
    *("kernel", "operands", "bound_by", "clock_mhz", "power_w", "best_mhz", "best_ci95_mhz"),
    *("saved_pct", "saved_ci95_pct", "slower_pct", "at_lowest"),
)


@dataclass(frozen=True)
class Predicted:
    """One kernel.

    Attributes:
        measured: What was measured of it.
        bound_by: What its time goes with.
        best: What is predicted.
    """

    measured: MeasuredKernel
    bound_by: str
    best: BestClock


def predict(session_folder: Path, table: Atlas) -> Iterator[Predicted]:
    """Yield a prediction for each judged kernel that was measured and counted."""
    session = read_session(session_folder)
    works, _ = read_works(session_folder / COUNTS, session)
    bandwidth = dram_bytes_per_s(table.gpu)
    for one in measured_kernels(session):
        if one.case.purpose is Purpose.JUDGED and one.case.number in works:
            work = replace(works[one.case.number], name=one.case.name, time_s=one.time_s)
            memory_s = dict(work.bytes_moved).get(Level.DRAM, 0.0) / bandwidth
            bound_by = _bound_by(memory_s / one.time_s)
            demand = measured_demand(one, work, table.machine)
            yield Predicted(one, bound_by, _predicted(demand, bound_by, one, table.gpu.max_sm_clock_mhz))


def measured_demand(one: MeasuredKernel, work: KernelWork, machine: Machine) -> Demand:
    """Return what a measured kernel would draw at the full clock if its time went with the clock."""
    conditions = conditions_of(one.case, machine.terms, one.temperature_c, math.nan)
    modelled = demand_of(work, machine, replace(conditions, steady_time=False))
    dynamic_j = one.energy_j - modelled.static_w * one.time_s
    # The model's share of DRAM, of the energy that was measured.
    scale = machine.law.scale(one.clock_ratio)
    share = modelled.dram_j / (modelled.dram_j + scale * modelled.clocked_j)
    return replace(
        modelled,
        clocked_j=(1 - share) * dynamic_j / scale,
        dram_j=share * dynamic_j,
        time_s=one.time_s * one.clock_ratio,
    )


def _bound_by(of_bandwidth: float) -> str:
    if of_bandwidth >= _WAITS:
        return MEMORY
    return CLOCK if of_bandwidth < _COMPUTES else BOTH


def _predicted(demand: Demand, bound_by: str, one: MeasuredKernel, full_mhz: float) -> BestClock:
    held_mhz = one.clock_ratio * full_mhz
    steps = int((1 - demand.law.lowest_ratio) * full_mhz / _STEP_MHZ)
    clocks_mhz = [full_mhz - n * _STEP_MHZ for n in range(steps + 1)]
    follows = best_clock(demand, full_mhz, clocks_mhz, held_mhz)
    if bound_by == CLOCK:
        return follows
    fixed = replace(demand, follows_clock=False, time_s=one.time_s)
    stays = best_clock(fixed, full_mhz, clocks_mhz, held_mhz)
    if bound_by == MEMORY:
        return stays
    return replace(
        follows,
        clock_mhz=_reaching(follows.clock_mhz, stays.clock_mhz),
        saved=_reaching(follows.saved, stays.saved),
    )


def _reaching(one: Estimate, other: Estimate) -> Estimate:
    """Return an estimate whose interval reaches to another one's end."""
    return Estimate(one.value, max(one.uncertainty, abs(one.value - other.value) + other.uncertainty))


def csv_text(predicted: Sequence[Predicted], full_mhz: float) -> str:
    """Return a row for each kernel."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in predicted:
        m, best = one.measured, one.best
        writer.writerow(
            (
                m.case.name,
                m.case.operands,
                one.bound_by,
                f"{m.clock_ratio * full_mhz:.0f}",
                f"{m.power_w:.0f}",
                f"{best.clock_mhz.value:.0f}",
                f"{best.clock_mhz.uncertainty:.0f}",
                f"{100 * best.saved.value:.1f}",
                f"{100 * best.saved.uncertainty:.1f}",
                f"{100 * best.slower:.1f}",
                best.at_lowest,
            )
        )
    return text.getvalue()


def main() -> int:
    """Predict, print a summary, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--session", type=Path, required=True, help="folder of validate_kernels.py")
    parser.add_argument("--table", type=Path, required=True, help="name or folder of a table")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    options = parser.parse_args()
    table = open_atlas(options.table)
    predicted = list(predict(options.session, table))
    law, full_mhz = table.machine.law, table.gpu.max_sm_clock_mhz
    lowest_mhz = law.lowest_ratio * full_mhz
    print(f"PREDICTED, NOT MEASURED: {table.gpu.name}, {law.origin}, seen from {lowest_mhz:.0f} MHz on")
    text = csv_text(predicted, full_mhz)
    if options.out is not None:
        write_text(options.out, text)
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
