"""`ptxbench solve`: energy per SASS opcode from all kernels of a run at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.output import print_encoded, print_table
from ptxbench.core.option import Arg
from ptxbench.core.shared_options import Json

if TYPE_CHECKING:
    from ptxbench.model.solution import JointSolution

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench solve`.

    Attributes:
        store: Solve the run's trials again and keep the result in its folder.
    """

    run: Annotated[Path, Arg()]
    store: bool = False
    as_json: Json = False


@command_of(_Options, "solve")
def command(options: _Options) -> None:
    """Solve for the energy of each SASS opcode, jointly from every kernel of a run folder.

    Each has its standard error, and says whether the kernels determine it. Rows of table.csv whose direct
    difference disagrees with the joint answer beyond both errors are listed. A run that keeps its solution
    (solved.json) is read; --store solves it again, which takes a minute for a whole table.
    """
    from ptxbench.core.errors import InputError
    from ptxbench.model.atlas import JOINT_INCLUDES, open_atlas

    atlas = open_atlas(options.run)
    if options.store:
        from ptxbench.model.solve_run import store_solved
        from ptxbench.storage.run_folder import RunFolder

        with RunFolder.open(atlas.path) as folder:
            store_solved(folder)
    solution, info = atlas.solution, atlas.gpu
    if not solution.fits:
        raise InputError(
            f"{options.run} holds no valid trial of the dynamic protocol, so there is nothing to solve;"
            " measure with `ptxbench table --protocol dynamic`"
        )
    if options.as_json:
        print_encoded(solution, {"gpu": info.name, "kind": info.kind, "includes": JOINT_INCLUDES})
        return
    click.echo(f"{info.title}, driver {info.driver}; {JOINT_INCLUDES}")
    _print(solution)


def _print(solution: JointSolution) -> None:
    for fit in solution.fits:
        click.echo(
            f"\n{fit.pattern}: {fit.kernels} kernels, {fit.opcodes} opcodes, rank {fit.rank}, condition"
            f" {fit.condition:.3g}, residual {100 * fit.median_residual:.2f}% at the median, at most"
            f" {100 * fit.worst_residual:.1f}% ({fit.worst_kernel})"
        )
        rows = [
            (
                one.opcode,
                f"{one.energy_pj:.4g}" if one.identifiable else "not told apart",
                _error(one.error_pj),
                str(one.kernels),
                _beside(one.together_with),
            )
            for one in solution.opcodes
            if one.pattern == fit.pattern
        ]
        print_table(
            ("opcode", "pJ a thread", "±1 SE", "kernels", "cannot be told from"), rows, ("pJ a thread",)
        )
    differ = solution.disagreements
    click.echo(f"\n{len(differ)} of {len(solution.compared)} rows disagree with their direct difference")
    for one in differ:
        click.echo(
            f"  {one.instruction} {one.opt_level} {one.pattern}: direct {one.direct_pj:.4g} ±"
            f" {one.direct_error_pj:.2g}, joint {one.joint_pj:.4g} ± {one.joint_error_pj:.2g} pJ a thread"
        )


def _error(error_pj: float) -> str:
    return "-" if math.isnan(error_pj) else f"{error_pj:.2g}"


def _beside(opcodes: tuple[str, ...]) -> str:
    more = f" and {len(opcodes) - _SHOWN} more" if len(opcodes) > _SHOWN else ""
    return ", ".join(opcodes[:_SHOWN]) + more
