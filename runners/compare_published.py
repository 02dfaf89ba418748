"""Set a run beside Table I of Arafa et al. (2020): energies of instructions as ratios to one of them.

    python runners/compare_published.py results/nvidia-h200/starters

The GPUs are others, so that only ratios compare: each merged row of the table over the reference row, in the
run (Eq. 1 by MTSM, mean of the catalogue's instructions that belong to it) and on the paper's four
architectures. Prints Markdown and the rank correlations. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptxbench.catalogue.arafa import arafa_rows, load_arafa_table
from ptxbench.catalogue.load import load_catalogue
from ptxbench.errors import InputError, PtxbenchError
from ptxbench.gpu.protocol import OptLevel
from ptxbench.status import Status
from ptxbench.store.run_folder import RunFolder
from ptxbench.store.schema import Protocol, TableRow

ARCHITECTURES = ("maxwell", "pascal", "volta", "turing")
REFERENCE = "Integer Arithmetic: add / sub / min / max"


@dataclass(frozen=True)
class Compared:
    """One merged row of Table I at one level; ratios are NaN where a number is missing.

    Attributes:
        paper: The row, such as "Integer Arithmetic: abs".
        opt_level: Assembler level.
        instructions: Catalogue instructions of the run that belong to it.
        mtsm_nj: Their mean energy in the run, nJ.
        ratio: That over the reference row's.
        published: The same ratio of MTSM on each of the paper's architectures.
    """

    paper: str
    opt_level: OptLevel
    instructions: int
    mtsm_nj: float
    ratio: float
    published: tuple[float, ...]


def main() -> int:
    """Compare, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder with rows of the arafa protocol")
    parser.add_argument(
        "--reference",
        default=REFERENCE,
        choices=sorted(arafa_rows()),
        metavar="ROW",
        help=f"default: {REFERENCE}",
    )
    arguments = parser.parse_args()
    with RunFolder.open(arguments.run) as folder:
        rows, gpu = folder.rows(), folder.manifest.gpu
    found = compare(rows, arguments.reference)
    kind = "" if gpu.kind == "real" else f" ({gpu.kind.upper()}, no measurement)"
    print(f"{gpu.name}{kind} beside Table I of Arafa et al. (2020), as ratios to `{arguments.reference}`\n")
    print(f"| row of Table I | level | instructions | nJ here | here | {' | '.join(ARCHITECTURES)} |")
    print("| --- | --- | ---: | ---: | ---: |" + " ---: |" * len(ARCHITECTURES))
    for one in found:
        ratios = " | ".join(_number(ratio) for ratio in (one.ratio, *one.published))
        print(f"| {one.paper} | {one.opt_level} | {one.instructions} | {one.mtsm_nj:.4g} | {ratios} |")
    print("\nSpearman's rank correlation of the run with each architecture, over the rows that both have:")
    for level in OptLevel:
        of_level = [one for one in found if one.opt_level is level]
        texts = [
            f"{name} {_number(r)}" for name, r in zip(ARCHITECTURES, correlations(of_level), strict=True)
        ]
        print(f"-{level}: {', '.join(texts)}")
    return 0


def compare(rows: Sequence[TableRow], reference: str = REFERENCE) -> list[Compared]:
    """Return every row of Table I that the run has an instruction of, in the paper's order.

    Args:
        rows: A run's rows; those of other protocols than `arafa`, or not valid, are passed over.
        reference: The merged row that all are divided by.

    Raises:
        InputError: The run has no number for the reference row.
    """
    paper_of = {row.name: row.paper for row in load_catalogue() if row.paper}
    here: dict[tuple[str, OptLevel], list[float]] = {}
    for row in rows:
        if row.protocol is Protocol.ARAFA and row.status is Status.OK and row.instruction in paper_of:
            here.setdefault((paper_of[row.instruction], row.opt_level), []).append(row.mtsm_nj)
    published = {(e.row, OptLevel(e.optimization), e.architecture): e.mtsm_uj for e in load_arafa_table()}
    keys = dict.fromkeys((name, level) for name, level, _ in published)
    if not any((reference, level) in here for level in OptLevel):
        raise InputError(f"the run has no valid arafa row of {reference!r}; choose another --reference")
    found = []
    for name, level in keys:
        if (name, level) not in here:
            continue
        base_nj = float(np.mean(here.get((reference, level), [math.nan])))
        energy_nj = float(np.mean(here[name, level]))
        ratios = tuple(published[name, level, at] / published[reference, level, at] for at in ARCHITECTURES)
        count = len(here[name, level])
        found.append(Compared(name, level, count, energy_nj, energy_nj / base_nj, ratios))
    return found


def correlations(found: Sequence[Compared]) -> tuple[float, ...]:
    """Return Spearman's rank correlation with each architecture; NaN for fewer than three rows."""
    from scipy.stats import spearmanr

    here = np.array([one.mtsm_nj for one in found])
    there = np.array([one.published for one in found]).reshape(-1, len(ARCHITECTURES))
    both = np.isfinite(there)
    return tuple(
        float(spearmanr(here[both[:, n]], there[both[:, n], n]).statistic)
        if both[:, n].sum() > 2
        else math.nan
        for n in range(len(ARCHITECTURES))
    )


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_published: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
