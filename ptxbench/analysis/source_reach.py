"""From which duration of a kernel on a power source can be believed, method by method, and in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ptxbench.energy.predicted_error import LoadShape, Prediction, predict
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.probe import SensorCharacterization
from ptxbench.sensors.description import SensorDescription, Shape
from ptxbench.storage.doctor_file import MethodError, MethodReach, SourceReach, State, Verdict

# An error that most comparisons of kernels can live with: chosen.
ACCEPTED = 0.02
# A method's error is kept for kernels of these two lengths; chosen.
_SHORT_S, _LONG_S = 0.1, 3.0
_DURATIONS_S = (
    *(0.01, 0.015, 0.02, 0.03, 0.05, 0.07, _SHORT_S, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0),
    *(_LONG_S, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0),
)
# Idle time that is recorded on either side: more than any running mean that was seen.
_AROUND_S = 3.0
_POLL_S = 0.002
# What the time of a kernel's edges, and of the values, leaves open in methods that look at the edges: kernels
# of 10 to 300 ms on an H200 scattered by what two to three ms of their power are, on every source
# (results/nvidia-h200/methods).
_EDGES_S = 0.0025
_BY_EDGES = ("corrected", "counter")
# SMA divides by the recording's length, so that it says how much idle time was recorded.
# The ways of other tools are compared by `ptxbench doctor methods`.
_LEFT_OUT = ("sma", "collector", "median", "difference")
# PAPI-style takes the last reading for all of the kernel.
_EVEN_POWER_ONLY = "papi"
_PERCENT = 100.0
_MS = 1e3


def source_reach(probe: SensorCharacterization) -> SourceReach:
    """Return what every method makes of a source that followed the load.

    The error of a method is sqrt(bias^2 + spread^2 + noise^2): bias and spread over the phases of the refresh
    by `ptxbench.energy.predicted_error`, the noise from the scatter of the values and of their times.

    Args:
        probe: What was measured about the source.
    """
    idle_w = probe.idle_w.value
    load_w = idle_w + probe.step_w.value
    errors: dict[str, list[MethodError]] = {}
    for duration_s in _DURATIONS_S:
        load = LoadShape(
            np.array([0.0]), np.array([duration_s]), np.array([load_w]), idle_w, _AROUND_S, _AROUND_S
        )
        noise = _noise_share(probe, load_w, duration_s)
        for method, found in predict(probe.sensor, load, _POLL_S, _LEFT_OUT).items():
            edges = _EDGES_S / duration_s if method in _BY_EDGES else 0.0
            errors.setdefault(method, []).append(_error(duration_s, found, math.hypot(noise, edges)))
    return SourceReach(
        probe.sensor.source,
        tuple(_reach(method, of_method) for method, of_method in errors.items()),
    )


def source_verdict(probe: SensorCharacterization, reach: SourceReach | None) -> Verdict:
    """Return the line about one source: what it is, and which method is how far off on it.

    Args:
        probe: What was measured about the source.
        reach: What every method makes of it; None where it did not follow the load.
    """
    sensor = probe.sensor
    if reach is None:
        return Verdict(sensor.source, State.DO_NOT_USE, probe.note)
    parts = [_nature(sensor)]
    if sensor.source is SourceName.MEMORY:
        parts.append("the memory's share of the power, not the board's")
        return Verdict(sensor.source, State.NOTE, "; ".join(parts))
    parts += [_method_text(method) for method in reach.methods]
    if probe.note:
        parts.append(probe.note)
    return Verdict(sensor.source, State.NOTE if probe.note else State.OK, "; ".join(parts))


def use_verdicts(
    probes: Sequence[SensorCharacterization], reaches: Sequence[SourceReach]
) -> tuple[Verdict, ...]:
    """Return what to use, for steady power and for the energy of a single kernel.

    Args:
        probes: The sources, best for steady power first.
        reaches: What every method makes of each that followed the load.
    """
    best = probes[0]
    verdicts = [
        Verdict(
            "use",
            State.OK,
            f"for steady power: {best.sensor.source}, kernels of {_duration(best.needed_s)} or longer",
        )
    ]
    ways = [
        (method.serves_from_s, reach.source, method.method)
        for reach in reaches
        for method in reach.methods
        if reach.source is not SourceName.MEMORY and method.method != _EVEN_POWER_ONLY
    ]
    serves_s, source, name = min(ways, key=lambda way: way[0])
    if math.isfinite(serves_s):
        around = ", idle time recorded around it" if name == "corrected" else ""
        text = f"for the energy of one kernel: {name} on {source}{around}, {_duration(serves_s)} or longer"
        verdicts.append(Verdict("use", State.OK, f"{text}; repeat shorter kernels until they fill that"))
    return tuple(verdicts)


def _noise_share(probe: SensorCharacterization, load_w: float, duration_s: float) -> float:
    """Return the standard error that the values' noise leaves in the energy, as a fraction of it."""
    sensor = probe.sensor
    if sensor.counts_energy:
        return 0.0
    # Running means that overlap share their noise.
    apart_s = max(sensor.refresh_s, sensor.averaging_s)
    return probe.noise_w * math.sqrt(apart_s * (duration_s + sensor.memory_s)) / (load_w * duration_s)


def _error(duration_s: float, found: Prediction, noise: float) -> MethodError:
    always = found.answered == 1
    return MethodError(
        duration_s, found.bias, math.hypot(found.bias, found.spread, noise) if always else math.inf
    )


def _reach(method: str, errors: Sequence[MethodError]) -> MethodReach:
    """Return how a method does, with the shortest duration from which on its error stays accepted."""
    serves_s = math.inf
    for one in reversed(errors):
        if one.error > ACCEPTED:
            break
        serves_s = one.duration_s
    known = {one.duration_s: one for one in errors}
    return MethodReach(method, known[_SHORT_S], known[_LONG_S], serves_s)


def _nature(sensor: SensorDescription) -> str:
    refreshed = f"new every {_MS * sensor.refresh_s:.3g} ms"
    if sensor.counts_energy:
        return f"energy since the driver was loaded, {refreshed}"
    name = "nvidia-smi's number, " if sensor.source is SourceName.USAGE else ""
    if sensor.averaging_s == 0:
        return f"{name}a point, {refreshed}"
    kind = "mean" if sensor.shape is Shape.BOXCAR else "low-pass"
    return f"{name}a {_duration(sensor.averaging_s)} {kind}, {refreshed}"


def _method_text(reach: MethodReach) -> str:
    if math.isinf(reach.serves_from_s):
        return f"{reach.method}: over {ACCEPTED:.0%} off on kernels of up to {max(_DURATIONS_S):g} s"
    text = f"{reach.method} within {ACCEPTED:.0%} from {_duration(reach.serves_from_s)} on"
    off = [_off(one) for one in (reach.short, reach.long) if one.duration_s < reach.serves_from_s]
    return f"{text} ({', '.join(off)})" if off else text


def _off(one: MethodError) -> str:
    kernel = f"for {_duration(one.duration_s)}"
    if math.isinf(one.error):
        return f"not always an answer {kernel}"
    if abs(one.bias) < one.error / 2:
        return f"off by {_PERCENT * one.error:.2g}% {kernel}"
    return f"{_PERCENT * abs(one.bias):.2g}% {'low' if one.bias < 0 else 'high'} {kernel}"


def _duration(time_s: float) -> str:
    return f"{_MS * time_s:.3g} ms" if time_s < 1 else f"{time_s:.3g} s"
