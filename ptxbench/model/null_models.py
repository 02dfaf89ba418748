"""Models that know less than the table of instructions: what an accuracy figure must beat to mean anything.

Each takes something away from the model of docs/model.md, fits all other terms again to the same fit kernels,
and is validated on the same kernels. Where the table is not better than the best of them, the accuracy of the
model is not the table's merit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.opcodes import opcode_class
from ptxbench.model.validate import ModelValidation, measured_kernels, validate_model
from ptxbench.model.validation_file import KernelSession, Purpose, read_session
from ptxbench.model.validation_table import ValidatedKernel

# Constants that are tried, pJ a thread's instruction; the fit kernels choose one.
_CONSTANTS_PJ = (4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 25.0)
# Ratios of energies must stay defined.
_NOTHING_PJ = 1e-9
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
class NullComparison:
    """The model of the table and the null models, validated on the same kernels.

    Attributes:
        kernels: Name and operands of each validation kernel.
        table: The model of the table.
        nulls: The others.
    """

    kernels: tuple[str, ...]
    table: ModelErrors
    nulls: tuple[ModelErrors, ...]

    def difference_pct(self, null: ModelErrors, seed: int = 0) -> tuple[float, float]:
        """Return the 95% interval of how much smaller the table's mean absolute error is than a null's, %.

        Kernels are drawn by family ("hash/crc32") or name, with all their operands. An interval above zero
        says that the table helps.

        Args:
            null: One of `nulls`.
            seed: Seed of the bootstrap.
        """
        gain = np.abs(null.error_pct) - np.abs(self.table.error_pct)
        groups: dict[str, list[float]] = {}
        for kernel, value in zip(self.kernels, gain, strict=True):
            groups.setdefault(kernel.partition(" ")[0].partition("/")[0], []).append(float(value))
        sums = np.array([sum(values) for values in groups.values()])
        counts = np.array([len(values) for values in groups.values()])
        drawn = np.random.default_rng(seed).integers(0, len(sums), (_DRAWS, len(sums)))
        low, high = np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [0.025, 0.975])
        return float(low), float(high)


def compare_with_nulls(
    folder: Path, opcode_energies: OpcodeEnergies, also: Sequence[Path] = ()
) -> NullComparison:
    """Judge the model and every null model by a session of whole kernels.

    Args:
        folder: What `validate_kernels.py measure` and `count` wrote.
        opcode_energies: Energies of opcodes, by a run of the same kind of GPU.
        also: More such folders, whose fit kernels every model is fitted to, too.

    Raises:
        InputError: The folder does not hold both, or no fit kernel was measured and counted.
    """
    table = validate_model(folder, opcode_energies, also)
    session = read_session(folder)
    constants = [(pj, validate_model(folder, constant(opcode_energies, pj), also)) for pj in _CONSTANTS_PJ]
    best_pj, best = min(constants, key=lambda one: one[1].terms.left_out_error)
    nulls = [
        _errors(f"every opcode at {best_pj:g} pJ (chosen by the fit kernels)", best),
        _errors(
            "every opcode at the median of its class",
            validate_model(folder, class_medians(opcode_energies), also),
        ),
        _shuffled_errors(folder, opcode_energies, also),
        _errors(
            "no energy of instructions", validate_model(folder, constant(opcode_energies, _NOTHING_PJ), also)
        ),
        _power_times_time(session, table.kernels),
        _limit_times_time(session, table.kernels),
    ]
    names = tuple(f"{one.kernel} {one.operands}" for one in table.kernels)
    return NullComparison(names, _errors("the table", table), tuple(nulls))


def constant(opcode_energies: OpcodeEnergies, energy_pj: float) -> OpcodeEnergies:
    """Return the same opcodes with one energy for all, pJ; zeros keep their median ratio to random ones."""
    ratio = _zeros_ratio(opcode_energies)
    return OpcodeEnergies(
        dict.fromkeys(opcode_energies.random, Known(energy_pj, 0.0)),
        dict.fromkeys(opcode_energies.random, Known(ratio * energy_pj, 0.0)),
    )


def class_medians(opcode_energies: OpcodeEnergies) -> OpcodeEnergies:
    """Return the same opcodes, each with the median energy of its functional class."""
    by_class: dict[str, list[float]] = {}
    for opcode, known in opcode_energies.random.items():
        by_class.setdefault(opcode_class(opcode), []).append(known.energy_pj)
    medians = {kind: float(np.median(energies)) for kind, energies in by_class.items()}
    return _with_energies(
        opcode_energies, {opcode: medians[opcode_class(opcode)] for opcode in opcode_energies.random}
    )


def shuffled(opcode_energies: OpcodeEnergies, seed: int) -> OpcodeEnergies:
    """Return the same opcodes with each other's energies, in random order."""
    energies = [known.energy_pj for known in opcode_energies.random.values()]
    drawn = np.random.default_rng(seed).permutation(energies)
    return _with_energies(opcode_energies, dict(zip(opcode_energies.random, map(float, drawn), strict=True)))


def _with_energies(opcode_energies: OpcodeEnergies, energies_pj: Mapping[str, float]) -> OpcodeEnergies:
    ratio = _zeros_ratio(opcode_energies)
    return OpcodeEnergies(
        {opcode: Known(energy_pj, 0.0) for opcode, energy_pj in energies_pj.items()},
        {opcode: Known(ratio * energy_pj, 0.0) for opcode, energy_pj in energies_pj.items()},
    )


def _zeros_ratio(opcode_energies: OpcodeEnergies) -> float:
    """Return the median ratio of energy on zeros to that on random operands."""
    pairs = [
        (opcode_energies.energy(op, 0.0).energy_pj, known.energy_pj)
        for op, known in opcode_energies.random.items()
    ]
    return float(np.median([zeros / random for zeros, random in pairs if random > 0]))


def _errors(name: str, validation: ModelValidation) -> ModelErrors:
    return ModelErrors(name, tuple(one.error_pct for one in validation.kernels))


def _shuffled_errors(folder: Path, opcode_energies: OpcodeEnergies, also: Sequence[Path]) -> ModelErrors:
    """Return the shuffled table whose mean absolute error is the median of a few."""
    tried = [
        _errors(
            f"the table's energies shuffled (median of {_SHUFFLES})",
            validate_model(folder, shuffled(opcode_energies, seed), also),
        )
        for seed in range(_SHUFFLES)
    ]
    return sorted(tried, key=lambda one: one.mean_absolute_pct)[_SHUFFLES // 2]


def _power_times_time(session: KernelSession, kernels: Sequence[ValidatedKernel]) -> ModelErrors:
    """Return the error of the fit kernels' mean power, by operands, times the measured time."""
    powers: dict[str, list[float]] = {}
    for one in measured_kernels(session):
        if one.case.purpose is Purpose.FIT:
            powers.setdefault(one.case.operands, []).append(one.power_w)
    means = {operands: float(np.mean(values)) for operands, values in powers.items()}
    errors = [100 * (means[one.operands] * one.time_s / one.measured_j - 1) for one in kernels]
    return ModelErrors("mean power of the fit kernels, by operands, times time", tuple(errors))


def _limit_times_time(session: KernelSession, kernels: Sequence[ValidatedKernel]) -> ModelErrors:
    """Return the error of power limit times time where the limit was on, else of mean power times time."""
    mean = _power_times_time(session, kernels)
    errors = [
        100 * (session.power_limit_w * one.time_s / one.measured_j - 1) if one.capped else error
        for one, error in zip(kernels, mean.error_pct, strict=True)
    ]
    return ModelErrors(
        "power limit times time where the limit was on, else mean power times time", tuple(errors)
    )
