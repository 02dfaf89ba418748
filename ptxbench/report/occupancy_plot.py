"""Occupancy of a kernel over its block size, in the colour of what limits it."""

from __future__ import annotations

from pathlib import Path

from ptxbench.report.figure import new_figure, save
from ptxbench.tune.blocks.code_occupancy import Occupancy
from ptxbench.tune.blocks.guerreiro import HIGH_OCCUPANCY

_COLORS = {
    "warps": "#2f6fb0",
    "blocks": "#7a5195",
    "registers": "#c46a1b",
    "shared memory": "#3a8f5d",
}


def plot_occupancy(found: Occupancy, path: Path) -> None:
    """Draw occupancy over the block size.

    Args:
        found: Occupancy by block size.
        path: Picture to write; its ending chooses the format (.png, .svg, .pdf).

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(7, 4)
    axes = figure.subplots()
    sizes = [one.threads for one in found.sizes]
    axes.plot(sizes, [one.occupancy for one in found.sizes], color="#bbbbbb", linewidth=1)
    for limiter, color in _COLORS.items():
        of_it = [one for one in found.sizes if one.limiters[0] == limiter]
        if of_it:
            at, height = [one.threads for one in of_it], [one.occupancy for one in of_it]
            axes.scatter(at, height, s=22, color=color, label=limiter, zorder=3)
    axes.axhline(HIGH_OCCUPANCY, color="#888888", linestyle=":", label="80%, over which sizes are tried")
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("threads a block")
    axes.set_ylabel("occupancy (Eq. 5)")
    axes.set_title(
        f"{found.entry} on {found.target}, {found.registers} registers a thread",
        loc="left",
        fontsize=9,
        parse_math=False,
    )
    axes.grid(alpha=0.25)
    axes.legend(title="limited by", fontsize=8)
    save(figure, path)
