"""Baselines of a table (baselines.json): models that know less, and what they say of a kernel.

Each had its other terms fitted to the same kernels as the table (runners/baseline_models.py). What they
miss by is what an estimate must beat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import median

from ptxbench.core.errors import InputError
from ptxbench.model.estimate import Conditions, KernelEstimate, Machine, ModelAnswer, SetErrors, estimate
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.opcodes import opcode_class
from ptxbench.model.terms import Terms
from ptxbench.model.work import Activity, KernelWork
from ptxbench.storage import codec
from ptxbench.storage.codec import Place
from ptxbench.storage.document import read_plain

FILE = "baselines.json"
# Until 2026-11-27 it had another name, and another key for its models.
_FORMER_FILE, _FORMER_KEY = "nulls.json", "nulls"
# Where instructions are to cost nothing: ratios of energies must stay defined.
NOTHING_PJ = 1e-9


class Form(StrEnum):
    """What a baseline knows."""

    CONSTANT = "one energy for every opcode"
    MEDIANS = "median of each opcode's class"
    NOTHING = "no energy of instructions"
    POWER = "mean power times time"
    LIMIT = "power limit times time where it is on"


@dataclass(frozen=True)
class KindPower:
    """Mean power of the fit kernels on one kind of data.

    Attributes:
        kind: Such as "random".
        power_w: Their mean power.
    """

    kind: str
    power_w: float


@dataclass(frozen=True)
class Baseline:
    """One baseline.

    Attributes:
        form: What it knows.
        constant_pj: Its one energy; NaN for another form.
        terms: Its fitted terms; None where it has none.
        powers: Mean powers, for those of power and time.
        errors: How far it was from judged kernels.
    """

    form: Form
    constant_pj: float
    terms: Terms | None
    powers: tuple[KindPower, ...]
    errors: tuple[SetErrors, ...]


@dataclass(frozen=True)
class Baselines:
    """The baselines of a table.

    Attributes:
        table: How far the table's own model was from the same kernels.
        models: The baselines.
    """

    table: tuple[SetErrors, ...]
    models: tuple[Baseline, ...]


def has_baselines(folder: Path) -> bool:
    """Return whether there are baselines beside a run."""
    return _file(folder) is not None


def read_baselines(folder: Path) -> Baselines:
    """Return the baselines beside a run.

    Raises:
        InputError: It has none, or the file does not fit.
    """
    path = _file(folder)
    if path is None:
        raise InputError(
            f"{folder} has no {FILE}, so nothing can stand beside its estimate; give a table that has it,"
            " such as h200, or write it with `runners/compare_baselines.py --keep`"
        )
    plain = read_plain(path)
    if _FORMER_KEY in plain:
        plain["models"] = plain.pop(_FORMER_KEY)
    return codec.decode(Baselines, plain, Place(path))


def _file(folder: Path) -> Path | None:
    return next((path for name in (FILE, _FORMER_FILE) if (path := folder / name).exists()), None)


def baseline_answers(
    baselines: Baselines,
    found: KernelEstimate,
    work: KernelWork,
    table: tuple[OpcodeEnergies, Machine],
    conditions: Conditions,
    kind: str,
    activity_by: Callable[[Terms], Activity],
) -> tuple[ModelAnswer, ...]:
    """Return what the table and each baseline say of a kernel, the table first.

    Args:
        baselines: The baselines.
        found: The table's estimate.
        work: What the kernel executes.
        table: The table's energies of opcodes as they were measured, and its machine.
        conditions: How the kernel runs.
        kind: Kind of data.
        activity_by: How much the operands toggle, by the terms of a model.
    """
    measured, machine = table
    machines = baseline_machines(baselines, measured, machine)
    answers = [ModelAnswer("the table", found.energy_j, baselines.table)]
    for one in baselines.models:
        own = machines.get(one.form)
        if own is None:
            energy_j = _power_w(one, found, kind, machine.limit_w) * found.time_s
        else:
            at = replace(conditions, activity=activity_by(own.terms), activity_range=None)
            energy_j = estimate(work, own, at).energy_j
        answers.append(ModelAnswer(_name(one), energy_j, one.errors))
    return tuple(answers)


def baseline_machines(
    baselines: Baselines, measured: OpcodeEnergies, machine: Machine
) -> dict[Form, Machine]:
    """Return the GPU as each baseline sees it that has terms, by its form.

    Args:
        baselines: The baselines.
        measured: The table's energies of opcodes as they were measured.
        machine: The GPU by the table.
    """
    return {
        one.form: replace(
            machine,
            opcode_energies=_energies(one, measured).drawn(one.terms.opcode_share),
            terms=one.terms,
        )
        for one in baselines.models
        if one.terms is not None
    }


def _name(one: Baseline) -> str:
    return f"every opcode at {one.constant_pj:g} pJ" if one.form is Form.CONSTANT else str(one.form)


def _energies(one: Baseline, measured: OpcodeEnergies) -> OpcodeEnergies:
    if one.form is Form.MEDIANS:
        return class_medians(measured)
    return constant(measured, one.constant_pj if one.form is Form.CONSTANT else NOTHING_PJ)


def _power_w(one: Baseline, found: KernelEstimate, kind: str, limit_w: float) -> float:
    if one.form is Form.LIMIT and found.capped and math.isfinite(limit_w):
        return limit_w
    return mean_power_w(one.powers, kind)


def mean_power_w(powers: Sequence[KindPower], kind: str) -> float:
    """Return the mean power on a kind of data, that of random numbers where the kind is not known."""
    by_kind = {one.kind: one.power_w for one in powers}
    return by_kind.get(kind, by_kind.get("random", math.nan))


def constant(opcode_energies: OpcodeEnergies, energy_pj: float) -> OpcodeEnergies:
    """Return the same opcodes with one energy for all, pJ; zeros keep their median ratio to random ones."""
    return with_energies(opcode_energies, dict.fromkeys(opcode_energies.random, energy_pj))


def class_medians(opcode_energies: OpcodeEnergies) -> OpcodeEnergies:
    """Return the same opcodes, each with the median energy of its functional class."""
    by_class: dict[str, list[float]] = {}
    for opcode, known in opcode_energies.random.items():
        by_class.setdefault(opcode_class(opcode), []).append(known.energy_pj)
    medians = {kind: median(energies_pj) for kind, energies_pj in by_class.items()}
    return with_energies(
        opcode_energies, {opcode: medians[opcode_class(opcode)] for opcode in opcode_energies.random}
    )


def with_energies(opcode_energies: OpcodeEnergies, energies_pj: Mapping[str, float]) -> OpcodeEnergies:
    """Return the same opcodes with other energies, pJ; zeros keep their median ratio to random ones."""
    ratio = median(
        opcode_energies.energy(op, 0.0).energy_pj / known.energy_pj
        for op, known in opcode_energies.random.items()
        if known.energy_pj > 0
    )
    return opcode_energies.with_energies(
        {opcode: Known(energy_pj, 0.0) for opcode, energy_pj in energies_pj.items()},
        {opcode: Known(ratio * energy_pj, 0.0) for opcode, energy_pj in energies_pj.items()},
    )
