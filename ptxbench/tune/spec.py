"""A user's kernel to tune: its source, search space, launch, arguments and reference."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.expression import Expression, Value

SOURCES = (".cu", ".ptx", ".cubin", ".cu.j2", ".ptx.j2")
FILLS = ("random", "zeros", "ones", "index")
ROLES = ("input", "output", "inout")
# numpy functions by which a result can be checked, with how many arrays they take.
CHECKS = {"sum": 1, "max": 1, "min": 1, "copy": 1, "add": 2, "multiply": 2, "dot": 2, "matmul": 2}
# What `trips` calls the loops that it does not number.
OTHER_LOOPS = "default"
METRICS = ("time_s", "energy_j", "power_w", "flops", "clock_mhz")
# Values of one axis: what is beyond is a slip, and would fill the memory; chosen.
_MAX_COMBINATIONS = 1_000_000
_TEXT_VALUE = re.compile(r"[A-Za-z_]\w*\Z")


# What the expression of a range's next value calls the present value, and the one before it (0 at first).
VALUE, BEFORE = "value", "before"


@dataclass(frozen=True)
class Range:
    """The values of an axis from one bound to another, which may depend on axes before it.

    Attributes:
        first: First value.
        last: Last value, at most.
        step: What is added from one to the next.
        factor: By what one is multiplied for the next.
        following: The next value, by `VALUE` and `BEFORE`; one of these three is given.
    """

    first: Expression
    last: Expression
    step: Expression | None = None
    factor: Expression | None = None
    following: Expression | None = None

    def of(self, values: Mapping[str, Value]) -> tuple[int, ...]:
        """Return the values, given those of the axes before.

        Raises:
            InputError: A bound is no whole number, or the range does not grow.
        """
        at, last = self.first.whole(values, -(2**31)), self.last.whole(values, -(2**31))
        step = self.step.whole(values, 1) if self.step else 0
        factor = self.factor.whole(values, 2) if self.factor else 1
        if factor > 1 and at < 1:
            raise InputError(f"{self.first.place}: a range with a factor must begin at 1 or above, not {at}")
        found: list[int] = []
        while at <= last:
            found.append(at)
            if len(found) > _MAX_COMBINATIONS:
                raise InputError(f"{self.first.place}: over {_MAX_COMBINATIONS} values")
            following = at * factor + step
            if self.following is not None:
                held = {VALUE: at, BEFORE: found[-2] if len(found) > 1 else 0}
                following = self.following.whole({**values, **held}, -(2**31))
                if following < at:
                    raise InputError(
                        f"{self.first.place}: the next value after {at} is {following}, which is less"
                    )
                if following == at and len(found) > 1:
                    break
            at = following
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Divisors:
    """The divisors of a number, which may depend on axes before, as the values of an axis.

    Attributes:
        number: The number.
    """

    number: Expression

    def of(self, values: Mapping[str, Value]) -> tuple[int, ...]:
        """Return the values, given those of the axes before.

        Raises:
            InputError: It is no whole number from 1, or too large.
        """
        number = self.number.whole(values, 1)
        if number > _MAX_COMBINATIONS:
            raise InputError(
                f"{self.number.place}: {number} is over {_MAX_COMBINATIONS}, whose divisors are sought"
            )
        small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
        return tuple(sorted({*small, *(number // one for one in small)}))


@dataclass(frozen=True)
class Closure:
    """A function that gives the values of an axis (Anzt et al. 2015, 2.1), from Python alone.

    Attributes:
        function: Is given sizes and the values of the axes before, by name.
        place: Where it stands, for messages.
    """

    function: Callable[[Mapping[str, Value]], Iterable[Value]]
    place: str

    def of(self, values: Mapping[str, Value]) -> tuple[Value, ...]:
        """Return the values, given those of the axes before.

        Raises:
            InputError: One is neither a number nor a plain word, or there are too many.
        """
        found = dict.fromkeys(itertools.islice(self.function(dict(values)), _MAX_COMBINATIONS + 1))
        if len(found) > _MAX_COMBINATIONS:
            raise InputError(f"{self.place}: over {_MAX_COMBINATIONS} values")
        return tuple(plain_value(value, self.place) for value in found)


def plain_value(value: object, place: str) -> Value:
    """Return a value of an axis.

    Raises:
        InputError: It is neither a number nor a plain word.
    """
    if isinstance(value, str) and _TEXT_VALUE.match(value):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise InputError(f"{place}: {value!r} is neither a number nor a plain word")


@dataclass(frozen=True)
class Axis:
    """One axis of the search space.

    Attributes:
        name: Name in the source and in expressions.
        values: A list of values, or what gives them.
    """

    name: str
    values: tuple[Value, ...] | Range | Divisors | Closure

    def of(self, before: Mapping[str, Value]) -> tuple[Value, ...]:
        """Return its values, given those of the axes before."""
        return self.values if isinstance(self.values, tuple) else self.values.of(before)


@dataclass(frozen=True)
class Array:
    """An argument that is an array in the GPU's memory.

    Attributes:
        name: Its name.
        dtype: One of `ptxbench.tune.element.DTYPES`.
        shape: Sizes, the slowest first.
        fill: What is in it at the beginning, one of `FILLS`.
        role: One of `ROLES`.
        seed: Of random contents; added to the run's.
        data: A numpy array that it holds at the beginning, in the place of `fill`; None: there is none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: str
    role: str
    seed: int
    data: Any = None


@dataclass(frozen=True)
class Scalar:
    """An argument that is a number.

    Attributes:
        name: Its name.
        dtype: One of `ptxbench.tune.element.SCALAR_DTYPES`.
        value: May depend on the axes.
    """

    name: str
    dtype: str
    value: Expression


@dataclass(frozen=True)
class Shape:
    """Grid, block and dynamic shared memory of a launch, each of one to three sizes."""

    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared_bytes: Expression


@dataclass(frozen=True)
class Source:
    """Code of a kernel.

    Attributes:
        path: File that it is from.
        code: Its bytes.
        entry: Name of the kernel in it; in CUDA also an expression, such as "ns::softmax<float, BLOCK>".
        options: What nvcc is told beside the values; {NAME} in it stands for a value.
        assembler_options: What ptxas is told, likewise.
    """

    path: Path
    code: bytes
    entry: str
    options: tuple[str, ...] = ()
    assembler_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelReference:
    """Another kernel with the same arguments, whose results are right."""

    source: Source
    shape: Shape


@dataclass(frozen=True)
class FunctionReference:
    """A numpy function of some of the arguments, computed in float64."""

    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class StoredReference:
    """Results that are there already, by the argument that they are of: files, or arrays."""

    results: Mapping[str, Any]


@dataclass(frozen=True)
class NoReference:
    """Nobody says what is right: no result is compared."""


Reference = KernelReference | FunctionReference | StoredReference | NoReference


@dataclass(frozen=True)
class _Step:
    """What follows once one more axis has a value."""

    derived: tuple[tuple[str, Expression], ...]
    filters: tuple[Expression, ...]


_REFUSED = Configuration(())


@dataclass(frozen=True, eq=False)
class Combinations:
    """The search space: axes whose ranges and filters may depend on those before.

    Attributes:
        sizes: Constants.
        axes: The axes.
        derived: Values that follow from sizes and axes, in order.
        filters: What a combination must meet.
    """

    sizes: Mapping[str, Value]
    axes: tuple[Axis, ...]
    derived: tuple[tuple[str, Expression], ...]
    filters: tuple[Expression, ...]

    def all(self) -> Iterator[tuple[Configuration, Expression | None]]:
        """Yield each combination of the axes and None, or `Configuration(())` and the filter that refuses it.

        A filter is checked as soon as the axes that it needs have values: what it refuses then stands for all
        combinations of the axes behind, so that large spaces are walked through fast (Anzt et al. 2015, 2.3).

        Raises:
            InputError: There are too many, or an expression has no value.
        """
        for count, (chosen, refused) in enumerate(self._combinations({}, {**self.sizes}, 0, self._order())):
            if count >= _MAX_COMBINATIONS:
                raise InputError(f"the axes have over {_MAX_COMBINATIONS} combinations; take fewer values")
            yield Configuration.of(chosen) if refused is None else _REFUSED, refused

    def _combinations(
        self, chosen: dict[str, Value], values: dict[str, Value], depth: int, order: Sequence[_Step]
    ) -> Iterator[tuple[dict[str, Value], Expression | None]]:
        values = dict(values)
        for name, expression in order[depth].derived:
            values[name] = expression.value(values)
        refused = next((one for one in order[depth].filters if not one.value(values)), None)
        if refused is not None or depth == len(self.axes):
            yield chosen, refused
            return
        axis = self.axes[depth]
        for value in axis.of(values):
            known = {**values, axis.name: value}
            yield from self._combinations({**chosen, axis.name: value}, known, depth + 1, order)

    def _order(self) -> tuple[_Step, ...]:
        """Return what is worked out once so many axes have values: none, one, and so on."""
        depth_of: dict[str, int] = {**dict.fromkeys(self.sizes, 0)}
        depth_of |= {axis.name: n for n, axis in enumerate(self.axes, start=1)}
        derived: list[list[tuple[str, Expression]]] = [[] for _ in range(len(self.axes) + 1)]
        filters: list[list[Expression]] = [[] for _ in range(len(self.axes) + 1)]
        for name, expression in self.derived:
            depth_of[name] = max((depth_of[one] for one in expression.names), default=0)
            derived[depth_of[name]].append((name, expression))
        for one in self.filters:
            filters[max((depth_of[name] for name in one.names), default=0)].append(one)
        return tuple(_Step(tuple(d), tuple(f)) for d, f in zip(derived, filters, strict=True))


@dataclass(frozen=True)
class KernelSpec:
    """A kernel to tune.

    Attributes:
        name: Its name in reports.
        source: Its code.
        sizes: Constants.
        axes: The search space.
        derived: Values that follow from sizes and axes, in order.
        filters: What a variant must meet.
        shape: Its launch.
        arguments: In the order of the kernel's parameters.
        reference: What is right.
        rtol: How far a result may be off, relative to it; NaN: by its type.
        atol: How far off besides; NaN: by the results' root mean square.
        flops: Floating-point operations of a launch, or None.
        dram_bytes: Bytes between memory and L2 in a launch, or None.
        l2_bytes: Bytes between L2 and the SMs, or None.
        trips: Trip counts of loops whose code does not show them, by number, or "default".
        metric: The user's own objective, or None.
        metrics: Figures of the user's own that each trial gets, by name.
        digest: Hash of all of it and of its sources.
    """

    name: str
    source: Source
    sizes: Mapping[str, Value]
    axes: tuple[Axis, ...]
    derived: tuple[tuple[str, Expression], ...]
    filters: tuple[Expression, ...]
    shape: Shape
    arguments: tuple[Array | Scalar, ...]
    reference: Reference
    rtol: float
    atol: float
    flops: Expression | None
    dram_bytes: Expression | None
    l2_bytes: Expression | None
    trips: Mapping[str, Expression]
    metric: Expression | None
    metrics: tuple[tuple[str, Expression], ...]
    digest: str

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arguments that are arrays."""
        return tuple(one for one in self.arguments if isinstance(one, Array))

    def values(self, configuration: Configuration) -> dict[str, Value]:
        """Return every name's value for a variant: sizes, axes, derived.

        Raises:
            InputError: A derived value has none.
        """
        values = {**self.sizes, **configuration.by_axis}
        for name, expression in self.derived:
            values[name] = expression.value(values)
        return values

    def variants(self) -> Iterator[tuple[Configuration, Expression | None]]:
        """Yield each combination of the axes; see `Combinations.all`."""
        return Combinations(self.sizes, self.axes, self.derived, self.filters).all()
