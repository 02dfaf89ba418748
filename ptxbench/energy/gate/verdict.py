"""What the energy counter says of a power source. It loads no library for numbers: manifests hold it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceVerdict:
    """What the energy counter says of a source.

    Attributes:
        ratio: Energy by the source over that by the counter, NaN where nothing could be compared.
        error: Its standard error.
        objection: Why no number of the run may be believed, "" where they may.
        scale_uncertainty: Half-width by which the scale common to all numbers is uncertain, a fraction.
        note: What else must be said of the scale, "" for nothing.
    """

    ratio: float
    error: float
    objection: str = ""
    scale_uncertainty: float = 0.0
    note: str = ""


UNJUDGED = SourceVerdict(
    math.nan, math.nan, note="the scale of its power is not checked: no energy counter was read beside it"
)
