"""What the variants of a user's kernel compute, as a folder of tuning names it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelProblem:
    """A user's kernel with its arguments.

    Attributes:
        kernel: Its name.
        axes: Names of its axes.
        digest: Hash of the specification and of its sources.
    """

    kernel: str
    axes: tuple[str, ...]
    digest: str

    @property
    def title(self) -> str:
        """What pictures and tables call it."""
        return self.kernel

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what differs between variants."""
        return self.axes
