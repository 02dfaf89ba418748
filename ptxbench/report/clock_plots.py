"""Plots over the SM clock, after Schoonhoven et al. (2022).

`plot_ridge` is Figure 9 of power samples, with Figure 8 below; `plot_power_capping` the clocks that a power
limit made in a run; `plot_capping` Figures 6 and 7, capping against clocking, from the trials of a search.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.model.clocks.power_capping import PowerCapping
from ptxbench.model.clocks.ridge import PowerSample, Ridge
from ptxbench.report.figure import new_figure, save, title
from ptxbench.tune.folder import TuningManifest
from ptxbench.tune.trial import Trial

_CLOCKED, _CAPPED = "#2f6fb0", "#c46a1b"


def plot_capping(manifest: TuningManifest, trials: Sequence[Trial], path: Path) -> None:
    """Draw power over the clock that was held, and the least energy over the power of each setting.

    Circles are clocks that were set, triangles are power limits. Left, as in Figure 6, is the variant of
    least energy; right is the best variant at each setting.

    Args:
        manifest: What was tuned.
        trials: Its trials.
        path: Picture to write; its ending chooses the format.

    Raises:
        InputError: No trial with a set clock or limit has a power, matplotlib is not installed, or the file
            cannot be written.
    """
    measured = [t for t in trials if t.ok and math.isfinite(t.power_w)]
    clocked = [t for t in measured if t.settings.power_limit_mw is None and t.settings.sm_clock_mhz]
    capped = [t for t in measured if t.settings.sm_clock_mhz is None and t.settings.power_limit_mw]
    if not clocked + capped:
        raise InputError("there is nothing to draw: no trial with a set clock or limit has a measured power")
    figure = new_figure(10, 4.5)
    left, right = figure.subplots(1, 2)
    for kind, marker, colour, label in (
        (clocked, "o", _CLOCKED, "SM clock set"),
        (capped, "^", _CAPPED, "power limit set"),
    ):
        if not kind:
            continue
        best = min(kind, key=lambda t: t.energy_j).variant.name
        shown = [t for t in kind if t.variant.name == best]
        left.scatter(
            [t.clock_mhz for t in shown],
            [t.power_w for t in shown],
            marker=marker,
            color=colour,
            label=f"{label}: {best}",
        )
        lowest = _lowest(kind, lambda t: t.settings.tag)
        right.scatter(
            [t.clock_mhz for t in lowest],
            [t.energy_j for t in lowest],
            marker=marker,
            color=colour,
            label=label,
        )
    for limit_mw in sorted({t.settings.power_limit_mw or 0 for t in capped}):
        left.axhline(limit_mw / 1000, linestyle="--", linewidth=0.7, color=_CAPPED, alpha=0.6)
    left.set_ylabel("power, W")
    right.set_ylabel("least energy of a launch, J")
    for axes in (left, right):
        axes.set_xlabel("SM clock that was held, MHz")
        axes.grid(alpha=0.25)
        axes.legend(fontsize=7)
    left.set_title(f"{manifest.part.problem.title}\n{title(manifest.gpu)}", loc="left", fontsize=10)
    save(figure, path)


def _lowest(trials: Sequence[Trial], setting: Callable[[Trial], str]) -> list[Trial]:
    """Return the trial of least energy at each setting."""
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[setting(trial)].append(trial)
    return [min(group, key=lambda t: t.energy_j) for group in groups.values()]


def plot_ridge(samples: Sequence[PowerSample], ridge: Ridge, origin: str, path: Path) -> None:
    """Draw power above, energy of a kernel bound by the SM clock below, and the voltage where it was read.

    Args:
        samples: What the curve was fitted to.
        ridge: The fit.
        origin: Where the samples come from, for the title.
        path: Picture to write; its ending chooses the format (.png, .svg, .pdf).

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    known_mv = [(s.clock_mhz, s.voltage_mv) for s in samples if math.isfinite(s.voltage_mv)]
    figure = new_figure(7, 8 if known_mv else 6)
    power, energy, *voltage = figure.subplots(3 if known_mv else 2, 1, sharex=True)
    clocks = np.linspace(*ridge.range_mhz, 400)
    best_mhz = ridge.best_clock_mhz.value
    known = math.isfinite(best_mhz)
    at_best = ridge.curve.relative_energy(best_mhz if known else ridge.range_mhz[1])
    power.scatter([s.clock_mhz for s in samples], [s.power_w for s in samples], s=16, label="sample")
    power.plot(clocks, [ridge.curve.power_w(c) for c in clocks], color="#222222", label="Eqs. 2 and 3")
    energy.scatter([s.clock_mhz for s in samples], [s.power_w / s.clock_mhz / at_best for s in samples], s=16)
    energy.plot(clocks, [ridge.curve.relative_energy(c) / at_best for c in clocks], color="#222222")
    if math.isfinite(ridge.curve.cap_w):
        power.axhline(ridge.curve.cap_w, color="#888888", linestyle=":", label="power limit")
    for axes in voltage:
        axes.scatter(*zip(*known_mv, strict=True), s=16)
        axes.set_ylabel("core voltage, mV")
    for axes in (power, energy, *voltage):
        if ridge.found:
            axes.axvline(ridge.ridge_mhz.value, color="#c46a1b", label="ridge")
        if known:
            searched = _within(ridge.search_mhz, ridge.range_mhz)
            axes.axvspan(*searched, color="#2f6fb0", alpha=0.12, label="search")
        axes.grid(alpha=0.25)
    power.set_ylabel("power, W")
    energy.set_ylabel(f"power / clock,\nover that at the {'best' if known else 'highest'} clock")
    (*voltage, energy)[0].set_xlabel("SM clock, MHz")
    power.set_title(f"{ridge.verdict}\n{origin}", loc="left", fontsize=9, parse_math=False)
    power.legend()
    save(figure, path)


def plot_power_capping(found: PowerCapping, info: GpuInfo, path: Path) -> None:
    """Draw the power of every kernel over the clock, scaled to the whole chip, with the power law.

    Args:
        found: What a run tells of lower clocks.
        info: The run's GPU.
        path: Picture to write; its ending says the format (.png, .svg, .pdf).

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(7, 5)
    axes = figure.subplots()
    clocks = np.linspace(*found.range_mhz, 100)
    for number, kernel in enumerate(found.kernels):
        energies = np.array([(s.power_w - found.static_w) / s.clock_mhz for s in kernel.samples])
        at = np.array([s.clock_mhz for s in kernel.samples])
        # Each kernel has its own energy; the exponent is what they share.
        scale = math.exp(float(np.mean(np.log(energies) - found.gamma.value * np.log(at / kernel.free_mhz))))
        axes.scatter(
            at,
            energies / scale,
            s=14,
            color=f"C{number % 10}",
            label=f"{kernel.instruction} {kernel.opt_level}",
        )
        axes.plot(clocks, (clocks / kernel.free_mhz) ** found.gamma.value, color="#888888", linewidth=0.5)
    axes.set_xlabel("SM clock, MHz (made by the power limit)")
    axes.set_ylabel("dynamic energy of a pass, over that at the full clock")
    gamma = f"gamma {found.gamma.value:.2f} ± {found.gamma.uncertainty:.2f}"
    axes.set_title(
        f"{len(found.kernels)} kernels, {gamma}\n{title(info)}", loc="left", fontsize=9, parse_math=False
    )
    axes.grid(alpha=0.25)
    axes.legend(fontsize=7)
    save(figure, path)


def _within(span: tuple[float, float], limits: tuple[float, float]) -> tuple[float, float]:
    return max(span[0], limits[0]), min(span[1], limits[1])
