"""Options of what calls functions: `bench`, `compare` and `tune_function`, and `ptxbench bench`."""

from __future__ import annotations

from typing import Annotated

from ptxbench.core.option import Opt
from ptxbench.core.shared_options import TIME

# Bounds of a budget; chosen.
LEAST_S, MOST_S = 0.5, 3600.0

Budget = Annotated[
    float,
    Opt(
        LEAST_S,
        MOST_S,
        help="Seconds to measure at most, once results were compared and each function was called.",
        metavar=TIME,
    ),
]
MaxDifference = Annotated[
    float | None,
    Opt(
        0,
        1,
        help="Largest difference of a result, as a fraction of the value and of the root of the mean square"
        " (default: by type, 1e-3 for f32).",
    ),
]
CallSeed = Annotated[int, Opt(0, 2**32 - 1, help="Seed of the inputs and of the order.")]
