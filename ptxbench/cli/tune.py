"""`ptxbench tune`: find the variant of a kernel that takes the least energy or time."""

from __future__ import annotations

import math
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
)
from ptxbench.cli.tune_difficulty import difficulty
from ptxbench.cli.tune_kernel import kernel
from ptxbench.cli.tune_report import report
from ptxbench.cli.tune_strategies import strategies
from ptxbench.cli.tuning import (
    Place,
    goal_of,
    goal_options,
    require_place,
    sample_option,
    search_and_print,
    search_options,
    setting_options,
)

if TYPE_CHECKING:
    from ptxbench.tune.setting_axes import Values

# As in ptxbench.tune, which would load numpy.
_DTYPES = ("f32", "f64", "f16")
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
@goal_options
@table_option(required=False)
@search_options
@setting_options
@sample_option(0)
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
    clocks: Values | None,
    clock_samples: Path | None,
    memory_clocks: Values | None,
    power_limits: Values | None,
    base_mhz: float | None,
    allow_settings: bool,
    sample: int,
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
    from ptxbench.storage.shipped import find_table
    from ptxbench.tune.bench import BenchOptions
    from ptxbench.tune.setting_axes import SettingAxes
    from ptxbench.tune.tuning import Tuning
    from ptxbench.tune.variant import DType, Problem

    place = Place(out, resume, plot, as_json)
    require_place(place)
    tuning = Tuning(
        problem=Problem(DType(dtype), m, n, k),
        goal=goal_of(objective, alpha, power_limit_w),
        options=BenchOptions(power=measure == "energy", window_s=window_s, seed=seed or 0),
        strategy=strategy or "",
        budget=budget,
        candidates=candidates,
        table=find_table(table) if table else None,
        space=space,
        prune=math.nan if prune is None else prune,
        sample=sample,
        axes=SettingAxes(clocks, memory_clocks, power_limits),
        allow_settings=allow_settings,
        samples=clock_samples,
        base_mhz=math.nan if base_mhz is None else base_mhz,
    )
    gpu = open_chosen_gpu(spec)
    try:
        return search_and_print(gpu, tuning, place)
    finally:
        gpu.close()


command.add_command(kernel)
command.add_command(report)
command.add_command(difficulty)
command.add_command(strategies)
