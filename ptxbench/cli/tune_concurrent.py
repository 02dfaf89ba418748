"""`ptxbench tune concurrent`: tune the block sizes of kernels that run at once."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.options import (
    gpu_option,
    json_option,
    out_option,
    resume_option,
    seed_option,
    window_option,
)
from ptxbench.cli.output import print_json, print_table
from ptxbench.cli.progress import progress_bar

if TYPE_CHECKING:
    from ptxbench.tune.blocks.concurrent import ConcurrentTrial
    from ptxbench.tune.blocks.concurrent_search import ConcurrentTuned


@click.command(name="concurrent", short_help="Tune the block sizes of kernels that run at once.")
@click.argument("specifications", nargs=-1, required=True, type=click.Path(path_type=Path))
@gpu_option
@click.option(
    "--minimize",
    "objective",
    type=click.Choice(("energy", "time", "edp")),
    default="energy",
    show_default=True,
    help="What to minimize, of a round in which every kernel runs once.",
)
@click.option(
    "--patience",
    type=click.IntRange(1, 32),
    default=1,
    show_default=True,
    help="End the search of a kernel after so many block sizes in a row that are no better.",
)
@click.option("--exhaustive", is_flag=True, help="Run every combination of block sizes besides.")
@window_option(0.4)
@seed_option
@out_option
@resume_option
@json_option
def concurrent(
    specifications: tuple[Path, ...],
    spec: str | None,
    objective: str,
    patience: int,
    exhaustive: bool,
    window_s: float,
    seed: int | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> int:
    """Tune the block sizes of the kernels that SPECIFICATIONS describe, which run at once.

    Each is a file of `ptxbench tune kernel`; its axes other than the block hold their first value. The
    kernels run in streams of their own. Block sizes are tried by Algorithm 3 of Guerreiro et al. (2015) at
    the clocks that are set. Each kernel's results are checked alone first. Each run is saved before the next
    begins; --resume continues. It all happens in this process: a kernel that hangs hangs the search, so tune
    each with `tune kernel` before. The exit code is 1 if no run is valid.
    """
    from ptxbench.tune.blocks.concurrent_search import ConcurrentTuning, tune_concurrently
    from ptxbench.tune.spec_file import load_spec

    if resume and out is None:
        raise click.UsageError("--resume needs --out, the folder of the search to continue.")
    tuning = ConcurrentTuning(
        tuple(load_spec(one) for one in specifications), objective, window_s, seed or 0, exhaustive, patience
    )
    gpu = open_chosen_gpu(spec)
    try:
        with progress_bar() as show:
            tuned = tune_concurrently(gpu, tuning, None if resume else out, out if resume else None, show)
    finally:
        gpu.close()
    if as_json:
        _print_json(tuned, objective)
    else:
        _print(tuned, objective)
    return 0 if tuned.chosen.ok else 1


def _print_json(tuned: ConcurrentTuned, objective: str) -> None:
    print_json(
        {
            "folder": str(tuned.path),
            "gpu": asdict(tuned.manifest.gpu),
            "kernels": [one.kernel for one in tuned.manifest.part.kernels],
            "objective": objective,
            "iterations": tuned.iterations,
            "high_occupancy": tuned.tried,
            "possible": tuned.possible,
            "chosen": _plain(tuned.chosen),
            "default": _plain(tuned.default),
            "best": _plain(tuned.best) if tuned.best else None,
        }
    )


def _plain(trial: ConcurrentTrial) -> dict[str, object]:
    return {
        "variants": [one.by_axis for one in trial.variants],
        "time_s": trial.time_s,
        "kernel_s": trial.kernel_s,
        "power_w": trial.power_w,
        "energy_j": trial.energy_j,
        "capped": trial.capped,
        "settled": trial.settled,
        "status": trial.status,
        "reason": trial.reason,
    }


def _print(tuned: ConcurrentTuned, objective: str) -> None:
    from ptxbench.tune.blocks.concurrent_search import cost_of

    names = " and ".join(one.kernel for one in tuned.manifest.part.kernels)
    click.echo(f"{tuned.manifest.gpu.title}: {names} at once")
    click.echo(
        f"{tuned.iterations} runs of {tuned.tried} combinations of high occupancy, {tuned.possible} in all"
    )
    rows = {"chosen": tuned.chosen, "default": tuned.default}
    if tuned.best is not None:
        rows["best of all"] = tuned.best
    print_table(
        ("", "variants", "time ms", "power W", "energy J", "power limit"),
        [
            (
                what,
                one.name,
                f"{1e3 * one.time_s:.4g}",
                f"{one.power_w:.1f}",
                f"{one.energy_j:.4g}",
                one.at_limit,
            )
            for what, one in rows.items()
        ],
        ("time ms", "power W", "energy J"),
    )
    for what, one in rows.items():
        if not one.ok:
            click.echo(f"{what}: {one.status}: {one.reason}")
    chosen = cost_of(tuned.chosen, objective)
    saved = 1 - chosen / cost_of(tuned.default, objective)
    click.echo(f"\n{objective} saved against the default blocks: {saved:.1%}")
    if tuned.best is not None:
        click.echo(f"{objective} over the best of all: {chosen / cost_of(tuned.best, objective) - 1:.1%}")
    click.echo(f"folder: {tuned.path}")
