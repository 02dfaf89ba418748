"""Set runs beside Table I of Arafa et al. (2020): energies of instructions as ratios to one of them.

    python runners/compare_published.py results/nvidia-h200/table1 results/nvidia-h200/table1-plain

The GPUs are others, so that only ratios compare: each merged row of the table over the reference row, in the
runs and on the paper's four architectures. In the runs that is Eq. 1 by MTSM, the mean of the catalogue's
instructions that belong to the row. Each is over the reference of its own run, since boards differ. An
instruction with .ftz is left out where the same without is there: the paper names none. Prints Markdown, rank
correlations, and by what factor the ratios differ. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.arafa import arafa_rows, load_arafa_table
from ptxbench.catalogue.load import load_catalogue
from ptxbench.core.condition import ARAFA, OptLevel
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.status import Status
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import PJ_PER_NJ, TableRow

ARCHITECTURES = ("maxwell", "pascal", "volta", "turing")
REFERENCE = "Integer Arithmetic: add / sub / min / max"


@dataclass(frozen=True)
class Compared:
    """One merged row of Table I at one level; ratios are NaN where a number is missing.

    Attributes:
        paper: The row, such as "Integer Arithmetic: abs".
        opt_level: Optimization level of the assembler.
        instructions: Catalogue instructions of the runs that belong to it.
        mtsm_nj: Their mean energy in the runs, nJ.
        ratio: Their mean ratio to the reference row of their run.
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
    parser.add_argument("run", type=Path, nargs="+", help="run folder with rows of the arafa protocol")
    parser.add_argument(
        "--reference",
        default=REFERENCE,
        choices=sorted(arafa_rows()),
        metavar="ROW",
        help=f"default: {REFERENCE}",
    )
    arguments = parser.parse_args()
    runs, gpus = [], []
    for path in arguments.run:
        with RunFolder.open(path) as folder:
            runs.append(folder.known_rows())
            gpus.append(folder.manifest.gpu)
    found = compare(runs, arguments.reference)
    names = " and ".join(dict.fromkeys(gpu.title for gpu in gpus))
    print(f"{names} beside Table I of Arafa et al. (2020), as ratios to `{arguments.reference}`\n")
    print(f"| row of Table I | level | instructions | nJ here | here | {' | '.join(ARCHITECTURES)} |")
    print("| --- | --- | ---: | ---: | ---: |" + " ---: |" * len(ARCHITECTURES))
    for one in found:
        ratios = " | ".join(_number(ratio) for ratio in (one.ratio, *one.published))
        print(f"| {one.paper} | {one.opt_level} | {one.instructions} | {one.mtsm_nj:.4g} | {ratios} |")
    print(
        "\nSpearman's rank correlation of the ratios with each architecture's, over the rows that both have:"
    )
    _print_by_level(found, correlations)
    print("\nMedian factor between the ratios and each architecture's, up or down, without the reference:")
    _print_by_level([one for one in found if one.paper != arguments.reference], factors)
    return 0


def _print_by_level(
    found: Sequence[Compared], figures: Callable[[Sequence[Compared]], tuple[float, ...]]
) -> None:
    for level in OptLevel:
        of_level = figures([one for one in found if one.opt_level is level])
        texts = [f"{at} {_number(value)}" for at, value in zip(ARCHITECTURES, of_level, strict=True)]
        print(f"-{level}: {', '.join(texts)}")


def compare(runs: Sequence[Sequence[TableRow]], reference: str = REFERENCE) -> list[Compared]:
    """Return every row of Table I that a run has an instruction of, in the paper's order.

    Args:
        runs: Rows of each run; those of other protocols than `arafa`, or not valid, are passed over.
        reference: The merged row that all are divided by.

    Raises:
        InputError: A run has no number for the reference row.
    """
    paper_of = {row.name: row.paper for row in load_catalogue() if row.paper}
    measured = [
        [r for r in rows if r.protocol == ARAFA and r.status is Status.OK and r.instruction in paper_of]
        for rows in runs
    ]
    plain = {(row.instruction, row.opt_level) for rows in measured for row in rows}
    here: dict[tuple[str, OptLevel], list[tuple[float, float]]] = {}
    for rows in measured:
        base_pj = _reference_pj(rows, paper_of, reference)
        for row in rows:
            without = (row.instruction.replace(".ftz", ""), row.opt_level)
            if ".ftz" in row.instruction and without in plain:
                continue
            energies = (row.mtsm_pj / PJ_PER_NJ, row.mtsm_pj / base_pj.get(row.opt_level, math.nan))
            here.setdefault((paper_of[row.instruction], row.opt_level), []).append(energies)
    published = {(e.row, OptLevel(e.optimization), e.architecture): e.mtsm_uj for e in load_arafa_table()}
    found = []
    for name, level in dict.fromkeys((name, level) for name, level, _ in published):
        if (name, level) in here:
            energy_nj, ratio = np.mean(here[name, level], axis=0)
            ratios = tuple(
                published[name, level, at] / published[reference, level, at] for at in ARCHITECTURES
            )
            found.append(
                Compared(name, level, len(here[name, level]), float(energy_nj), float(ratio), ratios)
            )
    return found


def _reference_pj(
    rows: Sequence[TableRow], paper_of: Mapping[str, str], reference: str
) -> dict[OptLevel, float]:
    """Return the mean energy of a run's instructions of the reference row by optimization level."""
    energies: dict[OptLevel, list[float]] = {}
    for row in rows:
        if paper_of[row.instruction] == reference:
            energies.setdefault(row.opt_level, []).append(row.mtsm_pj)
    if not energies:
        raise InputError(f"a run has no valid arafa row of {reference!r}; choose another --reference")
    return {level: float(np.mean(of_level)) for level, of_level in energies.items()}


def correlations(found: Sequence[Compared]) -> tuple[float, ...]:
    """Return Spearman's rank correlation with each architecture; NaN for fewer than three rows."""
    from scipy.stats import spearmanr

    here, there = _ratios(found)
    both = np.isfinite(there)
    return tuple(
        float(spearmanr(here[both[:, n]], there[both[:, n], n]).statistic)
        if both[:, n].sum() > 2
        else math.nan
        for n in range(len(ARCHITECTURES))
    )


def factors(found: Sequence[Compared]) -> tuple[float, ...]:
    """Return by what factor, up or down, the median row's ratio differs from each architecture's."""
    here, there = _ratios(found)
    off = np.abs(np.log(here[:, None] / there))
    return tuple(
        float(np.exp(np.median(of[np.isfinite(of)]))) if np.isfinite(of).any() else math.nan for of in off.T
    )


def _ratios(found: Sequence[Compared]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the ratios here, shape (rows,), and in the paper, shape (rows, architectures)."""
    here = np.array([one.ratio for one in found])
    return here, np.array([one.published for one in found]).reshape(-1, len(ARCHITECTURES))


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_published: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
