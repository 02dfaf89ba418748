"""`ptxbench tune study strategies`: what ways to tune kernel and clock would have found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import plot_of
from ptxbench.cli.output import print_json, print_table
from ptxbench.core.gpu_settings import CLOCKS_MHZ
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json

if TYPE_CHECKING:
    from ptxbench.tune.clocks.strategies import Chosen, Comparison

_NUMBERS = ("energy J", "over least", "saved", "time ms", "runs")


@dataclass(frozen=True, kw_only=True)
class _StrategiesOptions:
    """Options of `ptxbench tune study strategies`.

    Attributes:
        base_clock_mhz: Base clock, MHz (default: 54% of the highest).
        samples: CSV file with the columns clock_mhz and power_w: mean power of one kernel at several clocks,
            for model-steered (default: those that tuning kept, if it did).
        best_clock_mhz: Best clock of `ptxbench clocks ridge`, in place of --samples.
    """

    run: Annotated[Path, Arg()]
    base_clock_mhz: Annotated[float | None, Opt(*CLOCKS_MHZ)] = None
    samples: Path | None = None
    best_clock_mhz: Annotated[float | None, Opt(*CLOCKS_MHZ)] = None
    plot: Annotated[Path | None, plot_of("capping against clocking")] = None
    as_json: Json = False


@command_of(_StrategiesOptions, "strategies", short_help="Compare ways to tune kernel and clock together.")
def strategies(options: _StrategiesOptions) -> None:
    """Let the strategies of Schoonhoven et al. (2022) choose among the trials of RUN.

    RUN is a folder of `tune gemm` or `tune kernel` with --clocks, and with --power-limits for the strategy
    power-capped. A full sweep is best: a strategy chooses among what was tried. Nothing is measured.
    """
    from ptxbench.tune.clocks.strategies import compare
    from ptxbench.tune.folder import POWER_SAMPLES, TuningFolder

    if options.samples is not None and options.best_clock_mhz is not None:
        raise click.UsageError("give --samples or --best-clock-mhz.")
    folder = TuningFolder.read(options.run)
    trials, _ = folder.believed()
    base_mhz = math.nan if options.base_clock_mhz is None else options.base_clock_mhz
    kept = folder.path / POWER_SAMPLES
    samples = options.samples or (kept if kept.exists() and options.best_clock_mhz is None else None)
    found = compare(trials, base_mhz, _search_mhz(samples, options.best_clock_mhz))
    if options.plot is not None:
        from ptxbench.report.clock_plots import plot_capping

        plot_capping(folder.manifest, trials, options.plot)
    if options.as_json:
        print_json(_plain(found))
        return
    click.echo(f"{folder.manifest.gpu.title}: {folder.manifest.part.problem.title}")
    rows = [
        (
            one.strategy,
            one.trial.name,
            f"{one.trial.best_energy_j:.4g}",
            f"{100 * found.over_least(one):+.1f}%",
            f"{100 * found.saved(one):.1f}%",
            f"{1e3 * one.trial.best_time_s:.4g}",
            str(one.runs),
        )
        for one in found.chosen
    ]
    print_table(("strategy", "choice", *_NUMBERS), rows, _NUMBERS, ("time ms",))
    click.echo(f"\nleast energy of all {len(trials)} trials: {found.least.name}")
    click.echo("over least: energy over that; saved: against race-to-idle; runs: trials that it needs")
    for strategy, why in found.missing:
        click.echo(f"{strategy}: left out; {why}")


def _search_mhz(samples: Path | None, best_mhz: float | None) -> tuple[float, float] | None:
    from ptxbench.model.clocks.ridge import fit_ridge, read_power_samples, searched

    if samples is not None:
        return fit_ridge(read_power_samples(samples)).search_mhz
    return None if best_mhz is None else searched(best_mhz)


def _plain(found: Comparison) -> dict[str, object]:
    def plain(one: Chosen) -> dict[str, object]:
        return {
            "strategy": one.strategy,
            "choice": one.trial.name,
            "energy_j": one.trial.best_energy_j,
            "time_s": one.trial.best_time_s,
            "over_least": found.over_least(one),
            "saved": found.saved(one),
            "runs": one.runs,
        }

    return {
        "strategies": [plain(one) for one in found.chosen],
        "least": {"choice": found.least.name, "energy_j": found.least.best_energy_j},
        "left_out": [{"strategy": name, "reason": why} for name, why in found.missing],
    }
