"""Whole kernels, measured and counted, against the model: what runners/validate_kernels.py ends with."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptxbench.analysis.static_power import StaticPower, static_line
from ptxbench.analysis.statistics import estimate as mean_of
from ptxbench.core.errors import InputError
from ptxbench.model.estimate import Conditions, KernelEstimate, Machine, estimate
from ptxbench.model.fit import FitKernel, fit_terms
from ptxbench.model.ncu import ProfiledLaunch, read_launches, work_of
from ptxbench.model.opcode_energies import RANDOM, OpcodeEnergies
from ptxbench.model.terms import Terms
from ptxbench.model.validation_file import (
    COUNTS,
    KernelCase,
    KernelSession,
    KernelTrial,
    Purpose,
    read_session,
)
from ptxbench.model.validation_table import ValidatedKernel
from ptxbench.model.work import KernelWork
from ptxbench.sensors.kernel_run import POWER_CAP

_MARKER = "ptxbench_case_"
# Kernels whose data are integers: what they compute with integer opcodes is data, not addresses.
_INTEGER_DATA = ("-i32", "-u32")


@dataclass(frozen=True)
class MeasuredKernel:
    """One case, its trials taken together.

    Attributes:
        case: The case.
        energy_j: Mean energy of a call.
        ci95_j: Half-width of its 95% interval over the rounds; NaN for a single one.
        time_s: Mean time of a call.
        power_w: Mean power.
        temperature_c: Mean temperature.
        clock_ratio: Mean SM clock over the highest.
        capped: Whether the power cap was on in any round.
    """

    case: KernelCase
    energy_j: float
    ci95_j: float
    time_s: float
    power_w: float
    temperature_c: float
    clock_ratio: float
    capped: bool


@dataclass(frozen=True)
class ModelValidation:
    """The model against whole kernels.

    Attributes:
        terms: What was fitted, to the fit kernels alone.
        kernels: Validation kernels, in the order of their numbers.
        missing: Cases that could not be validated, each with why.
    """

    terms: Terms
    kernels: tuple[ValidatedKernel, ...]
    missing: tuple[str, ...]


def validate_model(
    folder: Path, opcode_energies: OpcodeEnergies, also: Sequence[Path] = (), counts_of: Path | None = None
) -> ModelValidation:
    """Fit the terms to a session's fit kernels and validate the model by the others.

    Args:
        folder: What `validate_kernels.py measure` and `count` wrote.
        opcode_energies: Energies of opcodes, by a run of the same kind of GPU.
        also: More such folders, whose fit kernels the terms are fitted to, too.
        counts_of: Results of another GPU of the same target, see `counts_folder`.

    Raises:
        InputError: The folder does not hold both, or no fit kernel was measured and counted.
    """
    fit = [kernel for path in (folder, *also) for kernel in fit_kernels(path, counts_of)]
    return judge_terms(folder, opcode_energies, fit_terms(fit, opcode_energies), counts_of)


def counts_folder(folder: Path, counts_of: Path | None) -> Path:
    """Return where the counts of a session are.

    Args:
        folder: The session; its own counts come first.
        counts_of: Results of another GPU of the same target, which runs the same machine code. Where the
            session was not counted, those of its folder of the same name serve.
    """
    own = folder / COUNTS
    return own if counts_of is None or own.exists() else counts_of / folder.name / COUNTS


def judge_terms(
    folder: Path, opcode_energies: OpcodeEnergies, terms: Terms, counts_of: Path | None = None
) -> ModelValidation:
    """Validate fitted terms by the judged kernels of a session.

    Args:
        folder: What `validate_kernels.py measure` and `count` wrote.
        opcode_energies: Energies of opcodes, as they were when the terms were fitted.
        terms: The terms.
        counts_of: Results of another GPU of the same target, see `counts_folder`.

    Raises:
        InputError: The folder does not hold both.
    """
    session = read_session(folder)
    works, problems = read_works(counts_folder(folder, counts_of), session)
    static = session_static(session)
    energies = opcode_energies.drawn(terms.opcode_share).scaled(terms.opcode_scale)
    machine = Machine(energies, terms, static, session.gpu.power_limit_w)
    held_out = [one for one in measured_kernels(session) if one.case.purpose is Purpose.JUDGED]
    rows = tuple(
        _row(one, works[one.case.number], machine, session) for one in held_out if one.case.number in works
    )
    missing = [f"{c.name} {c.operands}: {c.failure}" for c in session.part.cases if c.failure]
    missing += [f"{o.case.name} {o.case.operands}: no counts" for o in held_out if o.case.number not in works]
    return ModelValidation(terms, rows, (*missing, *problems))


def fit_kernels(
    folder: Path, counts_of: Path | None = None, purposes: Collection[Purpose] = (Purpose.FIT,)
) -> list[FitKernel]:
    """Return a session's fit kernels that were measured and counted.

    Args:
        folder: The session.
        counts_of: Results of another GPU of the same target, see `counts_folder`.
        purposes: Purposes of the kernels.

    Raises:
        InputError: The folder does not hold both, or no sleeping kernel.
    """
    session = read_session(folder)
    works, _ = read_works(counts_folder(folder, counts_of), session)
    static = session_static(session)
    return [
        FitKernel(
            name=f"{one.case.name} {one.case.operands}",
            pattern=one.case.operands,
            work=replace(works[one.case.number], time_s=one.time_s),
            dynamic_j=one.energy_j - static.at(one.temperature_c) * one.time_s,
            total_j=one.energy_j,
            clock_ratio=one.clock_ratio,
            integer_data=one.case.name.endswith(_INTEGER_DATA),
        )
        for one in measured_kernels(session)
        if one.case.purpose in purposes and one.case.number in works
    ]


def conditions_of(case: KernelCase, terms: Terms, temperature_c: float, clock_ratio: float) -> Conditions:
    """Return how a case ran, its time measured; data that the terms do not know count as random.

    Args:
        case: The case.
        terms: Know kinds of data.
        temperature_c: GPU temperature.
        clock_ratio: SM clock over the full clock; NaN: found by the power limit.
    """
    data = (case.operands if case.operands in terms.data_kinds else RANDOM, case.name.endswith(_INTEGER_DATA))
    return Conditions(
        terms.activity_on(*data), temperature_c, clock_ratio, True, activity_range=terms.activity_range(*data)
    )


def _row(one: MeasuredKernel, work: KernelWork, machine: Machine, session: KernelSession) -> ValidatedKernel:
    work = replace(work, name=one.case.name, time_s=one.time_s)
    known = conditions_of(one.case, machine.terms, one.temperature_c, one.clock_ratio)
    conditions = replace(known, clock_ratio=math.nan)
    found = estimate(work, machine, known)
    by_limit = estimate(work, machine, conditions)
    return ValidatedKernel(
        kernel=one.case.name,
        operands=one.case.operands,
        measured_j=one.energy_j,
        measured_ci95_j=one.ci95_j,
        estimated_j=found.energy_j,
        error_pct=100 * (found.energy_j / one.energy_j - 1),
        low_j=found.low_j,
        high_j=found.high_j,
        estimated_by_limit_j=by_limit.energy_j,
        time_s=one.time_s,
        power_w=one.power_w,
        clock_mhz=one.clock_ratio * session.gpu.max_sm_clock_mhz,
        capped=one.capped,
        estimated_capped=by_limit.capped,
        uncovered_share=found.uncovered_share,
        parts=_parts(found),
        full_clock_j=estimate(work, replace(machine, limit_w=math.nan), conditions).energy_j,
        own_row_share=found.coverage.own_row,
    )


def _parts(found: KernelEstimate) -> str:
    return json.dumps({part.name: float(f"{part.energy_j:.4g}") for part in found.parts})


def measured_kernels(session: KernelSession) -> tuple[MeasuredKernel, ...]:
    """Return every case that has at least one trial with a power, by number."""
    trials: dict[int, list[KernelTrial]] = defaultdict(list)
    for trial in session.part.trials:
        if math.isfinite(trial.power_w):
            trials[trial.case].append(trial)
    return tuple(
        _measured(session, case, trials[case.number]) for case in session.part.cases if trials[case.number]
    )


def _measured(session: KernelSession, case: KernelCase, trials: Sequence[KernelTrial]) -> MeasuredKernel:
    energy = mean_of([trial.energy_j for trial in trials])
    return MeasuredKernel(
        case=case,
        energy_j=energy.mean,
        ci95_j=energy.ci95,
        time_s=float(np.mean([t.time_s for t in trials])),
        power_w=float(np.mean([t.power_w for t in trials])),
        temperature_c=float(np.mean([t.temperature_c for t in trials])),
        clock_ratio=float(np.mean([t.sm_clock_mhz for t in trials])) / session.gpu.max_sm_clock_mhz,
        capped=any(t.throttle_reasons & POWER_CAP for t in trials),
    )


def session_static(session: KernelSession) -> StaticPower:
    """Return static power against temperature, from the session's sleeping kernels.

    Raises:
        InputError: There is none.
    """
    sleeping = {case.number for case in session.part.cases if case.purpose is Purpose.STATIC}
    trials = [t for t in session.part.trials if t.case in sleeping and math.isfinite(t.power_w)]
    if not trials:
        raise InputError("the session has no valid sleeping kernel, so its static power is not known")
    return static_line([t.power_w for t in trials], [t.temperature_c for t in trials])


def read_works(folder: Path, session: KernelSession) -> tuple[Mapping[int, KernelWork], list[str]]:
    """Return what each case executes, and a sentence for each file that cannot be read.

    A case that was not profiled itself executes what the same kernel does on random operands.

    Args:
        folder: Folder of ncu's CSV files.
        session: Names the cases.
    """
    launches, problems = launches_by_case(folder)
    names = {case.number: case for case in session.part.cases}
    works: dict[int, KernelWork] = {}
    for number, of_case in launches.items():
        try:
            works[number] = work_of(of_case, names[number].name, folder)
        except (InputError, KeyError) as error:
            problems.append(str(error))
    by_name = {names[n].name: work for n, work in works.items() if names[n].operands == RANDOM}
    for case in session.part.cases:
        if case.number not in works and case.name in by_name:
            works[case.number] = by_name[case.name]
    return works, problems


def launches_by_case(folder: Path) -> tuple[Mapping[int, list[ProfiledLaunch]], list[str]]:
    """Return the launches of each profiled case, and a sentence for each file that cannot be read.

    Args:
        folder: Folder of ncu's CSV files.
    """
    launches: dict[int, list[ProfiledLaunch]] = {}
    problems = []
    for path in sorted(folder.glob("*.csv")):
        try:
            launches |= _by_case(read_launches(path))
        except InputError as error:
            problems.append(str(error))
    return launches, problems


def _by_case(launches: Iterable[ProfiledLaunch]) -> dict[int, list[ProfiledLaunch]]:
    """Return the launches behind each marker kernel, by the number in the marker's name."""
    found: dict[int, list[ProfiledLaunch]] = {}
    number = -1
    for launch in launches:
        if launch.kernel.startswith(_MARKER):
            number = int(
                "".join(c for c in launch.kernel.removeprefix(_MARKER).partition("(")[0] if c.isdigit())
            )
            found[number] = []
        elif number >= 0:
            found[number].append(launch)
    return {number: of_case for number, of_case in found.items() if of_case}
