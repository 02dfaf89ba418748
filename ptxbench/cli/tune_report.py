"""`ptxbench tune report`: what a search tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.output import print_json, say
from ptxbench.cli.parameters import PictureFolder, require_report
from ptxbench.core.errors import InputError
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json, TableFolder
from ptxbench.report.text_table import output_width
from ptxbench.storage.atomic import write_text
from ptxbench.storage.shipped import find_table

if TYPE_CHECKING:
    from ptxbench.report.sections import Section
    from ptxbench.tune.analysis import Analysis
    from ptxbench.tune.folder import TuningManifest
    from ptxbench.tune.library import LibraryTrial
    from ptxbench.tune.trial import Trial


@dataclass(frozen=True, kw_only=True)
class _ReportOptions:
    """Options of `ptxbench tune report`.

    Attributes:
        out: Where to write: a file (.html, .csv, .json as Kernel Tuner's cache, .t4.json, or .txt).
        counters: CSV of counters by variant, which go into all correlations and means
            (`runners/tune_counters.py` writes one with Nsight Compute).
        plots: Folder for plots: front, path of the search, ranges by axis, hull, correlations, quadrants.
    """

    run: Annotated[Path, Arg()]
    table: TableFolder = None
    counters: Path | None = None
    out: Path | None = None
    plots: Annotated[Path | None, Opt(kind=PictureFolder())] = None
    as_json: Json = False


@command_of(_ReportOptions, "report", short_help="Report a search: winners, front, correlations.")
def report(options: _ReportOptions) -> int:
    """Report RUN, a folder of `tune gemm` or `tune kernel`, or a cache or T4 file of Kernel Tuner.

    It has the winners by time and by energy with 95% intervals, the front of both, the best variant for
    each weight alpha of time, how far energies are apart at equal speed, and how metrics of the code go
    along with time, power and energy. Nothing is measured, and the folder stays as it is. With --table
    energies are estimated again by that table. The exit code is 1 if no variant is valid.
    """
    from ptxbench.report.tuning_report import as_text, sections
    from ptxbench.storage.location import require_outside
    from ptxbench.tune.analysis import analyse
    from ptxbench.tune.counters import read_counters
    from ptxbench.tune.evaluate import estimated_again
    from ptxbench.tune.model_energy import open_model

    if options.out is not None:
        require_report(options.out, ".html", ".csv", ".json", ".txt")
    require_outside(options.run, options.out, options.plots)
    manifest, trials, beside, scale = _opened(options.run)
    problem = manifest.part.problem
    if options.table is not None:
        model = open_model(find_table(options.table), manifest.gpu, manifest.part.options.pattern)
        trials = estimated_again(trials, problem, model)
    counters = read_counters(options.counters) if options.counters is not None else {}
    if counters and counters.keys().isdisjoint(one.variant.name for one in trials):
        raise InputError(
            f"{options.counters} names no variant of {options.run}: {next(iter(counters))!r} is none"
        )
    found = analyse(trials, problem, beside, counters)
    if found is None:
        click.echo(
            f"{options.run}: none of {len(trials)} variants has a time and an energy{scale and f'; {scale}'}"
        )
        return 1
    parts = sections(manifest, trials, found, scale)
    if options.plots is not None:
        _draw(manifest, found, trials, options.plots)
    if options.out is not None:
        text = _file_text(options.out, manifest, trials, found, parts)
        write_text(options.out, text)
        say(f"wrote {options.out}")
    if options.as_json:
        print_json({**_plain(found), "remarks": manifest.part.options.remarks})
    elif options.out is None:
        click.echo(as_text(parts, output_width()))
    return 0


def _file_text(
    out: Path, manifest: TuningManifest, trials: Sequence[Trial], found: Analysis, parts: Sequence[Section]
) -> str:
    """Return what is written into a file, by its ending."""
    from ptxbench.report.tuning_charts import charts
    from ptxbench.report.tuning_report import as_csv, as_page, as_text
    from ptxbench.tune.kernel_tuner_cache import cache_text, t4_text

    ending = out.suffix.lower()
    if ending == ".html":
        return as_page(parts, [*charts(manifest, found, trials).values()])
    if out.name.lower().endswith(".t4.json"):
        return t4_text(manifest, trials)
    if ending == ".json":
        return cache_text(manifest, trials)
    return as_csv(found) if ending == ".csv" else as_text(parts, None) + "\n"


def _opened(
    run: Path,
) -> tuple[TuningManifest, tuple[Trial, ...], tuple[LibraryTrial, ...], str]:
    """Return what was tuned, its trials, a library beside, and what must be said of all energies."""
    from ptxbench.tune.folder import TuningFolder
    from ptxbench.tune.kernel_tuner_results import read_results

    if run.is_file():
        foreign = read_results(run)
        return foreign.manifest, foreign.trials, (), foreign.note
    folder = TuningFolder.read(run)
    trials, scale = folder.believed()
    return folder.manifest, trials, folder.beside, scale


def _draw(manifest: TuningManifest, found: Analysis, trials: Sequence[Trial], plots: Path) -> None:
    from ptxbench.report.chart import as_figure
    from ptxbench.report.figure import save
    from ptxbench.report.tuning_charts import charts

    plots.mkdir(parents=True, exist_ok=True)
    for name, chart in charts(manifest, found, trials).items():
        save(as_figure(chart), plots / f"{name}.png")
        say(f"wrote {plots / f'{name}.png'}")


def _plain(found: Analysis) -> dict[str, object]:
    from ptxbench.tune.evaluate import choices

    def figures(one: object) -> dict[str, object]:
        names = ("name", "time_s", "power_w", "energy_j", "half_j", "gflops", "gflops_per_w", "measured")
        return {name: getattr(one, name) for name in (*names, "at_limit")}

    return {
        "fastest": figures(found.fastest),
        "least_energy": figures(found.best),
        "told_apart": found.told_apart,
        "front": [figures(one) for one in found.front],
        "by_alpha": [
            {"variant": c.figures.name, "alpha_low": c.alpha_low, "alpha_high": c.alpha_high}
            for c in found.arc
        ],
        "hull": [one.name for one in found.hull],
        "spreads": [vars(one) for one in found.spreads],
        "correlations": [vars(one) for one in found.correlations],
        "linear_correlations": [vars(one) for one in found.linear],
        "splits": [vars(one) for one in found.splits],
        "by_occupancy": [vars(one) for one in found.levels],
        "beside": [
            {**figures(one), **{name: getattr(one.trial, name) for name in ("capped", "correct", "settled")}}
            for one in found.beside
        ],
        "choices": [vars(one) for one in choices([f.trial for f in found.figures])],
    }
