"""Draw how far each way of reading power is off, by how long a kernel lasts, a panel for each GPU.

    python runners/archive_readings.py restore results/*/methods*
    python runners/draw_methods.py results/*/methods* --plot docs/images/methods.png

Each folder is one of `ptxbench doctor methods`, with its readings: what they come to is worked out again.
Drawn are kernels of even power, and the ways that papers and tools go, each on the source that it reads.
Boards of one GPU share a panel. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from ptxbench.core.errors import PtxbenchError
from ptxbench.core.gpu_info import without_maker
from ptxbench.experiment.sampling import PURPOSE, again
from ptxbench.report.figure import new_figure, save
from ptxbench.report.methods_plot import draw_points
from ptxbench.storage.methods_file import LoadKind, MethodPoint, MethodsFile
from ptxbench.storage.recording import RecordingFolder

# Method, source, what goes this way, and its colour.
WAYS = (
    ("sma", "usage", "SMA of nvidia-smi (Arafa et al.)", "#8a8f99"),
    ("mtsm", "usage", "MTSM of nvidia-smi (Arafa et al.)", "#b8952c"),
    ("papi", "usage", "last of nvidia-smi (PAPI-style)", "#c25b2e"),
    ("collector", "usage", "mean of nvidia-smi (aiconfigurator)", "#d45087"),
    ("median", "instant", "median of instant (Kernel Tuner)", "#2a9d8f"),
    ("difference", "counter", "counter (Zeus, codecarbon)", "#4c8c4a"),
    ("corrected", "usage", "nvidia-smi, corrected (ptxbench)", "#8fb8de"),
    ("corrected", "samples", "samples, corrected (ptxbench)", "#2f6fb0"),
)
# Errors under this are drawn to scale, larger ones by their logarithm.
_LINEAR_PCT = 3.0
_TICKS_PCT = (-90, -50, -20, -10, -3, 0, 3, 10)
_PANEL_IN = (4.6, 4.4)


def main() -> int:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="of `ptxbench doctor methods`, with readings")
    parser.add_argument("--plot", type=Path, required=True, help="picture to write")
    arguments = parser.parse_args()
    draw([again(RecordingFolder.open(one, PURPOSE), None)[0] for one in arguments.folders], arguments.plot)
    return 0


def draw(found: Sequence[MethodsFile], path: Path) -> None:
    """Write the picture: dots with their spread as measured, lines as the sensor's description predicts.

    Args:
        found: Comparisons; those of one GPU share a panel.
        path: The picture.
    """
    names = list(dict.fromkeys(one.gpu.name for one in found))
    figure = new_figure(_PANEL_IN[0] * len(names), _PANEL_IN[1])
    panels = figure.subplots(1, len(names), squeeze=False, sharex=True, sharey=True)[0]
    for axes, name in zip(panels, names, strict=True):
        _draw_gpu(axes, [one for one in found if one.gpu.name == name])
        axes.set_title(without_maker(name))
        axes.set_xlabel("length of the kernel, s")
    panels[0].set_xscale("log")
    panels[0].set_yscale("symlog", linthresh=_LINEAR_PCT)
    panels[0].set_yticks(_TICKS_PCT, [f"{tick:+d}" if tick else "0" for tick in _TICKS_PCT])
    panels[0].set_ylim(-100, 12)
    panels[0].set_ylabel("error of the energy, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    save(figure, path)


def _draw_gpu(axes: Axes, found: Sequence[MethodsFile]) -> None:
    axes.axhline(0, color="0.6", lw=0.8, zorder=0)
    axes.grid(alpha=0.25)
    for at, (method, source, label, colour) in enumerate(WAYS):
        for one in found:
            points = [p for p in one.points if _is_of(p, method, source)]
            name = label if one is found[0] else None
            draw_points(axes, points, colour, name, at - len(WAYS) // 2)


def _is_of(point: MethodPoint, method: str, source: str) -> bool:
    return (point.kind, point.method, point.source) == (LoadKind.CONSTANT, method, source) and bool(
        point.answered
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"draw_methods: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
