"""Energies as metrics: in the text format of Prometheus (version 0.0.4), with units in their names.

Names follow the semantic conventions of OpenTelemetry for hardware: `hw.energy` in J, `hw.power` in W, with
`hw.id` and `hw.type`. Prometheus writes them `hw_energy_joules_total` and `hw_power_watts`. What is
ptxbench's own begins with `ptxbench`. A number that is not known is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")
_UNITS = {"J": "joules", "W": "watts", "s": "seconds", "1": "ratio", "": ""}


class Kind(StrEnum):
    """How a metric behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True)
class Metric:
    """One metric with all of its values.

    Attributes:
        name: As OpenTelemetry names it, such as "hw.energy".
        unit: "J", "W", "s", "1", or "" of a number of things.
        kind: Whether it only grows.
        text: What it is.
    """

    name: str
    unit: str
    kind: Kind
    text: str

    @property
    def prometheus(self) -> str:
        """Its name in Prometheus."""
        parts = [
            _NO_NAME.sub("_", self.name),
            _UNITS[self.unit],
            "total" if self.kind is Kind.COUNTER else "",
        ]
        return "_".join(filter(None, parts))


@dataclass(frozen=True)
class Sample:
    """One value.

    Attributes:
        metric: Of what.
        labels: Attributes as OpenTelemetry names them.
        value: In the unit of the metric; NaN where it is not known.
    """

    metric: Metric
    labels: Mapping[str, str]
    value: float


ENERGY = Metric("hw.energy", "J", Kind.COUNTER, "Energy of the whole board, idle power included.")
POWER = Metric("hw.power", "W", Kind.GAUGE, "Mean power of the whole board over the time of hw.energy.")
LOW = Metric("ptxbench.energy.low", "J", Kind.GAUGE, "Low end of the 95% interval of the energy.")
HIGH = Metric("ptxbench.energy.high", "J", Kind.GAUGE, "High end of the 95% interval of the energy.")
TIME = Metric("ptxbench.time", "s", Kind.COUNTER, "Time over which the energy was drawn.")
WINDOWS = Metric("ptxbench.windows", "", Kind.COUNTER, "Windows that have ended.")
UNKNOWN = Metric("ptxbench.windows.unknown", "", Kind.COUNTER, "Windows whose energy is not known.")
KERNEL = Metric("ptxbench.kernel.energy", "J", Kind.COUNTER, "Energy while a kernel ran.")
CALLS = Metric("ptxbench.kernel.launches", "", Kind.COUNTER, "How often a kernel ran.")


def prometheus_text(samples: Iterable[Sample]) -> str:
    """Return samples in the text format of Prometheus; those that are not finite are left out."""
    by_metric: dict[Metric, list[Sample]] = {}
    for sample in samples:
        if math.isfinite(sample.value):
            by_metric.setdefault(sample.metric, []).append(sample)
    lines = []
    for metric, found in by_metric.items():
        lines.append(f"# HELP {metric.prometheus} {metric.text}")
        lines.append(f"# TYPE {metric.prometheus} {metric.kind}")
        lines += [f"{metric.prometheus}{_labels(one.labels)} {one.value!r}" for one in found]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    named = {_NO_NAME.sub("_", name): value.translate(_ESCAPED) for name, value in labels.items() if value}
    parts = [f'{name}="{value}"' for name, value in named.items()]
    return f"{{{','.join(parts)}}}" if parts else ""
