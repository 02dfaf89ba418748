"""Judge a table and its fitted terms, as they are, by kernels of another board or GPU.

    python runners/transfer_model.py --validation FOLDER [--counts FOLDER] --table RUN [--terms RUN]

Needs no GPU, and fits nothing: --table has the energies and --terms (default: the same run) the terms
(model.json), FOLDER what `validate_kernels.py` measured and counted. Where it has no counts, those of a GPU
of the same target serve. Static power is that of FOLDER's sleeping kernels. Each estimate knows counts, time,
clock and temperature.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from model_validation import conditions_of, session_static
from validation_file import COUNTS, Purpose, measured_kernels, read_session, read_works

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.model.atlas import open_atlas
from ptxbench.model.estimate import Machine, estimate
from ptxbench.model.work import KernelWork

EMPTY: Mapping[str, KernelWork] = MappingProxyType({})


@dataclass(frozen=True)
class Transferred:
    """One case.

    Attributes:
        case: Its name.
        operands: Its kind of data.
        error_pct: 100 (estimated / measured - 1).
        inside: Whether the measured energy is in the estimate's 95% interval.
        half_width_pct: Half of that interval, % of the estimate.
    """

    case: str
    operands: str
    error_pct: float
    inside: bool
    half_width_pct: float

    @property
    def family(self) -> str:
        """Its family, or its name where it has none."""
        return self.case.partition("/")[0]


def machine_of(table: str, terms: str | None) -> Machine:
    """Return a GPU with the energies of one run, and the terms of another if one is named.

    Raises:
        InputError: A folder holds no run.
    """
    atlas = open_atlas(table)
    return (atlas.with_terms(open_atlas(terms).terms) if terms else atlas).machine


def transfer(
    folder: Path, counts: Path, machine: Machine, by_name: Mapping[str, KernelWork] = EMPTY
) -> list[Transferred]:
    """Return the judged cases of a session by a machine's energies and terms.

    Args:
        folder: The session.
        counts: Results that have its counts.
        machine: Energies and terms.
        by_name: What kernels execute that have no counts, by the name of their cases.

    Raises:
        InputError: A folder does not fit, or holds no judged case.
    """
    session = read_session(folder)
    works, _ = read_works(counts / COUNTS, session)
    machine = replace(machine, static=session_static(session), limit_w=session.gpu.power_limit_w)
    found = []
    for one in measured_kernels(session):
        work = works.get(one.case.number, by_name.get(one.case.name))
        if one.case.purpose is not Purpose.JUDGED or work is None:
            continue
        conditions = conditions_of(one.case, machine.terms, one.temperature_c, one.clock_ratio)
        guess = estimate(replace(work, time_s=one.time_s), machine, conditions)
        found.append(
            Transferred(
                one.case.name,
                one.case.operands,
                100 * (guess.energy_j / one.energy_j - 1),
                guess.low_j <= one.energy_j <= guess.high_j,
                50 * (guess.high_j - guess.low_j) / guess.energy_j,
            )
        )
    if not found:
        raise InputError(f"{folder} has no judged case that was measured and counted")
    return found


def main() -> int:
    """Print the errors by family."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--validation", type=Path, required=True, help="what measure wrote")
    parser.add_argument("--counts", type=Path, help="what count wrote, where it is not in --validation")
    parser.add_argument("--table", required=True, help="run folder with the energies, or h100, h200")
    parser.add_argument("--terms", help="the same with model.json (default: --table)")
    arguments = parser.parse_args()
    machine = machine_of(arguments.table, arguments.terms)
    found = transfer(arguments.validation, arguments.counts or arguments.validation, machine)
    print("| family | cases | mean absolute error, % | mean error, % | inside the interval |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for family in (*dict.fromkeys(one.family for one in found), "all"):
        own = [one for one in found if family in (one.family, "all")]
        errors = np.array([one.error_pct for one in own])
        print(
            f"| {family} | {len(own)} | {np.mean(np.abs(errors)):.1f} | {np.mean(errors):+.1f} |"
            f" {sum(one.inside for one in own)} |"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"transfer_model: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
