"""Plots of a validation: both signals over the windows, and the error of every method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ptxbench.meter.figures import window_spans_s
from ptxbench.meter.validation import Validation
from ptxbench.report.figure import new_figure, save
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s
from ptxbench.storage.file_errors import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 4000
_SHOWN_WINDOWS = 3
_MARGIN = 0.4


def draw(result: Validation, folder: Path) -> tuple[Path, ...]:
    """Draw `signals.png` and, for each method, `error_<method>.png`.

    Args:
        result: The validation.
        folder: Made where it is missing.

    Returns:
        The files.

    Raises:
        InputError: matplotlib is not installed, or the folder cannot be written.
    """
    pages = {"signals": new_figure(10, 5)}
    _signals(result, pages["signals"])
    for method in dict.fromkeys(one.method for source in result.sources for one in source.energies):
        page = pages[f"error_{method}"] = new_figure(8, 4.5)
        _errors(result, method, page)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        save(page, folder / f"{name}.png")
    return tuple(folder / f"{name}.png" for name in pages)


def _signals(result: Validation, page: Figure) -> None:
    """Draw the meter, and each source as read and as corrected, over the middle windows."""
    axes = page.add_subplot()
    spans_s = window_spans_s([trial.window for trial in result.trials], result.alignment)
    first = max(0, (len(spans_s) - _SHOWN_WINDOWS) // 2)
    shown_s = spans_s[first : first + _SHOWN_WINDOWS]
    margin_s = _MARGIN * float(shown_s[-1, 1] - shown_s[0, 0]) / len(shown_s)
    start_s, end_s = float(shown_s[0, 0]) - margin_s, float(shown_s[-1, 1]) + margin_s
    period_s = (end_s - start_s) / _POINTS
    time_s = start_s + period_s * (np.arange(_POINTS) + 0.5)
    axes.plot(time_s, meter_w(result.signal, start_s, period_s), color="0.6", lw=0.8, label="meter")
    for window in shown_s:
        axes.axvspan(*window, color="0.93", zorder=0)
    for number, source in enumerate(result.sources):
        fit, color = source.fit, f"C{number}"
        reach_s = fit.delay_s + fit.refresh_s
        inside = (fit.made_s >= start_s - reach_s) & (fit.made_s <= end_s + reach_s)
        axes.step(
            fit.made_s[inside], fit.value_w[inside], where="post", color=color, lw=1, label=fit.source.value
        )
        at_s = fit.made_s[inside] - fit.delay_s
        axes.plot(at_s, fit.corrected_w()[inside], ".", color=color, ms=4, label=f"{fit.source}, corrected")
    axes.set(
        xlim=(start_s, end_s), xlabel="time (s)", ylabel="power (W)", title=_title(result, "meter and sensor")
    )
    axes.legend(fontsize="small")


def meter_w(signal: PowerSignal, start_s: float, period_s: float) -> Float64s:
    """Return the meter's mean power in each of the drawn periods, NaN where it did not log.

    Args:
        signal: The meter's power, aligned host time.
        start_s: Begin of the first period.
        period_s: Length of each.
    """
    begin_s = start_s + period_s * np.arange(_POINTS)
    logged = (begin_s >= signal.time_s[0]) & (begin_s + period_s <= signal.time_s[-1])
    return np.where(logged, signal.resample(start_s, period_s, _POINTS), np.nan)


def _errors(result: Validation, method: str, page: Figure) -> None:
    axes = page.add_subplot()
    number = np.arange(1, len(result.trials) + 1)
    for index, source in enumerate(result.sources):
        for one in (one for one in source.energies if one.method == method):
            for energy_j, mark, name in ((one.energy_j, "o", ""), (one.corrected_j, "x", ", corrected")):
                error_pct = 100 * (energy_j / result.meter_j - 1)
                axes.plot(number, error_pct, mark, color=f"C{index}", ms=4, label=f"{one.source}{name}")
    axes.axhline(0, color="0.6", lw=0.8)
    axes.set(xlabel="window", ylabel="error against the meter (%)", title=_title(result, method))
    axes.legend(fontsize="small")


def _title(result: Validation, what: str) -> str:
    return what if result.kind == "real" else f"{what} ({result.kind})"
