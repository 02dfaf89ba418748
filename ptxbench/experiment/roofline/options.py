"""What `ptxbench roofline run` measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ptxbench.core.option import Opt
from ptxbench.core.shared_options import Operands, Seed, window_of
from ptxbench.experiment.roofline.kinds import KINDS, LEVELS

# No algorithm is outside.
INTENSITY = (1e-6, 1e9)


@dataclass(frozen=True)
class RooflineOptions:
    """What is measured.

    By default each kernel runs on two numbers of SMs by turns: few meet no power limit, and many tell what
    goes with the SMs.

    Attributes:
        kinds: Kind of flop (may be repeated; default: f32 and f64).
        levels: Memory level (may be repeated; default: dram).
        sms: SMs to run on (may be repeated; default: all to a sixteenth, each kernel on two by turns).
        intensities: Intensity in flop/byte (may be repeated; default: 1/8 to 512 in steps of sqrt 2).
        chase: Measure a pointer chase of each level, too (Eqs. 11 and 12).
    """

    kinds: Annotated[tuple[str, ...], Opt(choices=tuple(KINDS), flag="--kind")] = ("f32", "f64")
    levels: Annotated[tuple[str, ...], Opt(choices=tuple(LEVELS), flag="--level")] = ("dram",)
    operands: Operands = ("random",)
    sms: Annotated[tuple[int, ...], Opt(1, 10_000)] = ()
    intensities: Annotated[tuple[float, ...], Opt(*INTENSITY, flag="--intensity")] = ()
    chase: bool = False
    window_s: Annotated[float | None, window_of("as the sensor needs")] = None
    seed: Seed = None
