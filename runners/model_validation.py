"""The model judged by whole kernels that were measured and counted, and the table that keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from model_fit import fit_terms
from validation_file import (
    COUNTS,
    KernelCase,
    KernelSession,
    MeasuredKernel,
    Purpose,
    measured_kernels,
    read_session,
    read_works,
)

from ptxbench.analysis.static_power import StaticPower, static_line
from ptxbench.core.errors import InputError
from ptxbench.core.printable import render_csv
from ptxbench.model.estimate import Conditions, KernelEstimate, Machine, estimate
from ptxbench.model.fit_kernel import FitKernel
from ptxbench.model.opcode_energies import RANDOM, OpcodeEnergies
from ptxbench.model.terms import Terms
from ptxbench.model.work import KernelWork
from ptxbench.storage.atomic import write_text

# Kernels whose data are integers: what they compute with integer opcodes is data, not addresses.
_INTEGER_DATA = ("-i32", "-u32")


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
