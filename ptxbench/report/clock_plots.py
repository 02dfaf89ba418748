"""Capping against clocking: Figures 6 and 7 of Schoonhoven et al. (2022) from the trials of a search."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.report.figure import new_figure, save, title
from ptxbench.tune.folder import TuningManifest
from ptxbench.tune.trial import Trial

_CLOCKED, _CAPPED = "#2f6fb0", "#c46a1b"


def plot_capping(manifest: TuningManifest, trials: Sequence[Trial], path: Path) -> None:
    """Draw power over the clock that was held, and the least energy over the power of each setting.

    Circles are clocks that were set, triangles are power limits. Left, as in Figure 6, is the variant of
    least energy; right is the best variant at each setting.

    Args:
        manifest: What was tuned.
        trials: Its trials.
        path: Picture to write; its ending chooses the format.

    Raises:
        InputError: No trial with a set clock or limit has a power, matplotlib is not installed, or the file
            cannot be written.
    """
    measured = [t for t in trials if t.ok and math.isfinite(t.power_w)]
    clocked = [t for t in measured if t.settings.power_limit_mw is None and t.settings.sm_clock_mhz]
    capped = [t for t in measured if t.settings.sm_clock_mhz is None and t.settings.power_limit_mw]
    if not clocked + capped:
        raise InputError("there is nothing to draw: no trial with a set clock or limit has a measured power")
    figure = new_figure(10, 4.5)
    left, right = figure.subplots(1, 2)
    for kind, marker, colour, label in (
        (clocked, "o", _CLOCKED, "SM clock set"),
        (capped, "^", _CAPPED, "power limit set"),
    ):
        if not kind:
            continue
        best = min(kind, key=lambda t: t.energy_j).variant.name
        shown = [t for t in kind if t.variant.name == best]
        left.scatter(
            [t.clock_mhz for t in shown],
            [t.power_w for t in shown],
            marker=marker,
            color=colour,
            label=f"{label}: {best}",
        )
        lowest = _lowest(kind, lambda t: t.settings.tag)
        right.scatter(
            [t.clock_mhz for t in lowest],
            [t.energy_j for t in lowest],
            marker=marker,
            color=colour,
            label=label,
        )
    for limit_mw in sorted({t.settings.power_limit_mw or 0 for t in capped}):
        left.axhline(limit_mw / 1000, linestyle="--", linewidth=0.7, color=_CAPPED, alpha=0.6)
    left.set_ylabel("power, W")
    right.set_ylabel("least energy of a launch, J")
    for axes in (left, right):
        axes.set_xlabel("SM clock that was held, MHz")
        axes.grid(alpha=0.25)
        axes.legend(fontsize=7)
    left.set_title(f"{manifest.part.problem.title}\n{title(manifest.gpu)}", loc="left", fontsize=10)
    save(figure, path)


def _lowest(trials: Sequence[Trial], setting: Callable[[Trial], str]) -> list[Trial]:
    """Return the trial of least energy at each setting."""
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[setting(trial)].append(trial)
    return [min(group, key=lambda t: t.energy_j) for group in groups.values()]
