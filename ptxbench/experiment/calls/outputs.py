"""Whether two functions compute the same: arrays of any library, compared as numpy arrays."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Inputs = Callable[..., Any]
Arrays = Mapping[str, np.ndarray[Any, Any]]

# Largest difference, of the reference's own value and of the root of its mean square, by bytes of an element:
# what sums in another order differ by, not what a wrong one does.
_ALLOWED = {8: 1e-9, 4: 1e-3, 2: 2e-2, 1: 0.15}
# Inputs on which two functions must agree; chosen.
_SEEDS = 3
# Values that are compared at a time.
_PIECE = 1 << 18
# What is said where nothing can be compared.
NOTHING = "it gave no array or number to compare: let it return its results"


def flat_arrays(value: Any, where: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """Return every array and number in nested tuples, lists and mappings, by its place, as numpy has it."""
    if isinstance(value, Mapping):
        items = [(f"{where}[{key!r}]", value[key]) for key in value]
    elif isinstance(value, list | tuple):
        items = [(f"{where}[{number}]", one) for number, one in enumerate(value)]
    else:
        array = _as_array(value)
        return {} if array is None else {where: array}
    return {place: array for name, one in items for place, array in flat_arrays(one, name).items()}


def _as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Return an array of PyTorch, CuPy or numpy, or a number; None for anything else."""
    if hasattr(value, "detach"):
        value = value.detach()
        # numpy has no bfloat16, nor floats of 8 bits.
        if value.is_floating_point() and value.element_size() < 4:
            size = value.element_size()
            wide = np.asarray(value.float().cpu().numpy())
            return _Narrow(wide, size)
        return np.asarray(value.cpu().numpy())
    if hasattr(value, "get") and hasattr(value, "__cuda_array_interface__"):
        return np.asarray(value.get())
    if isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
        return np.asarray(value)
    return None


class _Narrow(np.ndarray):
    """Numbers that had fewer bytes than numpy has for them."""

    size_in_bytes: int

    def __new__(cls, wide: np.ndarray[Any, Any], size: int) -> _Narrow:
        """Return a view of them."""
        made = wide.view(cls)
        made.size_in_bytes = size
        return made

    def __array_finalize__(self, of: object) -> None:
        """Keep the size in copies."""
        self.size_in_bytes = getattr(of, "size_in_bytes", self.dtype.itemsize)


def difference(reference: Any, other: Any, max_difference: float | None = None) -> str:
    """Return how the results of a function differ from the reference's, "" where they do not.

    Args:
        reference: What the reference returned: arrays, numbers, or nested collections of them.
        other: What the other returned.
        max_difference: Largest difference as a fraction of the reference's value and of the root of its mean
            square; None: by the type, 1e-3 for f32.
    """
    return _difference(flat_arrays(reference), flat_arrays(other), max_difference)


def _difference(right: Arrays, found: Arrays, max_difference: float | None) -> str:
    if not right:
        return NOTHING
    if right.keys() != found.keys():
        return f"it gave {len(found)} arrays or numbers, and the reference {len(right)}"
    return next(filter(None, (_of_array(right[at], found[at], at, max_difference) for at in right)), "")


def _of_array(
    right: np.ndarray[Any, Any], found: np.ndarray[Any, Any], where: str, max_difference: float | None
) -> str:
    name = f"result{where}"
    if right.shape != found.shape:
        return f"{name} has shape {found.shape}, and the reference's {right.shape}"
    if not right.size:
        return ""
    if right.dtype.kind in "biu" and found.dtype.kind in "biu":
        wrong = np.asarray(right != found)
    else:
        allowed = max_difference if max_difference is not None else max(_allowed(right), _allowed(found))
        wrong = _far_apart(np.asarray(right), np.asarray(found), allowed)
    if not wrong.any():
        return ""
    at = tuple(int(index[0]) for index in np.nonzero(wrong)) if wrong.ndim else ()
    place = f"[{', '.join(map(str, at))}]" if at else ""
    return (
        f"{int(wrong.sum())} of {wrong.size} values of {name} differ, first {place or 'it'}:"
        f" {found[at]:.6g} where the reference has {right[at]:.6g}"
    )


def _far_apart(
    right: np.ndarray[Any, Any], found: np.ndarray[Any, Any], allowed: float
) -> np.ndarray[Any, Any]:
    """Return which values differ by too much; piece by piece, which needs less memory."""
    wrong = np.asarray(right != found)
    if not wrong.any():
        return wrong
    wide = np.complex128 if "c" in (right.dtype.kind, found.dtype.kind) else np.float64
    flat, other, far = right.reshape(-1), found.reshape(-1), np.empty(right.size, bool)
    pieces = [slice(at, at + _PIECE) for at in range(0, right.size, _PIECE)]
    squares, count = 0.0, 0
    for piece in pieces:
        sizes = np.abs(flat[piece].astype(wide))
        finite = np.isfinite(sizes)
        squares, count = squares + float(np.sum(sizes[finite] ** 2)), count + int(finite.sum())
    size = math.sqrt(squares / count) if count else 0.0
    for piece in pieces:
        one, two = flat[piece].astype(wide), other[piece].astype(wide)
        with np.errstate(invalid="ignore"):
            close = np.abs(two - one) <= allowed * (np.abs(one) + size)
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        far[piece] = ~np.where(np.isfinite(one), close, same)
    return far.reshape(right.shape)


def _allowed(array: np.ndarray[Any, Any]) -> float:
    size = getattr(array, "size_in_bytes", array.dtype.itemsize)
    if array.dtype.kind == "c":
        size //= 2
    return _ALLOWED.get(size, _ALLOWED[8]) if array.dtype.kind in "fc" else 0.0


def fresh_inputs(inputs: Inputs | None, seed: int) -> tuple[Any, ...]:
    """Return what a function is called with: the same for the same seed.

    Args:
        inputs: Makes it, given the seed where it takes one; else by the random numbers of its library, which
            are seeded first. None: nothing.
        seed: The seed.
    """
    if inputs is None:
        return ()
    seed_libraries(seed)
    made = inputs(seed) if takes_one(inputs) else inputs()
    return tuple(made) if isinstance(made, list | tuple) else (made,)


def takes_one(function: Callable[..., Any]) -> bool:
    """Return whether a function must be, or can be, given an argument."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


def seed_libraries(seed: int) -> None:
    """Seed the random numbers of Python, and of each library that is loaded."""
    random.seed(seed)
    np.random.seed(seed)
    for name, seeding in (("torch", "manual_seed"), ("cupy", "random")):
        module = sys.modules.get(name)
        found = getattr(module, seeding, None)
        if found is not None:
            (found.seed if name == "cupy" else found)(seed)


def first_difference(
    reference: Callable[..., Any],
    other: Callable[..., Any],
    inputs: Inputs | None,
    max_difference: float | None = None,
) -> str:
    """Return how a function's results differ from a reference's on fresh inputs, "" where they do not.

    Where a function returns nothing, or what it was given, all of that is compared: it writes into it. The
    reference is called last, so that a function that writes nothing does not find its results in memory.

    Args:
        reference: What is right.
        other: What is compared with it.
        inputs: Makes inputs (see `fresh_inputs`); each of the two gets its own.
        max_difference: As `difference` takes it.
    """
    for seed in range(1, 1 + (_SEEDS if inputs is not None else 1)):
        found, right = (_results(function, inputs, seed) for function in (other, reference))
        if said := _difference(right, found, max_difference):
            return said
    return ""


def _results(function: Callable[..., Any], inputs: Inputs | None, seed: int) -> Arrays:
    """Return what a function gave: copies, which the next function cannot overwrite."""
    given = fresh_inputs(inputs, seed)
    returned = function(*given)
    is_written = returned is None or any(returned is one for one in given)
    arrays = flat_arrays(given if is_written else returned)
    return {where: array.copy() for where, array in arrays.items()}
