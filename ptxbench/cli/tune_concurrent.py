"""`ptxbench tune concurrent`: tune the block sizes of kernels that run at once."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.options import plot_of, require_out
from ptxbench.cli.output import print_json, print_table, say
from ptxbench.cli.parameters import AxisValues
from ptxbench.cli.progress import progress_bar
from ptxbench.cli.tuning import print_unchecked
from ptxbench.core.option import Arg, Opt
from ptxbench.core.printable import number
from ptxbench.core.shared_options import GpuSpec, Json, Out, Resume
from ptxbench.tune.blocks.concurrent_options import ConcurrentOptions

if TYPE_CHECKING:
    from ptxbench.tune.blocks.concurrent import ConcurrentTrial
    from ptxbench.tune.blocks.concurrent_search import ConcurrentTuned, InTurn
    from ptxbench.tune.clocks.axes import Values


@dataclass(frozen=True, kw_only=True)
class _Options(ConcurrentOptions):
    """Options of `ptxbench tune concurrent`."""

    specifications: Annotated[tuple[Path, ...], Arg()]
    spec: GpuSpec = None
    clocks: Annotated["Values | None", Opt(kind=AxisValues(model=True))] = None  # noqa: UP037
    out: Out = None
    resume: Resume = False
    plot: Annotated[Path | None, plot_of("time and energy of the runs in their order")] = None
    as_json: Json = False


@command_of(_Options, "concurrent", short_help="Tune the block sizes of kernels that run at once.")
def concurrent(options: _Options) -> int:
    """Tune the block sizes of the kernels that SPECIFICATIONS describe, which run at once.

    Each is a file of `ptxbench tune kernel`; its axes other than the block hold their first value. The
    kernels run in streams of their own. Block sizes are tried by Algorithm 3 of Guerreiro et al. (2015) at
    the clocks that are set, with --clocks by Algorithm 4, and those of each kernel alone by Algorithm 1. What
    is recommended is the best of all that was run, at once or in turn. Each kernel's results are checked
    alone first. Each run is saved before the next begins; --resume continues. It all happens in this process:
    a kernel that hangs hangs the search, so tune each with `tune kernel` before. The exit code is 1 if no run
    is valid.
    """
    from ptxbench.tune.blocks.concurrent_search import ConcurrentTuning, tune_concurrently
    from ptxbench.tune.spec import NoReference
    from ptxbench.tune.spec_file import load_spec

    require_out(options.resume, options.out)
    if options.clocks is not None and options.clocks.by_model:
        raise click.UsageError("--clocks model ranks kernels one by one; name clocks, or how many: even:4.")
    tuning = ConcurrentTuning(
        tuple(load_spec(one) for one in options.specifications),
        **{one.name: getattr(options, one.name) for one in fields(ConcurrentOptions)},
    )
    new, old = (None, options.out) if options.resume else (options.out, None)
    with closing(open_chosen_gpu(options.spec)) as gpu, progress_bar() as show:
        tuned = tune_concurrently(gpu, tuning, new, old, show, say)
    if options.plot is not None:
        _draw(tuned, options.plot)
    if options.as_json:
        _print_json(tuned, options.objective)
    else:
        _print(tuned, options.objective)
        simulated = tuned.manifest.gpu.kind != "real"
        if simulated or any(isinstance(one.reference, NoReference) for one in tuning.specs):
            print_unchecked(simulated=simulated)
        click.echo(f"folder: {tuned.path}")
    return 0 if tuned.recommended.ok else 1


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
            "best": _plain(tuned.best),
            "in_turn": [_plain(one) for one in tuned.alone],
            "recommended": _how(tuned),
        }
    )


def _draw(tuned: ConcurrentTuned, plot: Path) -> None:
    from ptxbench.report.chart import as_figure
    from ptxbench.report.figure import save, title
    from ptxbench.report.tuning_charts import path_chart

    runs = [(one.time_s, one.energy_j) for one in tuned.trials if not one.alone]
    save(as_figure(path_chart(f"{_names(tuned)} at once", title(tuned.manifest.gpu), runs)), plot)


def _names(tuned: ConcurrentTuned) -> str:
    *others, last = (one.kernel for one in tuned.manifest.part.kernels)
    return f"{', '.join(others)} and {last}" if others else last


def _how(tuned: ConcurrentTuned) -> str:
    return "at once" if tuned.recommended is tuned.best else "in turn"


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

    click.echo(f"{tuned.manifest.gpu.title}: {_names(tuned)} at once")
    click.echo(
        f"{tuned.iterations} runs of {tuned.tried} combinations of high occupancy, {tuned.possible} in all"
    )
    algorithm = f"Algorithm {4 if tuned.chosen.clock_mhz else 3}"
    rows: dict[str, ConcurrentTrial | InTurn] = {
        f"chosen by {algorithm}": tuned.chosen,
        "default": tuned.default,
        "best at once": tuned.best,
        "in turn": tuned.in_turn,
    }
    print_table(
        ("", "variants", "time ms", "power W", "energy J", "power limit"),
        [
            (
                what,
                one.name,
                number(1e3 * one.time_s, ".4g"),
                number(one.power_w, ".1f"),
                number(one.energy_j, ".4g"),
                one.at_limit,
            )
            for what, one in rows.items()
        ],
        ("time ms", "power W", "energy J"),
    )
    for what, one in rows.items():
        if not one.ok:
            click.echo(f"{what}: {one.reason}")
    recommended = tuned.recommended
    click.echo(f"\nrecommended: {_how(tuned)}, {recommended.name}")
    least, default = cost_of(recommended, objective), cost_of(tuned.default, objective)
    saved, over = 1 - least / default, cost_of(tuned.chosen, objective) / least - 1
    click.echo(f"{objective} saved against the default blocks at once: {number(saved, '.1%')}")
    click.echo(f"{objective} of what {algorithm} chose over that: {number(over, '.1%')}")
