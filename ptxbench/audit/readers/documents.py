"""JSON of tools: caches of Kernel Tuner, and the power bundles of InferenceX."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptxbench.audit.claim import Claim, Span, Way
from ptxbench.audit.readers.contents import Contents
from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable
from ptxbench.sensors.base import SourceName
from ptxbench.storage.file_errors import read_text

_CURE = "name a file that the tool wrote"
# NVMLObserver launches a kernel again and again for so long, unless its user says otherwise, and keeps a
# reading every 10 ms or where it is another (Kernel Tuner 1.5).
_TUNER_S, _TUNER_POLL_S = 1.0, 0.01
# InferenceX runs `nvidia-smi -l 1`.
_INFERENCE_POLL_S = 1.0
# A number of a file that is larger is none that a tool wrote, and may be no float.
_MOST = 1e300
_OBSERVED = (("nvml_power", "W"), ("nvml_energy", "J"), ("ps_power", "W"), ("ps_energy", "J"))
_METERED = ("ps_power", "ps_energy")


def read_json(path: Path) -> Contents:
    """Read a JSON file of one of these tools.

    Raises:
        InputError: It is of none of them.
    """
    plain = _plain(path)
    if isinstance(plain.get("cache"), dict):
        return _kernel_tuner(plain)
    if isinstance(plain.get("benchmark_window"), dict):
        return _validation(plain)
    if "avg_power_w" in plain:
        return _aggregate(plain)
    raise InputError(f"{path} is no cache of Kernel Tuner and no power bundle of InferenceX")


def _plain(path: Path) -> dict[str, Any]:
    text = read_text(path, _CURE)
    # A cache is closed when the tuning ends.
    for ending in ("", "}}"):
        try:
            plain = json.loads(text.rstrip().rstrip(",") + ending)
        except (ValueError, RecursionError):
            continue
        if isinstance(plain, dict):
            return plain
    raise InputError(f"{path} is no JSON; {_CURE}")


def _kernel_tuner(plain: dict[str, Any]) -> Contents:
    gpu = printable(str(plain.get("device_name", "")))
    claims = []
    for name, found in plain["cache"].items():
        if not isinstance(found, dict):
            continue
        time_s = _number(found, "time") / 1e3
        for key, unit in _OBSERVED:
            value = _number(found, key)
            if not math.isfinite(value):
                continue
            is_metered = key in _METERED
            claims.append(
                Claim(
                    label=f"{printable(name)} {key}",
                    unit=unit,
                    value=value,
                    power_w=value if unit == "W" else value / time_s if time_s > 0 else math.nan,
                    way=Way.METER if is_metered else Way.MEDIAN,
                    source=None if is_metered else SourceName.INSTANT,
                    window_s=Span(_TUNER_S, _TUNER_S),
                    poll_s=_TUNER_POLL_S,
                    gpu=gpu,
                )
            )
    notes = (
        "nvml_power and nvml_energy are taken for medians of the instant reading over 1 s of launches, as of"
        " Kernel Tuner 1.5; ps_power and ps_energy are an external meter's",
    )
    return Contents("Kernel Tuner", claims=tuple(claims), notes=notes if claims else ("it holds no energy",))


def _validation(plain: dict[str, Any]) -> Contents:
    window = plain["benchmark_window"]
    length_s = _number(window, "integration_duration_s")
    claims = []
    energies = plain.get("per_gpu_energy_j")
    for label, energy_j in energies.items() if isinstance(energies, dict) else ():
        value = _number({"energy": energy_j}, "energy")
        claims.append(_of_window(f"GPU {printable(str(label))} energy", value, length_s, 1))
    boards = plain.get("observed_gpu_count")
    boards = boards if isinstance(boards, int) and boards > 0 else max(len(claims), 1)
    metrics = plain.get("metrics")
    total_j = _number(metrics, "total_gpu_energy_j") if isinstance(metrics, dict) else math.nan
    if math.isfinite(total_j):
        claims.append(_of_window("total_gpu_energy_j", total_j, length_s, boards))
    notes = () if plain.get("power_valid") else ("the tool itself calls its power invalid",)
    return Contents("InferenceX validation", claims=tuple(claims), notes=notes)


def _of_window(label: str, energy_j: float, length_s: float, boards: int) -> Claim:
    read = Way.MEAN, SourceName.USAGE
    return Claim.of_energy(label, energy_j, length_s, *read, poll_s=_INFERENCE_POLL_S, boards=boards)


def _aggregate(plain: dict[str, Any]) -> Contents:
    """Return the mean power a GPU, and the energy of all: their ratios say how long, and of how many."""
    mean_w, all_w = _number(plain, "avg_power_w"), _number(plain, "avg_total_gpu_power_w")
    energy_j = _number(plain, "total_gpu_energy_j")
    length_s = energy_j / all_w if all_w > 0 else math.nan
    ratio = all_w / mean_w if mean_w > 0 else math.nan
    boards = max(round(ratio), 1) if math.isfinite(ratio) else 1
    gpu = printable(str(plain.get("hw", "")))
    power = _of_window("avg_power_w", mean_w * length_s, length_s, 1)
    claims = [replace(power, unit="W", value=mean_w, power_w=mean_w, gpu=gpu)]
    if math.isfinite(energy_j):
        claims.append(replace(_of_window("total_gpu_energy_j", energy_j, length_s, boards), gpu=gpu))
    return Contents("InferenceX result", claims=tuple(claims))


def _number(plain: dict[str, Any], key: str) -> float:
    value = plain.get(key)
    is_number = not isinstance(value, bool) and isinstance(value, int | float) and abs(value) < _MOST
    return float(value) if isinstance(value, int | float) and is_number else math.nan
