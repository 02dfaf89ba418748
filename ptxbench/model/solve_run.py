"""Works the solved quantities of a run out from its trials, and keeps them beside its table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ptxbench.analysis.loop_energy import RunCalibration, shared_by
from ptxbench.analysis.static_power import fit_static
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.model.clocks.power_capping import clock_exponent
from ptxbench.model.observations import pass_energies
from ptxbench.model.opcode_energies import RANDOM, ZEROS
from ptxbench.model.pass_energy import patterns_of
from ptxbench.model.solution import SolvedOpcode
from ptxbench.model.solve import solve, solve_with_prior
from ptxbench.model.solved import (
    SOLVER_VERSION,
    IssueInterval,
    JointRow,
    Solved,
    inputs_of,
    write_solved,
)
from ptxbench.model.throughput import issue_cycles
from ptxbench.storage.run_folder import RunFolder


def store_solved(folder: RunFolder, common: RunCalibration | None = None) -> Solved:
    """Solve a finished run and write its solved.json.

    Args:
        folder: The run.
        common: As for `solve_run`.

    Raises:
        InputError: The run's trials or kernels cannot be read, or the file cannot be written.
    """
    solved = solve_run(folder, common)
    write_solved(folder.path, solved)
    return solved


def solve_run(folder: RunFolder, common: RunCalibration | None = None) -> Solved:
    """Work the solved quantities of a run out from its trials.

    Args:
        folder: A run with its trials and kernels.
        common: What the units of the run share, where it is known already (`shared_by`).

    Raises:
        InputError: The run's trials or kernels cannot be read.
    """
    folder.kernels.require_kept()
    records, rows = folder.records(), folder.rows()
    if common is None:
        common = shared_by(records, folder.manifest.gpu)
    passes = pass_energies(folder, common)
    dynamic: dict[tuple[str, str, str], int] = {
        (row.instruction, row.opt_level, row.operands): index
        for index, row in enumerate(rows)
        if row.protocol == DYNAMIC and row.lanes == WARP and row.status is Status.OK
    }
    solution = solve(passes, [rows[index] for index in dynamic.values()])
    drawn = {
        pattern: solve_with_prior([one for one in passes if one.pattern == pattern], solution)
        for pattern in patterns_of(passes)
        if pattern in (RANDOM, ZEROS)
    }
    static = fit_static([r for r in records if r.trial_id not in common.contradicted])
    return Solved(
        solver_version=SOLVER_VERSION,
        made_from=inputs_of(folder.path),
        static_power=None if math.isnan(static.power_w) else static,
        clock=clock_exponent(records, common),
        intervals=tuple(IssueInterval(opcode, cycles) for opcode, cycles in issue_cycles(rows).items()),
        fits=solution.fits,
        opcodes=tuple(_with_estimate(one, drawn.get(one.pattern, {})) for one in solution.opcodes),
        rows=tuple(
            JointRow(dynamic[one.instruction, one.opt_level, one.pattern], one.joint_pj, one.joint_error_pj)
            for one in solution.compared
        ),
    )


def _with_estimate(one: SolvedOpcode, drawn: Mapping[str, tuple[float, float]]) -> SolvedOpcode:
    """Return an opcode with its energy for use in estimates, where there is one."""
    energy_pj, error_pj = drawn.get(one.opcode, (math.nan, math.nan))
    return replace(one, estimate_pj=energy_pj, estimate_error_pj=error_pj)
