"""The block sizes of a user's kernel, and the strategy that tries few of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import occupancy
from ptxbench.core.errors import InputError
from ptxbench.tune.blocks.guerreiro import (
    HIGH_OCCUPANCY,
    Choice,
    ConcurrentCost,
    ordered_distributions,
    tune_blocks,
)
from ptxbench.tune.candidate import Candidate
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.kernel import Refused
from ptxbench.tune.objective import Goal, first_valid
from ptxbench.tune.search import Evaluator, build_ahead
from ptxbench.tune.space import Space
from ptxbench.tune.user_kernel import BuiltKernel, UserKernel

# The block size that a choice is compared with.
DEFAULT_THREADS = 256


@dataclass(frozen=True)
class BlockVariant:
    """A variant that stands for its block shape.

    Attributes:
        variant: Its values.
        threads: Threads of a block.
        occupancy: By Eq. 5, 0 to 1.
        kernel: Its machine code.
    """

    variant: Configuration
    threads: int
    occupancy: float
    kernel: BuiltKernel


def block_variants(kernel: UserKernel, target: str, jobs: int) -> tuple[BlockVariant, ...]:
    """Return one variant for each block shape of a kernel: the first in the order of the axes.

    Other axes hold their first value then, as far as the filters let them. What does not compile, or fits no
    SM, is left out.

    Args:
        kernel: The kernel.
        target: Such as "sm_90a".
        jobs: Compilers at once.

    Raises:
        InputError: No block shape is left.
        ToolError: nvcc, ptxas or nvdisasm is missing.
    """
    spec = kernel.spec
    shapes: dict[tuple[int, ...], Configuration] = {}
    for variant in kernel.space(target).variants:
        assert isinstance(variant, Configuration)  # noqa: S101 - a user's kernel has no others
        values = spec.values(variant)
        shapes.setdefault(tuple(one.whole(values, 1) for one in spec.shape.block), variant)
    found, limits, reasons = [], sm_facts(target), []
    for built in build_ahead(kernel, list(shapes.values()), target, jobs):
        one = built.kernel
        if isinstance(one, BuiltKernel):
            needs = one.needs
            found.append(BlockVariant(one.variant, needs.threads, occupancy(needs, limits), one))
        elif isinstance(one, Refused):
            reasons.append(one.reason)
    if not found:
        why = f": {reasons[0]}" if reasons else ""
        raise InputError(f"no block size of {spec.name} compiles and fits an SM of {target}{why}")
    return tuple(found)


def default_block(variants: Sequence[BlockVariant]) -> BlockVariant:
    """Return the variant of 256 threads, or of the size that is nearest to that."""
    return min(variants, key=lambda one: abs(math.log2(one.threads / DEFAULT_THREADS)))


def search_blocks(
    kernel: UserKernel, space: Space, evaluator: Evaluator, goal: Goal, over: float = HIGH_OCCUPANCY
) -> None:
    """Try block sizes by Algorithm 1 of Guerreiro et al. (2015), with several SM clocks by Algorithm 2.

    Args:
        kernel: The kernel.
        space: Its variants, and the clocks that they may be tried at.
        evaluator: Tries them.
        goal: What is made small.
        over: Occupancy over which a block size is tried.

    Raises:
        InputError: No block size is left, or something else than the SM clock is to be set.
        GpuError: The GPU stopped answering.
    """
    by_clock = {one.sm_clock_mhz or 0: one for one in space.settings}
    if len(by_clock) < len(space.settings):
        raise InputError("guerreiro chooses block size and SM clock; leave other clocks and limits out")
    ordered = ordered_distributions(block_variants(kernel, space.target, evaluator.jobs), over)

    def run(choice: Choice, clock_mhz: int) -> ConcurrentCost:
        for trial in evaluator.trials([Candidate(ordered[choice[0]].variant, by_clock[clock_mhz])]):
            reference = first_valid(evaluator.folder.trials.values())
            return ConcurrentCost(goal.cost(trial, reference) if reference else math.inf, (1.0,))
        return ConcurrentCost(math.inf, (1.0,))  # the budget is spent

    tune_blocks([len(ordered)], run, list(by_clock))
