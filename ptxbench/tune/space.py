"""The search space: every combination of the parameters' values that passes the filters."""

from __future__ import annotations

import itertools
import tomllib
from collections import Counter
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.tune.candidate import UNSET, Candidate
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.filters import Bounds, rejection, shape_faults
from ptxbench.tune.problem import KernelProblem
from ptxbench.tune.variant import PARAMETERS, DType, Problem, Variant


@dataclass(frozen=True)
class Axes:
    """The values of each parameter, and the bounds on their combinations.

    Attributes:
        dtype: Element type.
        values: Values of each parameter, in the order of `PARAMETERS`.
        bounds: Bounds that keep hopeless variants out.
    """

    dtype: DType
    values: tuple[tuple[int, ...], ...]
    bounds: Bounds


@dataclass(frozen=True)
class Space:
    """The variants for one problem on one target.

    Attributes:
        problem: What they compute.
        target: What they run on.
        variants: Those that passed, in the order of the axes.
        rejected: A reason why filters took variants out, and how many they took for the like of it.
        settings: Settings of the GPU under each of which a variant may be tried, all of the same kinds.
    """

    problem: Problem | KernelProblem
    target: str
    variants: tuple[Variant | Configuration, ...]
    rejected: tuple[tuple[str, int], ...]
    settings: tuple[GpuSettings, ...] = (UNSET,)

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


def load_axes(dtype: DType, path: Path | None = None) -> Axes:
    """Return the axes of one element type.

    Args:
        dtype: Element type.
        path: TOML file (None: the one that ptxbench ships).

    Raises:
        InputError: The file cannot be read, or a value does not fit.
    """
    place = str(path) if path else "gemm.toml"
    try:
        text = path.read_text(encoding="utf-8") if path else _shipped()
        document = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"{place}: the search space cannot be read: {error}") from error
    table = document.get(dtype.value)
    if not isinstance(table, dict):
        raise InputError(f"{place}: there is no table [{dtype}]")
    unknown = set(table) - {*PARAMETERS, "bounds"}
    if unknown:
        raise InputError(f"{place}: [{dtype}] has an unknown parameter {sorted(unknown)[0]}")
    values = tuple(_checked_values(table, name, f"{place}: [{dtype}]") for name in PARAMETERS)
    return Axes(dtype, values, _checked_bounds(table, f"{place}: [{dtype}.bounds]"))


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
    kept, like, examples = [], Counter[str](), dict[str, str]()
    for variant in _combinations(axes):
        reason = rejection(variant, problem, target, axes.bounds)
        if reason:
            like[_without_numbers(reason)] += 1
            examples.setdefault(_without_numbers(reason), reason)
        else:
            kept.append(variant)
    rejected = tuple((examples[words], count) for words, count in like.most_common())
    if not kept:
        most = rejected[0][0] if rejected else "the axes hold nothing"
        raise InputError(
            f"no variant computes {problem.m} x {problem.n} x {problem.k} {problem.dtype} on {target} "
            f"(most often: {most}); take sizes that are multiples of 128"
        )
    return Space(problem, target, tuple(kept), rejected)


@cache
def _shipped() -> str:
    return files("ptxbench.tune.data").joinpath("gemm.toml").read_text(encoding="utf-8")


@cache
def _combinations(axes: Axes) -> tuple[Variant, ...]:
    """Return the combinations that make a kernel at all."""
    variants = (Variant(axes.dtype, *values) for values in itertools.product(*axes.values))
    return tuple(v for v in variants if next(shape_faults(v), None) is None)


def _checked_values(table: dict[str, object], name: str, place: str) -> tuple[int, ...]:
    values = table.get(name)
    if not isinstance(values, list) or not values:
        raise InputError(f"{place} {name} must be a list of whole numbers")
    least = 0 if name == "pad" else 1
    for value in values:
        if type(value) is not int or not least <= value <= 1024:
            raise InputError(f"{place} {name}: {value!r} is no whole number from {least} to 1024")
    return tuple(values)


def _checked_bounds(table: dict[str, object], place: str) -> Bounds:
    bounds = table.get("bounds")
    names = [field.name for field in fields(Bounds)]
    if not isinstance(bounds, dict) or sorted(bounds) != sorted(names):
        raise InputError(f"{place} must give {', '.join(names)}")
    for name, value in bounds.items():
        if type(value) not in (int, float) or value < 0:
            raise InputError(f"{place} {name} must be a number that is not negative, not {value!r}")
    return Bounds(**bounds)


def _without_numbers(reason: str) -> str:
    return " ".join(word for word in reason.split() if not any(c.isdigit() for c in word))
