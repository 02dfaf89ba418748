"""Null models beside a table (nulls.json), and what they say of a kernel: what its estimate must beat.

Each knows less than the table, and had its other terms fitted to the same kernels
(runners/null_models.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.model.estimate import Conditions, KernelEstimate, Machine, estimate
from ptxbench.model.null_answer import NullAnswer, SetErrors
from ptxbench.model.null_energies import NOTHING_PJ, class_medians, constant
from ptxbench.model.opcode_energies import OpcodeEnergies
from ptxbench.model.terms import Terms
from ptxbench.model.work import Activity, KernelWork
from ptxbench.storage import codec

FILE = "nulls.json"


class Form(StrEnum):
    """What a null model knows."""

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
class KeptNull:
    """One null model.

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
class KeptNulls:
    """The null models of a table.

    Attributes:
        table: How far the table's own model was from the same kernels.
        nulls: The null models.
    """

    table: tuple[SetErrors, ...]
    nulls: tuple[KeptNull, ...]


def read_nulls(folder: Path) -> KeptNulls:
    """Return the null models beside a run.

    Raises:
        InputError: It has none, or the file does not fit.
    """
    path = folder / FILE
    if not path.exists():
        raise InputError(
            f"{folder} has no {FILE}, so nothing can stand beside its estimate; give a table that has it,"
            " such as h200, or write it with `runners/compare_nulls.py --keep`"
        )
    return codec.read_file(KeptNulls, path)


def null_answers(
    nulls: KeptNulls,
    found: KernelEstimate,
    work: KernelWork,
    table: tuple[OpcodeEnergies, Machine],
    conditions: Conditions,
    kind: str,
    activity_by: Callable[[Terms], Activity],
) -> tuple[NullAnswer, ...]:
    """Return what the table and each null model say of a kernel, the table first.

    Args:
        nulls: The null models.
        found: The table's estimate.
        work: What the kernel executes.
        table: The table's energies of opcodes as they were measured, and its machine.
        conditions: How the kernel runs.
        kind: Kind of data.
        activity_by: How much the operands toggle, by the terms of a model.
    """
    measured, machine = table
    machines = null_machines(nulls, measured, machine)
    answers = [NullAnswer("the table", found.energy_j, nulls.table)]
    for null in nulls.nulls:
        own = machines.get(null.form)
        if own is None:
            energy_j = _power_w(null, found, kind, machine.limit_w) * found.time_s
        else:
            at = replace(conditions, activity=activity_by(own.terms), activity_range=None)
            energy_j = estimate(work, own, at).energy_j
        answers.append(NullAnswer(_name(null), energy_j, null.errors))
    return tuple(answers)


def null_machines(nulls: KeptNulls, measured: OpcodeEnergies, machine: Machine) -> dict[Form, Machine]:
    """Return the GPU as each null model sees it that has terms, by its form.

    Args:
        nulls: The null models.
        measured: The table's energies of opcodes as they were measured.
        machine: The GPU by the table.
    """
    return {
        null.form: replace(
            machine,
            opcode_energies=_energies(null, measured).drawn(null.terms.opcode_share),
            terms=null.terms,
        )
        for null in nulls.nulls
        if null.terms is not None
    }


def _name(null: KeptNull) -> str:
    return f"every opcode at {null.constant_pj:g} pJ" if null.form is Form.CONSTANT else str(null.form)


def _energies(null: KeptNull, measured: OpcodeEnergies) -> OpcodeEnergies:
    if null.form is Form.MEDIANS:
        return class_medians(measured)
    return constant(measured, null.constant_pj if null.form is Form.CONSTANT else NOTHING_PJ)


def _power_w(null: KeptNull, found: KernelEstimate, kind: str, limit_w: float) -> float:
    if null.form is Form.LIMIT and found.capped and math.isfinite(limit_w):
        return limit_w
    return mean_power_w(null.powers, kind)


def mean_power_w(powers: Sequence[KindPower], kind: str) -> float:
    """Return the mean power on a kind of data, that of random numbers where the kind is not known."""
    by_kind = {one.kind: one.power_w for one in powers}
    return by_kind.get(kind, by_kind.get("random", math.nan))
