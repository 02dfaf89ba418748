"""Validity codes: why a row or a trial is, or is not, a valid number."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """One code a row; every code but OK comes with a sentence."""

    OK = "ok"
    IMPRECISE = "imprecise"
    GATE_FAILED = "gate_failed"
    THROTTLED = "throttled"
    CLOCK_DRIFT = "clock_drift"
    SENSOR_STALE = "sensor_stale"
    SENSOR_IMPLAUSIBLE = "sensor_implausible"
    WINDOW_TOO_SHORT = "window_too_short"
    NOT_LINEAR = "not_linear"
    UNEVEN_POWER = "uneven_power"
    FOREIGN_PROCESS = "foreign_process"
    BELOW_RESOLUTION = "below_resolution"
    LAUNCH_FAILED = "launch_failed"
    NOT_SUPPORTED = "not_supported"
    NOT_REACHED = "not_reached"
    WITHDRAWN = "withdrawn"

    @property
    def has_number(self) -> bool:
        """Whether a row of this status has an energy, be it one that is known badly."""
        return self in (Status.OK, Status.IMPRECISE)
