"""The result of a validation as plain data and as text."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, cast

from ptxbench.core.estimate import Estimate
from ptxbench.meter.alignment import Basis
from ptxbench.meter.figures import FittedOn, MethodFigures
from ptxbench.meter.validation import SourceFigures, Validation
from ptxbench.sensors.characterize.sensor_fit import SensorFit
from ptxbench.storage.codec import encode

# Below this a sensor's view of part of the time is no matter.
_WORTH_SAYING_PCT = 1.0
# Chosen.
_NEARLY_ALL = 0.95


def as_json(result: Validation) -> dict[str, Any]:
    """Return the result as `ptxbench meter validate --json` prints it (docs/reference/meter.md)."""
    sensors = [_sensor_json(source, result.alignment.basis) for source in result.sources]
    document = {
        "kind": result.kind,
        "offset_ms": result.alignment.offset_ms,
        "drift_ppm": result.alignment.drift_ppm,
        **{key: sensors[0][key] for key in ("gain", "offset_w", "lag_ms", "source")},
        "alignment": _alignment_json(result),
        "sensors": sensors,
        "methods": [_method_json(one) for one in result.methods],
        "instructions": [
            {"instruction": label, **_method_json(one)}
            for label in result.labels
            for one in result.methods_of(label)
        ],
        "windows": [
            {
                "label": trial.label,
                "start_ns": trial.window.start_ns,
                "end_ns": trial.window.end_ns,
                "meter_j": energy_j,
            }
            for trial, energy_j in zip(result.trials, result.meter_j.tolist(), strict=True)
        ],
        "meter": {
            "format": result.capture.origin,
            "rails": result.capture.rails,
            "rows": len(result.capture),
            "rate_hz": 1.0 / result.capture.period_s,
        },
        "notes": [*result.notes, *statements(result)],
    }
    return cast(dict[str, Any], encode(document))


def _sensor_json(source: SourceFigures, basis: Basis) -> dict[str, Any]:
    """Return one source's fit, bound and cross-validation."""
    fit = source.fit
    lag_s, width_s = told(fit)
    return {
        "source": fit.source,
        "gain": fit.gain,
        "offset_w": fit.offset_w,
        # Where the clocks were aligned by the sensor itself, its lag is within their offset.
        "lag_ms": lag_s.scaled(1e3) if basis is not Basis.SIGNALS else Estimate(math.nan, math.nan),
        "shape": fit.shape,
        "width_ms": width_s.scaled(1e3),
        "refresh_ms": 1e3 * fit.refresh_s,
        "seen_fraction": fit.seen_fraction,
        "residual_w": fit.residual_w,
        "explained": fit.explained,
        "readings": len(fit.made_s),
        "bound_window_pct": source.bound.window_pct,
        "bound_half_pct": source.bound.half_pct,
        "cross_validation": [
            {
                "fitted_on": check.fitted_on,
                "gain": check.fit.gain.value,
                "offset_w": check.fit.offset_w.value,
                "energy_error_pct": check.energy_pct,
                "windows_error_pct": check.windows_pct,
            }
            for check in source.cross
        ],
    }


def statements(result: Validation) -> tuple[str, ...]:
    """Return what the corrections were fitted to, and what each sensor cannot see, with its bound."""
    return (
        _correction(result),
        *filter(None, map(_undetermined, result.sources)),
        *(_statement(source) for source in result.sources if source.bound.window_pct > _WORTH_SAYING_PCT),
    )


def _correction(result: Validation) -> str:
    same = [source.fit.source.value for source in result.sources if _is_same(source)]
    if not same:
        return "each window is corrected by a fit to the half of the capture that it is not in"
    return (
        f"the correction of {', '.join(same)} was fitted to the windows that it is scored on, as there is "
        "one window only or a half that cannot be fitted: its errors are of the fit, not of a prediction"
    )


def _is_same(source: SourceFigures) -> bool:
    return any(one.fitted_on is FittedOn.SAME_WINDOWS for one in source.energies)


def told(fit: SensorFit) -> tuple[Estimate, Estimate]:
    """Return lag and averaging window of a source, s, or no number where the capture cannot tell.

    It cannot where the interval is longer than a refresh and than what a value covers: the power then hardly
    changed within these times.
    """
    limit_s = max(fit.refresh_s, fit.span_s)
    return fit.lag_s.within(limit_s), fit.width_s.within(limit_s)


def _undetermined(source: SourceFigures) -> str:
    """Return why figures of a source are not determined, "" where all are."""
    names = [
        name
        for name, one in zip(("lag", "averaging"), told(source.fit), strict=True)
        if math.isnan(one.value)
    ]
    if not names:
        return ""
    are = "are" if len(names) > 1 else "is"
    return (
        f"{' and '.join(names)} of {source.fit.source} {are} not determined: the power of this capture hardly"
        f" changes within a refresh ({1e3 * source.fit.refresh_s:.3g} ms) or what a value covers"
    )


def _statement(source: SourceFigures) -> str:
    fit = source.fit
    view = f"is a mean over {1e3 * fit.span_s:.4g} ms"
    if fit.seen_fraction < _NEARLY_ALL:
        view = f"sees about {1e3 * fit.span_s:.3g} ms of every {1e3 * fit.refresh_s:.4g} ms"
    return (
        f"{fit.source} {view}: even without any error of its own it would be off by up to "
        f"{source.bound.window_pct:.3g}% on one window, {source.bound.half_pct:.2g}% on half of the capture"
    )


def _alignment_json(result: Validation) -> dict[str, Any]:
    alignment, parts = result.alignment, result.halves
    halves = None
    if parts is not None:
        first_ms, second_ms = (part.offset_ms for part in parts)
        halves = {
            "first_offset_ms": first_ms,
            "second_offset_ms": second_ms,
            "difference_ms": (parts[1].offset_ns - parts[0].offset_ns) / 1e6,
        }
    return {
        "reference_ns": alignment.reference_ns,
        "basis": alignment.basis,
        "correlation": alignment.correlation,
        "edges": alignment.edges,
        "halves": halves,
    }


def _method_json(one: MethodFigures) -> dict[str, Any]:
    figures = asdict(one)
    fitted_on = figures.pop("fitted_on")
    return {**figures, "correction_fitted_on": fitted_on}
