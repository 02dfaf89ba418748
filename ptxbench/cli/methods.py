"""`ptxbench methods`: which way of reading power to believe, by kernel length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import gpu_option, json_option, plot_option, sensor_option
from ptxbench.cli.output import print_encoded, print_table
from ptxbench.cli.progress import progress_bar

if TYPE_CHECKING:
    from ptxbench.gpu.protocol import Gpu
    from ptxbench.power.sensor import SensorDescription
    from ptxbench.store.methods_file import MethodPoint, MethodsFile

_MEANING = "bias in % ± spread over runs (bias foretold from the sensor's description)"


@click.command(name="methods")
@gpu_option
@click.option("--out", type=click.Path(path_type=Path), help="New folder (default: one below results/).")
@sensor_option
@plot_option("the error of every method against the kernel's duration")
@json_option
def command(
    spec: str | None, out: Path | None, sensor_path: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Compare the ways of reading power on kernels of 10 ms to 10 s.

    For even, ramped and bursty power every method (SMA, PAPI-style, MTSM, MTSM corrected, counter) on
    every source is set against what the same source says of the same kernel when it lasts. It takes about
    five minutes. Give --sensor, as what is documented of a sensor is not enough to correct for it. With
    --gpu replay:FOLDER the figures are worked out again from what such a FOLDER holds.
    """
    found, path = _found(spec, out, sensor_path)
    if plot is not None:
        from ptxbench.report.methods_plot import plot_methods

        plot_methods(found, plot)
    if as_json:
        print_encoded(found, {"folder": str(path)})
    else:
        _print(found, path)


def _found(spec: str | None, out: Path | None, sensor_path: Path | None) -> tuple[MethodsFile, Path]:
    from ptxbench.gpu.select import open_gpu_or_simulated
    from ptxbench.measure.sampling import PURPOSE, again
    from ptxbench.store.recording import RecordingFolder
    from ptxbench.store.sensor_file import sensors_for

    if spec is not None and spec.startswith("replay:"):
        folder = RecordingFolder.open(Path(spec.removeprefix("replay:")), PURPOSE)
        return again(folder, sensor_path), folder.path
    gpu = open_gpu_or_simulated(spec, lambda text: click.echo(f"ptxbench: {text}", err=True))
    try:
        sensors = sensors_for(sensor_path, gpu) if sensor_path is not None else ()
        return _measure(gpu, out, sensors)
    finally:
        gpu.close()


def _measure(gpu: Gpu, out: Path | None, sensors: Sequence[SensorDescription]) -> tuple[MethodsFile, Path]:
    from ptxbench.measure.sampling import measure_methods

    with progress_bar() as show:
        return measure_methods(gpu, out, sensors, lambda at: show(at.done, at.total, at.name))


def _print(found: MethodsFile, path: Path) -> None:
    info = found.gpu
    kind = "" if info.kind == "real" else f" ({info.kind.upper()}, no measurement)"
    click.echo(f"{info.name}{kind}, driver {info.driver}")
    print_table(
        ("source", "idle W", "load W", "against the first"),
        [
            (one.source, f"{one.idle_w:.1f}", f"{one.steady_w:.1f}", f"{100 * (one.ratio - 1):+.2f}%")
            for one in found.levels
        ],
        ("idle W", "load W", "against the first"),
    )
    for load in dict.fromkeys(point.kind for point in found.points):
        click.echo(f"\n{load} power: {_MEANING}")
        _print_load([point for point in found.points if point.kind == load])
    click.echo()
    for sentence in found.recommendations:
        click.echo(sentence)
    for note in found.notes:
        click.echo(f"note: {note}")
    click.echo(f"\nfolder: {path}")


def _print_load(points: Sequence[MethodPoint]) -> None:
    """Print one row a method and source, one column a duration."""
    columns = tuple(dict.fromkeys(_duration(point) for point in points))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for point in points:
        rows.setdefault((point.method, point.source), {})[_duration(point)] = _cell(point)
    print_table(
        ("method", "source", *columns),
        [(*way, *(cells.get(column, "") for column in columns)) for way, cells in rows.items()],
        columns,
    )


def _duration(point: MethodPoint) -> str:
    return f"{point.duration_s:.1g} s" if point.duration_s < 1 else f"{point.duration_s:.0f} s"


def _cell(point: MethodPoint) -> str:
    if not point.answered:
        return "-"
    spread = "" if math.isnan(point.spread_pct) else f" ± {point.spread_pct:.1f}"
    foretold = "-" if math.isnan(point.predicted_pct) else f"{point.predicted_pct:.1f}"
    silent = f" {point.answered}/{point.runs}" if point.answered < point.runs else ""
    return f"{point.bias_pct:.1f}{spread} ({foretold}){silent}"
