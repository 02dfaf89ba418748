"""Charts of a search: efficiency against speed with the hull, the front with its bars, correlations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.report.chart import Chart, Panel, Series, as_figure
from ptxbench.report.figure import save, title
from ptxbench.tune.analysis import Analysis, Figures, VariantFigures, analyse
from ptxbench.tune.folder import TuningManifest
from ptxbench.tune.library import LibraryTrial
from ptxbench.tune.trial import Trial

_DOT, _CAPPED, _BEST, _LIBRARY, _BELOW = "run4", "run1", "run3", "run0", "run0"
# Colour and label of a dot by what tables say of it at the power limit.
_DOTS = {
    "-": (_DOT, "variant"),
    "capped": (_CAPPED, "at the power limit"),
    "capped, untested": (_CAPPED, "at the power limit, not known to have settled"),
}
_METRICS_SHOWN = 18
_SPLITS_SHOWN = 5
_RANGES_SHOWN, _MOST_LEVELS = 4, 16
_SIZE_IN = (7.5, 5)
_Figure = Callable[[Figures[Any]], float]


def charts(manifest: TuningManifest, found: Analysis, trials: Sequence[Trial]) -> dict[str, Chart]:
    """Return every chart by its name.

    Args:
        manifest: What was tuned.
        found: What the search tells.
        trials: Its trials, in the order in which they were made.
    """
    drawn = {"front": _front(manifest, found), "path": _path(manifest, found, trials)}
    if ranges := _ranged_axes(manifest, found):
        drawn["ranges"] = _ranges(manifest, found, ranges)
    if found.hull:
        drawn["hull"] = _hull(manifest, found)
    if found.correlations:
        drawn["correlations"] = _correlations(manifest, found)
    if found.hull and found.splits:
        drawn["quadrants"] = _quadrants(manifest, found)
    return drawn


def _chart(
    manifest: TuningManifest,
    what: str,
    *rows: Sequence[Panel],
    size_in: tuple[float, float] = _SIZE_IN,
) -> Chart:
    return Chart(f"{manifest.part.problem.title}: {what}", title(manifest.gpu), rows, size_in)


def _series(some: Sequence[Figures[Any]], x: _Figure, y: _Figure, **looks: Any) -> Series:
    """Return a mark for each of some variants."""
    return Series(x=[*map(x, some)], y=[*map(y, some)], names=[one.name for one in some], **looks)


def _dots(found: Analysis, x: _Figure, y: _Figure) -> Iterator[Series]:
    """Yield a dot for each variant, by clock where several were set, else by what it met, and what is best.

    Those that may not have settled at the power limit are hollow.
    """
    clocked = [f for f in found.figures if f.trial.settings.sm_clock_mhz is not None]
    clocks_mhz = [float(f.trial.settings.sm_clock_mhz or 0) for f in clocked]
    if len(set(clocks_mhz)) > 1:
        # As Figure 4 of Schoonhoven et al. (2022) does.
        yield _series(clocked, x, y, shades=clocks_mhz, label="SM clock that was set, MHz")
    else:
        for words, (colour, label) in _DOTS.items():
            if chosen := [f for f in found.figures if f.at_limit == words]:
                yield _series(chosen, x, y, colour=colour, is_hollow="untested" in words, label=label)
    for one, mark, role in ((found.fastest, "^", "fastest"), (found.best, "v", "least energy")):
        yield _series([one], x, y, colour=_BEST, mark=mark, stands_out=True, label=f"{role}: {one.name}")
    if beside := [one for one in found.beside if math.isfinite(one.energy_j)]:
        yield _series(beside, x, y, colour=_LIBRARY, mark="*", stands_out=True, label=beside[0].name)


def plot_front(
    manifest: TuningManifest, trials: Sequence[Trial], path: Path, beside: Sequence[LibraryTrial] = ()
) -> None:
    """Draw time and energy of every variant that was tried, and the front of those that no other beats.

    Args:
        manifest: What was tuned.
        trials: Every variant that was tried.
        path: Picture to write; its ending chooses the format (.png, .svg, .pdf).
        beside: What a library took for the same product.

    Raises:
        InputError: No variant has an energy, matplotlib is not installed, or the file cannot be written.
    """
    found = analyse(trials, manifest.part.problem, beside)
    if found is None:
        raise InputError("there is nothing to draw: no variant has an energy")
    save(as_figure(_front(manifest, found)), path)


def _time_ms(one: Figures[Any]) -> float:
    return 1e3 * one.time_s


def _energy_j(one: Figures[Any]) -> float:
    return one.energy_j


def _gflops(one: Figures[Any]) -> float:
    return one.gflops


def _gflops_per_w(one: Figures[Any]) -> float:
    return one.gflops_per_w


def _front(manifest: TuningManifest, found: Analysis) -> Chart:
    front = _series(
        found.front,
        _time_ms,
        _energy_j,
        line="steps-post",
        low=[f.energy_j - f.half_j for f in found.front],
        high=[f.energy_j + f.half_j for f in found.front],
        label="front, with 95% intervals",
    )
    panel = Panel(
        x_title="time, ms",
        y_title=f"energy, J ({'measured' if found.best.measured else 'estimated'})",
        series=(*_dots(found, _time_ms, _energy_j), front),
        is_log=True,
    )
    return _chart(manifest, "time and energy of one launch", [panel])


def _hull(manifest: TuningManifest, found: Analysis) -> Chart:
    corners = [*found.hull, found.hull[0]]
    hull = _series(corners, _gflops, _gflops_per_w, mark="", line="-", label="convex hull")
    panel = Panel(
        x_title="GFLOP/s",
        y_title="GFLOP/s for each watt",
        series=(hull, *_dots(found, _gflops, _gflops_per_w)),
        x_rules=[found.best.gflops],
        y_rules=[found.fastest.gflops_per_w],
    )
    return _chart(manifest, "speed and efficiency", [panel])


def path_chart(
    caption: str, gpu: str, runs: Sequence[tuple[float, float]], names: Sequence[str] = ()
) -> Chart:
    """Return time and energy of runs in their order, and the least so far (Guerreiro et al., Figures 2 to 4).

    Args:
        caption: What ran.
        gpu: The GPU.
        runs: Time in s and energy in J of each; NaN where it has none.
        names: What each is.
    """
    numbers = range(1, len(runs) + 1)
    panels = []
    for what, values in (
        ("time, ms", [1e3 * time_s for time_s, _ in runs]),
        ("energy, J", [energy_j for _, energy_j in runs]),
    ):
        # `min` passes over NaN only where it stands second.
        least = [*itertools.accumulate(values, lambda a, b: b if math.isnan(a) else min(a, b))]
        series = [
            Series(x=numbers, y=values, names=names, colour=_DOT, label="run"),
            Series(x=numbers, y=least, mark="", line="steps-post", label="least so far"),
        ]
        if runs and math.isfinite(least[-1]):
            first = values.index(least[-1])
            series.append(
                Series(
                    x=[first + 1],
                    y=[least[-1]],
                    colour=_BEST,
                    mark="v",
                    stands_out=True,
                    label=f"least: run {first + 1}",
                )
            )
        panels.append(Panel(x_title="run", y_title=what, series=series))
    return Chart(caption, gpu, [[panel] for panel in panels], (7.5, 6))


def _path(manifest: TuningManifest, found: Analysis, trials: Sequence[Trial]) -> Chart:
    of_trial = {one.name: (one.time_s, one.energy_j) for one in found.figures}
    names = [one.name for one in trials]
    runs = [of_trial.get(name, (math.nan, math.nan)) for name in names]
    caption = f"{manifest.part.problem.title}: time and energy in the order of the search"
    return path_chart(caption, title(manifest.gpu), runs, names)


def _ranged_axes(manifest: TuningManifest, found: Analysis) -> list[str]:
    """Return the axes with a handful of values, those that go along most with energy first."""
    axes = {*manifest.part.problem.parameters, *found.best.trial.settings.by_axis}
    strength = list(dict.fromkeys(c.metric for c in found.correlations))
    few = [
        name for name in strength if name in axes and 2 <= len(_levels(found.metrics[name])) <= _MOST_LEVELS
    ]
    return few[:_RANGES_SHOWN]


def _levels(values: Sequence[float]) -> list[float]:
    return sorted({value for value in values if math.isfinite(value)})


def _ranges(manifest: TuningManifest, found: Analysis, names: Sequence[str]) -> Chart:
    """Return how far time and energy reach at each value of an axis (Guerreiro et al. 2015, Figure 1)."""
    ways: tuple[tuple[str, str, Callable[[VariantFigures], float]], ...] = (
        ("time", _DOT, lambda f: f.time_s),
        ("energy", _BEST, lambda f: f.energy_j),
    )
    rows = [[_range(found, name, *way) for way in ways] for name in names]
    what = "ranges of time and energy by axis"
    return _chart(manifest, what, *rows, size_in=(9, 0.8 + 2.2 * len(names)))


def _range(
    found: Analysis, name: str, what: str, colour: str, of: Callable[[VariantFigures], float]
) -> Panel:
    values = found.metrics[name]
    levels = _levels(values)
    least = min(map(of, found.figures))
    known = [
        (levels.index(value), of(one) / least)
        for value, one in zip(values, found.figures, strict=True)
        if math.isfinite(value)
    ]
    by_level = [[ratio for at, ratio in known if at == level] for level in range(len(levels))]
    reach = Series(
        x=range(len(levels)),
        y=[*map(min, by_level)],
        colour=colour,
        mark="",
        low=[*map(min, by_level)],
        high=[*map(max, by_level)],
    )
    dashes = Series(x=[at for at, _ in known], y=[ratio for _, ratio in known], colour=colour, mark="_")
    return Panel(
        x_title=name,
        y_title=f"{what} over the least",
        series=(reach, dashes),
        x_names=[f"{level:g}" for level in levels],
    )


def _correlations(manifest: TuningManifest, found: Analysis) -> Chart:
    metrics = list(dict.fromkeys(c.metric for c in found.correlations))[:_METRICS_SHOWN]
    series = []
    for shift, (target, colour) in enumerate((("time", _DOT), ("power", _CAPPED), ("energy", _BEST))):
        some = [c for c in found.correlations if c.target == target and c.metric in metrics]
        series.append(
            Series(
                x=[c.rho for c in some],
                y=[metrics.index(c.metric) + 0.22 * (shift - 1) for c in some],
                names=[f"{c.metric}, {target}" for c in some],
                colour=colour,
                low=[c.low for c in some],
                high=[c.high for c in some],
                bars_along="x",
                label=target,
            )
        )
    panel = Panel(
        x_title="rank correlation",
        y_title="",
        series=series,
        y_names=metrics,
        x_range=(-1.0, 1.0),
        x_rules=[0.0],
    )
    what = "rank correlation, with 95% intervals"
    return _chart(manifest, what, [panel], size_in=(7.5, 1.5 + 0.32 * len(metrics)))


def _quadrants(manifest: TuningManifest, found: Analysis) -> Chart:
    """Return variants above and below the mean of some metrics, as Anzt et al. (2015) do in Figure 9."""
    rows = []
    for split in found.splits[:_SPLITS_SHOWN]:
        of = dict(zip(map(id, found.figures), found.metrics[split.metric], strict=True))
        halves = [
            ([f for f in found.figures if of[id(f)] > split.mean], _BEST, "above the mean"),
            ([f for f in found.figures if of[id(f)] <= split.mean], _BELOW, "below"),
        ]

        def metric(one: Figures[Any], of: dict[int, float] = of) -> float:
            return of[id(one)]

        rows.append(
            [
                Panel(
                    x_title=x_title,
                    y_title=y_title,
                    series=[
                        _series(some, x, y, colour=colour, label=label) for some, colour, label in halves
                    ],
                )
                for x_title, x, y_title, y in (
                    (split.metric, metric, "GFLOP/s", _gflops),
                    (split.metric, metric, "GFLOP/s for each watt", _gflops_per_w),
                    ("GFLOP/s", _gflops, "GFLOP/s for each watt", _gflops_per_w),
                )
            ]
        )
    what = "above and below the mean of a metric"
    return _chart(manifest, what, *rows, size_in=(11, 0.8 + 2.6 * len(rows)))
