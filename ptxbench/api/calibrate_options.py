"""What a calibration takes, from Python and from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ptxbench.core.option import Opt
from ptxbench.core.shared_options import CALIBRATED_TABLE, Out, Resume


@dataclass(frozen=True, kw_only=True)
class CalibrationSettings:
    """What is calibrated, and for how long.

    Attributes:
        budget_minutes: Measure for so many minutes at most (default: 5); --resume measures the rest.
    """

    table: Annotated[str | Path | None, CALIBRATED_TABLE] = None
    out: Out = None
    resume: Resume = False
    budget_minutes: Annotated[float, Opt(0, 1e6, above=True)] = 5.0
