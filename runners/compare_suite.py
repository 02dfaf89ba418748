"""Set the table beside models that know less, on the judged families of the instruction suite.

    python runners/compare_suite.py --validation FOLDER --table RUN [--counts FOLDER]

Needs no GPU: FOLDER is what `validate_kernels.py --suite instruction` measured and counted. Where it has no
counts, those of a GPU of the same target serve, which runs the same machine code. Each model gets the same
few terms, fitted to the suite's fit families alone: a factor of each kind of data, energy of a byte of shared
memory, and power of SMs that are active. In the model an opcode keeps a share of its own energy
(`OpcodeEnergies.drawn`); the fit families choose it, each of them predicted from the others. Each
knows the counts, the measured time and the temperature. The model is kept small on purpose: what differs
between the rows is the table alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from baseline_models import drawn_by_family, shuffled
from model_validation import session_static
from validation_file import COUNTS, Purpose, measured_kernels, read_session, read_works

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.model.baselines import NOTHING_PJ, class_medians, constant
from ptxbench.model.estimate import dynamic_parts
from ptxbench.model.opcode_energies import RANDOM, ZEROS, OpcodeEnergies
from ptxbench.model.solve import solve_bounded
from ptxbench.model.solved import read_solved
from ptxbench.model.terms import UNFITTED
from ptxbench.model.work import Activity, KernelWork, Level

_PICO = 1e-12
_CONSTANTS_PJ = (4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 25.0)
_SHUFFLES = 5
_SHARES = (1.0, 0.75, 0.5, 0.25)
# Factors of data are drawn to 1 on random operands, 0 on zeros and to the middle for the rest, by this much.
_PRIOR = {RANDOM: 1.0, ZEROS: 0.0}
_PRIOR_ERROR = 0.5

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SuiteCase:
    """One case that was measured and counted.

    Attributes:
        name: Family, kernel and kind of data.
        family: Its family.
        kind: Its kind of data.
        judged: Whether its family is judged.
        work: What it executes.
        time_s: Measured time of a call.
        total_j: Measured energy of a call.
        static_j: Static energy in it.
        capped: Whether the power limit was on.
    """

    name: str
    family: str
    kind: str
    judged: bool
    work: KernelWork
    time_s: float
    total_j: float
    static_j: float
    capped: bool


@dataclass(frozen=True)
class SuiteErrors:
    """One model against the judged cases.

    Attributes:
        name: What the model is.
        fit_pct: Mean absolute error on the fit cases, % of their energy.
        error_pct: 100 (estimated / measured - 1) of each judged case.
    """

    name: str
    fit_pct: float
    error_pct: Floats


def read_cases(folder: Path, counts: Path) -> list[SuiteCase]:
    """Return the cases that were measured and counted.

    Args:
        folder: Where they were measured.
        counts: Where they were counted.

    Raises:
        InputError: The folder does not hold them, or none of the fit families or of the judged ones.
    """
    session = read_session(folder)
    works, _ = read_works(counts / COUNTS, session)
    static = session_static(session)
    cases = [
        SuiteCase(
            name=f"{one.case.name} {one.case.operands}",
            family=one.case.name.partition("/")[0],
            kind=one.case.operands,
            judged=one.case.purpose is Purpose.JUDGED,
            work=works[one.case.number],
            time_s=one.time_s,
            total_j=one.energy_j,
            static_j=static.at(one.temperature_c) * one.time_s,
            capped=one.capped,
        )
        for one in measured_kernels(session)
        if one.case.purpose is not Purpose.STATIC and one.case.number in works
    ]
    if len({one.judged for one in cases}) < 2:
        raise InputError(f"{folder} needs cases of fit and of judged families, measured and counted")
    return cases


def judge(cases: Sequence[SuiteCase], name: str, energies: OpcodeEnergies) -> SuiteErrors:
    """Fit the few terms to the fit families and return the errors on the judged ones."""
    kinds = sorted({one.kind for one in cases})
    rows = [_row(one, energies, kinds) for one in cases]
    constants = np.array([fixed for fixed, _ in rows])
    features = np.array([row for _, row in rows])
    total, static = (np.array([getattr(one, field) for one in cases]) for field in ("total_j", "static_j"))
    fit = np.array([not one.judged for one in cases])
    weights = 1 / (0.05 * total[fit])
    drawn = np.hstack([np.eye(len(kinds)), np.zeros((len(kinds), features.shape[1] - len(kinds)))])
    aim = np.array([_PRIOR.get(kind, 0.5) for kind in kinds]) / _PRIOR_ERROR
    terms = solve_bounded(
        np.vstack([features[fit] * weights[:, None], drawn / _PRIOR_ERROR]),
        np.concatenate([(total - static - constants)[fit] * weights, aim]),
    )
    error_pct = 100 * ((constants + features @ terms + static) / total - 1)
    return SuiteErrors(name, float(np.mean(np.abs(error_pct[fit]))), error_pct[~fit])


def chosen_share(cases: Sequence[SuiteCase], energies: OpcodeEnergies) -> float:
    """Return the share of its own energy with which each fit family is predicted best from the others."""
    fit = [one for one in cases if not one.judged]
    families = sorted({one.family for one in fit})

    def left_out_pct(share: float) -> float:
        kept = energies.drawn(share)
        errors = [
            judge([replace(one, judged=one.family == family) for one in fit], "", kept).error_pct
            for family in families
        ]
        return float(np.mean(np.abs(np.concatenate(errors))))

    return min(_SHARES, key=left_out_pct) if len(families) > 1 else 1.0


def compare(cases: Sequence[SuiteCase], energies: OpcodeEnergies) -> list[SuiteErrors]:
    """Return the model's errors, then those of the table as it is and of models that know less."""
    share = chosen_share(cases, energies)
    constants = [judge(cases, f"every opcode at {pj:g} pJ", constant(energies, pj)) for pj in _CONSTANTS_PJ]
    best = min(constants, key=lambda one: one.fit_pct)
    tried = [
        judge(cases, f"shuffled (median of {_SHUFFLES})", shuffled(energies, n)) for n in range(_SHUFFLES)
    ]
    return [
        judge(cases, f"the model: opcodes keep {share:.0%} of their own energy", energies.drawn(share)),
        judge(cases, "the table as it is", energies),
        replace(best, name=f"{best.name} (chosen by the fit families)"),
        judge(cases, "every opcode at the median of its class", class_medians(energies)),
        sorted(tried, key=lambda one: float(np.mean(np.abs(one.error_pct))))[_SHUFFLES // 2],
        judge(cases, "no energy of instructions", constant(energies, NOTHING_PJ)),
        mean_power(cases),
    ]


def gain_pct(cases: Sequence[SuiteCase], model: SuiteErrors, other: SuiteErrors) -> tuple[float, float]:
    """Return the 95% interval of how much smaller one model's mean absolute error is; families are drawn."""
    families = [one.family for one in cases if one.judged]
    gain = np.abs(other.error_pct) - np.abs(model.error_pct)
    # By name, so that the same are drawn whatever the order of the cases is.
    order = np.argsort(families, kind="stable")
    return drawn_by_family(gain[order], [families[n] for n in order])


def _row(one: SuiteCase, energies: OpcodeEnergies, kinds: Sequence[str]) -> tuple[float, list[float]]:
    """Return the energy on zeros, and what each term multiplies: factors by kind, shared bytes, time."""
    work = KernelWork(one.work.name, one.work.opcodes, idle=one.work.idle)
    zeros_j, random_j = (
        sum(dynamic_parts(work, energies, UNFITTED, Activity(share, share)).values()) for share in (0.0, 1.0)
    )
    by_kind = [random_j - zeros_j if kind == one.kind else 0.0 for kind in kinds]
    shared = dict(one.work.bytes_moved).get(Level.SHARED, 0.0)
    return zeros_j, [*by_kind, shared * _PICO, one.time_s]


def mean_power(cases: Sequence[SuiteCase]) -> SuiteErrors:
    """Return the errors of the fit families' mean power, by kind of data, times the measured time."""
    by_kind: dict[str, list[float]] = {}
    for one in cases:
        if not one.judged:
            by_kind.setdefault(one.kind, []).append(one.total_j / one.time_s)
    overall = float(np.mean([watt for watts in by_kind.values() for watt in watts]))
    means: Mapping[str, float] = {kind: float(np.mean(watts)) for kind, watts in by_kind.items()}
    errors = np.array([100 * (means.get(c.kind, overall) * c.time_s / c.total_j - 1) for c in cases])
    judged = np.array([one.judged for one in cases])
    return SuiteErrors(
        "mean power by kind of data, times time", float(np.mean(np.abs(errors[~judged]))), errors[judged]
    )


def main() -> int:
    """Print the comparison, and the families."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--validation", type=Path, required=True, help="what measure and count wrote")
    parser.add_argument("--table", type=Path, required=True, help="run folder of the same kind of GPU")
    parser.add_argument("--counts", type=Path, help="what count wrote, where it is not in --validation")
    arguments = parser.parse_args()
    cases = read_cases(arguments.validation, arguments.counts or arguments.validation)
    found = compare(cases, read_solved(arguments.table).opcode_energies)
    judged = [one for one in cases if one.judged]
    print(f"{len(judged)} judged cases, {sum(one.capped for one in judged)} of them at the power limit\n")
    print("| model | fit families, % | judged families, % | worst, % | larger than the model's by, % (95%) |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for one in found:
        low, high = gain_pct(cases, found[0], one)
        shown = "" if one is found[0] else f"{low:+.1f} to {high:+.1f}"
        mean, worst = np.mean(np.abs(one.error_pct)), np.max(np.abs(one.error_pct))
        print(f"| {one.name} | {one.fit_pct:.1f} | {mean:.1f} | {worst:.1f} | {shown} |")
    print("\n| family | cases | " + " | ".join(one.name for one in found) + " |")
    print("| --- | ---: |" + " ---: |" * len(found))
    for family in dict.fromkeys(one.family for one in judged):
        chosen = np.array([one.family == family for one in judged])
        errors = " | ".join(f"{np.mean(np.abs(one.error_pct[chosen])):.1f}" for one in found)
        print(f"| {family} | {chosen.sum()} | {errors} |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_suite: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
