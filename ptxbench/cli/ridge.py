"""`ptxbench ridge`: above which clock the voltage of a GPU rises, and the clock of least energy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import json_option, plot_option
from ptxbench.cli.output import print_encoded
from ptxbench.cli.parameters import Number

if TYPE_CHECKING:
    from ptxbench.core.estimate import Estimate
    from ptxbench.model.ridge import Ridge

_PATH = click.Path(path_type=Path)


@click.command(name="ridge")
@click.option(
    "--samples",
    type=_PATH,
    required=True,
    help="CSV file with the columns clock_mhz and power_w: mean power of one kernel at several clocks.",
)
@click.option(
    "--cap-w",
    type=Number(0, 1e5, above=True),
    help="Power limit in W; samples within 2% of it are left out (default: none).",
)
@plot_option("the samples and the fitted curve")
@json_option
def command(samples: Path, cap_w: float | None, plot: Path | None, as_json: bool) -> None:
    """Fit power over the SM clock, and find the clock of least energy.

    This fits Eqs. 2 and 3 of Schoonhoven et al. (2022): the voltage is flat up to the ridge point and
    rises above it. The best clock is for a kernel whose time goes with one over the SM clock. Seven
    clocks below the power limit are needed. The command reads a file and sets no clock.
    """
    from ptxbench.model.power_samples import read_power_samples
    from ptxbench.model.ridge import fit_ridge

    read = read_power_samples(samples)
    ridge = fit_ridge(read, math.inf if cap_w is None else cap_w)
    if plot is not None:
        from ptxbench.report.ridge_plot import plot_ridge

        plot_ridge(read, ridge, f"samples of {samples.name}", plot)
    if as_json:
        print_encoded(ridge, {"samples": str(samples)})
    else:
        _print(ridge)


def _print(ridge: Ridge) -> None:
    """Print the verdict, then one line a quantity."""
    click.echo(ridge.verdict)
    low, high = ridge.search_mhz
    lines = {
        "ridge point tau": _text(ridge.ridge_mhz, "MHz"),
        "best clock": f"{_text(ridge.best_clock_mhz, 'MHz')}, for a kernel bound by the SM clock",
        "worth trying": f"{low:.0f} to {high:.0f} MHz (within 10% of the best clock)",
        "P_idle": _text(ridge.idle_w, "W"),
        "alpha": _text(ridge.alpha_w_per_mhz, "W/MHz"),
        "beta": _text(ridge.beta_per_mhz, "1/MHz, relative voltage"),
        "P_max": f"{ridge.curve.cap_w:.4g} W (given)" if math.isfinite(ridge.curve.cap_w) else "not given",
        "samples": f"scatter {ridge.residual_w:.2g} W about the curve;"
        f" {ridge.near_cap} left out at the power limit",
    }
    for name, text in lines.items():
        click.echo(f"{name + ':':<17}{text}")


def _text(estimate: Estimate, unit: str) -> str:
    if math.isnan(estimate.value):
        return "-"
    error = "?" if math.isnan(estimate.uncertainty) else f"{estimate.uncertainty:.2g}"
    return f"{estimate.value:.4g} ± {error} {unit}"
