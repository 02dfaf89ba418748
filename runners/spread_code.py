"""Work out how far estimates by code alone are off, and keep it in a run's model.json.

    python runners/spread_code.py --validation FOLDER [--validation FOLDER] --table RUN

Needs no GPU. Each FOLDER is what `validate_kernels.py measure` and `count` wrote. Every kernel is estimated
by its opcodes and launch shape, without its bytes, once with a modelled and once with the measured time. The
ratios of the fit kernels set the intervals; the judged kernels only say how many are within them. Run it
after `validate_kernels.py estimate`, which writes model.json anew.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.code_spread import (
    CodeRatio,
    code_spreads,
    coverage_by_family,
    inside,
    uses_global_memory,
)
from ptxbench.model.estimate import estimate
from ptxbench.model.inputs import Table, read_table
from ptxbench.model.ncu import ProfiledLaunch, work_of
from ptxbench.model.terms import FILE, CodeSpread, read_terms, write_terms
from ptxbench.model.throughput import modelled_time_s
from ptxbench.model.validate import conditions_of, launches_by_case, measured_kernels, session_static
from ptxbench.model.validation_file import COUNTS, Purpose, read_session


def ratios(folder: Path, table: Table, purpose: Purpose) -> list[CodeRatio]:
    """Return measured over estimated energy of a session's kernels, without their bytes."""
    session = read_session(folder)
    launches, _ = launches_by_case(folder / COUNTS)
    cases = {case.number: case for case in session.cases}
    # What was not profiled itself executes what the same kernel does on other data.
    by_name = {cases[number].name: of_case for number, of_case in launches.items()}
    machine = replace(table.machine, static=session_static(session), limit_w=session.power_limit_w)
    found = []
    for one in measured_kernels(session):
        of_case = launches.get(one.case.number, by_name.get(one.case.name, []))
        if one.case.purpose is not purpose or not of_case:
            continue
        work = work_of(of_case, one.case.name, folder)
        work = replace(work, bytes_moved=(), accesses=())
        known = conditions_of(one.case, machine.terms, one.temperature_c, math.nan)
        for modelled in (True, False):
            time_s = _modelled_s(of_case, folder, table) if modelled else one.time_s
            conditions = replace(known, steady_time=not modelled)
            energy_j = estimate(replace(work, time_s=time_s), machine, conditions).energy_j
            found.append(
                CodeRatio(
                    _family_of(one.case.name), modelled, uses_global_memory(work), one.energy_j / energy_j
                )
            )
    return found


def _family_of(name: str) -> str:
    """Return the suite's family of a case, or what sizes and versions of a library's kernel share."""
    family, slash, _ = name.partition("/")
    return family if slash else name.partition("-")[0].rstrip("0123456789")


def _modelled_s(launches: Sequence[ProfiledLaunch], folder: Path, table: Table) -> float:
    """Return the time of launches one after the other, by their opcodes and shape."""
    time_s = 0.0
    for launch in launches:
        blocks, threads = (_product(launch.cells[name]) for name in ("Grid Size", "Block Size"))
        executed = work_of([launch], launch.kernel, folder).opcodes
        counts = [(opcode, n / (blocks * threads)) for opcode, n in executed]
        gpu = table.gpu
        time_s += modelled_time_s(counts, blocks, threads, gpu.sm_count, gpu.max_sm_clock_mhz, table.cycles)
    return time_s


def _product(cell: str) -> int:
    return math.prod(int(size) for size in cell.strip("() ").split(","))


def main() -> int:
    """Write the spreads and print what they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--validation", type=Path, action="append", required=True, help="what measure and count wrote"
    )
    parser.add_argument("--table", type=Path, required=True, help="run folder of the same kind of GPU")
    arguments = parser.parse_args()
    table = read_table(arguments.table)
    fit = [one for folder in arguments.validation for one in ratios(folder, table, Purpose.FIT)]
    spreads = code_spreads(fit)
    judged = {folder: ratios(folder, table, Purpose.JUDGED) for folder in arguments.validation}
    for spread in spreads:
        own = (spread.modelled_time, spread.global_memory)
        print(f"\n{spread}")
        of_class = [one for one in fit if (one.modelled_time, one.global_memory) == own]
        print(f"fit: mean error {_error_pct(of_class):.0f}%; in the interval of the other families:", end=" ")
        by_family = coverage_by_family(of_class)
        print(", ".join(f"{name} {n}/{of}" for name, (n, of) in by_family.items()))
        for folder, found in judged.items():
            chosen = [one for one in found if (one.modelled_time, one.global_memory) == own]
            if chosen:
                print(f"judged, {folder}: {inside(chosen, [spread])}/{len(chosen)} inside,", end=" ")
                print(f"mean error {_error_pct(chosen):.0f}%:", end=" ")
                print(", ".join(_family(name, chosen, spread) for name in _names(chosen)))
    write_terms(arguments.table / FILE, replace(read_terms(arguments.table), code_spreads=spreads))
    return 0


def _names(found: Sequence[CodeRatio]) -> list[str]:
    return list(dict.fromkeys(one.family for one in found))


def _family(name: str, found: Sequence[CodeRatio], spread: CodeSpread) -> str:
    own = [one for one in found if one.family == name]
    return f"{name} {inside(own, [spread])}/{len(own)}"


def _error_pct(found: Sequence[CodeRatio]) -> float:
    """Return the mean absolute error of the estimates, % of the measured energy."""
    return float(np.mean([100 * abs(1 / one.ratio - 1) for one in found]))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"spread_code: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
