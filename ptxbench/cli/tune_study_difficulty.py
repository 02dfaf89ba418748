"""`ptxbench tune study difficulty`: how hard a search space is for a local search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import plot_of
from ptxbench.cli.output import print_json, print_table
from ptxbench.core.option import Arg
from ptxbench.core.shared_options import Json

if TYPE_CHECKING:
    from ptxbench.tune.clocks.difficulty import Difficulty


@dataclass(frozen=True, kw_only=True)
class _DifficultyOptions:
    """Options of `ptxbench tune study difficulty`."""

    run: Annotated[Path, Arg()]
    plot: Annotated[Path | None, plot_of("the proportion of centrality")] = None
    as_json: Json = False


@command_of(
    _DifficultyOptions, "difficulty", short_help="Tell how hard a search space is for a local search."
)
def difficulty(options: _DifficultyOptions) -> None:
    """Tell how hard the space of RUN is: how often a local search ends near the optimum.

    RUN is a folder of `tune gemm` or `tune kernel` in which every variant was tried. A randomized
    first-improvement search follows the fitness-flow graph; PageRank says where it ends (Schoonhoven et al.
    2022, Fig. 5). The table has the share of its ends within so many percent of the optimum, for time and
    for energy. This needs networkx (in the extra `tune`). Nothing is measured.
    """
    from ptxbench.tune.clocks.difficulty import PROPORTIONS, parts
    from ptxbench.tune.folder import TuningFolder

    folder = TuningFolder.read(options.run)
    trials, _ = folder.believed()
    found = parts(trials)
    if options.plot is not None:
        from ptxbench.report.difficulty_plot import plot_difficulty

        plot_difficulty(folder.manifest, found, options.plot)
    if options.as_json:
        print_json({"parts": [_plain(one) for one in found]})
        return
    click.echo(f"{folder.manifest.gpu.title}: {folder.manifest.part.problem.title}")
    click.echo(
        "share of the ends of a local search whose time or energy is within 1%, 2%, ... of the optimum"
    )
    percents = [f"{100 * (p - 1):.0f}%" for p in PROPORTIONS]
    rows = [
        (
            one.part,
            str(one.candidates),
            str(len(one.minima)),
            *(f"{one.proportion(p):.2f}" for p in PROPORTIONS),
        )
        for one in found
    ]
    numbers = ("candidates", "minima", *percents)
    print_table(("tuned", *numbers), rows, numbers)
    alone = sum(one.alone for one in found)
    if alone:
        click.echo(f"\n{alone} candidates have no neighbour that was tried: the space was not swept in full")


def _plain(one: Difficulty) -> dict[str, object]:
    from ptxbench.tune.clocks.difficulty import PROPORTIONS

    return {
        "tuned": one.part,
        "candidates": one.candidates,
        "edges": one.edges,
        "without_neighbour": one.alone,
        "proportion_of_centrality": [{"p": p, "share": one.proportion(p)} for p in PROPORTIONS],
        "minima": [vars(minimum) for minimum in one.minima],
    }
