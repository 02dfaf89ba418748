"""`ptxbench report --opcodes`: energy per SASS opcode from all kernels of a run at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.output import print_encoded, print_table
from ptxbench.core.errors import InputError
from ptxbench.core.printable import number

if TYPE_CHECKING:
    from ptxbench.model.solution import JointSolution

_SHOWN = 3


def print_opcodes(run: Path, *, store: bool, as_json: bool) -> None:
    """Print the energy of each SASS opcode, solved jointly from every kernel of a run.

    Args:
        run: Folder of a run, or the name of a table.
        store: Solve the run's trials again and keep the result in its folder.
        as_json: Print JSON.

    Raises:
        InputError: There is nothing to solve.
    """
    from ptxbench.model.atlas import JOINT_INCLUDES, open_atlas

    atlas = open_atlas(run)
    if store:
        from ptxbench.model.solve_run import store_solved
        from ptxbench.storage.run_folder import RunFolder

        with RunFolder.open(atlas.path) as folder:
            store_solved(folder)
    solution, info = atlas.solution, atlas.gpu
    if not solution.fits:
        raise InputError(
            f"{run} holds no valid trial of the dynamic protocol on whole warps, so there is nothing to"
            " solve; measure with `ptxbench table --protocol dynamic`"
        )
    if as_json:
        print_encoded(solution, {"gpu": info.name, "kind": info.kind, "includes": JOINT_INCLUDES})
        return
    click.echo(f"{info.title}, driver {info.driver}; {JOINT_INCLUDES}")
    _print(solution)


def _print(solution: JointSolution) -> None:
    for fit in solution.fits:
        click.echo(
            f"\noperands {fit.pattern}: {fit.kernels} kernels; {fit.opcodes} opcodes, of which {fit.rank} are"
            f" independent (condition number {fit.condition:.0f}); residual {100 * fit.median_residual:.2f}%"
            f" (median), at most {100 * fit.worst_residual:.1f}% ({fit.worst_kernel})"
        )
        rows = [
            (
                one.opcode,
                f"{one.energy_pj:.4g}" if one.identifiable else "not told apart",
                number(one.error_pj, ".2g"),
                str(one.kernels),
                _beside(one.together_with),
            )
            for one in solution.opcodes
            if one.pattern == fit.pattern
        ]
        print_table(
            ("opcode", "pJ a thread", "± pJ (1 SE)", "kernels", "cannot be told from"), rows, ("pJ a thread",)
        )
    differ = solution.disagreements
    click.echo(f"\n{len(differ)} of {len(solution.compared)} rows disagree with their direct difference")
    for one in differ:
        click.echo(
            f"  {one.instruction} {one.opt_level} {one.pattern}: direct {one.direct_pj:.4g} ±"
            f" {one.direct_error_pj:.2g}, joint {one.joint_pj:.4g} ± {one.joint_error_pj:.2g} pJ a thread"
        )


def _beside(opcodes: tuple[str, ...]) -> str:
    more = f" and {len(opcodes) - _SHOWN} more" if len(opcodes) > _SHOWN else ""
    return ", ".join(opcodes[:_SHOWN]) + more
