"""The search space: every combination of the parameters' values that passes the filters."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.storage.file_errors import read_text
from ptxbench.tune.candidate import DEFAULT_SETTINGS, Candidate
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.expression import Value
from ptxbench.tune.filters import Bounds, is_promising, misfit, shape_faults
from ptxbench.tune.spec import Combinations
from ptxbench.tune.spec_file import read_combinations
from ptxbench.tune.variant import OPTIONAL, PARAMETERS, Core, DType, Op, Problem, Variant

# Spaces that are shipped, by their files: ptxbench's own, and that of Anzt et al. (2015), Figure 3 and
# section 2.3.2, with the shared memory of today, and with that of the paper's GPU.
USUAL = "gemm"
SHIPPED = {USUAL: "gemm", "beast": "beast", "beast-kepler": "beast"}
# What the tables of all types of a file share.
_SHARED = ("axes", "derived", "filters", "bounds")
# Of an axis of the templates; chosen.
_MOST = 1024
_WITH_DIGIT = re.compile(r"\S*\d\S*")
_MAY_BE_ZERO = ("pad", "read_a", "read_b", "interleaved")


@dataclass(frozen=True)
class Axes:
    """The values of each parameter, and the bounds on their combinations.

    Attributes:
        dtype: Element type.
        values: Values of each parameter, in the order of `PARAMETERS`; or ranges and filters.
        bounds: Bounds that keep hopeless variants out.
        core: What multiplies.
    """

    dtype: DType
    values: tuple[tuple[int, ...], ...] | Combinations
    bounds: Bounds
    core: Core


@dataclass(frozen=True)
class Space:
    """The variants for one problem on one target.

    Attributes:
        problem: What they compute.
        target: What they run on.
        variants: Those that passed, in the order of the axes.
        settings: Settings of the GPU under each of which a variant may be tried, all of the same kinds.
    """

    problem: Problem | KernelProblem
    target: str
    variants: tuple[Variant | Configuration, ...]
    settings: tuple[GpuSettings, ...] = (DEFAULT_SETTINGS,)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what differs between candidates: the variants' parameters, then the settings'."""
        return (*self.problem.parameters, *self.settings[0].by_axis)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every variant under every setting, the settings changing fastest."""
        return tuple(Candidate(v, settings) for v in self.variants for settings in self.settings)

    def find(self, name: str) -> Variant | Configuration | None:
        """Return the variant called `name`, or None."""
        return next((v for v in self.variants if v.name == name), None)


def load_axes(dtype: DType, space: str | Path = USUAL, core: Core | None = None) -> Axes:
    """Return the axes of one element type.

    Args:
        dtype: Element type.
        space: TOML file, or the name of one that ptxbench ships: one of `SHIPPED`.
        core: What multiplies; None: the usual for the type.

    Raises:
        InputError: The file cannot be read, or a value does not fit.
    """
    core = core or Core.usual(dtype)
    shipped = SHIPPED.get(str(space))
    place = f"{shipped}.toml" if shipped else str(space)
    cure = f"name a TOML file, or {', '.join(SHIPPED)}"
    text = _shipped(place) if shipped else read_text(Path(space), cure)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: the search space cannot be read: {error}; {cure}") from error
    name = str(dtype) if core is Core.usual(dtype) else f"{dtype}-{core}"
    own = document.get(name)
    if not isinstance(own, dict):
        known = ", ".join(key for key in document if key not in (*_SHARED, "limits"))
        what = f"no variant multiplies {dtype} by {core}: " if shipped else ""
        raise InputError(f"{what}{place} has no table [{name}], only {known or 'none'}")
    table = {key: document[key] for key in _SHARED if key in document} | own
    here = f"{place}: [{name}]"
    unknown = set(table) - {*PARAMETERS, *_SHARED, "sizes"}
    if unknown:
        raise InputError(f"{here} has an unknown parameter {sorted(unknown)[0]}")
    if shipped:
        table["sizes"] = {**table.get("sizes", {}), **document.get("limits", {}).get(str(space), {})}
    return Axes(dtype, _checked_axes(table, here), _checked_bounds(table, f"{place}: [{name}.bounds]"), core)


@lru_cache(maxsize=16)
def search_space(problem: Problem, target: str, axes: Axes | None = None) -> Space:
    """Return every variant that can compute a problem on a target and is not hopeless.

    Args:
        problem: What is computed.
        target: Such as "sm_90a".
        axes: Values and bounds (None: those that ptxbench ships).

    Raises:
        InputError: The target is not known, or no variant is left.
    """
    axes = axes or load_axes(problem.dtype)
    ways = problem.op_a, problem.op_b
    few = _combinations(axes, *ways)
    kept = tuple(variant for variant in few if not misfit(variant, problem, target, axes.bounds))
    if not kept:
        every = _shaped(_variants(axes, _each(axes.values)), *ways)
        reasons = [misfit(variant, problem, target, axes.bounds) for variant in every]
        like = Counter(map(_without_numbers, reasons)).most_common(1)
        most = next((one for one in reasons if like[0][0] == _without_numbers(one)), "the axes hold nothing")
        raise InputError(
            f"no variant computes {problem.m} x {problem.n} x {problem.k} {problem.dtype} on {target} "
            f"(most often: {most}); take sizes that are multiples of 8, or other axes by `space`"
        )
    return Space(problem, target, kept)


@cache
def _shipped(name: str) -> str:
    return files("ptxbench.tune.data").joinpath(name).read_text(encoding="utf-8")


@cache
def _combinations(axes: Axes, op_a: Op, op_b: Op) -> tuple[Variant, ...]:
    """Return the combinations that make a kernel at all; of lists of values, no hopeless ones."""
    each: Iterable[Sequence[int]]
    if isinstance(axes.values, Combinations):
        each = _each(axes.values)
    else:
        # Variants of all combinations would take a second to make, and few are left.
        columns = [column.ravel() for column in np.meshgrid(*axes.values, indexing="ij")]
        (every,) = _variants(axes, [columns])
        with np.errstate(divide="ignore"):
            left = np.flatnonzero(is_promising(every, op_a, op_b, axes.bounds))
        each = zip(*(column[left].tolist() for column in columns), strict=True)
    return tuple(_shaped(_variants(axes, each), op_a, op_b))


def _variants(axes: Axes, values: Iterable[Sequence[Any]]) -> Iterator[Variant]:
    """Yield the variant of each combination of values, in the order of `PARAMETERS`."""
    core = "" if axes.core is Core.usual(axes.dtype) else str(axes.core)
    # By place: a dict of each of a million combinations takes as long as the filters.
    return (Variant(axes.dtype, *one, core) for one in values)  # type: ignore[call-arg]


def _shaped(variants: Iterable[Variant], op_a: Op, op_b: Op) -> Iterator[Variant]:
    """Yield the variants that make a kernel."""
    return (v for v in variants if next(shape_faults(v, op_a, op_b), None) is None)


def _each(values: tuple[tuple[int, ...], ...] | Combinations) -> Iterator[tuple[int, ...]]:
    """Yield the values of each combination, in the order of `PARAMETERS`."""
    if not isinstance(values, Combinations):
        yield from itertools.product(*values)
        return
    for configuration, refused in values.all():
        if refused is None:
            chosen = OPTIONAL | configuration.by_axis
            yield tuple(_whole(name, chosen[name]) for name in PARAMETERS)


def _checked_axes(table: dict[str, object], place: str) -> tuple[tuple[int, ...], ...] | Combinations:
    """Return lists of values, or what [axes], [derived] and `filters` say of ranges that hang together."""
    if "axes" not in table:
        return tuple(_checked_values(table, name, place) for name in PARAMETERS)
    found = read_combinations(table, place, cast(dict[str, Value], table.get("sizes", {})))
    names = {axis.name for axis in found.axes}
    for name in sorted(names - set(PARAMETERS)):
        raise InputError(f"{place} has an unknown parameter {name}")
    for name in PARAMETERS:
        if name not in names and name not in OPTIONAL:
            raise InputError(f"{place} has no axis {name}")
    return found


def _checked_values(table: dict[str, object], name: str, place: str) -> tuple[int, ...]:
    if name in OPTIONAL and name not in table:
        return (OPTIONAL[name],)
    values = table.get(name)
    if not isinstance(values, list) or not values:
        raise InputError(f"{place} {name} must be a list of whole numbers")
    try:
        return tuple(_whole(name, value) for value in values)
    except InputError as error:
        raise InputError(f"{place} {error}") from error


def _whole(name: str, value: object) -> int:
    least = 0 if name in _MAY_BE_ZERO else 1
    if type(value) is not int or not least <= value <= _MOST:
        raise InputError(f"{name}: {value!r} is no whole number from {least} to {_MOST}")
    return value


def _checked_bounds(table: dict[str, object], place: str) -> Bounds:
    bounds = table.get("bounds")
    names = [field.name for field in fields(Bounds)]
    needed = {field.name for field in fields(Bounds) if field.default is MISSING}
    if not isinstance(bounds, dict) or not needed <= set(bounds) <= set(names):
        raise InputError(f"{place} must give {', '.join(names)}")
    for name, value in bounds.items():
        if type(value) not in (int, float) or value < 0:
            raise InputError(f"{place} {name} must be a number that is not negative, not {value!r}")
    return Bounds(**bounds)


def _without_numbers(reason: str) -> str:
    return " ".join(_WITH_DIGIT.sub("", reason).split())
