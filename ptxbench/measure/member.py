"""A unit as a member of a batch: in which launch shape it is measured, and how often it was begun before."""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.errors import LaunchError
from ptxbench.gpu.protocol import Gpu, OptLevel
from ptxbench.measure.dynamic import WARP
from ptxbench.measure.unit import LoadedUnit, Unit
from ptxbench.store.schema import Role

# One block an SM, in step by its barrier. At O3 32 warps of several chains each keep the pipes full; at
# O0 every warp waits some 15 cycles after each instruction, and with more than two warps a scheduler
# they collide in ways that differ by SM, so that some SMs end long before the others.
BLOCK = {OptLevel.O0: 256, OptLevel.O3: 1024}
# Where the GPU throttles, the unit is begun again on so many of its SMs.
SHARES = (1.0, 0.75, 0.5, 0.25)


@dataclass(frozen=True)
class Member:
    """A unit of a batch.

    Attributes:
        loaded: What is measured.
        check_linearity: Whether N copies are checked against 2N.
        attempt: How often it was begun before, on more SMs.
    """

    loaded: LoadedUnit
    check_linearity: bool
    attempt: int = 0

    @property
    def unit(self) -> Unit:
        """The unit."""
        return self.loaded.unit

    def block(self, gpu: Gpu) -> int:
        """Return the threads of a block: those of the level, or so many as the registers allow.

        Raises:
            LaunchError: The kernels need more registers than even one warp can have.
        """
        roles = (Role.TARGET, Role.TARGET_2N) if self.check_linearity else (Role.TARGET,)
        own = self.unit.instruction.block
        block = own or BLOCK[self.unit.opt_level]
        while not all(gpu.blocks_per_sm(self.loaded.cubin, role, block) for role in roles):
            # A family that needs its block cannot do with less.
            if own or block <= WARP:
                raise LaunchError(f"a target kernel needs more registers than {block} threads can have")
            block //= 2
        return block

    def grid(self, sm_count: int) -> int:
        """Return the blocks of this attempt: one for each SM that takes part."""
        return max(1, round(SHARES[self.attempt] * sm_count))
