"""Time and energy of every variant that was tried, and the front of those that no other beats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.core.errors import InputError
from ptxbench.report.figure import new_figure, save, title
from ptxbench.tune.folder import TuningManifest
from ptxbench.tune.library import LibraryTrial
from ptxbench.tune.objective import pareto_front
from ptxbench.tune.outcome import Settled
from ptxbench.tune.trial import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FREE, _LIMITED, _FRONT = "#2f6fb0", "#c46a1b", "#222222"
# Edge, face and label of a dot by what tables say of it at the power limit.
_DOTS = {
    "-": (_FREE, _FREE, "variant"),
    "capped": (_LIMITED, _LIMITED, "at the power limit"),
    "capped, untested": (_LIMITED, "none", "at the power limit, not known to have settled"),
}


def plot_front(
    manifest: TuningManifest, trials: Iterable[Trial], path: Path, beside: Iterable[LibraryTrial] = ()
) -> None:
    """Draw one dot a variant, time against energy, and a line along the front.

    Args:
        manifest: What was tuned.
        trials: Every variant that was tried.
        beside: What a library took for the same product.
        path: Picture to write; its ending chooses the format (.png, .svg, .pdf).

    Raises:
        InputError: No variant has an energy, matplotlib is not installed, or the file cannot be written.
    """
    shown = [t for t in trials if t.ok and math.isfinite(t.best_energy_j)]
    if not shown:
        raise InputError("there is nothing to draw: no variant has an energy")
    front = pareto_front(shown)
    problem = manifest.part.problem
    figure = new_figure(7, 5)
    from matplotlib.ticker import LogFormatter

    axes = figure.subplots()
    clocks = {t.settings.sm_clock_mhz for t in shown if t.settings.sm_clock_mhz is not None}
    if len(clocks) > 1:
        _dots_by_clock(figure, axes, shown)
    else:
        scatter_by_limit(
            axes,
            [t.at_limit for t in shown],
            [1e3 * t.best_time_s for t in shown],
            [t.best_energy_j for t in shown],
        )
    corners = [1e3 * t.best_time_s for t in front], [t.best_energy_j for t in front]
    axes.plot(*corners, drawstyle="steps-post", color=_FRONT, label="front of time and energy")
    faces = ["white" if t.settled_at_limit is Settled.UNTESTED else _FRONT for t in front]
    axes.scatter(*corners, s=30, edgecolors=_FRONT, facecolors=faces, zorder=3)
    library = [one for one in beside if math.isfinite(one.energy_j)]
    if library:
        places = [1e3 * one.best_time_s for one in library], [one.energy_j for one in library]
        axes.scatter(*places, s=90, marker="*", color="#1c7c3c", label=library[0].name, zorder=3)
    measured = "measured" if any(math.isfinite(t.energy_j) for t in shown) else "estimated"
    axes.set_xlabel("time of one launch, ms")
    axes.set_ylabel(f"energy of one launch, J ({measured})")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        # Both kinds of ticks, as the values often lie within one decade.
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))
    axes.set_title(f"{problem.title}\n{title(manifest.gpu)}", loc="left", fontsize=10)
    axes.grid(which="both", alpha=0.25)
    axes.legend()
    save(figure, path)


def scatter_by_limit(axes: Axes, at_limit: Sequence[str], x: Sequence[float], y: Sequence[float]) -> None:
    """Draw a dot for each variant; those that may not have settled at the power limit are hollow.

    Args:
        axes: Where.
        at_limit: What tables say of each at the power limit.
        x: Its place.
        y: Its height.
    """
    for words, (edge, face, label) in _DOTS.items():
        chosen = [n for n, one in enumerate(at_limit) if one == words]
        if chosen:
            places = [x[n] for n in chosen], [y[n] for n in chosen]
            axes.scatter(*places, s=14, edgecolors=edge, facecolors=face, alpha=0.6, label=label)


def _dots_by_clock(figure: Figure, axes: Axes, shown: Sequence[Trial]) -> None:
    """Colour the dots by the clock that was set, as Figure 4 of Schoonhoven et al. (2022) does."""
    dots = [t for t in shown if t.settings.sm_clock_mhz is not None]
    drawn = axes.scatter(
        [1e3 * t.best_time_s for t in dots],
        [t.best_energy_j for t in dots],
        c=[float(t.settings.sm_clock_mhz or 0) for t in dots],
        s=14,
        cmap="viridis",
        label="variant at a clock",
    )
    figure.colorbar(drawn, ax=axes, label="SM clock that was set, MHz")
