"""Kinds of launches: those that cannot be told apart but by when they come and what they work on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.core.demangle import demangled
from ptxbench.core.errors import InputError
from ptxbench.devices.step import NodeType, StepNode

# Kernels that wait for another GPU never end where only one of them is launched again.
COMMUNICATES = "nccl|nvshmem|multimem|all_?reduce|all_?gather|reduce_?scatter"
_COMMUNICATES = re.compile(COMMUNICATES, re.IGNORECASE)


@dataclass(frozen=True)
class Kind:
    """Launches of one function, shape and attributes.

    Attributes:
        node: What they have in common.
        instances: Their numbers among the launches of the step, in its order.
    """

    node: StepNode
    instances: tuple[int, ...]

    @property
    def calls(self) -> int:
        """Launches a step."""
        return len(self.instances)

    @property
    def name(self) -> str:
        """Its name as it is written in the program; of a copy with its size."""
        if self.node.type is NodeType.KERNEL:
            return demangled(self.node.name)
        return f"{self.node.name}, {_size_text(self.node.size)}"


def kinds_of(nodes: Sequence[StepNode]) -> tuple[Kind, ...]:
    """Return the kinds of launches of a step, in the order in which they first come."""
    instances: dict[StepNode, list[int]] = {}
    for number, node in enumerate(nodes):
        instances.setdefault(node, []).append(number)
    return tuple(Kind(node, tuple(numbers)) for node, numbers in instances.items())


def with_fills(nodes: Sequence[StepNode], number: int) -> tuple[int, ...]:
    """Return a launch behind the fills of memory that come directly before it in the step.

    They are there for it: a counter by which blocks share out their work, or that tells the last one, is
    zeroed. Launched again without, a kernel ends at once.

    Args:
        nodes: The launches of the step.
        number: The number of the launch.
    """
    first = number
    if nodes[number].type is NodeType.KERNEL:
        while first and nodes[first - 1].type is NodeType.FILL:
            first -= 1
    return tuple(range(first, number + 1))


def require_alone(kinds: Sequence[Kind]) -> None:
    """Refuse a step that works together with other GPUs.

    Raises:
        InputError: A kernel of it waits for another GPU.
    """
    for kind in kinds:
        if kind.node.type is NodeType.KERNEL and _COMMUNICATES.search(kind.node.name):
            raise InputError(
                f"{kind.name} may wait for another GPU, which nothing launches again: profile a step of one"
                " GPU, or measure the program by `ptxbench run`"
            )


def _size_text(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
