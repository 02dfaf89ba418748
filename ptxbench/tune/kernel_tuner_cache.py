"""A search as files of Kernel Tuner: a cache, which its simulation mode and its plots read, or T4 results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.tune.expression import Value
from ptxbench.tune.folder import TuningManifest
from ptxbench.tune.outcome import Settled, TrialStatus
from ptxbench.tune.trial import Trial

# Kernel Tuner's names of what a configuration failed by.
_FAILED = {TrialStatus.REFUSED: "CompilationFailedConfig"}
# Its names of what can be set.
SETTINGS = {
    "sm_clock_mhz": "nvml_gr_clock",
    "memory_clock_mhz": "nvml_mem_clock",
    "power_limit_w": "nvml_pwr_limit",
}
# The same in T4.
_INVALID = {
    TrialStatus.REFUSED: "compile",
    TrialStatus.WRONG: "correctness",
    TrialStatus.HUNG: "timeout",
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
    names = (*manifest.part.problem.parameters, *(SETTINGS[axis] for axis in settings))
    columns = list(zip(*(t.candidate.values for t in trials), strict=True)) or [()] * len(names)
    document = {
        **_what(manifest),
        "problem_size": "callable",
        "tune_params_keys": list(names),
        "tune_params": {
            name: sorted(set(column), key=str) for name, column in zip(names, columns, strict=True)
        },
        "objective": "energy",
        "cache": {_key(t.candidate.values): _entry(names, t) for t in trials},
    }
    return json.dumps(document, indent=1) + "\n"


def t4_text(manifest: TuningManifest, trials: Sequence[Trial]) -> str:
    """Return a file of the T4 format (version 1.0.0): a result for each variant.

    Args:
        manifest: What was tuned.
        trials: Its trials.
    """
    document = {
        "schema_version": "1.0.0",
        "metadata": {"timeunit": "milliseconds", **_what(manifest)},
        "results": [_t4_result(trial, manifest.part.problem.parameters) for trial in trials],
    }
    return json.dumps(document, indent=1) + "\n"


def _what(manifest: TuningManifest) -> dict[str, str]:
    """Return the GPU, whose name says that it is simulated, and the kernel, as Kernel Tuner calls them."""
    return {"device_name": manifest.gpu.name, "kernel_name": manifest.part.problem.title}


def _figures(trial: Trial) -> dict[str, tuple[float, str]]:
    """Return what is known of a variant, with its unit; what is so or not is 1 or 0, as T4 has numbers."""
    settled = math.nan if trial.settled is Settled.UNTESTED else float(trial.settled is Settled.YES)
    figures = {
        "time": (_MS * trial.best_time_s, "ms"),
        "energy": (trial.best_energy_j, "J"),
        "energy_ci95_j": (COVERAGE_FACTOR * trial.error_j, "J"),
        "power": (trial.best_power_w, "W"),
        "at_limit": (float(trial.capped), ""),
        "settled": (settled, ""),
    }
    return {name: figure for name, figure in figures.items() if math.isfinite(figure[0])}


def _t4_result(trial: Trial, names: Sequence[str]) -> dict[str, object]:
    every = (*names, *(SETTINGS[axis] for axis in trial.settings.by_axis))
    known = _figures(trial) if trial.ok else {}
    walls = {
        "compilation_time": trial.build_wall_s,
        "benchmark": trial.timing_wall_s,
        "validation": trial.check_wall_s,
    }
    return {
        "configuration": dict(zip(every, trial.candidate.values, strict=True)),
        "objectives": ["energy"],
        "times": {name: _MS * wall for name, wall in walls.items() if math.isfinite(wall)} | {"runtimes": []},
        "invalidity": _INVALID.get(trial.status, "correct" if trial.ok else "runtime"),
        "correctness": 0 if trial.status is TrialStatus.WRONG else 1,
        "measurements": [
            {"name": name, "value": value, "unit": unit} for name, (value, unit) in known.items()
        ],
    }


def _key(values: Iterable[Value]) -> str:
    return ",".join(map(str, values))


def _entry(names: Sequence[str], trial: Trial) -> dict[str, object]:
    entry: dict[str, object] = dict(zip(names, trial.candidate.values, strict=True))
    if not trial.ok or not math.isfinite(trial.best_time_s):
        return entry | {"time": _FAILED.get(trial.status, _OTHERWISE_FAILED)}
    figures = {
        **{name: value for name, (value, _) in _figures(trial).items()},
        "compile_time": _MS * trial.build_wall_s,
        "verification_time": _MS * trial.check_wall_s,
        "benchmark_time": _MS * trial.timing_wall_s,
    }
    return entry | {name: value for name, value in figures.items() if math.isfinite(value)}
