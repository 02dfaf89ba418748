"""`ptxbench tune`: find the variant of a kernel that takes the least energy or time."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.options import (
    gpu_option,
    json_option,
    out_option,
    plot_option,
    resume_option,
    seed_option,
    table_option,
    window_option,
)
from ptxbench.cli.output import print_json, print_table
from ptxbench.cli.parameters import Number
from ptxbench.cli.progress import progress_bar

if TYPE_CHECKING:
    from ptxbench.tune.trial import Trial
    from ptxbench.tune.tuning import Tuned

# As in ptxbench.tune, which would load numpy.
_DTYPES = ("f32", "f64", "f16")
_OBJECTIVES = ("energy", "time", "edp", "power-limited")
_SHOWN = 10
_HEADINGS = ("variant", "time ms", "power W", "energy J", "estimated J", "GFLOP/s", "correct")
# A matrix of f64 is then 2 GiB.
_MAX_SIZE = 16384
_SIZE = click.IntRange(16, _MAX_SIZE)


@click.group(name="tune")
def command() -> None:
    """Find the variant of a kernel that takes the least energy or time."""


@command.command(name="gemm", short_help="Tune the matrix product C = A B.")
@gpu_option
@click.option("--dtype", type=click.Choice(_DTYPES), default="f32", show_default=True, help="Element type.")
@click.option("--m", type=_SIZE, default=4096, show_default=True, help="Rows of A and C.")
@click.option("--n", type=_SIZE, default=4096, show_default=True, help="Columns of B and C.")
@click.option("--k", type=_SIZE, default=4096, show_default=True, help="Columns of A, rows of B.")
@click.option(
    "--objective",
    type=click.Choice(_OBJECTIVES),
    default="energy",
    show_default=True,
    help="Minimize this.",
)
@click.option(
    "--alpha",
    type=Number(0, 1),
    help="Minimize alpha t + (1 - alpha) e instead; time t and energy e are relative to the first variant.",
)
@click.option(
    "--power-limit-w",
    type=Number(1, 10_000),
    help="Leave out variants above this power (for --objective power-limited).",
)
@table_option(required=False)
@click.option(
    "--strategy",
    help="Search by estimate, random, or a strategy of Kernel Tuner such as genetic_algorithm "
    "(default: estimate with --table or for time, else random).",
)
@click.option(
    "--budget", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Try so many variants."
)
@click.option(
    "--candidates",
    type=click.IntRange(1, 100_000),
    default=256,
    show_default=True,
    help="Estimate so many variants before the first is tried (for --strategy estimate).",
)
@click.option(
    "--measure",
    type=click.Choice(("energy", "time")),
    default="energy",
    show_default=True,
    help="Measure the energy of each variant, or only its time.",
)
@window_option(0.4)
@click.option(
    "--prune",
    type=Number(1, 1000),
    help="Only time a variant whose estimate is more than so many times the best.",
)
@click.option("--space", type=click.Path(path_type=Path), help="TOML file of the search space.")
@seed_option
@out_option
@resume_option
@plot_option("the Pareto front of time and energy (default: pareto.svg in the folder)")
@json_option
def gemm(
    spec: str | None,
    dtype: str,
    m: int,
    n: int,
    k: int,
    objective: str,
    alpha: float | None,
    power_limit_w: float | None,
    table: Path | None,
    strategy: str | None,
    budget: int,
    candidates: int,
    measure: str,
    window_s: float,
    prune: float | None,
    space: Path | None,
    seed: int | None,
    out: Path | None,
    resume: bool,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Tune C = A B: try variants of a tiled kernel, and show the best and the front of time and energy.

    Every variant's results are checked against numpy before it is timed. Each trial is saved before the
    next begins; --resume continues a search that was stopped. The exit code is 1 if no variant is valid.
    """
    from ptxbench.storage.location import default_run_path
    from ptxbench.storage.shipped import find_table
    from ptxbench.tune.bench import BenchOptions
    from ptxbench.tune.objective import Goal, Objective
    from ptxbench.tune.tuning import Tuning, tune
    from ptxbench.tune.variant import DType, Problem

    if resume and out is None:
        raise click.UsageError("--resume needs --out, the folder of the search to continue.")
    goal = Goal(
        Objective.WEIGHTED if alpha is not None else Objective(objective),
        math.nan if power_limit_w is None else power_limit_w,
        math.nan if alpha is None else alpha,
    )
    tuning = Tuning(
        problem=Problem(DType(dtype), m, n, k),
        goal=goal,
        asked=BenchOptions(power=measure == "energy", window_s=window_s, seed=seed or 0),
        strategy=strategy or "",
        budget=budget,
        candidates=candidates,
        table=find_table(table) if table else None,
        space=space,
        prune=math.nan if prune is None else prune,
    )
    gpu = open_chosen_gpu(spec)
    try:
        place = out or default_run_path(gpu.info, datetime.now(UTC), prefix="tune-")
        with progress_bar() as show:
            try:
                tuned = tune(gpu, tuning, None if resume else place, place if resume else None, show)
            except KeyboardInterrupt:
                if place.exists():
                    again = shlex.join(["--resume", "--out", str(place)])
                    click.echo(f"ptxbench: stopped; the trials are kept. Add to continue: {again}", err=True)
                raise
    finally:
        gpu.close()
    _draw(tuned, plot)
    if as_json:
        _print_json(tuned)
    else:
        _print(tuned)
    return 0 if tuned.best else 1


def _draw(tuned: Tuned, plot: Path | None) -> None:
    """Draw the front; without matplotlib only where a picture was requested."""
    from ptxbench.core.errors import InputError
    from ptxbench.report.pareto_plot import plot_front

    try:
        plot_front(tuned.manifest, tuned.trials, plot or tuned.path / "pareto.svg")
    except InputError as error:
        if plot is not None:
            raise
        click.echo(f"ptxbench: no picture: {error}", err=True)


def _print_json(tuned: Tuned) -> None:
    print_json(
        {
            "folder": str(tuned.path),
            "gpu": asdict(tuned.manifest.gpu),
            "problem": asdict(tuned.manifest.problem),
            "search_space": tuned.searched,
            "tried": len(tuned.trials),
            "best": [_plain(t, tuned) for t in tuned.best[:_SHOWN]],
            "front": [_plain(t, tuned) for t in tuned.front],
        }
    )


def _plain(trial: Trial, tuned: Tuned) -> dict[str, object]:
    return {
        "variant": trial.variant.name,
        "parameters": asdict(trial.variant),
        "time_s": trial.best_time_s,
        "energy_j": trial.energy_j,
        "estimated_j": trial.estimated_j,
        "power_w": trial.best_power_w,
        "gflops": trial.gflops(tuned.manifest.problem.flops),
        "correct": trial.correct,
        "capped": trial.capped,
    }


def _print(tuned: Tuned) -> None:
    info, problem = tuned.manifest.gpu, tuned.manifest.problem
    click.echo(f"{info.title}: C = A B, {problem.m} x {problem.n} x {problem.k}, {problem.dtype}")
    failed = [t for t in tuned.trials if not t.ok]
    click.echo(f"{tuned.searched} variants; {len(tuned.trials)} tried, of which {len(failed)} are not valid")
    for trial in failed[:3]:
        click.echo(f"  {trial.variant.name}: {trial.status}: {trial.reason}")
    click.echo("\nbest first")
    _print_trials(tuned.best[:_SHOWN], tuned)
    click.echo("\nPareto front of time and energy")
    _print_trials(tuned.front, tuned)
    click.echo(f"\nfolder: {tuned.path}")


def _print_trials(trials: tuple[Trial, ...], tuned: Tuned) -> None:
    flops = tuned.manifest.problem.flops
    rows = [
        (
            t.variant.name,
            f"{1e3 * t.best_time_s:.3f}",
            _number(t.best_power_w, ".1f"),
            _number(t.energy_j, ".4g"),
            _number(t.estimated_j, ".4g"),
            f"{t.gflops(flops):.0f}",
            t.correct,
        )
        for t in trials
    ]
    print_table(_HEADINGS, rows, _HEADINGS[1:-1], ("GFLOP/s", "estimated J", "power W"))


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
