"""Kernel Tuner on variants that ptxbench measured too: seconds, best found, and its energy beside ours.

Kernel Tuner's energy is the median of NVML's power readings over a second of launches, times the time of
a launch (`kernel_tuner.observers.observer.ContinuousObserver`). That class is used here as it is. Its NVML
class is not: it may set clocks and power limits.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.tune.arrays import contents, shaped
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.trial import Trial

_PARTS = ("kernel_tuner", "cupy", "pynvml")


def compare_kernel_tuner(
    spec: KernelSpec, folder: Path, trials: Sequence[Trial], per_block: Sequence[str], limit_s: float
) -> dict[str, Any]:
    """Let Kernel Tuner measure the variants of some trials.

    CuPy lets its compiler flush denormal numbers to zero (-ftz=true), and nvcc does not: only a kernel of
    whole numbers is the same machine code for both.

    Args:
        spec: An example of one size N, which knows its arguments by arrays alone.
        folder: Where its source is.
        trials: What ptxbench found of them.
        per_block: Axes whose product a block has of N.
        limit_s: After so many seconds Kernel Tuner begins no other variant.

    Raises:
        InputError: Kernel Tuner, CuPy or pynvml is not installed.
    """
    tuner = imported()[0]
    known = {tuple(t.variant.values): t for t in trials if t.ok and math.isfinite(t.energy_j)}
    names = [axis.name for axis in spec.axes]
    results, environment, wall_s = observed(spec, folder, list(known), per_block, [nvml_observer()], limit_s)
    rows = [_row(names, one, known) for one in results if isinstance(one.get("time"), int | float)]
    ratios = sorted(row["energy_j"] / row["ours_energy_j"] - 1 for row in rows)
    return {
        "version": tuner.__version__ if hasattr(tuner, "__version__") else "",
        "wall_s": wall_s,
        "variants": len(rows),
        "failed": len(results) - len(rows),
        "best": min(rows, key=lambda row: row["energy_j"], default=None),
        "ours_best": min(rows, key=lambda row: row["ours_energy_j"], default=None),
        "energy_against_ours": {
            "median": ratios[len(ratios) // 2] if ratios else math.nan,
            "least": ratios[0] if ratios else math.nan,
            "most": ratios[-1] if ratios else math.nan,
            "mean_size": sum(map(abs, ratios)) / len(ratios) if ratios else math.nan,
        },
        "rows": rows,
        "device": str(environment.get("device_name", "")),
    }


def observed(
    spec: KernelSpec,
    folder: Path,
    configurations: Sequence[tuple[Any, ...]],
    per_block: Sequence[str],
    observers: Sequence[Any],
    limit_s: float,
) -> tuple[list[dict[str, Any]], dict[str, Any], float]:
    """Let Kernel Tuner measure configurations, and return its results, its environment and the seconds.

    Args:
        spec: An example of one size N, which knows its arguments by arrays alone.
        folder: Where its source is.
        configurations: Values of its axes, in their order.
        per_block: Axes whose product a block has of N.
        observers: What Kernel Tuner is given to observe by.
        limit_s: After so many seconds Kernel Tuner begins no other variant.

    Raises:
        InputError: Kernel Tuner, CuPy or pynvml is not installed.
    """
    tuner = imported()[0]
    count = int(spec.sizes["N"])
    names = [axis.name for axis in spec.axes]
    began_s = time.perf_counter()
    results, environment = tuner.tune_kernel(
        spec.name,
        (folder / spec.source.path.name).read_text(),
        count,
        [shaped(array, contents(array, 0)) for array in spec.arrays],
        {name: sorted({values[n] for values in configurations}) for n, name in enumerate(names)},
        grid_div_x=list(per_block),
        grid_div_y=[],
        block_size_names=["BLOCK"],
        lang="cupy",
        compiler_options=[f"-DN={count}", "--std=c++17"],
        observers=list(observers),
        strategy=_Given(configurations, limit_s),
        quiet=True,
    )
    return results, environment, time.perf_counter() - began_s


class _Given:
    """A strategy for Kernel Tuner: the variants that are given, in order, until the seconds are spent."""

    def __init__(self, configurations: Sequence[tuple[Any, ...]], limit_s: float) -> None:
        self._configurations = configurations
        self._limit_s = limit_s

    def tune(self, _searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """Let Kernel Tuner's runner measure one after the other."""
        began_s, found = time.perf_counter(), []
        for one in self._configurations:
            if time.perf_counter() - began_s > self._limit_s:
                break
            found += runner.run([one], tuning_options)
        return found


def _row(names: Sequence[str], one: dict[str, Any], known: dict[tuple[Any, ...], Trial]) -> dict[str, Any]:
    ours = known[tuple(one[name] for name in names)]
    return {
        "variant": ours.variant.name,
        "time_s": float(one["time"]) * 1e-3,
        "power_w": float(one["nvml_power"]),
        "energy_j": float(one["nvml_energy"]),
        "ours_time_s": ours.steady_s,
        "ours_power_w": ours.power_w,
        "ours_energy_j": ours.energy_j,
    }


def nvml_observer() -> Any:
    """Return Kernel Tuner's observer of power of the first GPU, with a parent that only reads.

    Raises:
        InputError: Kernel Tuner, CuPy or pynvml is not installed.
    """
    _, cupy, pynvml = imported()
    observers = importlib.import_module("kernel_tuner.observers.observer")
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device(0).pci_bus_id)

    class ReadPower(observers.BenchmarkObserver):  # type: ignore[name-defined, misc]
        """What NVMLObserver does, without what sets anything."""

        def __init__(self) -> None:
            names = ["nvml_power", "nvml_energy"]
            self.continuous_observer = observers.ContinuousObserver("nvml", names, self)

        def read_power(self) -> float:
            return float(pynvml.nvmlDeviceGetPowerUsage(handle)) / 1e3

        def get_results(self) -> dict[str, float]:
            return {}

    return ReadPower()


def imported() -> tuple[Any, Any, Any]:
    """Return Kernel Tuner, CuPy and pynvml.

    Raises:
        InputError: One is not installed.
    """
    try:
        tuner, cupy, pynvml = (importlib.import_module(name) for name in _PARTS)
    except ImportError as error:
        raise InputError(f"Kernel Tuner beside ptxbench needs {', '.join(_PARTS)}: {error}") from error
    return tuner, cupy, pynvml
