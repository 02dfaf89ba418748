"""The arrays that a user's kernel works on, and what is right of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import InputError
from ptxbench.devices.base import Bytes
from ptxbench.storage.file_errors import opened
from ptxbench.tune.element import ELEMENTS
from ptxbench.tune.spec import Array, FunctionReference, StoredReference

# Whole numbers at random are below this, so that their sums stay exact.
_WHOLE = 100
# Of floats a NaN: an element that no kernel writes is not right.
_CLEARED = 0xFF

Floats = npt.NDArray[Any]


def contents(array: Array, seed: int) -> Bytes:
    """Return what an array holds at the beginning; an output, which a kernel must fill, has every byte 0xFF.

    Args:
        array: The argument.
        seed: Of the run; added to the array's own.
    """
    element, size = ELEMENTS[array.dtype], math.prod(array.shape)
    if array.data is not None:
        given = np.ascontiguousarray(array.data).ravel()
        is_held = given.dtype.name == element.foreign
        return given.view(np.uint8) if is_held else element.bits(given)
    if array.role == "output":
        return np.full(size * element.stored.itemsize, _CLEARED, np.uint8)
    random = np.random.default_rng(seed + array.seed)
    if array.fill == "zeros":
        return np.zeros(size * element.stored.itemsize, np.uint8)
    if array.fill == "ones":
        values: Floats = np.ones(size, np.float32)
    elif array.fill == "index":
        values = np.arange(size)
    elif element.is_whole:
        values = random.integers(0, _WHOLE, size)
    else:
        values = random.standard_normal(size, np.float32)
    return element.bits(values)


def shaped(array: Array, data: Bytes) -> Floats:
    """Return an array's bytes as numbers in its shape."""
    return ELEMENTS[array.dtype].numbers(data).reshape(array.shape)


def by_function(reference: FunctionReference, written: Array, given: Mapping[str, Floats]) -> Floats:
    """Return what a numpy function gives, in the shape of the array that is written.

    Raises:
        InputError: The arrays do not go together.
    """
    operands = [given[name].astype(np.float64) for name in reference.arguments]
    try:
        found = operands[0] if reference.function == "copy" else getattr(np, reference.function)(*operands)
        return np.asarray(found).reshape(written.shape)
    except ValueError as error:
        raise InputError(f"reference {reference.function}: {error}") from error


def stored(reference: StoredReference, written: Array) -> Floats:
    """Return results that are there already.

    Raises:
        InputError: A file is no .npy of numbers, or its shape does not fit.
    """
    held = reference.results[written.name]
    if isinstance(held, Path):
        with opened(held) as file:
            try:
                held = np.load(file, allow_pickle=False)
            except ValueError as error:
                raise InputError(f"{held}: is no .npy file of numbers: {error}") from error
    values = np.asarray(held)
    if values.shape != written.shape or values.dtype.kind not in "fiu":
        raise InputError(
            f"the reference of {written.name} has the shape {values.shape} of {values.dtype}, "
            f"not {written.shape} of numbers"
        )
    return values


@dataclass(frozen=True, eq=False)
class Right:
    """What is right of an array, in float64 or complex128.

    Attributes:
        exact: Each element.
        allowed: How far off each may be.
    """

    exact: Floats
    allowed: Floats


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be off.

    Attributes:
        rtol: Relative to what is right; NaN: by the type.
        atol: Besides; NaN: `rtol` of the results' root mean square.
    """

    rtol: float
    atol: float

    def right(self, array: Array, exact: Floats) -> Right:
        """Return what is right with how far off each element may be."""
        rtol = ELEMENTS[array.dtype].rtol if math.isnan(self.rtol) else self.rtol
        exact = exact.astype(np.float64)
        atol = rtol * float(np.sqrt(np.mean(exact**2))) if math.isnan(self.atol) else self.atol
        return Right(exact, atol + rtol * np.abs(exact))


def fault(name: str, result: Floats, right: Right) -> str:
    """Return what is wrong with a result, which may be complex; "" where nothing is."""
    off = result - right.exact
    wrong = ~(np.abs(off, out=off.real) <= right.allowed)  # NaN, too
    if not wrong.any():
        return ""
    index = tuple(int(axis[0]) for axis in np.nonzero(wrong))
    at = ", ".join(map(str, index))
    return (
        f"{int(wrong.sum())} of {wrong.size} results are wrong, first {name}[{at}] = {result[index]:.6g}"
        f" where {right.exact[index]:.6g} is right"
    )


def pieces(arrays: Sequence[Array], data: Bytes) -> dict[str, Floats]:
    """Return the arrays that a launch wrote, which its output holds one after the other."""
    found, at = {}, 0
    for array in arrays:
        size = math.prod(array.shape) * ELEMENTS[array.dtype].stored.itemsize
        found[array.name] = shaped(array, data[at : at + size])
        at += size
    return found
