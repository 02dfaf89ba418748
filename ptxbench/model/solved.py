"""The solved quantities of a run (solved.json): what is worked out of its trials once and read many times.

Opcode energies by the joint solve, static power, the exponent of the clock and issue intervals take about a
minute from the trials of a whole table. They are kept beside the table with the version of the solver and the
hashes of the files that they were made from, so that a file of another solver or of other trials is not used.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ptxbench.analysis.static_power import StaticPower
from ptxbench.core.status import Status
from ptxbench.model.opcode_energies import RANDOM, ZEROS, Known, OpcodeEnergies
from ptxbench.model.solution import Comparison, JointSolution, PatternFit, SolvedOpcode
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place
from ptxbench.storage.document import major_schema, read_plain, stamped
from ptxbench.storage.file_errors import read_bytes, reading
from ptxbench.storage.kernels import index_bytes
from ptxbench.storage.schema import TableRow

FILE = "solved.json"
# Raise it with every change that changes a solved quantity, and store the runs of results/ again
# (`ptxbench report --opcodes RUN --store`). tests/model/test_solved.py solves a kept run again and compares.
SOLVER_VERSION = 2
# What is solved from. Of a run that keeps its table alone, only that can be compared.
_TABLE = "table.csv"
_FILES = (_TABLE, "records.parquet")
# The index has the hashes of all kernels; it is the same whether they are packed into one file or not.
_KERNELS = "kernels/index.json"


@dataclass(frozen=True)
class InputFile:
    """A file that quantities were solved from.

    Attributes:
        name: Path within the run folder; `kernels/index.json` stands for the kernels.
        bytes: Size.
        sha256: Hex digest.
    """

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class JointRow:
    """Result of the joint solve for one row of the table, pJ a thread.

    Attributes:
        row: Index of the row in table.csv, from 0.
        joint_pj: Energy of the opcodes of one copy.
        joint_error_pj: Standard error of it.
    """

    row: int
    joint_pj: float
    joint_error_pj: float


@dataclass(frozen=True)
class ClockExponent:
    """How dynamic energy goes with the clock.

    Attributes:
        gamma: Exponent.
        error: Standard error.
        trials: How many slowed trials it rests on.
        lowest_ratio: Lowest clock among them, over the clock at which the same kernel ran freely.
    """

    gamma: float
    error: float
    trials: int
    lowest_ratio: float


@dataclass(frozen=True)
class IssueInterval:
    """How often an SM can issue an opcode.

    Attributes:
        opcode: With modifiers.
        cycles: SM cycles a warp instruction.
    """

    opcode: str
    cycles: float


@dataclass(frozen=True)
class Solved:
    """The solved quantities of a run.

    Attributes:
        solver_version: `SOLVER_VERSION` of what solved them.
        made_from: The files that they were solved from.
        static_power: Static power by the sleeping trials, None where none is valid.
        clock: Exponent of dynamic energy in the clock, None where the run does not tell.
        intervals: Issue intervals, by opcode.
        fits: How well the system of each operand pattern is solved; none where no dynamic trial is valid.
        opcodes: Energies, by pattern, then dearest first, those without an energy last.
        rows: Rows of the table whose every opcode is among them.
    """

    solver_version: int
    made_from: tuple[InputFile, ...]
    static_power: StaticPower | None
    clock: ClockExponent | None
    intervals: tuple[IssueInterval, ...]
    fits: tuple[PatternFit, ...]
    opcodes: tuple[SolvedOpcode, ...]
    rows: tuple[JointRow, ...]

    @property
    def static(self) -> StaticPower:
        """Static power; NaN where no sleeping trial is valid."""
        return self.static_power or StaticPower(math.nan, math.nan, math.nan, math.nan, math.nan)

    @property
    def cycles(self) -> Mapping[str, float]:
        """Issue interval by opcode, SM cycles a warp instruction."""
        return {one.opcode: one.cycles for one in self.intervals}

    @cached_property
    def opcode_energies(self) -> OpcodeEnergies:
        """Energies for use in estimates.

        Raises:
            InputError: The run has no valid dynamic trial on random operands.
        """
        known: dict[str, dict[str, Known]] = {RANDOM: {}, ZEROS: {}}
        for one in sorted(self.opcodes, key=lambda one: one.opcode):
            if one.pattern in known:
                known[one.pattern][one.opcode] = Known(one.estimate_pj, one.estimate_error_pj)
        return OpcodeEnergies(known[RANDOM], known[ZEROS])

    def solution(self, rows: Sequence[TableRow]) -> JointSolution:
        """Return the joint solution beside the rows of the run's table.

        Args:
            rows: All rows of table.csv.
        """
        return JointSolution(
            self.fits,
            self.opcodes,
            tuple(
                Comparison.of_row(rows[one.row], one.joint_pj, one.joint_error_pj)
                for one in self.rows
                if rows[one.row].status is not Status.IMPRECISE
            ),
        )


def inputs_of(run: Path) -> tuple[InputFile, ...]:
    """Return the files of a run that its quantities are solved from, those that are there.

    Raises:
        InputError: One cannot be read.
    """
    contents: dict[str, bytes | None] = {}
    for name in _FILES:
        path = run / name
        with reading(path):
            contents[name] = read_bytes(path) if path.exists() else None
    contents[_KERNELS] = index_bytes(run)
    return tuple(
        InputFile(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in contents.items()
        if data is not None
    )


def write_solved(run: Path, solved: Solved) -> None:
    """Write solved.json into a run folder, atomically.

    Raises:
        InputError: It cannot be written.
    """
    write_text(run / FILE, codec.to_lines(stamped(solved)))


def read_solved(run: Path) -> Solved:
    """Return the solved quantities of a run: those that it keeps, else worked out from its trials.

    Args:
        run: A run folder; nothing is written into it. Where they are worked out, which takes a minute for a
            whole table, a warning is logged that says how to keep them.

    Raises:
        InputError: The folder holds no run, solved.json does not fit, or they are to be worked out and the
            run's trials or kernels are not there.
    """
    solved, lack = _stored(run)
    if solved is not None:
        return solved
    from ptxbench.model.solve_run import solve_run
    from ptxbench.storage.run_folder import RunFolder

    with RunFolder.open(run) as folder:
        folder.kernels.require_kept()
        folder.records()
        logging.getLogger(__name__).warning(
            "ptxbench: %s %s: its trials are solved now; keep the result by "
            "`ptxbench report --opcodes %s --store`",
            run,
            lack,
            run,
        )
        return solve_run(folder)


def _stored(run: Path) -> tuple[Solved | None, str]:
    """Return what a run keeps, or None and why that is not used.

    Raises:
        InputError: solved.json does not fit.
    """
    path = run / FILE
    with reading(path):
        if not path.exists():
            return None, f"has no {FILE}"
    plain = read_plain(path)
    major_schema(plain, "", Place(path))
    version = plain.get("solver_version")
    if version != SOLVER_VERSION:
        return None, f"has a {FILE} of another solver (version {version!r}, this is {SOLVER_VERSION})"
    solved = codec.decode(Solved, plain, Place(path))
    was = {one.name: one for one in solved.made_from}
    changed = [one.name for one in inputs_of(run) if was.get(one.name) != one]
    if changed:
        return None, f"has a {FILE} that was made from another {' and '.join(changed)}"
    return solved, ""
