"""Windows of an `EnergyMonitor` as metrics, for Prometheus and for OpenTelemetry."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ptxbench.api.window_energy import GpuEnergy, WindowEnergy
from ptxbench.core.errors import ToolError
from ptxbench.report.metrics import ENERGY, HIGH, LOW, POWER, TIME, UNKNOWN, WINDOWS, Kind, Metric, Sample

_METRICS = (ENERGY, POWER, LOW, HIGH, TIME, WINDOWS, UNKNOWN)


def window_samples(windows: Iterable[WindowEnergy], *, is_simulated: bool) -> Iterator[Sample]:
    """Yield, for each GPU and name of windows, their energy, its interval, and how many they were.

    Args:
        windows: Windows that are over.
        is_simulated: Whether the GPUs are simulated, which a label says.
    """
    groups: dict[tuple[str, str], list[tuple[GpuEnergy, float]]] = {}
    for window in windows:
        for gpu in window.gpus:
            groups.setdefault((gpu.gpu, window.name), []).append((gpu, window.time_s))
    for (gpu_name, name), found in groups.items():
        labels = {"hw.id": gpu_name, "hw.type": "gpu", "window": name}
        if is_simulated:
            labels["simulated"] = "true"
        known = [(gpu, time_s) for gpu, time_s in found if math.isfinite(gpu.energy_j)]
        energy_j, time_s = sum(gpu.energy_j for gpu, _ in known), sum(time_s for _, time_s in known)
        low_j = math.hypot(*(gpu.energy_j - gpu.interval_j[0] for gpu, _ in known))
        high_j = math.hypot(*(gpu.interval_j[1] - gpu.energy_j for gpu, _ in known))
        if known:
            yield Sample(ENERGY, labels, energy_j)
            yield Sample(LOW, labels, energy_j - low_j)
            yield Sample(HIGH, labels, energy_j + high_j)
            yield Sample(POWER, labels, energy_j / time_s if time_s > 0 else math.nan)
        yield Sample(TIME, labels, time_s)
        yield Sample(WINDOWS, labels, float(len(found)))
        yield Sample(UNKNOWN, labels, float(len(found) - len(known)))


def observe(samples: Callable[[], Sequence[Sample]], provider: Any = None) -> None:
    """Register instruments of OpenTelemetry that read samples whenever they are collected.

    Args:
        samples: Returns the samples of now.
        provider: A MeterProvider; None: the one that is set, as by `opentelemetry-instrument`.

    Raises:
        ToolError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise ToolError(
            "OpenTelemetry is not installed: run 'pip install opentelemetry-sdk opentelemetry-exporter-otlp'"
        ) from error
    meter = metrics.get_meter("ptxbench") if provider is None else provider.get_meter("ptxbench")

    def callback(metric: Metric) -> Callable[[Any], list[Any]]:
        return lambda _options: [
            metrics.Observation(one.value, dict(one.labels))
            for one in samples()
            if one.metric is metric and math.isfinite(one.value)
        ]

    for metric in _METRICS:
        is_counter = metric.kind is Kind.COUNTER
        create = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        unit = metric.unit or "1"
        create(metric.name, callbacks=[callback(metric)], unit=unit, description=metric.text)
