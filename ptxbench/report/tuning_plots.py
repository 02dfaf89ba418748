"""Pictures of a search: efficiency against speed with the hull, the front with its bars, correlations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.report.figure import new_figure, save, title
from ptxbench.tune.analysis import Analysis, Figures, VariantFigures, analyse
from ptxbench.tune.folder import TuningManifest
from ptxbench.tune.library import LibraryTrial
from ptxbench.tune.trial import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DOT, _CAPPED, _LINE, _BEST = "#2f6fb0", "#c46a1b", "#222222", "#b02f5f"
_LIBRARY, _BELOW = "#1c7c3c", "#3c9a5f"
# Edge, face and label of a dot by what tables say of it at the power limit.
_DOTS = {
    "-": (_DOT, _DOT, "variant"),
    "capped": (_CAPPED, _CAPPED, "at the power limit"),
    "capped, untested": (_CAPPED, "none", "at the power limit, not known to have settled"),
}
_METRICS_SHOWN = 18
_SPLITS_SHOWN = 5
_RANGES_SHOWN, _MOST_LEVELS = 4, 16
_Figure = Callable[[Figures[Any]], float]


def draw_all(manifest: TuningManifest, found: Analysis, trials: Sequence[Trial]) -> dict[str, Figure]:
    """Return every picture by its name.

    Args:
        manifest: What was tuned.
        found: What the search tells.
        trials: Its trials, in the order in which they were made.

    Raises:
        InputError: matplotlib is not installed.
    """
    figures = {"front": _front(manifest, found), "path": _path(manifest, found, trials)}
    if ranges := _ranged_axes(manifest, found):
        figures["ranges"] = _ranges(manifest, found, ranges)
    if found.hull:
        figures["hull"] = _hull(manifest, found)
    if found.correlations:
        figures["correlations"] = _correlations(manifest, found)
    if found.hull and found.splits:
        figures["quadrants"] = _quadrants(manifest, found)
    return figures


def _axes(manifest: TuningManifest, what: str, height_in: float = 5) -> tuple[Figure, Axes]:
    figure = new_figure(7.5, height_in)
    axes = figure.subplots()
    axes.set_title(_heading(manifest, what), loc="left", fontsize=10)
    axes.grid(which="both", alpha=0.25)
    return figure, axes


def _heading(manifest: TuningManifest, what: str) -> str:
    return f"{manifest.part.problem.title}: {what}\n{title(manifest.gpu)}"


def _label(role: str, one: VariantFigures) -> str:
    return f"{role}: {one.name}"


def _dots(figure: Figure, axes: Axes, found: Analysis, x: _Figure, y: _Figure) -> None:
    """Draw a dot for each variant, by clock where several were set, else by what it met; and what stands out.

    Those that may not have settled at the power limit are hollow.
    """
    clocks_mhz = [f.trial.settings.sm_clock_mhz for f in found.figures]
    if len(set(clocks_mhz) - {None}) > 1:
        # As Figure 4 of Schoonhoven et al. (2022) does.
        set_at = [(f, mhz) for f, mhz in zip(found.figures, clocks_mhz, strict=True) if mhz is not None]
        places = [x(f) for f, _ in set_at], [y(f) for f, _ in set_at]
        colours = [float(mhz) for _, mhz in set_at]
        drawn = axes.scatter(*places, c=colours, s=14, cmap="viridis", label="variant at a clock")
        figure.colorbar(drawn, ax=axes, label="SM clock that was set, MHz")
    else:
        for words, (edge, face, label) in _DOTS.items():
            chosen = [f for f in found.figures if f.at_limit == words]
            if chosen:
                places = list(map(x, chosen)), list(map(y, chosen))
                axes.scatter(*places, s=14, edgecolors=edge, facecolors=face, alpha=0.6, label=label)
    for one, marker, role in ((found.fastest, "^", "fastest"), (found.best, "v", "least energy")):
        axes.scatter([x(one)], [y(one)], s=70, marker=marker, color=_BEST, label=_label(role, one), zorder=3)
    beside = [one for one in found.beside if math.isfinite(one.energy_j)]
    if beside:
        places = list(map(x, beside)), list(map(y, beside))
        axes.scatter(*places, s=90, marker="*", color=_LIBRARY, label=beside[0].name, zorder=3)


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
    save(_front(manifest, found), path)


def _front(manifest: TuningManifest, found: Analysis) -> Figure:
    figure, axes = _axes(manifest, "time and energy of one launch")
    from matplotlib.ticker import LogFormatter

    def time_ms(one: Figures[Any]) -> float:
        return 1e3 * one.time_s

    _dots(figure, axes, found, time_ms, lambda f: f.energy_j)
    axes.errorbar(
        list(map(time_ms, found.front)),
        [f.energy_j for f in found.front],
        yerr=[f.half_j for f in found.front],
        color=_LINE,
        drawstyle="steps-post",
        marker="o",
        markersize=4,
        capsize=3,
        label="front, with 95% intervals",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        # Both kinds of ticks, as the values often lie within one decade.
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))
    axes.set_xlabel("time, ms")
    axes.set_ylabel(f"energy, J ({'measured' if found.best.measured else 'estimated'})")
    axes.legend(fontsize=7)
    return figure


def _hull(manifest: TuningManifest, found: Analysis) -> Figure:
    figure, axes = _axes(manifest, "speed and efficiency")
    _dots(figure, axes, found, lambda f: f.gflops, lambda f: f.gflops_per_w)
    corners = [*found.hull, found.hull[0]]
    axes.plot(
        [f.gflops for f in corners], [f.gflops_per_w for f in corners], color=_LINE, lw=1, label="convex hull"
    )
    axes.axvline(found.best.gflops, color=_BEST, lw=0.8, ls=":")
    axes.axhline(found.fastest.gflops_per_w, color=_BEST, lw=0.8, ls=":")
    axes.set_xlabel("GFLOP/s")
    axes.set_ylabel("GFLOP/s for each watt")
    axes.legend(fontsize=7)
    return figure


def draw_path(heading: str, runs: Sequence[tuple[float, float]]) -> Figure:
    """Draw time and energy of runs in their order, and the least so far (Guerreiro et al., Figures 2 to 4).

    Args:
        heading: What ran, and the GPU below it.
        runs: Time in s and energy in J of each; NaN where it has none.

    Raises:
        InputError: matplotlib is not installed.
    """
    figure = new_figure(7.5, 6)
    from matplotlib.ticker import MaxNLocator

    numbers = range(1, len(runs) + 1)
    ways = (
        ("time, ms", [1e3 * time_s for time_s, _ in runs]),
        ("energy, J", [energy_j for _, energy_j in runs]),
    )
    for axes, (what, values) in zip(figure.subplots(2, sharex=True), ways, strict=True):
        axes.plot(numbers, values, ls="none", marker="o", markersize=4, color=_DOT, label="run")
        least = np.fmin.accumulate(np.array(values, dtype=float))
        axes.plot(numbers, least, drawstyle="steps-post", color=_LINE, lw=1, label="least so far")
        if np.isfinite(least).any():
            first = int(np.nanargmin(values))
            axes.plot(
                first + 1, values[first], marker="v", ls="none", color=_BEST, label=f"least: run {first + 1}"
            )
        axes.set_ylabel(what)
        axes.grid(alpha=0.25)
        axes.legend(fontsize=7)
    figure.axes[0].set_title(heading, loc="left", fontsize=10)
    figure.axes[1].set_xlabel("run")
    figure.axes[1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _path(manifest: TuningManifest, found: Analysis, trials: Sequence[Trial]) -> Figure:
    of_trial = {one.name: (one.time_s, one.energy_j) for one in found.figures}
    runs = [of_trial.get(one.name, (math.nan, math.nan)) for one in trials]
    return draw_path(_heading(manifest, "time and energy in the order of the search"), runs)


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


def _ranges(manifest: TuningManifest, found: Analysis, names: Sequence[str]) -> Figure:
    """Draw how far time and energy reach at each value of an axis (Guerreiro et al. 2015, Figure 1)."""
    figure = new_figure(9, 0.8 + 2.2 * len(names))
    rows = figure.subplots(len(names), 2, squeeze=False)
    ways: tuple[tuple[str, str, Callable[[VariantFigures], float]], ...] = (
        ("time", _DOT, lambda f: f.time_s),
        ("energy", _BEST, lambda f: f.energy_j),
    )
    for name, row in zip(names, rows, strict=True):
        levels = _levels(found.metrics[name])
        for axes, (what, colour, of) in zip(row, ways, strict=True):
            least = min(map(of, found.figures))
            for at, level in enumerate(levels):
                known = zip(found.metrics[name], found.figures, strict=True)
                some = [of(one) / least for value, one in known if value == level]
                axes.plot([at, at], [min(some), max(some)], color=colour, lw=5, alpha=0.35)
                axes.plot([at] * len(some), some, ls="none", marker="_", markersize=9, color=colour)
            axes.set_xticks(range(len(levels)), [f"{level:g}" for level in levels], fontsize=8)
            axes.set_xlabel(name, fontsize=8)
            axes.set_ylabel(f"{what} over the least", fontsize=8)
            axes.grid(axis="y", alpha=0.25)
    figure.suptitle(_heading(manifest, "ranges of time and energy by axis"), fontsize=10)
    return figure


def _correlations(manifest: TuningManifest, found: Analysis) -> Figure:
    metrics = list(dict.fromkeys(c.metric for c in found.correlations))[:_METRICS_SHOWN]
    figure, axes = _axes(manifest, "rank correlation, with 95% intervals", 1.5 + 0.32 * len(metrics))
    for shift, (target, colour) in enumerate((("time", _DOT), ("power", _CAPPED), ("energy", _BEST))):
        some = [c for c in found.correlations if c.target == target and c.metric in metrics]
        axes.errorbar(
            [c.rho for c in some],
            [metrics.index(c.metric) + 0.22 * (shift - 1) for c in some],
            xerr=_bars([(c.low, c.rho, c.high) for c in some]),
            fmt="o",
            markersize=4,
            color=colour,
            capsize=2,
            label=target,
        )
    axes.axvline(0, color=_LINE, lw=0.8)
    axes.set_yticks(range(len(metrics)), metrics, fontsize=8)
    axes.set_xlim(-1, 1)
    axes.invert_yaxis()
    axes.legend(fontsize=7)
    return figure


def _quadrants(manifest: TuningManifest, found: Analysis) -> Figure:
    """Draw variants above and below the mean of some metrics, as Anzt et al. (2015) do in Figure 9."""
    from matplotlib.ticker import EngFormatter

    shown = found.splits[:_SPLITS_SHOWN]
    in_thousands = EngFormatter(sep="")
    figure = new_figure(11, 0.8 + 2.6 * len(shown))
    rows = figure.subplots(len(shown), 3, squeeze=False)
    for split, (speed, efficiency, both) in zip(shown, rows, strict=True):
        values = found.metrics[split.metric]
        for above, colour in ((True, _BEST), (False, _BELOW)):
            known = zip(values, found.figures, strict=True)
            some = [(v, f) for v, f in known if math.isfinite(v) and (v > split.mean) is above]
            metric, gflops = [v for v, _ in some], [f.gflops for _, f in some]
            per_w = [f.gflops_per_w for _, f in some]
            label = "above the mean" if above else "below"
            for axes, x, y in ((speed, metric, gflops), (efficiency, metric, per_w), (both, gflops, per_w)):
                axes.scatter(x, y, s=10, color=colour, alpha=0.6, label=label)
        for axes, x_label, y_label in (
            (speed, split.metric, "GFLOP/s"),
            (efficiency, split.metric, "GFLOP/s for each watt"),
            (both, "GFLOP/s", "GFLOP/s for each watt"),
        ):
            axes.set_xlabel(x_label, fontsize=8)
            axes.set_ylabel(y_label, fontsize=8)
            axes.xaxis.set_major_formatter(in_thousands)
            axes.tick_params(labelsize=7)
            axes.grid(alpha=0.25)
        both.legend(fontsize=7)
    figure.suptitle(_heading(manifest, "above and below the mean of a metric"), fontsize=10)
    return figure


def _bars(ends: Sequence[tuple[float, float, float]]) -> tuple[list[float], list[float]]:
    """Return how far intervals reach below and above."""
    return [rho - low for low, rho, _ in ends], [high - rho for _, rho, high in ends]
