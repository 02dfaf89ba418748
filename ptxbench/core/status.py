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
    def meaning(self) -> str:
        """What it means, in a few words; docs/reference/files.md has the limits."""
        return _MEANINGS[self]

    @property
    def has_number(self) -> bool:
        """Whether a row of this status has an energy, be it one that is known badly."""
        return self in (Status.OK, Status.IMPRECISE)


_MEANINGS = {
    Status.OK: "the number is valid",
    Status.IMPRECISE: "the trials leave the number open by more than 10%",
    Status.GATE_FAILED: "the machine code, or what it computes, is not what the catalogue says",
    Status.THROTTLED: "power limit or heat slowed the GPU down",
    Status.CLOCK_DRIFT: "its trials ran at different clocks",
    Status.SENSOR_STALE: "the sensor gave nothing new while the kernel ran",
    Status.SENSOR_IMPLAUSIBLE: "the sensor's readings cannot be true",
    Status.WINDOW_TOO_SHORT: "too few readings after the power had settled",
    Status.NOT_LINEAR: "twice the copies do not take twice the energy",
    Status.UNEVEN_POWER: "some SMs ended long before others",
    Status.FOREIGN_PROCESS: "another process was on the GPU",
    Status.BELOW_RESOLUTION: "too little to tell it from zero",
    Status.LAUNCH_FAILED: "the kernel could not be loaded, or ended in an error",
    Status.NOT_SUPPORTED: "the GPU lacks the instruction, or it cannot be measured so",
    Status.NOT_REACHED: "the time given ended first",
    Status.WITHDRAWN: "known to be wrong",
}
