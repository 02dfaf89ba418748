"""`ptxbench clocks ridge`: above which clock the voltage of a GPU rises, and the clock of least energy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.options import AllowSettings, plot_of
from ptxbench.cli.output import print_encoded, print_table, say
from ptxbench.core.estimate import Estimate
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import GpuSpec, Json
from ptxbench.storage.codec import encode
from ptxbench.storage.shipped import find_table

if TYPE_CHECKING:
    from ptxbench.model.clocks.power_capping import CappedKernel
    from ptxbench.model.clocks.ridge import PowerSample, Ridge

# Clocks of a sweep; chosen.
_CLOCKS = 28


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench clocks ridge`.

    Attributes:
        samples: CSV file with the columns clock_mhz and power_w: mean power of one kernel at several clocks;
            or a cache or T4 file (.json) of Kernel Tuner, of which the variant with the most clocks counts.
        run_path: Folder of a run: take the clocks that the power limit itself made.
        cap_w: Power limit, W; --samples within 2% of it are left out (default: none).
        fit_cap: Fit the power limit to --samples: the power of the highest clocks where it no longer rises.
    """

    samples: Path | None = None
    run_path: Annotated[Path | None, Opt(flag="--run")] = None
    cap_w: Annotated[float | None, Opt(0, 1e5, above=True)] = None
    fit_cap: bool = False
    spec: GpuSpec = None
    allow_settings: AllowSettings = False
    plot: Annotated[Path | None, plot_of("samples, fitted curve and energy over the clock")] = None
    as_json: Json = False


@command_of(_Options, "ridge", short_help="Find the clock of least energy from power at several clocks.")
def ridge(options: _Options) -> None:
    """Fit power over the SM clock, and find the clock of least energy.

    This fits Eqs. 2 and 3 of Schoonhoven et al. (2022): the voltage is flat up to the ridge point and
    rises above it, in a line or quadratically. Samples that fit neither give no clock. The best clock is
    for a kernel whose time goes with one over the SM clock. Seven clocks below the power limit are
    needed.

    --run needs no setting: it takes kernels that ran at a lower clock because of the power limit. Their
    clocks are few, so a power law of the energy in the clock predicts the best clock within those seen.

    --gpu with --allow-settings sets 28 clocks, one after the other, and measures a load at each. The GPU is
    restored at the end, and after a signal or an error.
    """
    if [options.samples, options.run_path, options.spec].count(None) != 2:
        raise click.UsageError("give one of --samples, --run and --gpu.")
    if options.fit_cap and (options.samples is None or options.cap_w is not None):
        raise click.UsageError("--fit-cap goes with --samples, and not with --cap-w.")
    if options.samples is not None:
        _of_samples(options.samples, options)
    elif options.run_path is not None:
        if options.cap_w is not None:
            raise click.UsageError("--cap-w goes with --samples; a run knows its power limit.")
        _of_run(options.run_path, options)
    else:
        _of_gpu(options)


def _of_samples(samples: Path, options: _Options) -> None:
    from ptxbench.model.clocks.ridge import PowerSample, fitted_cap_w, read_power_samples

    origin = f"samples of {samples.name}"
    if samples.suffix.lower() == ".json":
        from ptxbench.tune.kernel_tuner_results import power_by_clock, read_results

        variant, pairs = power_by_clock(read_results(samples))
        read, origin = tuple(PowerSample(*pair) for pair in pairs), f"{origin}, {variant}"
    else:
        read = read_power_samples(samples)
    limit_w = math.inf if options.cap_w is None else options.cap_w
    if options.fit_cap:
        limit_w = fitted_cap_w(read)
    document = {"samples": str(samples), "cap_fitted": options.fit_cap}
    _show(read, limit_w, origin, document, options)


def _of_gpu(options: _Options) -> None:
    from ptxbench.devices.select import open_settable
    from ptxbench.experiment.clock_sweep import sweep_clocks

    with closing(open_chosen_gpu(options.spec)) as gpu, open_settable(gpu) as settable:
        samples = sweep_clocks(gpu, settable, _CLOCKS, say, allowed=options.allow_settings)
        info = gpu.info
    limit_w = info.power_limit_w if options.cap_w is None else options.cap_w
    document = {"gpu": info.name, "kind": info.kind, "samples": encode(samples)}
    _show(samples, limit_w, info.title, document, options)


def _show(
    samples: Sequence[PowerSample], cap_w: float, origin: str, document: dict[str, Any], options: _Options
) -> None:
    """Fit, draw and print; JSON has `document` before it."""
    from ptxbench.model.clocks.ridge import fit_ridge

    ridge = fit_ridge(samples, cap_w)
    if options.plot is not None:
        from ptxbench.report.clock_plots import plot_ridge

        plot_ridge(samples, ridge, origin, options.plot)
    if options.as_json:
        print_encoded(_short(ridge), document)
    else:
        click.echo(origin)
        _print(ridge, is_cap_fitted=options.fit_cap)


def _short(ridge: Ridge) -> Ridge:
    """Return a fit without the hundreds of curves that its intervals come from."""
    return replace(ridge, likely=())


def _of_run(run: Path, options: _Options) -> None:
    from ptxbench.model.clocks.power_capping import fit_power_capping
    from ptxbench.storage.run_folder import RunFolder

    with RunFolder.open(find_table(run)) as folder:
        found, info = fit_power_capping(folder.records()), folder.manifest.gpu
    if options.plot is not None:
        from ptxbench.report.clock_plots import plot_power_capping

        plot_power_capping(found, info, options.plot)
    if options.as_json:
        ridge = None if found.ridge is None else _short(found.ridge)
        print_encoded(replace(found, ridge=ridge), {"run": str(run), "gpu": info.name, "kind": info.kind})
        return
    click.echo(f"{info.title}, driver {info.driver}")
    if found.ridge is not None:
        first = found.kernels[0]
        click.echo(
            f"{first.instruction} {first.opt_level} {first.pattern} {first.role}, dynamic power scaled"
        )
        click.echo("to the whole chip; the best clock is PREDICTED, NOT MEASURED")
        _print(found.ridge)
    else:
        click.echo(found.verdict)
    click.echo(f"\nenergy of a pass goes with clock^gamma, gamma {found.gamma.text()}")
    click.echo(f"static power: {found.static_w:.4g} W")
    click.echo(
        "best clock by this power law: PREDICTED, NOT MEASURED (<=: the lowest clock of the kernel;"
        " the best may lie below it)"
    )
    _print_kernels(found.kernels)


def _print_kernels(kernels: tuple[CappedKernel, ...]) -> None:
    rows = [
        (
            kernel.instruction,
            kernel.opt_level,
            kernel.pattern,
            str(kernel.role),
            str(kernel.clocks),
            f"{min(sample.clock_mhz for sample in kernel.samples):.0f}",
            f"{kernel.free_mhz:.0f}",
            _clock(kernel),
            _share(kernel.saved),
        )
        for kernel in kernels
    ]
    numbers = ("clocks", "lowest MHz", "free MHz", "best MHz", "energy saved")
    print_table(("instruction", "opt", "operands", "kernel", *numbers), rows, numbers)


def _share(saved: Estimate) -> str:
    return "-" if math.isnan(saved.value) else f"{100 * saved.value:.1f}% ± {100 * saved.uncertainty:.1f}%"


def _clock(kernel: CappedKernel) -> str:
    best = kernel.best_mhz
    return f"<= {best.value:.0f}" if kernel.at_lowest else best.text(".0f", ".0f")


def _print(ridge: Ridge, *, is_cap_fitted: bool = False) -> None:
    """Print the verdict, then one line a quantity."""
    click.echo(ridge.verdict)
    low, high = ridge.search_mhz
    lines = {
        "ridge point tau": _text(ridge.ridge_mhz, "MHz"),
        "by voltages": f"{ridge.voltage_ridge_mhz:.0f} MHz, the highest clock at the lowest voltage that was"
        " read",
        "best clock": f"{_text(ridge.best_clock_mhz, 'MHz')}, for a kernel bound by the SM clock",
        "worth trying": "-"
        if math.isnan(low)
        else f"{low:.0f} to {high:.0f} MHz (within 10% of the best clock)",
        "P_idle": _text(ridge.idle_w, "W"),
        "alpha": _text(ridge.alpha_w_per_mhz, "W/MHz"),
        "beta": _text(ridge.beta_per_mhz, "1/MHz, relative voltage"),
        "kappa": _text(ridge.kappa_per_mhz2, "1/MHz^2"),
        "voltage": f"{ridge.voltage}; F test of linear against quadratic: p = {ridge.linear_probability:.2g};"
        f" of no misfit: p = {ridge.misfit_probability:.2g}",
        "P_max": f"{ridge.curve.cap_w:.4g} W ({'fitted' if is_cap_fitted else 'given'})"
        if math.isfinite(ridge.curve.cap_w)
        else ("none: power rises up to the highest clock" if is_cap_fitted else "not given"),
        "samples": f"scatter {ridge.residual_w:.2g} W about the curve;"
        f" {ridge.near_cap} left out at the power limit",
    }
    if math.isnan(ridge.voltage_ridge_mhz):
        del lines["by voltages"]
    for name, text in lines.items():
        click.echo(f"{name + ':':<17}{text}")


def _text(estimate: Estimate, unit: str) -> str:
    return "-" if math.isnan(estimate.value) else f"{estimate.text()} {unit}"
