"""Add the table of somebody's board to the atlas: check the file that `ptxbench pack` wrote, and build anew.

    python runners/add_board.py board-1a2b.tar
    python runners/add_board.py board-1a2b.tar --check  # writes nothing

The file is not trusted. It is refused where it is no pack, was changed, was not measured, has a power source
that is not of the whole board or that the energy counter contradicts, rows of fewer than two repeats or
without their machine code, SASS that other boards do not have for the same row, energies far from theirs, or
a path. Its run becomes a folder of results/GPU/, and `build_atlas.py` does the rest. Exit codes are those of
`ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import build_atlas
from board_means import board_spread
from pack_file import Pack, read_pack

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.storage.atomic import write_bytes
from ptxbench.storage.location import make_place
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.pack import SOLVED
from ptxbench.storage.schema import TableRow
from ptxbench.storage.shipped import SHIPPED
from ptxbench.storage.table import TABLE


@dataclass(frozen=True)
class Plausible:
    """What a board may differ by from the others of its model: more than any in results/ does.

    A board whose voltage went a step up has all energies 12% higher (`large_steps`).

    Attributes:
        factor: Of all rows together, a fraction.
        row: Of a row, apart from that factor.
        odd_rows: Share of rows that may differ by more.
        min_rows: Rows in common by which this can be told.
    """

    factor: float = 0.2
    row: float = 0.1
    odd_rows: float = 0.05
    min_rows: int = 10


LIMITS = Plausible()
_LEAST_REPEATS = 2


def main() -> int:
    """Check a pack, and add it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=Path, help="file that `ptxbench pack RUN` wrote")
    parser.add_argument("--check", action="store_true", help="check it, and write nothing")
    arguments = parser.parse_args()
    pack = read_pack(arguments.pack)
    gpu = model_of(pack)
    said = check(pack, gpu)
    print(f"{arguments.pack}: {said}")
    if arguments.check:
        return 0
    print(place(pack, gpu))
    return subprocess.run([sys.executable, build_atlas.__file__], check=False).returncode


def model_of(pack: Pack) -> str:
    """Return the name of the table that a pack belongs to.

    Raises:
        InputError: It was not measured, or there is no table of its GPU.
    """
    gpu = pack.manifest.gpu
    if gpu.kind is not GpuKind.REAL:
        raise InputError(f"{pack.path} was not measured: its GPU is {gpu.kind}")
    for name, run in build_atlas.REFERENCES.items():
        known = read_run_manifest(build_atlas.RESULTS / SHIPPED[name].name / run).gpu
        if (known.name, known.target) == (gpu.name, gpu.target):
            return name
    raise InputError(f"{pack.path}: no table is of {gpu.name}; name its first run in build_atlas.REFERENCES")


def check(pack: Pack, gpu: str) -> str:
    """Return what a pack holds.

    Args:
        pack: What is to be added.
        gpu: Name of the table of its GPU.

    Raises:
        InputError: It must not be added; the text says why.
    """
    rows = [row for row in pack.rows if row.status.has_number]
    unsolved = "" if pack.is_solved else f"its {SOLVED} was not made from its {TABLE}"
    faults = (_source_fault(pack), unsolved, *(_row_fault(pack, row) for row in rows))
    fault = next(filter(None, faults), "" if rows else "no row has a number")
    if fault:
        raise InputError(f"{pack.path}: {fault}")
    others = _known_rows(gpu)
    common = [(row, others[key]) for row in rows if (key := (*row.key, row.sass)) in others]
    if len(common) < LIMITS.min_rows:
        sass = "none of its SASS is that of other boards; " if not common else ""
        raise InputError(f"{pack.path}: {sass}{len(common)} rows are of others, {LIMITS.min_rows} needed")
    logs = [math.log(row.dynamic_pj / other_pj) for row, other_pj in common]
    factor = median(logs)
    odd = [row for (row, _), log in zip(common, logs, strict=True) if abs(log - factor) > LIMITS.row]
    if abs(factor) > LIMITS.factor:
        raise InputError(f"{pack.path}: its energies are {math.exp(factor):.2f} times those of other boards")
    if len(odd) > LIMITS.odd_rows * len(common):
        raise InputError(
            f"{pack.path}: {len(odd)} of {len(common)} rows are more than {LIMITS.row:.0%} from other boards,"
            f" {odd[0].instruction} at -{odd[0].opt_level} among them"
        )
    return (
        f"{len(rows)} rows, {len(common)} known of other boards; {math.exp(factor):.4f} times theirs, "
        f"{len(odd)} more than {LIMITS.row:.0%} from that"
    )


def place(pack: Pack, gpu: str) -> Path:
    """Keep a pack's run among the results, and return its folder.

    Raises:
        InputError: The same run is there already.
    """
    results = build_atlas.RESULTS / SHIPPED[gpu].name
    board = pack.manifest.gpu.uuid_hash
    for other in sorted(results.glob("*/" + TABLE)):
        if other.read_bytes() == pack.files[TABLE]:
            raise InputError(f"{pack.path}: {other.parent} is this run")
    names = (f"board-{board[:4]}", *(f"board-{board[:4]}-{n}" for n in range(2, 100)))
    folder = next(results / name for name in names if not (results / name).exists())
    make_place(folder, GpuKind.REAL)
    for name, data in pack.files.items():
        write_bytes(folder / name, data)
    return folder


def _known_rows(gpu: str) -> Mapping[tuple[object, ...], float]:
    """Return what the boards of a model say of a row of one SASS, pJ."""
    spread, (first, *others) = build_atlas.runs_of(gpu)
    mean = board_spread(first, others, any_rows=True, spread=spread)
    return {(*row.key, row.sass): row.energy_pj for row in mean.rows if row.energy_pj > 0}


def _source_fault(pack: Pack) -> str:
    """Return what is wrong with the power source, or ""."""
    part = pack.manifest.part
    sensor = next((one for one in pack.manifest.sensors if one.source == part.source), None)
    if sensor is None or not sensor.is_of_board:
        return f"its power source, {part.source}, is not one of the whole board that the manifest describes"
    return part.source_check.objection if part.source_check else ""


def _row_fault(pack: Pack, row: TableRow) -> str:
    """Return what is wrong with a row, or ""."""
    what = f"{row.instruction} at -{row.opt_level}"
    if row.repeats < _LEAST_REPEATS:
        return f"{what} has {row.repeats} repeats, {_LEAST_REPEATS} needed"
    energy, half = row.energy_pj, row.ci95_pj
    if not (math.isfinite(energy) and math.isfinite(half) and half > 0):
        return f"{what} has an energy or an interval that cannot be"
    if not row.sass or (row.instruction, row.opt_level) not in pack.measured_code:
        return f"{what} has no machine code"
    return ""


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"add_board: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
