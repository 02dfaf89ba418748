"""Launches of a step of a program that was captured as a CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# In an order of launches, beside numbers of nodes: one thread that sleeps; a kernel that does nothing; what
# `CudaStep.keep_changing` kept is written back.
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
