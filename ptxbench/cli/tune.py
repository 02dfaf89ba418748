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
from ptxbench.cli.parameters import Number, SizeList
from ptxbench.cli.tune_concurrent import concurrent
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
    sweep_and_print,
)

if TYPE_CHECKING:
    from ptxbench.tune.clocks.axes import Values

# As in ptxbench.tune, which would load numpy.
_DTYPES = ("f32", "f64", "f16", "c64", "c128")
# A matrix of f64 is then 2 GiB.
_MAX_SIZE = 16384
_SIZE = click.IntRange(16, _MAX_SIZE)
_OP = click.Choice(("n", "t", "c"))


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
    "--sizes",
    type=SizeList(_SIZE),
    help="Tune for each of these sizes, such as 512,1024: m, n and k at once, a folder each.",
)
@click.option("--op-a", type=_OP, default="n", show_default=True, help="A as it is, transposed, conjugated.")
@click.option("--op-b", type=_OP, default="n", show_default=True, help="B as it is, transposed, conjugated.")
@click.option(
    "--beta",
    type=Number(-1e6, 1e6),
    default=0.0,
    show_default=True,
    help="Update C: add beta times what it holds.",
)
@click.option(
    "--core",
    type=click.Choice(("simt", "mma", "wgmma")),
    help="Ordinary cores, or tensor cores by mma.sync or wgmma (default: mma for f16, else simt).",
)
@goal_options
@table_option(required=False)
@search_options
@setting_options
@sample_option(0)
@click.option(
    "--space",
    type=click.Path(path_type=Path),
    help="TOML file of the search space, or beast: the space of Anzt et al. (2015).",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    help="Try this variant, and none that is not named (may be repeated).",
)
@click.option(
    "--beside",
    type=click.Choice(("cublas",)),
    help="Measure this library's product, too, before and after the search (needs PyTorch or CuPy).",
)
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
    sizes: tuple[int, ...] | None,
    op_a: str,
    op_b: str,
    beta: float,
    core: str | None,
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
    variants: tuple[str, ...],
    beside: str | None,
    seed: int | None,
    out: Path | None,
    resume: bool,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Tune C = op(A) op(B) + beta C: try variants of a tiled kernel, show the best and the front.

    Every variant's results are checked against numpy before it is timed. Each trial is saved before the
    next begins; --resume continues a search that was stopped. The exit code is 1 if no variant is valid.
    """
    from ptxbench.storage.shipped import find_table
    from ptxbench.tune.bench import BenchOptions
    from ptxbench.tune.clocks.axes import SettingAxes
    from ptxbench.tune.tuning import Tuning
    from ptxbench.tune.variant import Core, DType, Op, Problem

    place = Place(out, resume, plot, as_json)
    require_place(place)
    tuning = Tuning(
        problem=Problem(DType(dtype), m, n, k, Op(op_a), Op(op_b), beta),
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
        core=Core(core) if core else None,
        variants=variants,
        beside=beside or "",
    )
    gpu = open_chosen_gpu(spec)
    try:
        if sizes:
            return sweep_and_print(gpu, tuning, sizes, place)
        return search_and_print(gpu, tuning, place)
    finally:
        gpu.close()


command.add_command(kernel)
command.add_command(concurrent)
command.add_command(report)
command.add_command(difficulty)
command.add_command(strategies)
