"""`ptxbench doctor methods`: the error of each way of reading power, by kernel length."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.options import plot_of, require_resumable
from ptxbench.cli.output import print_encoded, print_table, say, say_lost
from ptxbench.cli.progress import progress_bar
from ptxbench.core.shared_options import GpuSpec, Json, Out, Resume, SensorPath
from ptxbench.report.text_table import output_width

if TYPE_CHECKING:
    from ptxbench.devices.base import Gpu
    from ptxbench.experiment.sampling import Progress
    from ptxbench.sensors.description import SensorDescription
    from ptxbench.storage.methods_file import MethodPoint, MethodsFile

_MEANING = "bias in % ± spread over runs (bias predicted from the sensor's description)"
# From here on a tenth of a percent is noise.
_COARSE_PCT = 10
# Of a cell such as "-12.3 ±0.1 (-12.0)", and of the method and source before it.
_CELL_WIDTH = 21
_WAY_WIDTH = 20


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench doctor methods`."""

    spec: GpuSpec = None
    out: Out = None
    resume: Resume = False
    sensor_path: SensorPath = None
    plot: Annotated[Path | None, plot_of("the error of every method against the kernel's duration")] = None
    as_json: Json = False


@command_of(_Options, "methods", short_help="Compare the ways of reading power, in some six minutes.")
def methods(options: _Options) -> None:
    """Compare the methods of reading power on kernels of 1 ms to 10 s.

    The methods are SMA, PAPI-style, MTSM, those of other tools, MTSM corrected and counter. For constant,
    ramped and bursty power, each is compared on every source with a long run of the same kernel. It takes
    about six minutes; each recording is saved before the next begins, and --resume continues. Give --sensor,
    because the documented figures are not enough to correct for a sensor. --gpu replay:FOLDER computes the
    figures again from a recorded FOLDER, which stays as it is; --out keeps the result in a copy.
    """
    require_resumable(options.resume, options.spec, options.out)
    if options.resume and options.sensor_path is not None:
        raise click.UsageError("--resume uses the sensors of the recordings; leave out --sensor.")
    found, path = _found(options)
    if options.plot is not None:
        from ptxbench.report.methods_plot import plot_methods

        plot_methods(found, options.plot)
    if options.as_json:
        print_encoded(found, {"folder": str(path)})
    else:
        print_methods(found, path)


def _found(options: _Options) -> tuple[MethodsFile, Path]:
    from ptxbench.experiment.sampling import PURPOSE, again
    from ptxbench.experiment.sensor_choice import sensors_for
    from ptxbench.storage.recording import RecordingFolder

    spec, sensor_path = options.spec, options.sensor_path
    if spec is not None and spec.startswith("replay:"):
        folder = RecordingFolder.open(Path(spec.removeprefix("replay:")), PURPOSE)
        found, folder = again(folder, sensor_path, options.out)
        return found, folder.path
    with closing(open_chosen_gpu(spec)) as gpu:
        sensors = sensors_for(sensor_path, gpu) if sensor_path is not None else ()
        return measure(gpu, options.out, sensors, spec, resume=options.resume)


def measure(
    gpu: Gpu,
    out: Path | None,
    sensors: Sequence[SensorDescription],
    spec: str | None,
    *,
    resume: bool = False,
) -> tuple[MethodsFile, Path]:
    """Compare the methods with a progress bar, and say how to go on where that is stopped."""
    from ptxbench.experiment.sampling import measure_methods

    last: Progress | None = None
    with progress_bar() as show:

        def note(at: Progress) -> None:
            nonlocal last
            last = at
            show(at.done, at.total, at.name)

        def lost(names: Sequence[str]) -> None:
            say_lost(names, "recording")

        try:
            return measure_methods(gpu, out, sensors, note, resume=resume, on_lost=lost)
        except KeyboardInterrupt:
            if last is not None:
                _say_stopped(last, spec)
            raise


def _say_stopped(last: Progress, spec: str | None) -> None:
    folder, of_gpu = str(last.folder), ["--gpu", spec] if spec else []
    go_on = shlex.join(["ptxbench", "doctor", "methods", "--resume", "--out", folder, *of_gpu])
    so_far = shlex.join(["ptxbench", "doctor", "methods", "--gpu", f"replay:{folder}"])
    kept = f"stopped; {last.done} of {last.total} recordings are kept"
    say(f"{kept}. Continue with: {go_on}")
    say(f"Compute the result so far with: {so_far}")


def print_methods(found: MethodsFile, path: Path) -> None:
    """Print how far each method is off, by kernel length."""
    info = found.gpu
    click.echo(f"{info.title}, driver {info.driver}")
    numbers = ("idle W", "load W", f"load against {found.levels[0].source}")
    print_table(
        ("source", *numbers),
        [
            (one.source, f"{one.idle_w:.1f}", f"{one.steady_w:.1f}", f"{100 * (one.ratio - 1):+.2f}%")
            for one in found.levels
        ],
        numbers,
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
    columns = tuple(dict.fromkeys(f"{point.requested_s:g} s" for point in points))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for point in points:
        rows.setdefault((point.method, point.source), {})[f"{point.requested_s:g} s"] = _cell(point)
    for shown in _fitting(columns):
        print_table(
            ("method", "source", *shown),
            [(*way, *(cells.get(column, "") for column in shown)) for way, cells in rows.items()],
            shown,
        )


def _fitting(columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the columns of each of several tables below each other, as many as a terminal is wide."""
    width = output_width()
    each = len(columns) if width is None else max(1, (width - _WAY_WIDTH) // _CELL_WIDTH)
    return [columns[i : i + each] for i in range(0, len(columns), each)]


def _cell(point: MethodPoint) -> str:
    if not point.answered:
        return "-"
    spread = "" if math.isnan(point.spread_pct) else f" ±{_percent(point.spread_pct)}"
    predicted = "-" if math.isnan(point.predicted_pct) else _percent(point.predicted_pct)
    silent = f" {point.answered}/{point.runs}" if point.answered < point.runs else ""
    return f"{_percent(point.bias_pct)}{spread} ({predicted}){silent}"


def _percent(value_pct: float) -> str:
    # Adding 0 makes -0.0 a plain 0.0.
    return f"{round(value_pct, 1) + 0:.{0 if abs(value_pct) >= _COARSE_PCT else 1}f}"
