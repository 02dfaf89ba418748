"""How often each opcode of a kernel with one loop is executed, from its SASS alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ptxbench.sass.loop import find_loop
from ptxbench.sass.program import Loop, SassInstruction, SassKernel


@dataclass(frozen=True)
class LoopedKernel:
    """A kernel as straight code and the one loop in it.

    Attributes:
        once: What one warp executes once, before the loop and after it.
        loop: What it executes once a trip.
    """

    once: Loop
    loop: Loop

    def executed(self, trips: int) -> Counter[str]:
        """Return how often one warp executes each opcode in a run of `trips` trips.

        An instruction whose guard is false counts too, as it is issued.
        """
        counts = Counter(self.once.counts)
        for opcode, n in self.loop.counts.items():
            counts[opcode] += n * trips
        return counts


def looped_kernel(kernel: SassKernel) -> LoopedKernel:
    """Take a kernel apart into its loop and the rest.

    What stands behind the last EXIT (a trap, padding) is never reached, and what is guarded by @!PT never
    takes place: both are left out.

    Raises:
        LoopError: It has no loop, or more than one.
    """
    loop = find_loop(kernel)
    inside = {i.address for i in loop.instructions}
    end = max((i.address for i in kernel.instructions if i.base == "EXIT"), default=0)
    once = [i for i in kernel.instructions if i.address not in inside and i.address <= end]
    return LoopedKernel(_real(once), _real(loop.instructions))


def _real(instructions: tuple[SassInstruction, ...] | list[SassInstruction]) -> Loop:
    return Loop(tuple(i for i in instructions if i.predicate != "@!PT"))
