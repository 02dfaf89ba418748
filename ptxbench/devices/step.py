"""A step of a program, captured as a CUDA graph, whose launches can be made again: what every GPU offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

# In an order of launches, beside numbers of nodes: one thread that sleeps; a kernel that does nothing; what
# `Step.keep_changing` kept is written back.
SLEEP, NOTHING, UNDO = -1, -2, -3
SLEEP_NS = 20_000


class NodeType(StrEnum):
    """What a node of the graph does."""

    KERNEL = "kernel"
    COPY = "copy"
    FILL = "fill"


@dataclass(frozen=True)
class StepNode:
    """One launch of a step, by all that tells its kind from others.

    Attributes:
        type: What it does.
        name: Name of the function, mangled; of a copy from where to where.
        function: Tells functions of one name apart: the number of the first node that has it.
        grid: Blocks along x, y and z.
        block: Threads of a block along x, y and z.
        shared_bytes: Dynamic shared memory of a block.
        cluster: Blocks of a cluster along x, y and z; zeros for none.
        is_cooperative: Whether its blocks may wait for each other.
        is_programmatic: Whether it may begin before the one before it has ended.
        priority: Priority of its launch.
        size: Bytes that a copy or a fill writes.
    """

    type: NodeType
    name: str
    function: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (0, 0, 0)
    is_cooperative: bool = False
    is_programmatic: bool = False
    priority: int = 0
    size: int = 0


class Replay(Protocol):
    """Launches in an order, ready to be made."""

    def __call__(self) -> None:
        """Make all of them once, one after the other; do not wait for their end."""
        ...

    def close(self) -> None:
        """Release what they need."""
        ...


class Step(Protocol):
    """A captured step, and the memory that it works on."""

    @property
    def nodes(self) -> tuple[StepNode, ...]:
        """Its launches, in an order in which they can run."""
        ...

    @property
    def created(self) -> tuple[int, ...]:
        """The place of each launch in the order in which they were captured, what is no launch among them."""
        ...

    @property
    def saved_bytes(self) -> int:
        """How much memory `restore` writes."""
        ...

    def whole(self) -> Replay:
        """Return the step as it was captured, with launches side by side where it has them."""
        ...

    def replay(self, order: Sequence[int]) -> Replay:
        """Return launches one after the other, by their numbers in `nodes`, `SLEEP`, `NOTHING` or `UNDO`."""
        ...

    def find_changing(self, order: Sequence[int]) -> int:
        """Make launches twice, and find the memory that the second time changes: they read what they write.

        Returns:
            Its size in bytes; -1 where there is too much memory to look at.
        """
        ...

    def keep_changing(self) -> bool:
        """Keep what that memory holds now, for `UNDO` to write back; return whether there is room for it."""
        ...

    def restore(self) -> None:
        """Let the memory be as it was when the step was opened."""
        ...

    def changed_bytes(self) -> int:
        """Return in how much memory, in bytes, anything differs from when the step was opened."""
        ...

    def close(self) -> None:
        """Release the copy of the memory."""
        ...
