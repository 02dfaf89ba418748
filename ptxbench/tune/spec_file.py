"""Reads and checks the file that describes a user's kernel (docs/howto/tune_kernel.md)."""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any, cast

from ptxbench.core.errors import InputError
from ptxbench.storage.file_errors import read_bytes
from ptxbench.tune.compiler_options import COMPILED_BY, compiler_options, known_options, require_entry
from ptxbench.tune.element import DTYPES, ELEMENTS, SCALAR_DTYPES
from ptxbench.tune.expression import Expression, Value, parse
from ptxbench.tune.spec import (
    BEFORE,
    CHECKS,
    FILLS,
    METRICS,
    OTHER_LOOPS,
    ROLES,
    SOURCES,
    VALUE,
    Array,
    Axis,
    Closure,
    Combinations,
    Divisors,
    FunctionReference,
    KernelReference,
    KernelSpec,
    NoReference,
    Range,
    Reference,
    Scalar,
    Shape,
    Source,
    StoredReference,
    plain_value,
)
from ptxbench.tune.t1_file import spec_document

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
# Beyond these a file is taken to be another, or a slip; chosen.
_MOST_AXES = 100
_MAX_FILE_BYTES = 16 << 20
_MAX_ARRAY_BYTES = 1 << 32


def load_spec(path: Path, sizes: Mapping[str, float] | None = None) -> KernelSpec:
    """Read a specification.

    Args:
        path: TOML file (docs/howto/tune_kernel.md), or a JSON file of the T1 format (`t1_file`); the files
            that it names are beside it.
        sizes: Values of sizes that take the place of the file's.

    Raises:
        InputError: The file cannot be read, or something in it does not fit.
    """
    data = read_bytes(path, cure="name a specification, as docs/howto/tune_kernel.md describes it")
    form, read = ("JSON", json.loads) if path.suffix.lower() == ".json" else ("TOML", tomllib.loads)
    try:
        document = read(data.decode())
    except (ValueError, RecursionError) as error:
        if path.name.endswith(SOURCES):
            raise InputError(f"{path} is a source; name the specification that names it") from error
        raise InputError(f"{path}: is no {form}: {error}") from error
    if form == "JSON":
        document = spec_document(document if isinstance(document, dict) else {}, path.parent, str(path))
    held = document.get("sizes", {})
    for name, value in (sizes or {}).items():
        if not isinstance(held, dict) or name not in held:
            known = ", ".join(held) if isinstance(held, dict) else ""
            raise InputError(f"{path}: there is no size {name!r}; there are {known or 'none'}")
        held[name] = value
    return read_spec(document, path.parent, str(path))


def read_spec(document: Mapping[str, Any], folder: Path, place: str) -> KernelSpec:
    """Check a specification.

    Args:
        document: As a TOML file holds it; a reference may hold arrays in `results` besides.
        folder: Folder of the files that it names.
        place: What to call it in messages.

    Raises:
        InputError: Something in it does not fit.
    """
    top = _Table(document, place)
    top.allow("kernel", "sizes", "axes", "derived", "filters", "launch", "arguments", "reference", "work",
              "objective", "metrics")  # fmt: skip
    kernel = top.table("kernel")
    kernel.allow("name", "source", "code", "title", *COMPILED_BY)
    source = _source(kernel, "source", "name", folder, kernel)
    sizes = {name: _size(top, name, value) for name, value in top.table("sizes", {}).plain.items()}
    space = _combinations(top, sizes)
    known = {*sizes, *(axis.name for axis in space.axes), *(name for name, _ in space.derived)}
    arguments = _arguments(top, sizes, known)
    checked = top.table("reference")
    work = top.table("work", {})
    work.allow("flops", "dram_bytes", "l2_bytes", "trips")
    launch = top.table("launch")
    launch.allow("grid", "block", "shared_bytes")
    objective = top.table("objective", {})
    objective.allow("metric")
    reference, inputs = _reference(checked, arguments, sizes, folder, kernel)
    return KernelSpec(
        name=str(kernel.plain.get("title", source.entry)),
        source=source,
        sizes=sizes,
        axes=space.axes,
        derived=space.derived,
        filters=space.filters,
        shape=_shape(launch, known),
        arguments=arguments,
        reference=reference,
        rtol=checked.number("rtol"),
        atol=checked.number("atol"),
        flops=work.expression("flops", known),
        dram_bytes=work.expression("dram_bytes", known),
        l2_bytes=work.expression("l2_bytes", known),
        trips=_trips(work.table("trips", {}).plain, known, place),
        metric=objective.expression("metric", {*known, *METRICS}),
        metrics=_metrics(top, known),
        digest=_digest(document, source.code, *inputs, *_given_data(arguments)),
    )


def _trips(given: Mapping[str, Any], known: Collection[str], place: str) -> dict[str, Expression]:
    for name in given:
        if name != OTHER_LOOPS and not name.isdecimal():
            raise InputError(f"{place}: [work] trips: {name!r} is no number of a loop, nor {OTHER_LOOPS}")
    return {name: parse(text, f"{place}: trips {name}", known) for name, text in given.items()}


def read_combinations(document: Mapping[str, Any], place: str, sizes: Mapping[str, Value]) -> Combinations:
    """Check the tables `axes` and `derived` and the list `filters`, as a specification has them.

    Args:
        document: What holds them.
        place: What to call it in messages.
        sizes: Constants that they may name.

    Raises:
        InputError: Something in it does not fit.
    """
    return _combinations(_Table(document, place), dict(sizes))


def _combinations(top: _Table, sizes: dict[str, Value]) -> Combinations:
    axes = _axes(top, sizes)
    known = {*sizes, *(axis.name for axis in axes)}
    derived = []
    for name, text in top.table("derived", {}).plain.items():
        _require_name(name, top.place, known)
        derived.append((name, parse(text, f"{top.place}: derived {name}", known)))
        known.add(name)
    filters = tuple(parse(text, f"{top.place}: filters", known) for text in top.items("filters", []))
    return Combinations(sizes, axes, tuple(derived), filters)


@dataclass(frozen=True)
class _Table:
    """A table of the document, with where it stands."""

    plain: Mapping[str, Any]
    place: str

    def allow(self, *names: str) -> None:
        """Refuse keys that are not known."""
        unknown = sorted(set(self.plain) - set(names))
        if unknown:
            raise InputError(f"{self.place}: there is no {unknown[0]!r} here; there are {', '.join(names)}")

    def table(self, name: str, default: Mapping[str, Any] | None = None) -> _Table:
        """Return the table below a key."""
        found = self.plain.get(name, default)
        if not isinstance(found, Mapping):
            raise InputError(f"{self.place}: needs the table [{name}]")
        return _Table(found, f"{self.place}: [{name}]")

    def items(self, name: str, default: list[Any] | None = None) -> list[Any]:
        """Return the list below a key."""
        found = self.plain.get(name, default)
        if not isinstance(found, list | tuple):
            raise InputError(f"{self.place}: {name} must be a list")
        return list(found)

    def text(self, name: str, choices: Sequence[str] = (), default: str | None = None) -> str:
        """Return the text below a key."""
        found = self.plain.get(name, default)
        if found is None:
            raise InputError(f"{self.place}: {name} is missing")
        if not isinstance(found, str) or not found:
            raise InputError(f"{self.place}: {name} must be text, not {found!r}")
        if choices and found not in choices:
            raise InputError(f"{self.place}: {name} must be one of {', '.join(choices)}, not {found!r}")
        return found

    def number(self, name: str) -> float:
        """Return the number below a key, NaN where there is none."""
        found = self.plain.get(name, float("nan"))
        if name in self.plain and not (_is_number(found) and found >= 0):
            raise InputError(f"{self.place}: {name} must be a number that is not negative, not {found!r}")
        return float(found)

    def expression(self, name: str, known: Collection[str]) -> Expression | None:
        """Return the expression below a key, None where there is none."""
        return parse(self.plain[name], f"{self.place} {name}", known) if name in self.plain else None

    def expressions(self, name: str, known: Collection[str]) -> tuple[Expression, ...]:
        """Return one to three expressions below a key."""
        found = self.plain.get(name)
        found = list(found) if isinstance(found, list | tuple) else [found]
        if not 1 <= len(found) <= 3 or None in found:
            raise InputError(f"{self.place}: {name} must be one to three sizes")
        return tuple(parse(one, f"{self.place} {name}", known) for one in found)


def _require_name(name: str, place: str, taken: Collection[str]) -> None:
    if not _NAME.match(name):
        raise InputError(f"{place}: {name!r} is no name of letters, digits and _")
    if name in taken or name in METRICS:
        raise InputError(f"{place}: the name {name} is taken already")


def _metrics(top: _Table, known: Collection[str]) -> tuple[tuple[str, Expression], ...]:
    """Return the figures of the user's own that each trial gets, by name."""
    found = []
    table = top.table("metrics", {})
    for name in table.plain:
        _require_name(name, f"{top.place}: metrics", known)
        expression = table.expression(name, {*known, *METRICS})
        if expression is not None:
            found.append((name, expression))
    return tuple(found)


def _size(top: _Table, name: str, value: object) -> Value:
    _require_name(name, top.place, ())
    if not _is_number(value):
        raise InputError(f"{top.place}: size {name} must be a number, not {value!r}")
    return cast(Value, value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _axes(top: _Table, sizes: Mapping[str, Value]) -> tuple[Axis, ...]:
    axes: list[Axis] = []
    for name, plain in top.table("axes").plain.items():
        known = {*sizes, *(axis.name for axis in axes)}
        _require_name(name, top.place, known)
        axes.append(Axis(name, _axis_values(plain, f"{top.place}: axis {name}", known)))
    if len(axes) > _MOST_AXES:
        raise InputError(f"{top.place}: {len(axes)} axes are over {_MOST_AXES}")
    if not axes:
        raise InputError(f"{top.place}: [axes] is empty; give at least one axis")
    return tuple(axes)


def _axis_values(
    plain: object, place: str, known: Collection[str]
) -> tuple[Value, ...] | Range | Divisors | Closure:
    if callable(plain):
        return Closure(plain, place)
    if isinstance(plain, Mapping):
        return _computed_values(_Table(plain, place), known)
    if not isinstance(plain, list | tuple):
        raise InputError(f"{place}: must be a list of values, a range with from and to, or divisors")
    if not plain:
        raise InputError(f"{place}: is empty; give at least one value")
    return tuple(dict.fromkeys(plain_value(value, place) for value in plain))


def _computed_values(table: _Table, known: Collection[str]) -> Range | Divisors:
    if "divisors" in table.plain:
        table.allow("divisors")
        return Divisors(parse(table.plain["divisors"], table.place, known))
    table.allow("from", "to", "step", "factor", "next", "divisors")
    step, factor = (table.expression(key, known) for key in ("step", "factor"))
    following = table.expression("next", {*known, VALUE, BEFORE})
    given = [one for one in (step, factor, following) if one is not None]
    if "from" not in table.plain or "to" not in table.plain or len(given) > 1:
        raise InputError(f"{table.place}: a range has from, to, and one of step, factor and next")
    first, last = (parse(table.plain[key], table.place, known) for key in ("from", "to"))
    return Range(first, last, step if given else parse(1, table.place, ()), factor, following)


def _shape(table: _Table, known: Collection[str]) -> Shape:
    shared = table.expression("shared_bytes", known) or parse(0, table.place, ())
    return Shape(table.expressions("grid", known), table.expressions("block", known), shared)


def _arguments(top: _Table, sizes: Mapping[str, Value], known: Collection[str]) -> tuple[Array | Scalar, ...]:
    found: list[Array | Scalar] = []
    for number, plain in enumerate(top.items("arguments"), 1):
        if not isinstance(plain, Mapping):
            raise InputError(f"{top.place}: [[arguments]] {number} must be a table")
        table = _Table(plain, f"{top.place}: [[arguments]] {plain.get('name', number)}")
        name = table.text("name")
        _require_name(name, table.place, {one.name for one in found})
        found.append(_scalar(table, known) if "value" in plain else _array(table, sizes))
    if not any(isinstance(one, Array) and one.role != "input" for one in found):
        raise InputError(f"{top.place}: no argument has the role output or inout, so nothing can be checked")
    return tuple(found)


def _scalar(table: _Table, known: Collection[str]) -> Scalar:
    table.allow("name", "dtype", "value")
    dtype = table.text("dtype", SCALAR_DTYPES)
    return Scalar(table.text("name"), dtype, parse(table.plain["value"], table.place, known))


def _array(table: _Table, sizes: Mapping[str, Value]) -> Array:
    table.allow("name", "dtype", "shape", "fill", "role", "seed", "data")
    data = table.plain.get("data")
    if data is not None and not hasattr(data, "tobytes"):
        raise InputError(f"{table.place}: data is for numpy arrays, from Python; in a file give fill")
    shape = tuple(one.whole(sizes, 1) for one in table.expressions("shape", sizes))
    dtype, role = table.text("dtype", DTYPES), table.text("role", ROLES, "input")
    total = ELEMENTS[dtype].stored.itemsize
    for size in shape:
        total *= size
    if total > _MAX_ARRAY_BYTES:
        raise InputError(f"{table.place}: {total} bytes are over {_MAX_ARRAY_BYTES}")
    seed = table.plain.get("seed", 0)
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise InputError(f"{table.place}: seed must be a whole number from 0, not {seed!r}")
    fill = table.text("fill", FILLS, "zeros" if role == "output" else "random")
    return Array(table.text("name"), dtype, shape, fill, role, seed, data)


def _source(table: _Table, key: str, entry: str, folder: Path, compiled: _Table) -> Source:
    """Return the source below a key; `compiled` is the table that says how sources are compiled."""
    path = folder / table.text(key)
    if not path.name.endswith(SOURCES):
        raise InputError(f"{table.place}: {path.name} must end in {', '.join(SOURCES)}")
    if key == "source" and "code" in table.plain:
        code = table.text("code").encode()
    else:
        code = _read_beside(table, path)
    if len(code) > _MAX_FILE_BYTES:
        raise InputError(f"{path}: {len(code)} bytes are over {_MAX_FILE_BYTES}")
    name = table.text(entry)
    require_entry(name, path.name, table.place)
    options = compiler_options(compiled.plain, compiled.place, path, folder, b'#include "' in code)
    return Source(path, code, name, *options)


def _read_beside(table: _Table, path: Path) -> bytes:
    beside = Path(table.place.partition(": [")[0])
    return read_bytes(path, cure=f"name a file beside {beside}" if beside.is_file() else "name another file")


def _reference(
    table: _Table,
    arguments: Sequence[Array | Scalar],
    sizes: Mapping[str, Value],
    folder: Path,
    compiled: _Table,
) -> tuple[Reference, tuple[bytes, ...]]:
    """Return what is right, and what else of it counts for the digest."""
    table.allow(
        *("kernel", "name", "grid", "block", "shared_bytes"),
        *("function", "arguments", "files", "results", "unchecked", "rtol", "atol"),
    )
    kinds = [key for key in ("kernel", "function", "files", "results", "unchecked") if key in table.plain]
    if len(kinds) != 1:
        raise InputError(f"{table.place}: give one of kernel, function, files and unchecked")
    if kinds == ["unchecked"]:
        if table.plain["unchecked"] is not True:
            raise InputError(f"{table.place}: unchecked must be true, or left out")
        return NoReference(), ()
    if kinds == ["kernel"]:
        return _kernel_reference(table, arguments, sizes, folder, compiled)
    if kinds == ["function"]:
        return _function_reference(table, arguments), ()
    written = {one.name for one in arguments if isinstance(one, Array) and one.role != "input"}
    stored = table.table(kinds[0])
    stored.allow(*sorted(written))
    if set(stored.plain) != written:
        raise InputError(f"{table.place}: needs a result for each of {', '.join(sorted(written))}")
    if kinds == ["results"]:
        return StoredReference(stored.plain), tuple(bytes(v.tobytes()) for v in stored.plain.values())
    paths = {name: folder / stored.text(name) for name in stored.plain}
    return StoredReference(paths), tuple(_read_beside(table, path) for path in paths.values())


def _kernel_reference(
    table: _Table,
    arguments: Sequence[Array | Scalar],
    sizes: Mapping[str, Value],
    folder: Path,
    compiled: _Table,
) -> tuple[KernelReference, tuple[bytes, ...]]:
    for one in arguments:
        if isinstance(one, Scalar) and not one.value.names <= set(sizes):
            raise InputError(
                f"{table.place}: a reference kernel has the same arguments, and {one.name} depends on axes"
            )
    source = _source(table, "kernel", "name", folder, compiled)
    # What depends on an axis, such as a limit of registers, is for variants alone.
    source = replace(
        source,
        options=known_options(source.options, sizes),
        assembler_options=known_options(source.assembler_options, sizes),
    )
    return KernelReference(source, _shape(table, sizes)), (source.code,)


def _function_reference(table: _Table, arguments: Sequence[Array | Scalar]) -> FunctionReference:
    function = table.text("function", tuple(CHECKS))
    names = tuple(str(one) for one in table.items("arguments", []))
    arrays = {one.name for one in arguments if isinstance(one, Array)}
    unknown = [name for name in names if name not in arrays]
    if unknown or len(names) != CHECKS[function]:
        raise InputError(
            f"{table.place}: {function} takes {CHECKS[function]} arrays among {', '.join(sorted(arrays))}, "
            f"not {', '.join(names) or 'none'}"
        )
    written = [one for one in arguments if isinstance(one, Array) and one.role != "input"]
    if len(written) != 1:
        raise InputError(f"{table.place}: a function gives one result, and {len(written)} arrays are written")
    return FunctionReference(function, names)


def _given_data(arguments: Sequence[Array | Scalar]) -> Iterator[bytes]:
    for one in arguments:
        if isinstance(one, Array) and one.data is not None:
            yield one.data.tobytes()


def _as_text(value: object) -> str:
    """Return what a value is in a digest: of a function what it does, so that a search can go on."""
    held = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    code = getattr(value, "__code__", value)
    if not isinstance(code, CodeType):
        return str(value)
    constants = [_as_text(one) for one in code.co_consts]
    return " ".join([code.co_code.hex(), *code.co_names, *constants, *map(_as_text, held)])


def _digest(document: Mapping[str, Any], *contents: bytes) -> str:
    plain = {key: value for key, value in document.items() if key not in ("reference", "arguments")}
    plain["arguments"] = [{k: v for k, v in one.items() if k != "data"} for one in document["arguments"]]
    checked = {k: v for k, v in document["reference"].items() if k != "results"}
    found = hashlib.sha256(json.dumps([plain, checked], sort_keys=True, default=_as_text).encode())
    for content in contents:
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()[:16]
