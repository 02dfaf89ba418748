"""What the rows of a table say of SASS opcodes: those that one isolates, and those that run with others.

A row is one loop less another, so that nothing of its loop is left in it. Where one copy of an instruction
is one opcode, the row is that opcode's energy. The others are solved together from all rows that have them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from threadpoolctl import threadpool_limits

from ptxbench.catalogue.model import Unit
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.model.opcode_energies import RANDOM, ZEROS, Known
from ptxbench.model.opcodes import OpcodeClass, opcode_class
from ptxbench.model.pass_energy import PassEnergy
from ptxbench.model.solve import row_counts, solve, solve_with_prior
from ptxbench.model.tensor import multiply_adds
from ptxbench.model.zeros import MEMORY
from ptxbench.storage.schema import TableRow, ran_at_other_clock

# Rows hold their bytes, which an estimate charges apart.
_MOVES = MEMORY | {OpcodeClass.SHARED_ATOMIC}
# Rows of one instruction with lanes that a guard turns off, or with one register for two operands: they ask
# what that changes, and their opcode has a plain row.
_CHANGED = (":predicated", ":off", ":divergent", ":shared")
# What these jump over is in their row's code and was not executed.
_JUMPS = frozenset({"BRA", "BRX", "JMP", "JMX", "CALL", "RET"})
# What an opcode costs depends on its neighbours: a sum over opcodes holds to this, relative.
_SUM_ERROR = 0.05


@dataclass(frozen=True)
class RowEnergies:
    """Energies of opcodes by rows, pJ a thread.

    Attributes:
        isolated: On random operands, opcodes with a row of their own; of several rows the median.
        together: On random operands, opcodes that rows have with others alone, solved together.
        zeros: On zeros, opcodes with a row of their own.
    """

    isolated: Mapping[str, Known]
    together: Mapping[str, Known]
    zeros: Mapping[str, Known]


def row_energies(rows: Sequence[TableRow], kin: Sequence[Sequence[TableRow]] = ()) -> RowEnergies:
    """Return what rows say of opcodes.

    Args:
        rows: Rows of a table.
        kin: Rows of other tables of GPUs that run the same machine code: each is taken at the median ratio of
            the opcodes that both isolate, for what the rows before it do not have.
    """
    own = isolated = isolated_energies(rows, RANDOM)
    zeros = isolated_energies(rows, ZEROS)
    passes = _passes(rows, 1.0)
    for others in kin:
        theirs = isolated_energies(others, RANDOM)
        scale = kin_scale(own, theirs)
        if math.isfinite(scale):
            isolated = _scaled(theirs, scale) | isolated
            zeros = _scaled(isolated_energies(others, ZEROS), scale) | zeros
            seen = {one.name for one in passes}
            passes += [one for one in _passes(others, scale) if one.name not in seen]
    left = [one for one in (_without(one, isolated) for one in passes) if one.counts]
    if not left:
        return RowEnergies(isolated, {}, zeros)
    # Several threads wait for each other longer than these small matrices take.
    with threadpool_limits(1, user_api="blas"):
        together = solve_with_prior(left, solve(left))
    return RowEnergies(isolated, {opcode: Known(*values) for opcode, values in together.items()}, zeros)


def isolated_energies(rows: Iterable[TableRow], operands: str) -> dict[str, Known]:
    """Return the energy of each opcode that is all of one copy at -O3; of several rows the median.

    Its error is half of what lies between them, or the largest of their own. `imprecise` rows count where an
    opcode has no other.

    Args:
        rows: Rows of a table.
        operands: Operand pattern.
    """
    found: dict[bool, dict[str, list[Known]]] = {True: defaultdict(list), False: defaultdict(list)}
    for row in rows:
        opcode = row.sass
        alone = row.sass_per_ptx == 1 and not set(opcode) & set(" *")
        if alone and _counts(row, operands) and opcode_class(opcode) not in _MOVES:
            found[row.status is Status.OK][opcode].append(_of_thread(row))
    return {opcode: _median(known) for opcode, known in (found[False] | found[True]).items()}


def kin_scale(own: Mapping[str, Known], kin: Mapping[str, Known]) -> float:
    """Return the median ratio of what rows and those of another GPU both isolate, NaN where nothing is."""
    ratios = [own[op].energy_pj / kin[op].energy_pj for op in own if op in kin]
    return median(ratios) if ratios else math.nan


def measured_opcodes(rows: Iterable[TableRow]) -> frozenset[str]:
    """Return the opcodes that have a row of their own: isolated, or the one in it that moves or multiplies.

    Args:
        rows: Rows of a table.
    """
    found: set[str] = set()
    for row in rows:
        if (row.opt_level, row.protocol) == (OptLevel.O3, DYNAMIC) and row.status.has_number and row.sass:
            counts = row_counts(row)
            main = [op for op in counts if opcode_class(op) in _MOVES or multiply_adds(op)] or list(counts)
            found.update(main if len(main) == 1 else ())
    return frozenset(found)


def warp_shares(rows: Iterable[TableRow]) -> dict[str, float]:
    """Return the part of a whole warp's energy that an opcode has whatever its lanes do.

    A warp of n active lanes has E(n) = E(32) (s + (1 - s) n / 32): s by least squares over the lanes that
    were measured, of every instruction whose copy is one opcode or one of two pipes alike.

    Args:
        rows: Rows of a table, those of fewer lanes among them.
    """
    energies: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if _counts(row, RANDOM, any_lanes=True) and row.sass_per_ptx == 1:
            energies[row.instruction, row.sass][row.lanes] = row.dynamic_pj
    found: dict[str, list[float]] = defaultdict(list)
    for (_, sass), by_lanes in energies.items():
        whole_pj = by_lanes.get(WARP, math.nan) * WARP
        idle = {lanes: 1 - lanes / WARP for lanes in by_lanes if lanes < WARP}
        if idle and whole_pj > 0:
            beyond = {n: by_lanes[n] * n / whole_pj - n / WARP for n in idle}
            share = sum(beyond[n] * idle[n] for n in idle) / sum(x**2 for x in idle.values())
            for opcode in (word.partition("*")[0] for word in sass.split()):
                found[opcode].append(min(max(share, 0.0), 1.0))
    return {opcode: median(shares) for opcode, shares in found.items()}


def _counts(row: TableRow, operands: str, *, any_lanes: bool = False) -> bool:
    """Return whether a row is for sums: at -O3, on these operands, its two loops at one clock."""
    if (row.opt_level, row.protocol, row.operands) != (OptLevel.O3, DYNAMIC, operands):
        return False
    if not row.status.has_number or not row.sass or row.instruction.endswith(_CHANGED):
        return False
    return (any_lanes or row.lanes == WARP) and not ran_at_other_clock(row.reason)


def _of_thread(row: TableRow) -> Known:
    threads = Unit(row.unit).threads
    return Known(row.dynamic_pj / threads, row.dynamic_ci95_pj / COVERAGE_FACTOR / threads)


def _median(known: Sequence[Known]) -> Known:
    energies_pj = [one.energy_pj for one in known]
    apart_pj = (max(energies_pj) - min(energies_pj)) / 2
    return Known(median(energies_pj), max(apart_pj, *(one.error_pj for one in known)))


def _scaled(energies: Mapping[str, Known], scale: float) -> dict[str, Known]:
    return {op: Known(scale * one.energy_pj, scale * one.error_pj) for op, one in energies.items()}


def _without(one: PassEnergy, isolated: Mapping[str, Known]) -> PassEnergy:
    """Return what an equation says of the opcodes that no row isolates."""
    known = [(count, isolated[opcode]) for opcode, count in one.counts if opcode in isolated]
    return replace(
        one,
        counts=tuple((opcode, count) for opcode, count in one.counts if opcode not in isolated),
        energy_pj=one.energy_pj - sum(count * of.energy_pj for count, of in known),
        error_pj=math.hypot(one.error_pj, *(count * of.error_pj for count, of in known)),
    )


def _passes(rows: Iterable[TableRow], scale: float) -> list[PassEnergy]:
    """Return rows as equations for the joint solve: one copy, less what its loop costs."""
    passes = []
    for row in rows:
        if not _counts(row, RANDOM) or not row.dynamic_pj > 0:
            continue
        counts = row_counts(row)
        bases = {opcode.partition(".")[0] for opcode in counts}
        if bases & _JUMPS or any(opcode_class(op) in _MOVES or multiply_adds(op) for op in counts):
            continue
        known = _of_thread(row)
        error_pj = math.hypot(known.error_pj, _SUM_ERROR * known.energy_pj)
        passes.append(
            PassEnergy(
                row.instruction, RANDOM, tuple(counts.items()), scale * known.energy_pj, scale * error_pj, 1
            )
        )
    return passes
