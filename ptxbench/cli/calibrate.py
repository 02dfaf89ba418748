"""`ptxbench calibrate`: the terms of an estimate, measured on a board."""

from __future__ import annotations

import math
import shlex
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.api.calibrate_options import CalibrationSettings
from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.options import require_resumable
from ptxbench.cli.output import print_encoded, print_table
from ptxbench.cli.progress import progress_bar
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.printable import number
from ptxbench.core.shared_options import CALIBRATED_TABLE, GpuSpec, Json

if TYPE_CHECKING:
    from ptxbench.model.calibration import CalibratedTerm, Calibration


@dataclass(frozen=True, kw_only=True)
class _Options(CalibrationSettings):
    """Options of `ptxbench calibrate`."""

    spec: GpuSpec = None
    table: Annotated[Path | None, CALIBRATED_TABLE] = None
    as_json: Json = False


@command_of(_Options, "calibrate")
def command(options: _Options) -> None:
    """Measure the terms that `ptxbench estimate` has beside the rows of a table, on the GPU at hand.

    Some forty kernels run for a second or two each: loops of table rows, tensor opcodes, and streams from
    each memory level. They tell the energy of a byte, of a tensor opcode's multiply-add, the power of an
    active chip, what a lower clock saves, and one factor for all opcodes. `estimate --table FOLDER` takes
    them, with the rows of the table. What these kernels do not tell apart keeps the ratio of the table's
    terms, and the output says it. Readings are kept after every kernel. No setting of the GPU is changed.
    --gpu replay:FOLDER fits the readings of a calibration again, perhaps on the rows of another --table.
    """
    from ptxbench.api.calibrating import REPLAY, calibrate_again, calibrate_on

    require_resumable(options.resume, options.spec, options.out)
    if options.spec is not None and options.spec.startswith(REPLAY):
        path, again = calibrate_again(options.spec, options)
        print_calibration(again, path, as_json=options.as_json)
        return
    with closing(open_chosen_gpu(options.spec)) as gpu, progress_bar() as show:
        path, found = calibrate_on(gpu, options, show)
    click.echo(f"folder: {path}", err=True)
    if found is None:
        click.echo("the time given is spent: continue with --resume", err=True)
        sys.exit(1)
    print_calibration(found, path, as_json=options.as_json)


def print_calibration(found: Calibration, path: Path, *, as_json: bool) -> None:
    """Print a calibration.

    Args:
        found: What it came to.
        path: Its folder.
        as_json: Whether it is printed as JSON.
    """
    if as_json:
        print_encoded(found, {"folder": str(path), "errors": encoded_errors(found)})
        return
    from ptxbench.analysis.statistics import Uncertainty

    gpu = found.gpu
    click.echo(
        f"{gpu.title}, driver {gpu.driver}: {len(found.residuals)} kernels on the rows of {found.table}"
    )
    rows = [
        (
            one.name,
            one.unit,
            number(one.before, ".4g"),
            f"{one.value:.4g} ± {one.ci95:.2g}",
            "" if math.isnan(one.factor) else f"{one.factor:.3f}",
            str(one.kernels),
        )
        for one in sorted(found.found, key=_in_order)
    ]
    headings = ("term", "unit", f"of {found.terms_of}", "this board", "factor", "kernels")
    print_table(headings, rows, headings[2:])
    terms, static = found.terms, found.static_power
    if found.gamma_fitted:
        gamma_ci95 = COVERAGE_FACTOR * terms.gamma_error
        click.echo(f"energy goes with clock^gamma, gamma {terms.gamma:.2f} ± {gamma_ci95:.2f} (95%)")
    static_ci95_w = Uncertainty(static.error_w, static.degrees).ci95
    click.echo(
        f"static power: {static.power_w:.4g} ± {static_ci95_w:.2g} W (95%) at {static.temperature_c:.3g} C"
    )
    off = encoded_errors(found)
    left_out = off["left_out_pct"]
    beside = "" if math.isnan(left_out) else f", of kernels that are left out by {left_out:.1f}%"
    click.echo(f"the fit is off by {off['fitted_pct']:.1f}% of a kernel's energy on average{beside}")
    for sentence in found.kept:
        click.echo(f"kept: {sentence}")
    for sentence in found.notes:
        click.echo(f"note: {sentence}")
    click.echo(f"use it: ptxbench estimate KERNEL --table {shlex.quote(str(path))}")


def encoded_errors(found: Calibration) -> dict[str, float]:
    """Return how far kernels are from the fit, in percent of their energy."""
    return {"fitted_pct": 100 * found.fitted_error, "left_out_pct": 100 * found.left_out_error}


def _in_order(one: CalibratedTerm) -> tuple[bool, bool, str]:
    """Order terms: opcodes and the active chip, bytes, tensor opcodes."""
    return one.unit.startswith("pJ"), one.unit == "pJ/multiply-add", one.name
