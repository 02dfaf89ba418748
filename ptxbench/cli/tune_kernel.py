"""`ptxbench tune kernel`: tune any kernel that a specification describes."""

from __future__ import annotations

import math
import sys
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
)
from ptxbench.cli.parameters import Number, SizeValue, one_of_each
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
    from ptxbench.core.gpu_info import GpuInfo
    from ptxbench.tune.clocks.axes import Values

_IN_PROCESS = "--in-process"


@click.command(name="kernel", short_help="Tune a kernel of your own.")
@click.argument("specification", type=click.Path(path_type=Path))
@gpu_option
@goal_options
@table_option(required=False)
@search_options
@setting_options
@sample_option(5)
@click.option(
    "--set",
    "sizes",
    multiple=True,
    type=SizeValue(),
    callback=one_of_each,
    help="Give a size another value than the specification does (may be repeated).",
)
@click.option(
    "--variant-timeout",
    "limit_s",
    type=Number(1, 86_400),
    default=60.0,
    show_default=True,
    help="Seconds after which a variant that does not end is given up.",
)
@click.option(
    _IN_PROCESS,
    is_flag=True,
    help="Measure in this process: a variant that hangs then hangs the search.",
)
@seed_option
@out_option
@resume_option
@plot_option("the Pareto front of time and energy (default: pareto.svg in the folder)")
@json_option
def kernel(
    specification: Path,
    spec: str | None,
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
    sizes: dict[int | str, float],
    limit_s: float,
    in_process: bool,
    seed: int | None,
    out: Path | None,
    resume: bool,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Tune the kernel that SPECIFICATION (a TOML file) describes.

    It names the source (.cu, .ptx, .cubin, or a Jinja template of the first two). It also names the
    arguments, the axes of the search space, and a reference. Every variant is compared with the reference
    before it is timed. Each trial is saved before the next begins; --resume continues a search that was
    stopped. On a real GPU the search runs in a separate process, which is ended if a variant hangs, and
    continues without it. The exit code is 1 if no variant is valid.
    """
    from ptxbench.core.gpu_info import GpuKind
    from ptxbench.storage.shipped import find_table
    from ptxbench.tune.bench import BenchOptions
    from ptxbench.tune.clocks.axes import SettingAxes
    from ptxbench.tune.spec_file import load_spec
    from ptxbench.tune.tuning import Tuning
    from ptxbench.tune.user_kernel import UserKernel

    place = Place(out, resume, plot, as_json)
    require_place(place)
    described = load_spec(specification, {str(name): value for name, value in sizes.items()})
    tuning = Tuning(
        problem=described,
        goal=goal_of(objective, alpha, power_limit_w),
        options=BenchOptions(power=measure == "energy", window_s=window_s, seed=seed or 0),
        strategy=strategy or "",
        budget=budget,
        candidates=candidates,
        table=find_table(table) if table else None,
        prune=math.nan if prune is None else prune,
        sample=sample,
        axes=SettingAxes(clocks, memory_clocks, power_limits),
        allow_settings=allow_settings,
        samples=clock_samples,
        base_mhz=math.nan if base_mhz is None else base_mhz,
    )
    gpu = open_chosen_gpu(spec)
    try:
        by_model = clocks is not None and clocks.by_model
        if in_process or by_model or gpu.info.kind is not GpuKind.REAL:
            return search_and_print(gpu, tuning, place)
        UserKernel(described).space(gpu.info.target)  # refused here where it holds nothing
        info = gpu.info
    finally:
        gpu.close()
    return _watched(info, place, limit_s)


def _watched(info: GpuInfo, place: Place, limit_s: float) -> int:
    """Run this very command line in a process that is watched; return the exit code."""
    from ptxbench.devices.select import restore_settings
    from ptxbench.storage.location import default_run_path
    from ptxbench.tune.watch import search_watched

    path = place.out or default_run_path(info, datetime.now(UTC), prefix="tune-")

    def command() -> list[str]:
        words = [*sys.argv[1:], _IN_PROCESS]
        # Of an option that is given twice the last counts.
        words += [] if place.out else ["--out", str(path)]
        words += ["--resume"] if not place.resume and (path / "manifest.json").exists() else []
        return [sys.executable, "-m", "ptxbench", *words]

    try:
        code = search_watched(command, path, limit_s, lambda text: click.echo(f"ptxbench: {text}", err=True))
    finally:
        # A process that was killed may have left the GPU set.
        restore_settings(info.index)
    if code < 0:
        click.echo(f"ptxbench: signal {-code} ended the search; continue it with --resume", err=True)
        return 128 - code
    return code
