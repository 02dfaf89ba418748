"""A user's kernel by its axes, and one variant of it: a value for each axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptxbench.tune.expression import Value


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


@dataclass(frozen=True)
class Setting:
    """The value of one axis.

    Attributes:
        axis: Name of the axis.
        text: Its value, as it is written.
    """

    axis: str
    text: str

    @property
    def value(self) -> Value:
        """The value: a number where the text is one."""
        for kind in (int, float):
            try:
                return kind(self.text)
            except ValueError:
                pass
        return self.text


@dataclass(frozen=True)
class Configuration:
    """A value for each axis.

    Attributes:
        settings: In the order of the axes.
    """

    settings: tuple[Setting, ...]

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Configuration:
        """Return the configuration of values by axis."""
        return cls(tuple(Setting(axis, str(value)) for axis, value in values.items()))

    @property
    def name(self) -> str:
        """Its values in short, such as "bx=32 by=4"."""
        return " ".join(f"{one.axis}={one.text}" for one in self.settings)

    @property
    def values(self) -> tuple[Value, ...]:
        """Its values, in the order of the axes."""
        return tuple(one.value for one in self.settings)

    @property
    def by_axis(self) -> dict[str, Value]:
        """Its values by axis."""
        return {one.axis: one.value for one in self.settings}
