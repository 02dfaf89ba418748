"""Say what share of the energy of real kernels their opcodes explain, and what share their operands.

    python runners/decompose_energy.py --validation FOLDER [--counts FOLDER] --table RUN

Needs no GPU: FOLDER is what `validate_kernels.py --suite instruction` measured. What is explained is the
logarithm of dynamic energy by executed instruction. Its variance is taken apart (one-way analysis of
variance): between kernels on one kind of data (random), and within a kernel between kinds of data. Of the
part between kernels, the opcodes' share is what the table predicts with one common factor. The 95% intervals
draw whole families.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from compare_suite import SuiteCase, read_cases

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.atlas import open_atlas
from ptxbench.model.estimate import dynamic_parts
from ptxbench.model.opcode_energies import RANDOM
from ptxbench.model.work import Activity

_DRAWS = 2_000
_TENSOR = "tensor"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Where the variance of the energy of an instruction comes from, parts of it.

    Attributes:
        spread: Standard deviation of the logarithm of the energy.
        opcodes: Between kernels, predicted by the opcodes.
        kernel: Between kernels, not predicted by them (registers, structure, data that it makes itself).
        operands: Within a kernel, between kinds of data.
    """

    spread: float
    opcodes: float
    kernel: float
    operands: float


@dataclass(frozen=True)
class Case:
    """One case: logarithms of its energy an instruction, measured and as the opcodes predict it."""

    family: str
    kernel: str
    kind: str
    log_energy: float
    log_predicted: float


def shares(cases: Sequence[Case]) -> Shares:
    """Return the shares of variance, each kernel weighed alike."""
    kernels: dict[str, list[Case]] = {}
    for one in cases:
        kernels.setdefault(one.kernel, []).append(one)
    random = [next(one for one in of if one.kind == RANDOM) for of in kernels.values()]
    energy = np.array([one.log_energy for one in random])
    predicted = np.array([one.log_predicted for one in random])
    between = float(np.var(energy, ddof=1))
    # One factor for all: the scale of data is no merit of the opcodes.
    left = float(np.var(energy - predicted, ddof=1))
    within = float(
        np.mean(
            [float(np.var([one.log_energy for one in of], ddof=1)) for of in kernels.values() if len(of) > 1]
            or [0.0]
        )
    )
    total = between + within
    known = max(between - left, 0.0)
    return Shares(float(np.sqrt(total)), known / total, (between - known) / total, within / total)


def interval(cases: Sequence[Case], seed: int = 0) -> tuple[Shares, Shares]:
    """Return the 95% ends of each share; families are drawn."""
    families = sorted({one.family for one in cases})
    by_family = {name: [one for one in cases if one.family == name] for name in families}
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(_DRAWS):
        chosen = random.choice(len(families), len(families))
        drawn.append(
            shares(
                [
                    Case(c.family, f"{n} {c.kernel}", c.kind, c.log_energy, c.log_predicted)
                    for n, i in enumerate(chosen)
                    for c in by_family[families[i]]
                ]
            )
        )
    values = np.array([[s.spread, s.opcodes, s.kernel, s.operands] for s in drawn])
    low, high = np.quantile(values, [0.025, 0.975], axis=0)
    return Shares(*map(float, low)), Shares(*map(float, high))


def cases_of(suite: Sequence[SuiteCase], table: Path) -> list[Case]:
    """Return the suite's cases with what the opcodes predict on random operands."""
    machine = open_atlas(table).machine
    found = []
    for one in suite:
        parts = dynamic_parts(one.work, machine.opcode_energies, machine.terms, Activity(1.0, 1.0))
        found.append(
            Case(
                one.family,
                one.name.partition(" ")[0],
                one.kind,
                float(np.log((one.total_j - one.static_j) / one.work.executions)),
                float(np.log(sum(parts.values()) / one.work.executions)),
            )
        )
    return found


def main() -> int:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--validation", type=Path, required=True, help="what measure wrote")
    parser.add_argument("--counts", type=Path, help="what count wrote, where it is not in --validation")
    parser.add_argument("--table", type=Path, required=True, help="run folder of the same kind of GPU")
    arguments = parser.parse_args()
    suite = read_cases(arguments.validation, arguments.counts or arguments.validation)
    every = cases_of(suite, arguments.table)
    print("| kernels | spread, % | opcodes, % | kernel beside, % | operands, % |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, cases in (
        ("all", every),
        ("without tensor cores", [one for one in every if one.family != _TENSOR]),
        ("without tensor cores and f64", [one for one in every if one.family not in (_TENSOR, "f64")]),
    ):
        found, (low, high) = shares(cases), interval(cases)
        cells = []
        for part in ("spread", "opcodes", "kernel", "operands"):
            best, least, most = (100 * getattr(one, part) for one in (found, low, high))
            cells.append(f"{best:.0f} ({least:.0f} to {most:.0f})")
        print(f"| {name}, {len({one.kernel for one in cases})} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"decompose_energy: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
