"""Models that know less than the table of instructions: what an accuracy figure must beat to mean anything.

Each takes something away from the model of docs/model.md, fits all other terms again to the same fit kernels,
and is validated on the same kernels. Where the table is not better than the best of them, the accuracy of the
model is not the table's merit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from model_fit import fit_terms
from model_validation import ModelValidation, ValidatedKernel, fit_kernels, judge_terms
from validation_file import read_session

from ptxbench.model.baselines import (
    NOTHING_PJ,
    Baseline,
    Baselines,
    Form,
    KindPower,
    class_medians,
    constant,
    mean_power_w,
    with_energies,
)
from ptxbench.model.estimate import SetErrors
from ptxbench.model.opcode_energies import OpcodeEnergies
from ptxbench.model.terms import Terms

# Constants that are tried, pJ a thread's instruction; the fit kernels choose one.
_CONSTANTS_PJ = (4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 25.0)
_DRAWS = 10_000
_SHUFFLES = 5


@dataclass(frozen=True)
class ModelErrors:
    """One model against the validation kernels.

    Attributes:
        name: What the model is.
        error_pct: 100 (estimated / measured - 1) of each kernel, in the kernels' order.
    """

    name: str
    error_pct: tuple[float, ...]

    @property
    def mean_absolute_pct(self) -> float:
        """Mean absolute error, %."""
        return float(np.mean(np.abs(self.error_pct)))

    @property
    def worst_pct(self) -> float:
        """Largest absolute error, %."""
        return float(np.max(np.abs(self.error_pct)))


@dataclass(frozen=True)
class BaselineComparison:
    """The model of the table and the baselines, validated on the same kernels.

    Attributes:
        kernels: Name and operands of each validation kernel.
        table: The model of the table.
        baselines: The others.
    """

    kernels: tuple[str, ...]
    table: ModelErrors
    baselines: tuple[ModelErrors, ...]

    def difference_pct(self, baseline: ModelErrors, seed: int = 0) -> tuple[float, float]:
        """Return the 95% interval of how much smaller the table's mean absolute error is than another's, %.

        Kernels are drawn by family ("hash/crc32") or name, with all their operands. An interval above zero
        says that the table helps.

        Args:
            baseline: One of `baselines`.
            seed: Seed of the bootstrap.
        """
        gain = np.abs(baseline.error_pct) - np.abs(self.table.error_pct)
        families = [kernel.partition(" ")[0].partition("/")[0] for kernel in self.kernels]
        return drawn_by_family(gain, families, seed)


def drawn_by_family(
    values: npt.NDArray[np.float64], families: Sequence[str], seed: int = 0
) -> tuple[float, float]:
    """Return the 95% interval of a mean, by a bootstrap that draws whole families.

    Args:
        values: One a case.
        families: Family of each.
        seed: Seed of the bootstrap.
    """
    groups: dict[str, list[float]] = {}
    for family, value in zip(families, values, strict=True):
        groups.setdefault(family, []).append(float(value))
    sums = np.array([sum(of_family) for of_family in groups.values()])
    counts = np.array([len(of_family) for of_family in groups.values()])
    drawn = np.random.default_rng(seed).integers(0, len(sums), (_DRAWS, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)


@dataclass(frozen=True)
class _Fitted:
    """Energies of opcodes and the terms that were fitted beside them."""

    energies: OpcodeEnergies
    terms: Terms


@dataclass(frozen=True)
class FittedBaselines:
    """The table's model and the baselines, fitted to the same kernels.

    Attributes:
        constant_pj: The constant that the fit kernels chose.
        powers: Mean power of the fit kernels by kind of data.
    """

    constant_pj: float
    powers: tuple[KindPower, ...]
    _table: _Fitted
    _by_form: dict[Form, _Fitted]
    _shuffles: tuple[_Fitted, ...]

    def judged_by(self, folder: Path, counts_of: Path | None = None) -> BaselineComparison:
        """Return every model against the judged kernels of a session.

        Args:
            folder: The session.
            counts_of: Results of another GPU of the same target, where it was not counted.

        Raises:
            InputError: The folder does not hold measurements and counts.
        """
        table = _validated(folder, counts_of, self._table)
        baselines = [
            _errors(self._shown(form), _validated(folder, counts_of, fitted))
            for form, fitted in self._by_form.items()
        ]
        tried = [
            _errors(
                f"the table's energies shuffled (median of {_SHUFFLES})", _validated(folder, counts_of, one)
            )
            for one in self._shuffles
        ]
        if tried:
            baselines.insert(2, sorted(tried, key=lambda one: one.mean_absolute_pct)[len(tried) // 2])
        limit_w = read_session(folder).gpu.power_limit_w
        baselines += [self._by_power(form, table.kernels, limit_w) for form in (Form.POWER, Form.LIMIT)]
        names = tuple(f"{one.kernel} {one.operands}" for one in table.kernels)
        return BaselineComparison(names, _errors("the table", table), tuple(baselines))

    def kept(self, judged: Sequence[tuple[str, BaselineComparison]]) -> Baselines:
        """Return what is kept beside the table: every baseline but the shuffled table.

        Args:
            judged: Each set of judged kernels by its name, and the models against it.
        """

        def errors(form: Form) -> tuple[SetErrors, ...]:
            return tuple(_set_errors(name, found, self._shown(form)) for name, found in judged)

        fitted = [
            Baseline(
                form,
                self.constant_pj if form is Form.CONSTANT else math.nan,
                replace(one.terms, kernels=()),
                (),
                errors(form),
            )
            for form, one in self._by_form.items()
        ]
        powers = [
            Baseline(form, math.nan, None, self.powers, errors(form)) for form in (Form.POWER, Form.LIMIT)
        ]
        table = tuple(_set_errors(name, found, None) for name, found in judged)
        return Baselines(table, (*fitted, *powers))

    def _shown(self, form: Form) -> str:
        if form is Form.CONSTANT:
            return f"every opcode at {self.constant_pj:g} pJ (chosen by the fit kernels)"
        return str(form)

    def _by_power(self, form: Form, kernels: Sequence[ValidatedKernel], limit_w: float) -> ModelErrors:
        def power_w(one: ValidatedKernel) -> float:
            at_limit = form is Form.LIMIT and one.capped
            return limit_w if at_limit else mean_power_w(self.powers, one.operands)

        errors = [100 * (power_w(one) * one.time_s / one.measured_j - 1) for one in kernels]
        return ModelErrors(str(form), tuple(errors))


def shuffled(opcode_energies: OpcodeEnergies, seed: int) -> OpcodeEnergies:
    """Return the same opcodes with each other's energies, in random order."""
    energies = [known.energy_pj for known in opcode_energies.random.values()]
    drawn = np.random.default_rng(seed).permutation(energies)
    return with_energies(opcode_energies, dict(zip(opcode_energies.random, map(float, drawn), strict=True)))


def fit_baselines(
    folders: Sequence[Path],
    opcode_energies: OpcodeEnergies,
    counts_of: Path | None = None,
    *,
    with_shuffled: bool = True,
) -> FittedBaselines:
    """Fit the table's model and every baseline to the fit kernels of some sessions.

    Args:
        folders: What `validate_kernels.py measure` and `count` wrote.
        opcode_energies: Energies of opcodes, by a run of the same kind of GPU.
        counts_of: Results of another GPU of the same target, for sessions that were not counted.
        with_shuffled: Whether the table's energies in random order are among them, which are not kept.

    Raises:
        InputError: A folder does not hold both, or no fit kernel was measured and counted.
    """
    kernels = [kernel for folder in folders for kernel in fit_kernels(folder, counts_of)]

    def fitted(energies: OpcodeEnergies) -> _Fitted:
        return _Fitted(energies, fit_terms(kernels, energies))

    constants = [(pj, fitted(constant(opcode_energies, pj))) for pj in _CONSTANTS_PJ]
    best_pj, best = min(constants, key=lambda one: one[1].terms.left_out_error)
    powers: dict[str, list[float]] = {}
    for one in kernels:
        powers.setdefault(one.pattern, []).append(one.total_j / one.work.time_s)
    return FittedBaselines(
        constant_pj=best_pj,
        powers=tuple(KindPower(kind, float(np.mean(watts))) for kind, watts in powers.items()),
        _table=fitted(opcode_energies),
        _by_form={
            Form.CONSTANT: best,
            Form.MEDIANS: fitted(class_medians(opcode_energies)),
            Form.NOTHING: fitted(constant(opcode_energies, NOTHING_PJ)),
        },
        _shuffles=tuple(
            fitted(shuffled(opcode_energies, seed)) for seed in range(_SHUFFLES if with_shuffled else 0)
        ),
    )


def _validated(folder: Path, counts_of: Path | None, model: _Fitted) -> ModelValidation:
    return judge_terms(folder, model.energies, model.terms, counts_of)


def _errors(name: str, validation: ModelValidation) -> ModelErrors:
    return ModelErrors(name, tuple(one.error_pct for one in validation.kernels))


def _set_errors(kernels: str, found: BaselineComparison, name: str | None) -> SetErrors:
    """Return the errors of a baseline, or of the table where no name is given."""
    if name is None:
        return SetErrors(kernels, len(found.kernels), found.table.mean_absolute_pct, found.table.worst_pct)
    baseline = next(one for one in found.baselines if one.name == name)
    ends = found.difference_pct(baseline)
    return SetErrors(kernels, len(found.kernels), baseline.mean_absolute_pct, baseline.worst_pct, *ends)
