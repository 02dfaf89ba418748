"""Whether the bits of the addresses that a pointer chase loads move its energy.

    python studies/h200/address_bits.py --gpu 0 --out results/nvidia-h200/address-bits.json

`ld.global.u32` loads the address of its next load. One kernel of it is launched with its memory at several
addresses, in turn, round by round, and the powers of a round are compared with those at the first of them,
so that temperature and supply are nearly the same. Prints by how much the power differs, in percent and in
pJ a thread and load, with the 95% interval. Exit codes as `ptxbench`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from in_turn import calibrated_launch, settled_w

from ptxbench.analysis.statistics import Estimate, estimate
from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.devices.base import Gpu, Launch
from ptxbench.devices.placed_buffer import PLACE
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.commit import made_by
from ptxbench.storage.schema import Role

INSTRUCTION = "ld.global.u32"
# One bit set; then more of the upper half, of the lower, of both; then where ptxbench puts it.
PLACES = (0x1000_0000_0000, 0x3FFF_0000_0000, 0x1000_FC00_0000, 0x3FFF_FC00_0000, PLACE)
Floats = npt.NDArray[np.float64]

_PERCENT = 100.0
_PJ_PER_J = 1e12


@dataclass(frozen=True)
class Difference:
    """What one place costs beside the first.

    Attributes:
        place: Address of the memory.
        power_w: Mean power there.
        power_percent: By how much it is above that at the first place, in percent.
        load_pj: The same in pJ a thread and load.
    """

    place: int
    power_w: float
    power_percent: Estimate
    load_pj: Estimate


def main() -> int:
    """Measure, print, write, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index or UUID")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--rounds", type=int, default=8, help="launches at each address (default: 8)")
    parser.add_argument("--kernel", type=float, default=0.34, help="duration of a kernel, s (default: 0.34)")
    parser.add_argument("--opt-level", default=OptLevel.O3, choices=list(OptLevel))
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        raise InputError(f"--rounds {arguments.rounds} must be at least 2")
    from ptxbench.devices.cuda import CudaGpu

    which = int(arguments.gpu) if arguments.gpu.isdigit() else arguments.gpu
    level = OptLevel(arguments.opt_level)
    began = datetime.now(UTC)
    with ExitStack() as stack:
        gpus = [stack.enter_context(closing(CudaGpu(which, scratch_place=place))) for place in PLACES]
        instruction = find_instruction(INSTRUCTION)
        launch = calibrated_launch(gpus[0], instruction, level, Role.TARGET, arguments.kernel)
        power_w, elapsed_s = _powers(gpus, launch, arguments.rounds)
        info = gpus[0].info
    found = differences(
        power_w, elapsed_s, launch.grid * launch.block * launch.iterations * instruction.copies
    )
    print(f"{info.name}, driver {info.driver}, board {info.uuid_hash}: {INSTRUCTION} at -{level}")
    print(f"{arguments.rounds} rounds of a {elapsed_s.mean():.3f} s kernel at each address")
    for one in found:
        percent, load = one.power_percent, one.load_pj
        print(
            f"{one.place:#016x} {one.power_w:8.2f} W  {percent.mean:+.3f} ± {percent.ci95:.3f}%"
            f"  {load.mean:+.3f} ± {load.ci95:.3f} pJ"
        )
    if arguments.out is not None:
        manifest = {
            "gpu": codec.encode(info),
            **made_by(Path(__file__).parents[2], began),
            "arguments": {"rounds": arguments.rounds, "kernel_s": arguments.kernel, "opt_level": level},
            "instruction": INSTRUCTION,
        }
        readings = {"power_w": power_w.tolist(), "elapsed_s": elapsed_s.tolist()}
        document = {"manifest": manifest, "differences": codec.encode(found), **readings}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(arguments.out, json.dumps(document, indent=1) + "\n")
    return 0


def differences(power_w: Floats, elapsed_s: Floats, loads: int) -> list[Difference]:
    """Compare every place with the first, round by round.

    Args:
        power_w: Power of each launch, shape (rounds, places).
        elapsed_s: Its duration, likewise.
        loads: Loads of all threads in a launch.
    """
    energy_pj = power_w * elapsed_s / loads * _PJ_PER_J
    return [
        Difference(
            place,
            float(power_w[:, number].mean()),
            estimate((power_w[:, number] / power_w[:, 0] - 1) * _PERCENT),
            estimate(energy_pj[:, number] - energy_pj[:, 0]),
        )
        for number, place in enumerate(PLACES)
    ]


def _powers(gpus: Sequence[Gpu], launch: Launch, rounds: int) -> tuple[Floats, Floats]:
    """Return power and duration of each launch, shape (rounds, places), after a round that warms up."""
    power_w, elapsed_s = (np.full((rounds + 1, len(gpus)), np.nan) for _ in range(2))
    order = np.random.default_rng(1)
    for turn in range(rounds + 1):
        for number in order.permutation(len(gpus)):
            gpu = gpus[number]
            run = gpu.run(launch)
            power_w[turn, number] = settled_w(gpu, run)
            elapsed_s[turn, number] = run.window.elapsed_s
    return power_w[1:], elapsed_s[1:]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"address_bits: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
