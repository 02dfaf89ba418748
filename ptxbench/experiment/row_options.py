"""When a row is measured well enough, as a run and the command line take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ptxbench.core.option import Opt
from ptxbench.core.shared_options import Precision, Seed, window_of
from ptxbench.experiment.criteria import criterion_names


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """How long a row is measured; None is not set.

    Attributes:
        min_repeats: Repeat each row at least so often (default: 2).
        max_repeats: Repeat each row at most so often (default: 6).
        stop_on: End a row at its precision (default), or always after --max-repeats.
    """

    precision: Precision = None
    min_repeats: Annotated[int | None, Opt(2, 1000)] = None
    max_repeats: Annotated[int | None, Opt(2, 1000)] = None
    stop_on: Annotated[str | None, Opt(choices=criterion_names())] = None
    window_s: Annotated[float | None, window_of("as the sensor needs")] = None
    seed: Seed = None
