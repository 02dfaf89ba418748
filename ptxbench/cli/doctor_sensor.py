"""`ptxbench doctor sensor`: what the GPU's power readings are like."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.options import plot_of, require_resumable
from ptxbench.cli.output import print_encoded, print_table
from ptxbench.core.estimate import Estimate
from ptxbench.core.printable import number
from ptxbench.core.shared_options import GpuSpec, Json, Out, Resume

if TYPE_CHECKING:
    from ptxbench.sensors.characterize.probe import SensorCharacterization
    from ptxbench.sensors.description import SensorDescription
    from ptxbench.storage.sensor_file import SensorFile

_FIGURES = (
    "refresh ms",
    "averaging ms",
    "lag ms",
    "step W or J",
    "noise W",
    "call us",
    "stale %",
    "shortest kernel s",
)

# What a narrow terminal leaves out, in this order; --json has all of it.
_OPTIONAL = ("call us", "stale %", "noise W", "step W or J", "lag ms", "shortest kernel s")


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench doctor sensor`."""

    spec: GpuSpec = None
    out: Out = None
    resume: Resume = False
    plot: Annotated[Path | None, plot_of("the response of each source to the load")] = None
    as_json: Json = False


@command_of(_Options, "sensor", short_help="Measure how the power sensors behave, in some 40 s.")
def sensor(options: _Options) -> None:
    """Measure how the GPU's power sensors behave, with a square-wave load of about 40 s.

    Each source gets its refresh period, averaging window, lag, quantum and cost of a call, and the share of
    reads that repeat an old value. The documented figures stand beside them. `ptxbench table --sensor FOLDER`
    uses the result. --gpu replay:FOLDER computes the figures again from a recorded FOLDER, which stays as it
    is; --out keeps the result in a copy.
    """
    import scipy  # noqa: F401, before anything is measured

    from ptxbench.experiment.recordings import worked_out_again
    from ptxbench.experiment.sensor_study import PURPOSE, RECORDING, describe, sense
    from ptxbench.storage.recording import RecordingFolder
    from ptxbench.storage.sensor_file import SENSOR_FILE

    require_resumable(options.resume, options.spec, options.out)
    if options.spec is not None and options.spec.startswith("replay:"):
        recorded = RecordingFolder.open(Path(options.spec.removeprefix("replay:")), PURPOSE)
        found, folder = worked_out_again(recorded, options.out, SENSOR_FILE, describe)
    else:
        with closing(open_chosen_gpu(options.spec)) as gpu:
            found, path = sense(gpu, options.out, resume=options.resume)
        folder = RecordingFolder.open(path, PURPOSE)
    if options.plot is not None:
        from ptxbench.report.sensor_plot import plot_sensors

        (recording,) = folder.recordings
        plot_sensors(found, folder.trace(RECORDING), recording.windows, options.plot)
    if options.as_json:
        print_encoded(found, {"folder": str(folder.path)})
    else:
        _print(found, folder.path)


def _print(found: SensorFile, path: Path) -> None:
    info = found.gpu
    click.echo(f"{info.title}, driver {info.driver}")
    documented = {sensor.source: sensor for sensor in found.documented}
    rows = []
    for source in found.sources:
        rows.append(_measured(source))
        rows.append(_documented(documented[source.sensor.source]))
    print_table(("source", "", *_FIGURES), rows, _FIGURES, _OPTIONAL)
    for source in found.sources:
        for text in _notes(source):
            click.echo(f"{source.sensor.source}: {text}")
    for note in found.notes:
        click.echo(f"note: {note}")
    click.echo(f"default source: {found.best.source} ({found.rule})")
    click.echo(f"\nfolder: {path}")


def _measured(source: SensorCharacterization) -> tuple[str, ...]:
    sensor, cost = source.sensor, source.cost
    return (
        sensor.source,
        sensor.origin,
        _ms(source.refresh_s),
        f"{_ms(source.averaging_s)} {sensor.shape}",
        _ms(source.lag_s),
        f"{sensor.quantum:.4g}",
        number(source.noise_w, ".3g"),
        f"{1e6 * cost.median_s:.3g} to {1e6 * cost.worst_s:.3g}",
        f"{100 * cost.stale_share:.1f}",
        number(source.needed_s, ".3g"),
    )


def _documented(sensor: SensorDescription) -> tuple[str, ...]:
    figures_ms = (f"{1e3 * s:.4g}" for s in (sensor.refresh_s, sensor.averaging_s, sensor.lag_s))
    return ("", "documented", *figures_ms, f"{sensor.quantum:.4g}", *[""] * 4)


def _notes(source: SensorCharacterization) -> list[str]:
    texts = [source.note] if source.note else []
    buffer = source.buffer
    if buffer is not None:
        least = "at least " if buffer.span_s > 0.9 * buffer.waited_s else ""
        texts.append(f"its buffer keeps {least}{buffer.readings} readings, {buffer.span_s:.3g} s")
    if source.cost.failed:
        texts.append(f"{source.cost.failed} of its reads failed")
    return texts


def _ms(estimate_s: Estimate) -> str:
    return estimate_s.scaled(1e3).text(".2f")
