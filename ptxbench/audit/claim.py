"""A number that somebody recorded, and how it was made: what an audit starts from and ends with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from ptxbench.sensors.base import SourceName


class Way(StrEnum):
    """How a number was made of readings."""

    MEAN = "mean of the readings in the window"
    MEDIAN = "median of the readings in the window"
    COUNTER = "energy counter at the end less at the begin"
    HIGHEST = "highest reading"
    METER = "external meter"
    UNSAID = "not said"


class State(StrEnum):
    """What is to be thought of a number."""

    VALID = "valid"
    BIASED = "biased"
    UNKNOWN = "cannot be told"


class Cause(StrEnum):
    """Why a number is off, or why nobody can tell."""

    RUNNING_MEAN = "running mean"
    REFRESH = "refresh"
    COUNTER_REFRESH = "counter's refresh"
    WINDOW = "window"
    IDLE_INCLUDED = "idle included"
    CAPPED = "capped"
    SYSTEM = "system"
    METER = "meter"
    UNCERTAIN = "readings"
    SAMPLING = "sampling"
    BOARD = "board"
    ZERO = "zero"


class Before(StrEnum):
    """What the board did before a window."""

    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Span:
    """All that a number may be.

    Attributes:
        low: Lowest.
        high: Highest.
    """

    low: float
    high: float

    def scaled(self, factor: float) -> Span:
        """Return the same in another unit; `factor` is above 0."""
        return Span(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Reason:
    """One reason.

    Attributes:
        cause: What kind of reason it is.
        text: What it comes to here.
    """

    cause: Cause
    text: str


@dataclass(frozen=True)
class Claim:
    """One number of a file.

    Attributes:
        label: What it is of.
        unit: "W" or "J".
        value: The number, in that unit.
        power_w: Mean power of one board that it comes to, NaN where the file does not say how long.
        way: How it was made.
        source: The source that was read; None for an external meter, or where it is not known.
        window_s: How long the window was.
        poll_s: Time between two readings; of a counter by how much a value at an edge may be older than it.
        gpu: Name of the GPU; "" where the file does not say it.
        limit_w: Power limit that the file says; 0 where it does not.
        boards: How many boards it is the sum of.
        before: What the board did before, as far as this kind of file lets one know.
        before_w: Mean power just before, where the file has it.
        end_w: Mean power just before the end, where the file has it; else power is taken to be even.
        is_uneven: Whether power within the window may rise or fall; else it is taken to be even.
        scatter_w: Half-width of what the readings may have missed between them, W.
        unread: Share of the window in which nothing was read for long.
        found_w: 95% interval of the mean power that the readings around the window give; None where they
            were not kept, or do not tell.
        reasons: What is known beforehand of numbers of this kind.
    """

    label: str
    unit: str
    value: float
    power_w: float
    way: Way
    source: SourceName | None
    window_s: Span
    poll_s: float = 0.0
    gpu: str = ""
    limit_w: float = 0.0
    boards: int = 1
    before: Before = Before.UNKNOWN
    before_w: Span | None = None
    end_w: Span | None = None
    is_uneven: bool = False
    scatter_w: float = 0.0
    unread: float = 0.0
    found_w: Span | None = None
    reasons: tuple[Reason, ...] = ()

    @classmethod
    def of_energy(
        cls, label: str, energy_j: float, length_s: float, way: Way, source: SourceName, **more: Any
    ) -> Self:
        """Return the energy of a window of a length, with what else is known of it; NaN: not said."""
        boards = more.get("boards", 1)
        power_w = energy_j / length_s / boards if length_s > 0 else math.nan
        return cls(label, "J", energy_j, power_w, way, source, Span(length_s, length_s), **more)


@dataclass(frozen=True)
class Verdict:
    """What is to be thought of one number.

    Attributes:
        claim: The number.
        state: In a word.
        truth: What it should have been, at least and at most, in its unit; None where nothing bounds it.
        bias: By what part the number is off, at least and at most (-0.1: 10% low); None as above.
        reasons: Why.
    """

    claim: Claim
    state: State
    truth: Span | None
    bias: Span | None
    reasons: tuple[Reason, ...]
