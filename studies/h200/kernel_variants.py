"""What moves the power of one kernel: other operands of the same kind, or code and memory elsewhere.

    python studies/h200/kernel_variants.py --gpu 0 --out results/nvidia-h200/variants/one.json

Kernels are launched in turn as they are, with operands drawn from other seeds, and from a second copy of the
code with buffers of its own, round by round: the powers of a round are compared with the first variant's,
so that temperature and supply are nearly the same. Prints by how much each differs, in percent with the 95%
interval, and with `--beside` what this process changed of the powers that another one wrote. Exit codes as
`ptxbench`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from in_turn import SEED, calibrated_launch, settled_w

from ptxbench.analysis.statistics import Estimate, estimate
from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.operands import operand_bytes
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.devices.base import Gpu, Launch
from ptxbench.devices.select import open_gpu
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.commit import made_by
from ptxbench.storage.schema import Role

# Those that differed most between two processes, and some that never did.
KERNELS = (
    "add.u32:O3:overhead",
    "add.u32:O3:target",
    "add.f32:O3:target",
    "ex2.approx.ftz.f32:O3:overhead",
    "ex2.approx.ftz.f32:O3:target",
    "fma.rn.f16x2:O3:target",
    "fma.rn.f64:O3:target",
    "mul.lo.u16:O3:target",
    "min.s32:O3:target",
    "min.s32:O0:target",
    "ex2.approx.ftz.f32:O0:target",
    "xor.b32:O0:target",
    "clz.b32:O0:target",
    "fma.rn.f32:O3:target",
    "mad.lo.u32:O3:target",
)
# Each is the number of the copy and the seed of the operands.
VARIANTS = ((0, SEED), (1, SEED), (0, 2), (0, 3))
Floats = npt.NDArray[np.float64]

_PERCENT = 100.0


@dataclass(frozen=True)
class Difference:
    """What one variant of a kernel draws beside the first.

    Attributes:
        kernel: Instruction, level and role.
        copy: Number of the copy of code and buffers.
        seed: Seed of the operands.
        power_w: Mean power.
        power_percent: By how much it is above the first variant's, in percent.
    """

    kernel: str
    copy: int
    seed: int
    power_w: float
    power_percent: Estimate


def main() -> int:
    """Measure, print, write, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=KERNELS, metavar="INSTRUCTION:LEVEL:ROLE")
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--beside", type=Path, help="JSON file of another process, the same kernels")
    parser.add_argument("--rounds", type=int, default=4, help="launches of each variant (default: 4)")
    parser.add_argument("--kernel", type=float, default=0.3, help="duration of a kernel, s (default: 0.3)")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        raise InputError(f"--rounds {arguments.rounds} must be at least 2")
    for name in arguments.kernels:
        kernel_of(name)
    beside_w = _read_powers(arguments.beside, arguments.kernels) if arguments.beside else None
    began = datetime.now(UTC)
    with ExitStack() as stack:
        gpus = [stack.enter_context(closing(open_gpu(arguments.gpu))) for _ in range(2)]
        info = gpus[0].info
        kernels = [kernel_of(name) for name in arguments.kernels]
        launches = [calibrated_launch(gpus[0], *kernel, arguments.kernel) for kernel in kernels]
        rows = [instruction for instruction, _, _ in kernels]
        power_w, temperature_c = _powers(gpus, launches, rows, arguments.rounds)
    found = differences(arguments.kernels, power_w)
    print(f"{info.name}, driver {info.driver}, board {info.uuid_hash}: {arguments.rounds} rounds")
    for one in found:
        print(
            f"{one.kernel:32} copy {one.copy} seed {one.seed} {one.power_w:8.2f} W"
            f"  {one.power_percent.mean:+.3f} ± {one.power_percent.ci95:.3f}%"
        )
    if beside_w is not None:
        factor, away = of_another_process(beside_w, power_w)
        print(
            f"this process: factor {_PERCENT * (factor - 1):+.2f}%, beside it median {np.median(away):.2f}%"
        )
        print(f"at most {away.max():.2f}% ({arguments.kernels[int(away.argmax())]})")
    if arguments.out is not None:
        manifest = {
            "gpu": codec.encode(info),
            **made_by(Path(__file__).parents[2], began),
            "arguments": {"rounds": arguments.rounds, "kernel_s": arguments.kernel},
            "kernels": list(arguments.kernels),
        }
        readings = {"power_w": power_w.tolist(), "temperature_c": temperature_c.tolist()}
        document = {"manifest": manifest, "differences": codec.encode(found), **readings}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(arguments.out, json.dumps(document, indent=1) + "\n")
    return 0


def kernel_of(name: str) -> tuple[Instruction, OptLevel, Role]:
    """Return what a kernel's name says.

    Raises:
        InputError: There is no such instruction, level or role.
    """
    try:
        instruction, level, role = name.rsplit(":", 2)
        return find_instruction(instruction), OptLevel(level), Role(role)
    except ValueError as problem:
        raise InputError(f"kernel {name!r}: say INSTRUCTION:LEVEL:ROLE, as fma.rn.f32:O3:target") from problem


def differences(kernels: Sequence[str], power_w: Floats) -> list[Difference]:
    """Compare every variant with the first, round by round.

    Args:
        kernels: Their names.
        power_w: Power of each launch, shape (rounds, kernels, variants).
    """
    return [
        Difference(
            kernel,
            *variant,
            float(power_w[:, row, column].mean()),
            estimate((power_w[:, row, column] / power_w[:, row, 0] - 1) * _PERCENT),
        )
        for row, kernel in enumerate(kernels)
        for column, variant in enumerate(VARIANTS)
    ]


def of_another_process(first_w: Floats, second_w: Floats) -> tuple[float, Floats]:
    """Compare the powers of the same kernels in two processes.

    Args:
        first_w: Powers of one process, shape (rounds, kernels, variants).
        second_w: Powers of the other.

    Returns:
        The factor that all kernels share, and by how many percent each is off beside it, shape (kernels,).
    """
    ratios = np.median(second_w, axis=(0, 2)) / np.median(first_w, axis=(0, 2))
    factor = float(np.median(ratios))
    return factor, np.abs(ratios / factor - 1) * _PERCENT


def _read_powers(path: Path, kernels: Sequence[str]) -> Floats:
    """Return the powers that another process wrote.

    Raises:
        InputError: The file cannot be read, or is of other kernels.
    """
    try:
        document = json.loads(path.read_text())
        same = document["manifest"]["kernels"] == list(kernels)
        power_w = np.array(document["power_w"], dtype=np.float64)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InputError(f"{path}: no result of kernel_variants.py ({problem})") from problem
    if not same:
        raise InputError(f"{path}: other kernels; name the same ones")
    return power_w


def _powers(
    gpus: Sequence[Gpu], launches: Sequence[Launch], rows: Sequence[Instruction], rounds: int
) -> tuple[Floats, Floats]:
    """Return power and temperature of each launch, shape (rounds, kernels, variants), after a first round."""
    power_w, temperature_c = (np.full((rounds + 1, len(launches), len(VARIANTS)), np.nan) for _ in range(2))
    order = np.random.default_rng(1)
    drawn = [{seed: operand_bytes(row, Pattern.RANDOM, seed) for _, seed in VARIANTS} for row in rows]
    for turn in range(rounds + 1):
        for row, launch in enumerate(launches):
            # The first launch of a kernel settles the temperature.
            gpus[0].run(launch)
            for column in order.permutation(len(VARIANTS)):
                copy, seed = VARIANTS[column]
                run = gpus[copy].run(replace(launch, operands=(drawn[row][seed],)))
                power_w[turn, row, column] = settled_w(gpus[copy], run)
                temperature_c[turn, row, column] = run.after.temperature_c
    return power_w[1:], temperature_c[1:]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"kernel_variants: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
