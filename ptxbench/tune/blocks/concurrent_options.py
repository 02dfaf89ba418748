"""How kernels that run at once are tuned, from Python and from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ptxbench.core.option import Opt
from ptxbench.core.shared_options import TRIAL_WINDOW_S, Seed, window_of
from ptxbench.tune.blocks.guerreiro import HIGH_OCCUPANCY

if TYPE_CHECKING:
    from ptxbench.tune.clocks.axes import Values


@dataclass(frozen=True, kw_only=True)
class ConcurrentOptions:
    """What is made small, and what is tried.

    Attributes:
        objective: What to minimize, of a round in which every kernel runs once.
        patience: End the search of a kernel after so many block sizes in a row that are no better.
        exhaustive: Run every combination of block sizes besides.
        clocks: Try each variant at these SM clocks, MHz: Algorithm 4.
        allow_settings: Allow that the GPU is set; it is restored at the end.
        high_occupancy: Try block sizes over this occupancy, which is the paper's.
    """

    objective: Annotated[str, Opt(choices=("energy", "time", "edp"), flag="--minimize")] = "energy"
    patience: Annotated[int, Opt(1, 32)] = 1
    exhaustive: bool = False
    window_s: Annotated[float, window_of(f"{TRIAL_WINDOW_S:g}")] = TRIAL_WINDOW_S
    # Quoted, so that no module with numpy is loaded for its name.
    clocks: Annotated["Values | None", Opt()] = None  # noqa: UP037
    allow_settings: bool = False
    high_occupancy: Annotated[float, Opt(0, 1)] = HIGH_OCCUPANCY
    seed: Seed = None
