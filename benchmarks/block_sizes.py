"""How often Algorithms 1 to 4 of Guerreiro et al. (2015) come within 5% of the best of all runs: SIMULATED.

    python benchmarks/block_sizes.py [--cases 200] [--noise 0.002] [--patience 1]

Kernels are drawn at random: what a thread executes, its registers, shared memory by thread, and how many
threads there are. Each has up to ten block sizes. Alone and two at once they run on a simulated H200 whose
voltage is flat below 1200 MHz, at one clock or at eight. The algorithms see costs with noise; they are judged
by the best of all block sizes and clocks. "saved" is against blocks of 256 threads at
the highest clock.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import BlockNeeds, Residency, residency
from ptxbench.devices.simulated.concurrent_kernels import CountedKernel, plan_round
from ptxbench.devices.simulated.governor import dynamic_factor
from ptxbench.devices.simulated.load import find_profile
from ptxbench.devices.simulated.timing import resident_blocks
from ptxbench.tune.blocks.guerreiro import (
    ConcurrentCost,
    ordered_distributions,
    tune_blocks,
)

PROFILE = find_profile("h200-ridge")
CLOCKS_MHZ = (1980, 1740, 1500, 1365, 1260, 1125, 990, 855)
SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
DEFAULT_THREADS = 256
WITHIN = 0.05
_OPCODES = ("FFMA", "MUFU", "LDG.E", "LDS", "IADD3", "DFMA", "HFMA2")
_REGISTERS = (16, 24, 32, 40, 48, 64, 96, 128)
_SHARED_BYTES = (0, 0, 0, 16, 40, 100)


@dataclass(frozen=True)
class Run:
    """The truth of a run of kernels at once: its time, its energy, and when each kernel ends."""

    time_s: float
    energy_j: float
    kernel_s: tuple[float, ...]


@dataclass(frozen=True)
class Sized:
    """One kernel with one block size."""

    kernel: CountedKernel
    resident: Residency

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.kernel.threads

    @property
    def occupancy(self) -> float:
        """By Eq. 5."""
        return self.resident.occupancy


def draw_kernel(rng: np.random.Generator) -> tuple[Sized, ...]:
    """Return a kernel at random, with every block size that fits."""
    chosen = rng.choice(len(_OPCODES), size=3, replace=False)
    executed = tuple((_OPCODES[n], float(round(math.exp(rng.uniform(3, 8))))) for n in chosen)
    registers, by_thread = int(rng.choice(_REGISTERS)), int(rng.choice(_SHARED_BYTES))
    total = round(math.exp(rng.uniform(math.log(2**16), math.log(2**21))))
    limits = sm_facts(PROFILE.chip.target)
    found = []
    for threads in SIZES:
        shared_bytes = by_thread * threads
        held = resident_blocks(registers, threads, PROFILE, shared_bytes)
        if held:
            kernel = CountedKernel(
                executed, "random", -(-total // threads), threads, held, registers, shared_bytes
            )
            found.append(Sized(kernel, residency(BlockNeeds(threads, registers, shared_bytes), limits)))
    return tuple(found)


def make_truth() -> Callable[[tuple[Sized, ...], int], Run]:
    """Return what gives the truth of a combination of block sizes at a clock; each is planned once."""
    chip, static_w = PROFILE.chip, PROFILE.board.static_w
    planned = cache(lambda chosen: plan_round([one.kernel for one in chosen], PROFILE))

    def run(chosen: tuple[Sized, ...], clock_mhz: int) -> Run:
        round_ = planned(chosen)
        relative = clock_mhz / chip.clock_mhz
        time_s = round_.phase.cycles / (clock_mhz * 1e6)
        voltage_squared = dynamic_factor(relative, chip.ridge_mhz / chip.clock_mhz) / relative
        # The power cap is left out.
        energy_j = static_w * time_s + voltage_squared * round_.phase.energy_j
        return Run(time_s, energy_j, tuple(end / (clock_mhz * 1e6) for end in round_.end_cycles))

    return run


@dataclass(frozen=True)
class Judged:
    """One case of one algorithm.

    Attributes:
        gap: Cost of its choice over the best of all, less 1.
        high_gap: The least cost of any block sizes of high occupancy over the best of all, less 1.
        iterations: Runs that it made.
        possible: Runs that there are.
        saved: Share of the default's cost that is saved.
    """

    gap: float
    high_gap: float
    iterations: int
    possible: int
    saved: float


def judge(
    kernels: Sequence[tuple[Sized, ...]],
    clocks_mhz: Sequence[int],
    cost: Callable[[Run], float],
    noise: float,
    patience: int,
    rng: np.random.Generator,
) -> Judged:
    """Run an algorithm on kernels at once, and compare it with every run."""
    truth = make_truth()
    ordered = [ordered_distributions(one) for one in kernels]

    def measured(choice: tuple[int, ...], clock_mhz: int) -> ConcurrentCost:
        run = truth(tuple(of[n] for of, n in zip(ordered, choice, strict=True)), clock_mhz)
        return ConcurrentCost(cost(run) * (1 + noise * rng.standard_normal()), run.kernel_s)

    counts = [len(one) for one in ordered]
    found = tune_blocks(counts, measured, clocks_mhz, patience)
    chosen = tuple(of[n] for of, n in zip(ordered, found.choice, strict=True))
    of_chosen = cost(truth(chosen, found.clock_mhz))

    def best(sizes: Sequence[Sequence[Sized]]) -> float:
        return min(cost(truth(one, clock)) for one in itertools.product(*sizes) for clock in clocks_mhz)

    of_best = best(kernels)
    default = tuple(min(of, key=lambda one: abs(math.log(one.threads / DEFAULT_THREADS))) for of in kernels)
    return Judged(
        gap=of_chosen / of_best - 1,
        high_gap=best(ordered) / of_best - 1,
        iterations=found.iterations,
        possible=math.prod(map(len, kernels)) * len(clocks_mhz),
        saved=1 - of_chosen / cost(truth(default, max(clocks_mhz))),
    )


def main() -> None:
    """Print a row for each algorithm, number of kernels and cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200, help="cases of single kernels")
    parser.add_argument("--noise", type=float, default=0.002, help="relative noise of a run's cost")
    parser.add_argument(
        "--patience", type=int, default=1, help="sizes no better that end a search; the paper: 1"
    )
    arguments = parser.parse_args()
    print(f"SIMULATED: {PROFILE.title}; costs with {arguments.noise:.1%} noise, judged by the hidden truth")
    print("| algorithm | kernels | cost | cases | within 5% | median gap | worst gap"
          " | high occupancy holds one within 5% | runs | of | saved |")  # fmt: skip
    print("| --- |" + " ---: |" * 10)
    costs: dict[str, Callable[[Run], float]] = {"time": lambda r: r.time_s, "energy": lambda r: r.energy_j}
    plan = [
        (1, 1, "time", False, 1.0), (1, 1, "energy", False, 1.0), (2, 1, "energy", True, 1.0),
        (3, 2, "time", False, 0.5), (3, 2, "energy", False, 0.5), (4, 2, "energy", True, 0.5),
    ]  # fmt: skip
    for algorithm, count, name, with_clocks, share in plan:
        # The same kernels whatever the algorithm asks for.
        rng, noise_rng = np.random.default_rng(1), np.random.default_rng(2)
        cases = max(2, round(share * arguments.cases))
        judged = []
        while len(judged) < cases:
            kernels = [draw_kernel(rng) for _ in range(count)]
            if all(kernels):
                clocks = CLOCKS_MHZ if with_clocks else CLOCKS_MHZ[:1]
                judged.append(
                    judge(kernels, clocks, costs[name], arguments.noise, arguments.patience, noise_rng)
                )
        gaps = np.array([one.gap for one in judged])
        print(
            f"| {algorithm} | {count} | {name} | {cases} | {np.mean(gaps <= WITHIN):.0%}"
            f" | {np.median(gaps):.1%} | {gaps.max():.0%}"
            f" | {np.mean([one.high_gap <= WITHIN for one in judged]):.0%}"
            f" | {np.mean([one.iterations for one in judged]):.1f}"
            f" | {np.mean([one.possible for one in judged]):.0f}"
            f" | {np.mean([one.saved for one in judged]):.1%} |"
        )


if __name__ == "__main__":
    main()
