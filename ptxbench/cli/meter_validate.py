"""`ptxbench meter validate`: check the GPU's power readings against an external meter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of, of_flags
from ptxbench.cli.output import print_json, print_table
from ptxbench.cli.parameters import PictureFolder
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import Estimate
from ptxbench.core.option import Opt
from ptxbench.core.printable import number
from ptxbench.core.shared_options import Json

if TYPE_CHECKING:
    from ptxbench.meter.figures import MethodFigures
    from ptxbench.meter.host import HostLog
    from ptxbench.meter.readers import Mapping
    from ptxbench.meter.validation import Validation


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench meter validate`.

    Attributes:
        meter: What the meter logged: CSV, dump or raw capture, also gzip; or the run that read it.
        run: Folder of a run: its recordings are checked.
        bursts: Folder of `ptxbench meter sync`, with --run; repeatable.
        nvml: CSV of the GPU's readings, in place of --run.
        windows: CSV of the kernels' windows (start_us,end_us), with --nvml.
        mapping: TOML that says what the columns of a log are.
        nvml_gpu: GPU of the NVML log: its index, UUID or PCI bus, in a log of several.
        plots: Folder for plots: the signals and the errors.
    """

    meter: Path
    run: Path | None = None
    bursts: Annotated[tuple[Path, ...], Opt(flag="--sync", former=("burst",))] = ()
    nvml: Path | None = None
    windows: Path | None = None
    mapping: Path | None = None
    nvml_gpu: str | None = None
    plots: Annotated[Path | None, Opt(kind=PictureFolder())] = None
    as_json: Json = False


@command_of(_Options, "validate", short_help="Check recorded power readings against a meter.")
def validate(options: _Options) -> None:
    """Check what the GPU reports against an external power meter.

    Finds the offset and drift between the two clocks, then gain, offset and lag of each power source. It
    prints the error of each method on each kernel, before and after correction. All uncertainties are
    half-widths of 95% intervals.
    """
    from ptxbench.meter import validation
    from ptxbench.meter.host import capture_of_run
    from ptxbench.meter.readers import Mapping, read_mapping, read_meter
    from ptxbench.meter.result import as_json as to_json

    columns = Mapping() if options.mapping is None else read_mapping(options.mapping)
    log = _host_log(options, columns.nvml)
    is_run = options.meter.is_dir()
    capture = capture_of_run(options.meter) if is_run else read_meter(options.meter, columns)
    result = validation.validate(capture, log)
    drawn = _draw(result, options.plots)
    if options.as_json:
        print_json(to_json(result))
    else:
        _print(result, drawn)


def _host_log(options: _Options, mapping: Mapping | None) -> HostLog:
    from ptxbench.meter.host import log_from_csv, log_from_run

    run, nvml, windows = options.run, options.nvml, options.windows
    if options.nvml_gpu is not None and nvml is None:
        raise InputError("--nvml-gpu goes with --nvml; a run names its GPU")
    if run is not None and nvml is None and windows is None:
        return log_from_run(run, options.bursts)
    if options.bursts:
        raise InputError("--sync goes with --run; in --windows, the label burst marks one")
    if run is None and nvml is not None and windows is not None:
        return log_from_csv(nvml, windows, mapping, options.nvml_gpu)
    raise InputError("give either --run, or --nvml and --windows")


def _draw(result: Validation, folder: Path | None) -> tuple[Path, ...]:
    if folder is None:
        return ()
    from ptxbench.report.validation_plots import draw

    return draw(result, folder)


def _print(result: Validation, drawn: tuple[Path, ...]) -> None:
    from ptxbench.meter.result import statements

    capture, alignment = result.capture, result.alignment
    click.echo(
        f"meter: {len(capture)} rows at {1 / capture.period_s:.4g} Hz, "
        f"{', '.join(capture.rails)} ({capture.origin}); "
        f"{len(result.trials)} windows, {result.meter_j.sum():.5g} J"
    )
    click.echo(
        f"clocks: offset {_shown(alignment.offset_ms, 3)} ms, drift {_shown(alignment.drift_ppm, 1)} ppm "
        f"(r = {alignment.correlation:.3f}, {alignment.edges} edges{_halves(result)})"
    )
    click.echo()
    _print_sensors(result)
    click.echo()
    _print_methods(result.methods)
    for label in result.labels:
        click.echo(f"\n{label}:")
        _print_methods(result.methods_of(label))
    for note in (*result.notes, *statements(result), *(f"wrote {path}" for path in drawn)):
        click.echo(of_flags(f"note: {note}"))


def _halves(result: Validation) -> str:
    if result.halves is None:
        return ""
    first, second = result.halves
    return f"; halves differ by {abs(first.offset_ns - second.offset_ns) / 1e6:.2f} ms"


def _print_sensors(result: Validation) -> None:
    from ptxbench.meter.result import told

    figures = [told(source.fit) for source in result.sources]
    headings = (
        "source",
        "gain",
        "offset W",
        "lag ms",
        "averaging ms",
        "refresh ms",
        "cross-validation error %",
    )
    rows = [
        (
            source.fit.source.value,
            _shown(source.fit.gain.within(abs(source.fit.gain.value)), 4),
            _shown(source.fit.offset_w, 2),
            _shown(lag_s.scaled(1e3), 1),
            f"{_shown(width_s.scaled(1e3), 1)} {source.fit.shape}",
            f"{1e3 * source.fit.refresh_s:.1f}",
            ", ".join(f"{check.energy_pct:+.2f}" for check in source.cross) or "-",
        )
        for source, (lag_s, width_s) in zip(result.sources, figures, strict=True)
    ]
    print_table(headings, rows)


def _print_methods(methods: tuple[MethodFigures, ...]) -> None:
    headings = (
        "method",
        "source",
        "MAPE %",
        "RMSE J",
        "windows",
        "corrected MAPE %",
        "corrected RMSE J",
        "corrected windows",
    )
    rows = [
        (
            one.method,
            one.source.value,
            number(one.mape_pct, ".4g"),
            number(one.rmse_j, ".4g"),
            str(one.windows),
            number(one.mape_corrected_pct, ".4g"),
            number(one.rmse_corrected_j, ".4g"),
            str(one.windows_corrected),
        )
        for one in methods
    ]
    print_table(headings, rows, headings[2:])


def _shown(estimate: Estimate, digits: int) -> str:
    return estimate.text(f".{digits}f", f".{digits}f", "not determined")
