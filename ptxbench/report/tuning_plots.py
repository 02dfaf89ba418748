"""Pictures of a search: efficiency against speed with the hull, the front with its bars, correlations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ptxbench.report.figure import new_figure, title
from ptxbench.report.pareto_plot import scatter_by_limit
from ptxbench.tune.analysis import Analysis, Figures, LibraryFigures
from ptxbench.tune.folder import TuningManifest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DOT, _CAPPED, _LINE, _BEST = "#2f6fb0", "#c46a1b", "#222222", "#b02f5f"
_LIBRARY, _BELOW = "#1c7c3c", "#3c9a5f"
_METRICS_SHOWN = 18
_SPLITS_SHOWN = 5
_Figure = Callable[[Figures | LibraryFigures], float]


def draw_all(manifest: TuningManifest, found: Analysis) -> dict[str, Figure]:
    """Return every picture by its name.

    Raises:
        InputError: matplotlib is not installed.
    """
    figures = {"front": _front(manifest, found)}
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
    heading = f"{manifest.part.problem.title}: {what}\n{title(manifest.gpu)}"
    axes.set_title(heading, loc="left", fontsize=10)
    axes.grid(which="both", alpha=0.25)
    return figure, axes


def _label(role: str, one: Figures) -> str:
    return f"{role}: {one.name}"


def _dots(axes: Axes, found: Analysis, x: _Figure, y: _Figure) -> None:
    scatter_by_limit(
        axes, [f.at_limit for f in found.figures], list(map(x, found.figures)), list(map(y, found.figures))
    )
    for one, marker, role in ((found.fastest, "^", "fastest"), (found.best, "v", "least energy")):
        axes.scatter([x(one)], [y(one)], s=70, marker=marker, color=_BEST, label=_label(role, one), zorder=3)
    beside = [one for one in found.beside if math.isfinite(one.energy_j)]
    if beside:
        places = list(map(x, beside)), list(map(y, beside))
        axes.scatter(*places, s=90, marker="*", color=_LIBRARY, label=beside[0].name, zorder=3)


def _front(manifest: TuningManifest, found: Analysis) -> Figure:
    figure, axes = _axes(manifest, "time and energy of one launch")

    def time_ms(one: Figures | LibraryFigures) -> float:
        return 1e3 * one.time_s

    _dots(axes, found, time_ms, lambda f: f.energy_j)
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
    axes.set_xlabel("time, ms")
    axes.set_ylabel(f"energy, J ({'measured' if found.best.measured else 'estimated'})")
    axes.legend(fontsize=7)
    return figure


def _hull(manifest: TuningManifest, found: Analysis) -> Figure:
    figure, axes = _axes(manifest, "speed and efficiency")
    _dots(axes, found, lambda f: f.gflops, lambda f: f.gflops_per_w)
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
    shown = found.splits[:_SPLITS_SHOWN]
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
            axes.tick_params(labelsize=7)
            axes.grid(alpha=0.25)
        both.legend(fontsize=7)
    heading = f"{manifest.part.problem.title}: above and below the mean of a metric\n{title(manifest.gpu)}"
    figure.suptitle(heading, fontsize=10)
    return figure


def _bars(ends: Sequence[tuple[float, float, float]]) -> tuple[list[float], list[float]]:
    """Return how far intervals reach below and above."""
    return [rho - low for low, rho, _ in ends], [high - rho for _, rho, high in ends]
