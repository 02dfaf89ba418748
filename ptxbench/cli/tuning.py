"""What the commands that tune share: their options, the search, and what is printed of it."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from ptxbench.cli.options import plot_of, require_out
from ptxbench.cli.output import print_json, print_table, say
from ptxbench.cli.parameters import AxisValues
from ptxbench.cli.progress import progress_bar
from ptxbench.core.errors import InputError
from ptxbench.core.option import Opt
from ptxbench.core.printable import number
from ptxbench.core.shared_options import Json, Out, Resume
from ptxbench.tune.search_options import SampleOptions, SearchOptions, SeedOptions, TuningOptions

if TYPE_CHECKING:
    from ptxbench.devices.base import Gpu
    from ptxbench.tune.clocks.axes import Values
    from ptxbench.tune.spec import KernelSpec
    from ptxbench.tune.trial import Trial
    from ptxbench.tune.tuning import Tuned, Tuning
    from ptxbench.tune.variant import Problem

_SHOWN, _FAILED_SHOWN = 10, 3
_LIMIT = "power limit"
_HEADINGS = ("variant", "time ms", "power W", "energy J", "estimated J", "GFLOP/s", "correct", _LIMIT)
_NUMBERS = _HEADINGS[1:-2]


@dataclass(frozen=True, kw_only=True)
class SettingOptions:
    """Clocks and power limits as axes of the search.

    Attributes:
        clocks: Try each variant at these SM clocks, MHz; model: rank variants and clocks by the estimate of
            --table, and run nothing.
        clock_samples: CSV file of power at several clocks, as `ptxbench clocks ridge` takes it: its voltage
            curve stands in for the power law of --table.
        memory_clocks: Try each variant at these memory clocks, MHz.
        power_limits: Try each variant under these power limits, W.
        base_mhz: Base clock, MHz (default: 54% of the highest), for --strategy
            energy-to-solution+clocks.
        allow_settings: Allow that the GPU is set; it is restored at the end.
    """

    # Quoted, so that no module with numpy is loaded for its name.
    clocks: Annotated["Values | None", Opt(kind=AxisValues(model=True))] = None  # noqa: UP037
    clock_samples: Path | None = None
    memory_clocks: Annotated["Values | None", Opt(kind=AxisValues())] = None  # noqa: UP037
    power_limits: Annotated["Values | None", Opt(kind=AxisValues())] = None  # noqa: UP037
    base_mhz: Annotated[float | None, Opt(1, 100_000, flag="--base-clock-mhz")] = None
    allow_settings: bool = False


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a search is kept, and what is shown of it."""

    out: Out = None
    resume: Resume = False
    plot: Annotated[
        Path | None, plot_of("the Pareto front of time and energy (default: pareto.svg in the folder)")
    ] = None
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class TuneOptions(TuningOptions, Place, SeedOptions, SampleOptions, SettingOptions, SearchOptions):
    """What the commands that search have in common; the last base is the first in the help."""

    def tuning_at_settings(self, problem: Problem | KernelSpec, **own: Any) -> Tuning:
        """Return what is tuned, and how, with the clocks and limits that it is tried at.

        Raises:
            UsageError: --resume has no --out.
        """
        from ptxbench.tune.clocks.axes import SettingAxes

        require_out(self.resume, self.out)
        return self.tuning(
            problem,
            axes=SettingAxes(self.clocks, self.memory_clocks, self.power_limits),
            allow_settings=self.allow_settings,
            samples=self.clock_samples,
            base_mhz=math.nan if self.base_mhz is None else self.base_mhz,
            **own,
        )


def search_and_print(gpu: Gpu, tuning: Tuning, place: Place) -> int:
    """Search on an open GPU, print what was found, and return the exit code."""
    from ptxbench.storage.location import default_run_path
    from ptxbench.tune.tuning import tune

    if tuning.axes.sm_clocks is not None and tuning.axes.sm_clocks.by_model:
        return _rank_and_print(gpu, tuning, place)
    path = place.out or default_run_path(gpu.info, datetime.now(UTC), prefix="tune-")
    with progress_bar() as show:
        try:
            new, old = (None, path) if place.resume else (path, None)
            tuned = tune(gpu, tuning, new, old, show, say)
        except KeyboardInterrupt:
            if path.exists():
                resuming = shlex.join(["--resume", "--out", str(path)])
                say(f"stopped; the trials are kept. Add to continue: {resuming}")
            raise
    _draw(tuned, place.plot)
    if place.as_json:
        _print_json(tuned)
    else:
        _print(tuned)
    return 0 if tuned.best else 1


def _rank_and_print(gpu: Gpu, tuning: Tuning, place: Place) -> int:
    """Rank variants and clocks by the estimate, print them, and return the exit code."""
    from ptxbench.tune.clocks.ranking import rank_clocks

    with progress_bar() as show:
        found = rank_clocks(gpu, tuning, show)
    pairs, variants = found.best[:_SHOWN], found.by_variant[:_SHOWN]
    if place.as_json:
        print_json(
            {
                "gpu": asdict(gpu.info),
                "measured": False,
                "law": found.law,
                "lowest_seen_mhz": found.seen_mhz,
                "predicted_variants": found.predicted,
                "clocks_mhz": found.clocks_mhz,
                "best": [_plain_prediction(t) for t in pairs],
                "best_clock_of_each": [_plain_prediction(t) for t in variants],
            }
        )
        return 0 if found.best else 1
    click.echo(f"{gpu.info.title}: {found.tunable.problem.title}")
    click.echo(
        f"PREDICTED, NOT MEASURED: {found.predicted} variants at {len(found.clocks_mhz)} clocks,"
        f" by {found.law}"
    )
    click.echo("\nbest pairs first")
    _print_predictions(pairs, found.seen_mhz)
    click.echo("\nbest clock of each variant")
    _print_predictions(variants, found.seen_mhz)
    if any((t.settings.sm_clock_mhz or 0) < found.seen_mhz for t in (*pairs, *variants)):
        click.echo(f"\n*: below {found.seen_mhz:.0f} MHz nothing was measured; the interval is wider")
    return 0 if found.best else 1


def _plain_prediction(trial: Trial) -> dict[str, object]:
    return {
        "variant": trial.variant.name,
        "sm_clock_mhz": trial.settings.sm_clock_mhz,
        "time_s": trial.best_time_s,
        "energy_j": trial.estimated_j,
        "low_j": trial.estimated_low_j,
        "high_j": trial.estimated_high_j,
    }


def _print_predictions(trials: tuple[Trial, ...], seen_mhz: float) -> None:
    rows = [
        (
            t.variant.name,
            f"{t.settings.sm_clock_mhz}{'*' if (t.settings.sm_clock_mhz or 0) < seen_mhz else ''}",
            f"{1e3 * t.best_time_s:.3f}",
            number(t.best_power_w, ".1f"),
            number(t.estimated_j, ".4g"),
            f"{number(t.estimated_low_j, '.4g')} to {number(t.estimated_high_j, '.4g')}",
        )
        for t in trials
    ]
    numbers = ("MHz", "time ms", "power W", "energy J", "95%")
    print_table(("variant", *numbers), rows, numbers, ("power W",))


def sweep_and_print(gpu: Gpu, tuning: Tuning, sizes: tuple[int, ...], place: Place) -> int:
    """Search for each size in turn, each in a folder of its own, print the best of each; the exit code."""
    from ptxbench.storage.location import default_run_path
    from ptxbench.tune.tuning import tune_sizes

    path = place.out or default_run_path(gpu.info, datetime.now(UTC), prefix="tune-")
    with progress_bar() as show:
        found = tune_sizes(gpu, tuning, sizes, path, show)
    for tuned in found:
        _draw(tuned, None)
    if place.as_json:
        print_json({"folder": str(path), "sizes": [_plain_size(tuned) for tuned in found]})
    else:
        click.echo(f"{found[0].manifest.gpu.title}: the best of each size")
        rows = [row for tuned in found for row in _size_rows(tuned)]
        print_table(("size", *_HEADINGS), rows, ("size", *_NUMBERS), ("estimated J", "power W"))
        click.echo(f"\nfolder: {path}")
    return 0 if all(tuned.best for tuned in found) else 1


def _size_rows(tuned: Tuned) -> list[tuple[str, ...]]:
    problem = tuned.manifest.part.problem
    size = str(getattr(problem, "m", ""))
    return [(size, *row) for row in (*_trial_rows(tuned.best[:1], tuned), *_library_rows(tuned)[-1:])]


def _plain_size(tuned: Tuned) -> dict[str, object]:
    return {
        "folder": str(tuned.path),
        "problem": asdict(tuned.manifest.part.problem),
        "best": [_plain(t, tuned) for t in tuned.best[:1]],
        "beside": [asdict(one) for one in tuned.beside],
    }


def _draw(tuned: Tuned, plot: Path | None) -> None:
    """Draw the front; without matplotlib only where a picture was requested."""
    from ptxbench.report.tuning_charts import plot_front

    try:
        plot_front(tuned.manifest, tuned.trials, plot or tuned.path / "pareto.svg", tuned.beside)
    except InputError as error:
        if plot is not None:
            raise
        say(f"no picture: {error}")


def _print_json(tuned: Tuned) -> None:
    print_json(
        {
            "folder": str(tuned.path),
            "gpu": asdict(tuned.manifest.gpu),
            "problem": asdict(tuned.manifest.part.problem),
            "search_space": tuned.searched,
            "tried": len(tuned.trials),
            "best": [_plain(t, tuned) for t in tuned.best[:_SHOWN]],
            "front": [_plain(t, tuned) for t in tuned.front],
            "beside": [asdict(one) for one in tuned.beside],
            "remarks": tuned.manifest.part.options.remarks,
            "scale": tuned.scale,
            "ranking": _plain_ranking(tuned),
        }
    )


def _plain_ranking(tuned: Tuned) -> dict[str, object] | None:
    from ptxbench.tune.evaluate import ranking

    found = ranking(tuned.trials)
    return asdict(found) if found else None


def _plain(trial: Trial, tuned: Tuned) -> dict[str, object]:
    return {
        "variant": trial.name,
        "parameters": _parameters(trial),
        "time_s": trial.best_time_s,
        "energy_j": trial.energy_j,
        "estimated_j": trial.estimated_j,
        "power_w": trial.best_power_w,
        "gflops": trial.gflops(trial.flops_of(tuned.manifest.part.problem)),
        "correct": trial.correct,
        "capped": trial.capped,
        "settled": trial.settled,
        "note": trial.note,
    }


def _print(tuned: Tuned) -> None:
    click.echo(f"{tuned.manifest.gpu.title}: {tuned.manifest.part.problem.title}")
    timed = sum(t.status == "pruned" for t in tuned.trials)
    failed = [t for t in tuned.trials if not t.ok and t.status != "pruned"]
    which = f"{timed} were timed alone and {len(failed)}" if timed else f"{len(failed)}"
    click.echo(f"{tuned.searched} variants; {len(tuned.trials)} tried, of which {which} are not valid")
    for text in tuned.manifest.part.options.remarks:
        click.echo(text)
    for trial in failed[:_FAILED_SHOWN]:
        click.echo(f"  {trial.name}: {trial.status}: {trial.reason}")
    if len(failed) > _FAILED_SHOWN:
        click.echo(f"  and {len(failed) - _FAILED_SHOWN} more in variants.csv")
    click.echo("\nbest first")
    _print_trials(tuned.best[:_SHOWN], tuned)
    click.echo("\nPareto front of time and energy")
    _print_trials(tuned.front, tuned)
    _print_ranking(tuned)
    if tuned.scale:
        click.echo(f"\n{tuned.scale}")
    unknown = [t for t in tuned.best if math.isnan(t.estimated_j)]
    if tuned.manifest.part.model and unknown:
        click.echo(
            f"\n{len(unknown)} variants have no estimate: their code does not show how often its loops"
            " run; give work.trips"
        )
    if any(t.correct == "unchecked" for t in tuned.best):
        print_unchecked(simulated=tuned.manifest.gpu.kind != "real")
    click.echo(f"\nfolder: {tuned.path}")


def print_unchecked(*, simulated: bool) -> None:
    """Say why no result was compared."""
    why = "the specification says that no result is compared: a wrong variant is not told from a right one"
    if simulated:
        why = (
            "the simulated GPU computes nothing, so no result was compared; it only exercises the"
            " specification, and the order of its variants says nothing of a real GPU"
        )
    click.echo(f"\nunchecked: {why}")


def _print_trials(trials: tuple[Trial, ...], tuned: Tuned) -> None:
    rows = [*_trial_rows(trials, tuned), *_library_rows(tuned)]
    print_table(_HEADINGS, rows, _NUMBERS, ("GFLOP/s", "estimated J", "power W"))


def _trial_rows(trials: tuple[Trial, ...], tuned: Tuned) -> list[tuple[str, ...]]:
    problem = tuned.manifest.part.problem
    return [
        (
            t.name,
            f"{1e3 * t.best_time_s:.3f}",
            number(t.best_power_w, ".1f"),
            number(t.energy_j, ".4g"),
            number(t.estimated_j, ".4g"),
            number(t.gflops(t.flops_of(problem)), ".0f"),
            t.correct,
            t.at_limit,
        )
        for t in trials
    ]


def _library_rows(tuned: Tuned) -> list[tuple[str, ...]]:
    """Return what a library took for the same product, each time that it was measured."""
    flops = getattr(tuned.manifest.part.problem, "flops", math.nan)
    return [
        (
            one.name,
            f"{1e3 * one.best_time_s:.3f}",
            number(one.power_w, ".1f"),
            number(one.energy_j, ".4g"),
            "-",
            number(flops / one.time_s * 1e-9, ".0f"),
            "yes" if one.correct else "no",
            one.at_limit,
        )
        for one in tuned.beside
    ]


def _print_ranking(tuned: Tuned) -> None:
    """Say how well the estimate ranked what was measured, beside models that know less."""
    from ptxbench.tune.evaluate import ranking

    found = ranking(tuned.trials)
    if found is None:
        return
    which = "drawn at random" if found.sampled else "that were tried"
    click.echo(f"\nagainst the measured energy of {found.variants} variants {which}")
    rows = [
        ("estimate", number(found.estimate, ".2f"), f"{found.estimate_error:.1%}"),
        ("time alone", number(found.time, ".2f"), f"{found.time_error:.1%}"),
        ("constant energy", "-", f"{found.constant_error:.1%}"),
    ]
    print_table(("model", "rank correlation", "mean error"), rows, ("rank correlation", "mean error"))


def _parameters(trial: Trial) -> dict[str, object]:
    from ptxbench.tune.configuration import Configuration

    variant = trial.variant
    plain = dict(variant.by_axis) if isinstance(variant, Configuration) else asdict(variant)
    return {**plain, **trial.settings.by_axis}
