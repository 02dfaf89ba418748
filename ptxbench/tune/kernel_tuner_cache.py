"""A search as a cache file of Kernel Tuner, which its simulation mode and its plots read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

from ptxbench.tune.expression import Value
from ptxbench.tune.folder import TuningManifest
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.trial import Trial

# Kernel Tuner's names of what a configuration failed by.
_FAILED = {TrialStatus.REFUSED: "CompilationFailedConfig"}
# Its names of what can be set.
_SETTINGS = {
    "sm_clock_mhz": "nvml_gr_clock",
    "memory_clock_mhz": "nvml_mem_clock",
    "power_limit_w": "nvml_pwr_limit",
}
_OTHERWISE_FAILED = "RuntimeFailedConfig"
_MS = 1e3


def cache_text(manifest: TuningManifest, trials: Sequence[Trial]) -> str:
    """Return the cache file: JSON with `cache` by the values of each variant, time in ms, energy in J.

    Args:
        manifest: What was tuned.
        trials: Its trials; one without power is a failed one there.
    """
    settings = dict.fromkeys(axis for t in trials for axis in t.settings.by_axis)
    names = (*manifest.part.problem.parameters, *(_SETTINGS[axis] for axis in settings))
    columns = list(zip(*(t.candidate.values for t in trials), strict=True)) or [()] * len(names)
    document = {
        "device_name": manifest.gpu.name,
        "kernel_name": manifest.part.problem.title,
        "problem_size": "callable",
        "tune_params_keys": list(names),
        "tune_params": {
            name: sorted(set(column), key=str) for name, column in zip(names, columns, strict=True)
        },
        "objective": "energy",
        "cache": {_key(t.candidate.values): _entry(names, t) for t in trials},
    }
    return json.dumps(document, indent=1) + "\n"


def _key(values: Iterable[Value]) -> str:
    return ",".join(map(str, values))


def _entry(names: Sequence[str], trial: Trial) -> dict[str, object]:
    entry: dict[str, object] = dict(zip(names, trial.candidate.values, strict=True))
    if not trial.ok or not math.isfinite(trial.best_time_s):
        return entry | {"time": _FAILED.get(trial.status, _OTHERWISE_FAILED)}
    figures = {
        "time": _MS * trial.best_time_s,
        "energy": trial.best_energy_j,
        "power": trial.best_power_w,
        "compile_time": _MS * trial.build_wall_s,
        "verification_time": _MS * trial.check_wall_s,
        "benchmark_time": _MS * trial.timing_wall_s,
    }
    return entry | {name: value for name, value in figures.items() if math.isfinite(value)}
