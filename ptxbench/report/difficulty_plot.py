"""The proportion of centrality over p, as Figure 5 of Schoonhoven et al. (2022)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ptxbench.report.figure import new_figure, save, title
from ptxbench.tune.clocks.difficulty import Difficulty
from ptxbench.tune.folder import TuningManifest

_UP_TO, _STEPS = 1.5, 251


def plot_difficulty(manifest: TuningManifest, found: Sequence[Difficulty], path: Path) -> None:
    """Draw one curve for each part.

    Args:
        manifest: What was tuned.
        found: Its parts.
        path: Picture to write; its ending chooses the format.

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(7, 4.5)
    axes = figure.subplots()
    proportions = np.linspace(1, _UP_TO, _STEPS)
    for one in found:
        shares = [one.proportion(float(p)) for p in proportions]
        axes.plot(proportions, shares, drawstyle="steps-post", label=f"{one.part} ({len(one.minima)} minima)")
    axes.set_xlabel("p: cost over the least")
    axes.set_ylabel("proportion of centrality")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
    axes.set_title(f"{manifest.part.problem.title}\n{title(manifest.gpu)}", loc="left", fontsize=10)
    save(figure, path)
