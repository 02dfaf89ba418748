"""Fit how a time is modelled, work out how far estimates without bytes or a time are off, and keep both.

    python runners/spread_code.py --validation FOLDER [--validation FOLDER] --table RUN

Needs no GPU. Each FOLDER is what `validate_kernels.py measure` and `count` wrote. Every kernel is estimated
with counts and a modelled time, and by its opcodes and launch shape alone, without its bytes, with a modelled
and with the measured time. The ratios of the fit kernels set the intervals; the judged kernels only say how
many are within them. Run it after `validate_kernels.py estimate`, which writes model.json anew.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from code_ratios import CodeRatio, code_spreads, coverage_by_family, inside
from conformal import conformal_ends
from model_validation import conditions_of, counts_folder, session_static
from validation_file import (
    KernelSession,
    MeasuredKernel,
    Purpose,
    launches_by_case,
    measured_kernels,
    read_session,
)

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.model.baselines import baseline_machines, has_baselines
from ptxbench.model.estimate import Machine, estimate
from ptxbench.model.fit_time import TimedKernel, level_rates, tensor_rates
from ptxbench.model.inputs import launches_time_s
from ptxbench.model.ncu import ProfiledLaunch, launch_shape, work_of
from ptxbench.model.terms import FILE, CodeSpread, TimeTerms, read_terms
from ptxbench.model.throughput import moved_time_s
from ptxbench.model.work import KernelWork
from ptxbench.storage.document import write_beside


@dataclass(frozen=True)
class Profiled:
    """A case that was measured and counted.

    Attributes:
        measured: What was measured.
        launches: What was counted.
        work: The same as work; its time is the measured one.
        session: Its session.
        folder: Where it is.
    """

    measured: MeasuredKernel
    launches: Sequence[ProfiledLaunch]
    work: KernelWork
    session: KernelSession
    folder: Path


def profiled(folder: Path, purpose: Purpose, counts_of: Path | None = None) -> list[Profiled]:
    """Return a session's cases of one purpose that were measured and counted."""
    session = read_session(folder)
    launches, _ = launches_by_case(counts_folder(folder, counts_of))
    cases = {case.number: case for case in session.part.cases}
    # What was not profiled itself executes what the same kernel does on other data.
    by_name = {cases[number].name: of_case for number, of_case in launches.items()}
    found = []
    for one in measured_kernels(session):
        of_case = launches.get(one.case.number, by_name.get(one.case.name, []))
        if one.case.purpose is purpose and of_case:
            work = replace(work_of(of_case, one.case.name, folder), time_s=one.time_s)
            found.append(Profiled(one, of_case, work, session, folder))
    return found


def fit_time(kernels: Sequence[Profiled], table: Atlas) -> TimeTerms:
    """Return the rates of memory and tensor cores, and what kernels take beyond their bound."""
    gpu = table.gpu
    timed = [
        TimedKernel(one.work, one.measured.clock_ratio, min(_most_blocks(one), gpu.sm_count))
        for one in kernels
    ]
    time = TimeTerms(level_rates(timed), tensor_rates(timed, gpu.max_sm_clock_mhz), 1.0, 1.0, 1.0, 0)
    table = _with_time(table, time)
    beyond = []
    for one in kernels:
        pipes_s = launches_time_s(one.launches, one.folder, table, with_bytes=False)
        pipes_s /= one.measured.clock_ratio
        if pipes_s > moved_time_s(one.work.bytes_moved, time):
            beyond.append(one.work.time_s / pipes_s)
    low, high = conformal_ends(beyond)
    return replace(time, slack=median(beyond), slack_low=low, slack_high=high, kernels=len(beyond))


def ratios(kernels: Sequence[Profiled], table: Atlas, by: Machine | None = None) -> list[CodeRatio]:
    """Return measured over estimated energy of kernels by what is known of them.

    Args:
        kernels: The kernels.
        table: The run, whose times count.
        by: Energies and terms of another model; None: the run's.
    """
    found = []
    for one in kernels:
        measured, session = one.measured, one.session
        machine = replace(
            by or table.machine, static=session_static(session), limit_w=session.gpu.power_limit_w
        )
        conditions = conditions_of(measured.case, machine.terms, measured.temperature_c, math.nan)
        bare = replace(one.work, bytes_moved=(), accesses=())
        for modelled, counted in ((True, True), (True, False), (False, False)):
            work = one.work if counted else bare
            if modelled:
                time_s = launches_time_s(one.launches, one.folder, table, with_bytes=counted)
                work = replace(work, time_s=time_s)
            energy_j = estimate(work, machine, replace(conditions, steady_time=not modelled)).energy_j
            found.append(
                CodeRatio(
                    _family_of(measured.case.name),
                    modelled,
                    work.uses_global_memory,
                    measured.energy_j / energy_j,
                    counted,
                    counted and work.scatters,
                )
            )
    return found


def _with_time(table: Atlas, time: TimeTerms) -> Atlas:
    """Return the table as if its terms had been fitted with these times."""
    return table.with_terms(replace(table.terms, time=time))


def _most_blocks(one: Profiled) -> int:
    return max(launch_shape(launch, one.folder)[0] for launch in one.launches)


def _family_of(name: str) -> str:
    """Return the suite's family of a case, or what sizes and versions of a library's kernel share."""
    family, slash, _ = name.partition("/")
    return family if slash else name.partition("-")[0].rstrip("0123456789")


def main() -> int:
    """Write the spreads and print what they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--validation", type=Path, action="append", required=True, help="what measure and count wrote"
    )
    parser.add_argument("--table", type=Path, required=True, help="run folder of the same kind of GPU")
    parser.add_argument(
        "--counts-of", type=Path, help="results of a GPU of the same target, for sessions without counts"
    )
    parser.add_argument(
        "--without-baselines", action="store_true", help="leave out the models that know less"
    )
    arguments = parser.parse_args()
    counts_of = arguments.counts_of
    table = open_atlas(arguments.table)
    kept = [one for folder in arguments.validation for one in profiled(folder, Purpose.FIT, counts_of)]
    time = fit_time(kept, table)
    table = _with_time(table, time)
    print(time)
    judged = {folder: profiled(folder, Purpose.JUDGED, counts_of) for folder in arguments.validation}
    _print_times([*kept, *(one for found in judged.values() for one in found)], table)
    fit = ratios(kept, table)
    spreads = code_spreads(fit)
    by_folder = {folder: ratios(found, table) for folder, found in judged.items()}
    for spread in spreads:
        print(f"\n{spread}")
        of_inputs = [one for one in fit if one.inputs == spread.inputs]
        print(f"fit: mean error {_error_pct(of_inputs):.0f}%; inside by the other families:", end=" ")
        by_family = coverage_by_family(of_inputs)
        print(", ".join(f"{name} {n}/{of}" for name, (n, of) in by_family.items()))
        for folder, found in by_folder.items():
            chosen = [one for one in found if one.inputs == spread.inputs]
            if chosen:
                print(f"judged, {folder}: {inside(chosen, [spread])}/{len(chosen)} inside,", end=" ")
                print(f"mean error {_error_pct(chosen):.0f}%:", end=" ")
                print(", ".join(_family(name, chosen, spread) for name in _names(chosen)))
    if not arguments.without_baselines:
        _print_baselines(judged, table, arguments.table)
    terms = replace(read_terms(arguments.table), code_spreads=spreads, time=time)
    write_beside(arguments.table / FILE, terms)
    return 0


def _print_baselines(judged: Mapping[Path, Sequence[Profiled]], table: Atlas, run: Path) -> None:
    """Print the errors of the baselines beside the run, where it has them, with the same times."""
    if not has_baselines(run):
        return
    print("\nmean error of models that know less, by modelled time, counted bytes, global memory:")
    for form, machine in baseline_machines(table.baselines, table.opcode_energies, table.machine).items():
        for folder, kernels in judged.items():
            found = ratios(kernels, table, machine)
            by_inputs = {inputs: [r for r in found if r.inputs == inputs] for inputs in _inputs(found)}
            shown = ", ".join(f"{inputs} {_error_pct(own):.0f}%" for inputs, own in by_inputs.items())
            print(f"  {form}, {folder}: {shown}")


def _inputs(found: Sequence[CodeRatio]) -> list[tuple[bool, ...]]:
    return sorted({one.inputs for one in found})


def _print_times(kernels: Sequence[Profiled], table: Atlas) -> None:
    """Print measured over modelled time by family."""
    by_family: dict[str, list[float]] = {}
    for one in kernels:
        time_s = launches_time_s(one.launches, one.folder, table)
        name = f"{one.measured.case.purpose} {_family_of(one.measured.case.name)}"
        by_family.setdefault(name, []).append(one.work.time_s / time_s)
    print("measured over modelled time, with bytes:")
    for name, found in by_family.items():
        error_pct = 100 * np.mean(np.abs(1 / np.array(found) - 1))
        print(f"  {name}: {min(found):.2f} to {max(found):.2f}, mean error {error_pct:.0f}%")


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
