"""In which grid and block a subject is launched, and on how many SMs."""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.analysis.subject import Subject
from ptxbench.core.errors import LaunchError
from ptxbench.core.threads import WARP
from ptxbench.devices.base import Gpu
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.storage.schema import Role

# Threads of a block, in step by its barrier: warps enough to keep the pipes full at O3; and at O0, where
# every warp waits some 15 cycles after each instruction, to make the instruction a large part of the power.
BLOCK = 1024
# Blocks a SM, one after the other (or two by two): warps collide in ways that differ by SM, and with one
# block each some SMs would end long before the others. As it is, the next block goes to whichever is free.
WAVES = 48
# Where the GPU throttles, the subject is started again on so many of its SMs.
SHARES = (1.0, 0.75, 0.5, 0.25)


@dataclass(frozen=True)
class LaunchConfiguration:
    """A subject with the grid and block that its kernels are launched in.

    Attributes:
        prepared: What is measured.
        check_linearity: Whether N copies are checked against 2N.
        attempt: How often the subject was started before, on more SMs.
    """

    prepared: BuiltKernels
    check_linearity: bool
    attempt: int = 0

    @property
    def subject(self) -> Subject:
        """What is measured."""
        return self.prepared.subject

    def block(self, gpu: Gpu) -> int:
        """Return the threads of a block: its family's, or so many as the registers allow.

        Raises:
            LaunchError: The kernels need more registers than even one warp can have.
        """
        roles = (Role.TARGET, Role.TARGET_2N) if self.check_linearity else (Role.TARGET,)
        own = self.subject.instruction.block
        block = own or BLOCK
        while not all(gpu.blocks_per_sm(self.prepared.cubin, role, block) for role in roles):
            # A family that needs its block cannot do with less.
            if own or block <= WARP:
                raise LaunchError(f"a target kernel needs more registers than {block} threads can have")
            block //= 2
        return block

    def grid(self, sm_count: int) -> int:
        """Return the blocks of this attempt: one for each SM that takes part, or `WAVES` where all do.

        A family with a block of its own works on memory that is sized for one block an SM.
        """
        if self.attempt == 0 and not self.subject.instruction.block:
            return WAVES * sm_count
        return max(1, round(SHARES[self.attempt] * sm_count))
