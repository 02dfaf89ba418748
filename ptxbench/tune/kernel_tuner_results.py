"""Results of Kernel Tuner as a search: its cache files, and those of the T4 format, which others write too.

The formats are those of Kernel Tuner 1.5 (`util.process_cache`, and `schema/T4/1.0.0` of its package). A
cache that was not closed, as a search that was ended leaves it, is read as it closes it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.core.printable import printable
from ptxbench.storage.file_errors import read_text
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.manifest import Manifest
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.folder import TuningManifest, TuningPart
from ptxbench.tune.kernel_tuner_cache import SETTINGS
from ptxbench.tune.outcome import Settled, TrialStatus
from ptxbench.tune.trial import Trial
from ptxbench.tune.variant_runner import TrialOptions

# Names that observers of Kernel Tuner, and ours, give a figure; the first that is there counts.
_ENERGY_J = ("energy_j", "nvml_energy", "ps_energy", "pmt_energy", "energy")
_POWER_W = ("power_w", "nvml_power", "ps_power", "pmt_power", "power")
_GFLOPS = re.compile(r"gflops?(/s)?\Z", re.IGNORECASE)
_FAILED = {
    "CompilationFailedConfig": TrialStatus.REFUSED,
    "InvalidConfig": TrialStatus.REFUSED,
    "RuntimeFailedConfig": TrialStatus.LAUNCH_FAILED,
    "ErrorConfig": TrialStatus.LAUNCH_FAILED,
    "compile": TrialStatus.REFUSED,
    "constraints": TrialStatus.REFUSED,
    "runtime": TrialStatus.LAUNCH_FAILED,
    "timeout": TrialStatus.HUNG,
    "correctness": TrialStatus.WRONG,
}
_UNITS_S = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "microseconds": 1e-6}


@dataclass(frozen=True)
class ForeignResults:
    """Results of another tuner.

    Attributes:
        manifest: What was tuned, as far as the file says.
        trials: One for each configuration.
        note: Where they come from, a sentence.
    """

    manifest: TuningManifest
    trials: tuple[Trial, ...]
    note: str


def read_results(path: Path) -> ForeignResults:
    """Read a cache of Kernel Tuner, or a file of the T4 format.

    Args:
        path: The file.

    Raises:
        InputError: It cannot be read, or is neither.
    """
    cure = "name a folder of tune, or a cache or T4 file of Kernel Tuner"
    document = _document(path, read_text(path, cure).strip(), cure)
    if isinstance(document.get("cache"), dict):
        what, names = "a cache of Kernel Tuner", document.get("tune_params_keys")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError(f"{path}: tune_params_keys must be a list of names")
        entries: list[dict[str, Any]] = [one for one in document["cache"].values() if isinstance(one, dict)]
    elif isinstance(document.get("results"), list):
        what, entries = (
            "a T4 file",
            [_of_t4(one, path) for one in document["results"] if isinstance(one, dict)],
        )
        names = list(dict.fromkeys(name for one in entries for name in one.pop("configuration")))
    else:
        raise InputError(f"{path}: is neither a cache nor a T4 file of Kernel Tuner; {cure}")
    own = [name for name in names if name not in SETTINGS.values()]
    trials = {one.name: one for one in (_trial(entry, own, path) for entry in entries)}
    told = document if "cache" in document else document.get("metadata", {})
    said = told if isinstance(told, dict) else {}
    name = printable(str(said.get("kernel_name", path.stem)))
    gpu = GpuInfo.partly_known(printable(str(said.get("device_name", "an unknown GPU"))), "")
    if "simulated" in gpu.name.lower():
        gpu = GpuInfo(**{**vars(gpu), "kind": GpuKind.SIMULATED})
    part = TuningPart(problem=KernelProblem(name, tuple(own), ""), options=TrialOptions(), model="")
    manifest = Manifest(
        kind=Kind.TUNING, ptxbench_version="", commit=None, created=None, gpus=(gpu,), part=part
    )
    note = f"read from {path.name}, {what}: its times and energies are as that says them"
    return ForeignResults(manifest, tuple(trials.values()), note)


def _document(path: Path, text: str, cure: str) -> dict[str, Any]:
    # Kernel Tuner appends to a cache, and closes it in the end.
    for closed in (text, text.removesuffix(",") + "}\n}"):
        try:
            found = json.loads(closed)
        except (ValueError, RecursionError) as error:
            why = error
            continue
        if isinstance(found, dict):
            return found
        raise InputError(f"{path}: is no object of JSON; {cure}")
    raise InputError(f"{path}: is no JSON: {why}; {cure}")


def _of_t4(result: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a result of T4 as a cache has it, with the names of its parameters in `configuration`."""
    for name, kind in (("configuration", dict), ("times", dict), ("measurements", list)):
        if not isinstance(result.get(name, kind()), kind):
            raise InputError(
                f"{path}: {name} of a result must be {'a list' if kind is list else 'an object'}"
            )
    values, times = result.get("configuration", {}), result.get("times", {})
    entry = dict(values)
    measured: list[dict[str, Any]] = [one for one in result.get("measurements", ()) if isinstance(one, dict)]
    for one in measured:
        unit = _UNITS_S.get(str(one.get("unit", "")).lower()) if str(one.get("name")) == "time" else None
        value: Any = one.get("value")
        entry[str(one.get("name"))] = value * unit * 1e3 if unit and _is_number(value) else value
    for ours, theirs in (("compile_time", "compilation"), ("benchmark_time", "benchmark")):
        entry[ours] = times.get(theirs, times.get(f"{theirs}_time"))
    if result.get("invalidity", "correct") != "correct":
        entry["time"] = result["invalidity"]
    elif result.get("correctness", 1) == 0:
        entry["time"] = "correctness"
    # Last, as a measurement may have any name.
    return {**entry, "configuration": list(values)}


def _trial(entry: Mapping[str, Any], names: list[str], path: Path) -> Trial:
    """Return a configuration as a trial."""
    missing = next((name for name in names if name not in entry), None)
    if missing is not None:
        raise InputError(f"{path}: a configuration has no value of {missing}")
    texts = {name: printable(" ".join(str(entry[name]).split())) for name in names}
    clock_mhz, memory_mhz, limit_w = (_whole(entry, theirs) for theirs in SETTINGS.values())
    settings = GpuSettings(clock_mhz, memory_mhz, None if limit_w is None else 1000 * limit_w)
    variant = Configuration.of(texts)
    failed = entry.get("__error__") or entry.get("time")
    time_s = _number(entry, ("time",)) * 1e-3
    if isinstance(failed, str) or not math.isfinite(time_s) or time_s <= 0:
        status = _FAILED.get(str(failed), TrialStatus.LAUNCH_FAILED)
        reason = f"failed there: {printable(str(failed))}"
        return Trial(variant=variant, settings=settings, status=status, reason=reason)
    energy_j, power_w = _number(entry, _ENERGY_J), _number(entry, _POWER_W)
    if math.isnan(energy_j):
        energy_j = power_w * time_s
    error_j = _number(entry, ("energy_ci95_j",)) / COVERAGE_FACTOR
    # Numbers in T4, which has no other.
    told = entry.get("settled")
    settled = Settled.YES if told == 1 else Settled.NO if told == 0 else Settled.UNTESTED
    ok = settled is not Settled.NO
    gflops = _number(entry, tuple(name for name in entry if _GFLOPS.match(name)))
    return Trial(
        variant=variant,
        settings=settings,
        status=TrialStatus.OK if ok else TrialStatus.NOT_SETTLED,
        reason="" if ok else "power had not settled there",
        time_s=time_s,
        steady_s=time_s if math.isfinite(energy_j) else math.nan,
        energy_j=energy_j,
        power_w=energy_j / time_s,
        power_error_w=error_j / time_s,
        clock_mhz=_number(entry, ("clock_mhz", "core_freq")),
        capped=entry.get("at_limit") == 1,
        settled=settled,
        flops=gflops * 1e9 * time_s,
        build_wall_s=_number(entry, ("compile_time",)) * 1e-3,
        timing_wall_s=_number(entry, ("benchmark_time",)) * 1e-3,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number(entry: Mapping[str, Any], names: tuple[str, ...]) -> float:
    """Return the first figure that is there, NaN where none is, or it is negative."""
    found = next((float(entry[name]) for name in names if _is_number(entry.get(name))), math.nan)
    return found if found >= 0 else math.nan


def _whole(entry: Mapping[str, Any], name: str) -> int | None:
    value = _number(entry, (name,))
    return round(value) if math.isfinite(value) else None


def power_by_clock(results: ForeignResults) -> tuple[str, list[tuple[int, float]]]:
    """Return the configuration that ran at the most SM clocks, with clocks in MHz and power in W.

    Raises:
        InputError: None ran at two.
    """
    by_variant: dict[str, list[tuple[int, float]]] = {}
    for one in results.trials:
        clock_mhz = one.settings.sm_clock_mhz
        if one.ok and clock_mhz is not None and math.isfinite(one.power_w):
            by_variant.setdefault(one.variant.name, []).append((clock_mhz, one.power_w))
    name = max(by_variant, key=lambda each: len(by_variant[each]), default="")
    if not name or len(by_variant[name]) < 2:
        raise InputError(
            f"no configuration has a power at two values of {SETTINGS['sm_clock_mhz']} ({results.note})"
        )
    return name, sorted(by_variant[name])
