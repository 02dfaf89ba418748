"""The T1 format, in which tuners describe what they tune: read as a specification, and written from one.

The schema is that of Kernel Tuner 1.5 (`schema/T1/1.0.0` of its package), with the keys that it reads
besides: `ProblemSize`, and `GridDivX` to `GridDivZ`. Nothing in a file is run: its values and expressions are
parsed.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.storage.file_errors import read_bytes
from ptxbench.tune.element import ELEMENTS
from ptxbench.tune.expression import Value, parse
from ptxbench.tune.spec import Array, Axis, Divisors, KernelSpec, Range, Scalar, Shape

_DTYPES = {
    **{"half": "f16", "float": "f32", "double": "f64"},
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_ROLES = {"ReadOnly": "input", "WriteOnly": "output", "ReadWrite": "inout"}
_FILLS = {"zeros": 0, "ones": 1}
_DIRECTIONS = ("X", "Y", "Z")
_RANGE = re.compile(r"(?:list\()?range\(([-\d, ]+)\)\)?\Z")
_PROBLEM_SIZE = re.compile(r"ProblemSize\[(\d)\]")
# Values of a parameter; a list that a file makes must not fill the memory. Chosen.
_MOST_VALUES = 100_000


def spec_document(document: Mapping[str, Any], folder: Path, place: str) -> dict[str, Any]:
    """Return a T1 document as a specification has it (`ptxbench.tune.spec_file.read_spec`).

    Where it names no results, none are compared.

    Args:
        document: What the file holds.
        folder: Where it lies.
        place: What to call it in messages.

    Raises:
        InputError: Something in it is not there, or not known here.
    """
    space, kernel = (_table(document, key, place) for key in ("ConfigurationSpace", "KernelSpecification"))
    if kernel.get("Language") != "CUDA":
        raise InputError(f"{place}: Language is {kernel.get('Language')!r}; only CUDA is tuned here")
    size = kernel.get("ProblemSize", [])
    sizes = {f"PROBLEM_SIZE_{n}": one for n, one in enumerate(size if isinstance(size, list) else [size])}
    results = {
        str(one.get("TargetName")): one
        for one in kernel.get("ReferenceArguments", ())
        if isinstance(one, Mapping)
    }
    names = [str(one.get("Name", f"argument_{n}")) for n, one in enumerate(kernel.get("Arguments", ()))]
    pairs = zip(names, kernel.get("Arguments", ()), strict=True)
    arguments = [_argument(name, one, name in results, sizes, folder, place) for name, one in pairs]
    block = [_text(kernel["LocalSize"][key]) for key in _DIRECTIONS if key in kernel.get("LocalSize", {})]
    return {
        "kernel": {
            "name": kernel.get("KernelName"),
            "source": str(kernel.get("KernelFile")),
            "options": list(kernel.get("CompilerOptions", ())),
        },
        "sizes": sizes,
        "axes": {str(one["Name"]): _values(one, place) for one in space.get("TuningParameters", ())},
        "filters": [_text(one["Expression"]) for one in space.get("Conditions", ())],
        "launch": {
            "grid": list(_grid(kernel, block, sizes, place)),
            "block": block,
            "shared_bytes": kernel.get("SharedMemory", 0),
        },
        "arguments": arguments,
        "reference": _reference(results, arguments, folder, place),
    }


def _table(document: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    found = document.get(key)
    if not isinstance(found, Mapping):
        raise InputError(f"{place}: is no T1 file: it has no {key}")
    return found


def _text(expression: object) -> str:
    return _PROBLEM_SIZE.sub(r"PROBLEM_SIZE_\1", str(expression))


def _values(parameter: Mapping[str, Any], place: str) -> list[object]:
    """Return the values of a parameter: a list, or a range of whole numbers."""
    text = str(parameter.get("Values", "")).strip()
    ranged = _RANGE.match(text)
    try:
        if ranged is not None:
            found: object = list(range(*(int(one) for one in ranged[1].split(",")))[: _MOST_VALUES + 1])
        else:
            found = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, list | tuple) or not 0 < len(found) <= _MOST_VALUES:
        raise InputError(
            f"{place}: {parameter.get('Name')} has Values {text[:60]!r}, which are no list or range"
        )
    return [int(one) if isinstance(one, bool) else one for one in found]


def _grid(
    kernel: Mapping[str, Any], block: Sequence[str], sizes: Mapping[str, Any], place: str
) -> Iterator[str]:
    """Yield the blocks in each direction, by `GridDiv...` of Kernel Tuner or else by `GlobalSize`."""
    threads = dict(zip(_DIRECTIONS, block, strict=False))
    by_threads = kernel.get("GlobalSizeType", "CUDA") == "OpenCL"
    for n, key in enumerate(_DIRECTIONS):
        divisors = kernel.get(f"GridDiv{key}") or ()
        if divisors and f"PROBLEM_SIZE_{n}" in sizes:
            parts = [divisors] if isinstance(divisors, str) else divisors
            yield f"ceil_div(PROBLEM_SIZE_{n}, {' * '.join(f'({_text(one)})' for one in parts)})"
        elif key in kernel.get("GlobalSize", {}):
            size = _text(kernel["GlobalSize"][key])
            yield f"ceil_div({size}, {threads.get(key, 1)})" if by_threads else size
        elif n == 0:
            raise InputError(f"{place}: has neither GlobalSize X nor GridDivX with ProblemSize")
        else:
            return


def _argument(
    name: str,
    plain: Mapping[str, Any],
    is_result: bool,
    sizes: Mapping[str, Any],
    folder: Path,
    place: str,
) -> dict[str, Any]:
    here = f"{place}: argument {name}"
    dtype, memory = _DTYPES.get(str(plain.get("Type"))), plain.get("MemoryType")
    if dtype is None or memory not in ("Scalar", "Vector"):
        raise InputError(f"{here}: {plain.get('Type')} {memory} is not tuned here")
    if memory == "Scalar":
        return {"name": name, "dtype": dtype, "value": plain.get("FillValue", 0)}
    role = _ROLES.get(str(plain.get("AccessType")), "inout" if is_result else "input")
    count = parse(_text(plain.get("Size", 1)), f"{here} Size", sizes).whole(sizes, 1)
    found = {"name": name, "dtype": dtype, "shape": [count], "role": role, "seed": plain.get("RandomSeed", 0)}
    fill, value = plain.get("FillType", "Random"), plain.get("FillValue", 0)
    if role == "output":
        return found
    if fill == "Random":
        return {**found, "fill": "random"}
    if fill == "Constant" and dtype in ELEMENTS:
        return {**found, "data": np.full(count, value, ELEMENTS[dtype].stored)}
    return {**found, "data": _raw(plain, dtype, count, folder, here)}


def _raw(plain: Mapping[str, Any], dtype: str, count: int, folder: Path, here: str) -> np.ndarray[Any, Any]:
    if plain.get("FillType") != "BinaryRaw":
        raise InputError(f"{here}: FillType {plain.get('FillType')} is not read here; give BinaryRaw")
    data = read_bytes(folder / str(plain.get("DataSource")), cure="name a file beside it")
    found = np.frombuffer(data, ELEMENTS[dtype].stored)
    if len(found) < count:
        raise InputError(f"{here}: {plain.get('DataSource')} holds {len(found)} values, not {count}")
    return found[:count]


def _reference(
    results: Mapping[str, Mapping[str, Any]], arguments: Sequence[Mapping[str, Any]], folder: Path, place: str
) -> dict[str, Any]:
    if not results:
        return {"unchecked": True}
    by_name = {one["name"]: one for one in arguments}
    found: dict[str, Any] = {"results": {}}
    for name, one in results.items():
        if name not in by_name or "shape" not in by_name[name]:
            raise InputError(f"{place}: ReferenceArguments has {name}, which is no array of Arguments")
        here, target = f"{place}: reference of {name}", by_name[name]
        found["results"][name] = _raw(one, target["dtype"], target["shape"][0], folder, here)
        is_relative = one.get("ValidationMethod") == "SideBySideRelativeComparison"
        if "ValidationThreshold" in one:
            found["rtol" if is_relative else "atol"] = one["ValidationThreshold"]
    return found


def t1_text(spec: KernelSpec) -> str:
    """Return a specification as a T1 file, without what its results must be: T1 has only files for that.

    Raises:
        InputError: It has what T1 has not.
    """
    if spec.source.path.suffix != ".cu":
        raise InputError(f"{spec.source.path.name}: T1 has sources in CUDA C++ (.cu) alone")
    inlined = _Inlined(spec)
    values: dict[str, dict[object, None]] = {axis.name: {} for axis in spec.axes}
    for variant, refused in spec.variants():
        if refused is None:
            for name, value in variant.by_axis.items():
                values[name][value] = None
    parameters = [
        {"Name": name, "Type": _kind(list(found)), "Values": str(list(found))}
        for name, found in values.items()
    ]
    conditions = [*(inlined(one.text) for one in spec.filters), *map(inlined, _bounds(spec.axes))]
    names = [axis.name for axis in spec.axes]
    document = {
        "General": {"FormatVersion": 1, "TimeUnit": "Milliseconds", "OutputFormat": "JSON"},
        "ConfigurationSpace": {
            "TuningParameters": parameters,
            "Conditions": [
                {"Expression": one, "Parameters": [name for name in names if re.search(rf"\b{name}\b", one)]}
                for one in conditions
            ],
        },
        "KernelSpecification": {
            "Language": "CUDA",
            "KernelName": spec.source.entry,
            "KernelFile": spec.source.path.name,
            "CompilerOptions": [*spec.source.options, *(f"-D{n}={v}" for n, v in spec.sizes.items())],
            "GlobalSizeType": "CUDA",
            **_launch(spec.shape, inlined),
            "Arguments": [_as_t1(one, spec.sizes) for one in spec.arguments],
        },
    }
    return json.dumps(document, indent=1) + "\n"


class _Inlined:
    """Writes sizes and derived values into an expression, where T1 knows parameters alone."""

    def __init__(self, spec: KernelSpec) -> None:
        self._texts = {name: str(value) for name, value in spec.sizes.items()}
        for name, expression in spec.derived:
            self._texts[name] = f"({self(expression.text)})"

    def __call__(self, text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda found: self._texts.get(found[0], found[0]), text)


def _kind(values: Sequence[object]) -> str:
    if any(isinstance(one, str) for one in values):
        return "string"
    return "int" if all(isinstance(one, int) for one in values) else "float"


def _bounds(axes: Sequence[Axis]) -> Iterator[str]:
    """Yield what keeps an axis within the values that it has beside those of the others."""
    for axis in axes:
        if isinstance(axis.values, Divisors):
            yield f"({axis.values.number.text}) % {axis.name} == 0"
        elif isinstance(axis.values, Range):
            yield f"{axis.name} >= {axis.values.first.text} and {axis.name} <= {axis.values.last.text}"
            if axis.values.step is not None and axis.values.step.text != "1":
                yield f"({axis.name} - ({axis.values.first.text})) % ({axis.values.step.text}) == 0"


def _launch(shape: Shape, inlined: _Inlined) -> dict[str, Any]:
    named = {"GlobalSize": shape.grid, "LocalSize": shape.block}
    return {
        key: {where: inlined(one.text) for where, one in zip(_DIRECTIONS, sizes, strict=False)}
        for key, sizes in named.items()
    }


def _as_t1(argument: Array | Scalar, sizes: Mapping[str, Value]) -> dict[str, Any]:
    types = {ours: theirs for theirs, ours in _DTYPES.items()}
    if argument.dtype not in types:
        raise InputError(f"argument {argument.name}: T1 has no {argument.dtype}")
    head = {"Name": argument.name, "Type": types[argument.dtype]}
    if not isinstance(argument, Array):
        if not argument.value.names <= set(sizes):
            raise InputError(
                f"argument {argument.name}: T1 has no number that depends on {argument.value.text}"
            )
        number = argument.value.number(sizes)
        return {**head, "MemoryType": "Scalar", "FillType": "Constant", "FillValue": number}
    if argument.fill not in (*_FILLS, "random") or argument.data is not None:
        raise InputError(f"argument {argument.name}: T1 has no array that is filled by {argument.fill}")
    access = {role: name for name, role in _ROLES.items()}[argument.role]
    count = int(np.prod(argument.shape))
    filled: dict[str, Any] = {"FillType": "Random", "RandomSeed": argument.seed}
    if argument.fill in _FILLS:
        filled = {"FillType": "Constant", "FillValue": _FILLS[argument.fill]}
    return {**head, "MemoryType": "Vector", "AccessType": access, "Size": count, **filled}
