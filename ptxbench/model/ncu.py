"""Executed opcodes and bytes from a CSV of Nsight Compute (`ncu --csv --page raw`).

    ncu --csv --page raw --print-units base --print-metric-instances details \
        --metrics sass__inst_executed_per_opcode_with_modifier_all,... ./program > counts.csv

docs/howto/estimate.md lists the metrics.

A cell of a metric with instances reads "12,345 (FFMA: 12,000; IADD3: 345)"; older output separates them
otherwise, so that any list of opcodes with numbers in parentheses or behind colons is taken.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from ptxbench.core.errors import InputError
from ptxbench.core.numbers import POINT, DecimalSign, parse_number, quoted
from ptxbench.core.threads import WARP
from ptxbench.model.opcodes import OpcodeClass, opcode_class
from ptxbench.model.work import Access, KernelWork, Level
from ptxbench.storage.text_file import TextFile

_OPCODES = "sass__inst_executed_per_opcode"
_THREADS = "sass__thread_inst_executed_true_per_opcode"
_MODIFIERS = "_with_modifier_all"
_KERNEL = "Kernel Name"
_SHAPE = ("Grid Size", "Block Size")
_COLUMNS = {"ID", _KERNEL, *_SHAPE, "CC"}
_DURATION = "gpu__time_duration.sum"
# For each level the sets of metrics that add up to it, the best first, and the bytes that each counts.
_LEVELS = {
    Level.L1: ((("l1tex__t_bytes.sum",), 1.0),),
    Level.SHARED: ((("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",), 128.0),),
    Level.CROSSBAR: ((("l1tex__m_xbar2l1tex_read_bytes.sum",), 1.0),),
    Level.L2: ((("lts__t_bytes.sum",), 1.0),),
    Level.DRAM: ((("dram__bytes.sum",), 1.0), (("dram__bytes_read.sum", "dram__bytes_write.sum"), 1.0)),
}
# Names as they are on a GH100 (CUPTI 13.0 lists them without a GPU); older GPUs have them too.
_ACCESSES = {
    Access.L1_WAVEFRONT: ((("l1tex__t_output_wavefronts.sum",), 1.0),),
    Access.L2_REQUEST: ((("lts__t_requests.sum",), 1.0),),
    Access.L2_MISS: ((("lts__t_tag_requests_miss.sum",), 1.0),),
}
_METRICS = (
    *(f"{metric}{ending}" for metric in (_OPCODES, _THREADS) for ending in (_MODIFIERS, "")),
    _DURATION,
    *(m for ways in (*_LEVELS.values(), *_ACCESSES.values()) for metrics, _ in ways for m in metrics),
)
_NUMBER = r"[0-9]+(?:[.,' \u00a0\u2009\u202f\u2019][0-9]+)*(?:[eE][+-]?[0-9]+)?"
# "FFMA: 12,000", "FFMA (12,000)" and "FFMA=12000".
_PAIR = re.compile(rf"([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)\s*[:=(]\s*({_NUMBER})")
# What may stand beside the pairs: their sum, brackets and what separates them.
_BESIDE = re.compile(rf"\s*(?:{_NUMBER})?[\s();,]*")
# "dram__bytes.sum [Gbyte]": some versions put the unit behind the name.
_NAME = re.compile(r"(?P<metric>[\w.]+)(?:\s*[\[(](?P<unit>[^\])]*))?")
_ABSENT = {"", "-", "n/a", "nan", "no data"}
_PERMISSION = "ERR_NVGPUCTRPERM"
_ERROR = "==ERROR=="
_AGAIN = "profile again with `LC_ALL=C ncu --csv --page raw --print-units base`"
# Longest cell and line: what the counts of a large kernel by opcode take many times over.
_MAX_LINE = 1 << 24
_COUNTED = ("inst", "request", "wavefront", "tag", "sector", "byte")
_UNITS = {
    "": 1.0,
    **{
        f"{prefix}{counted}{plural}": factor
        for prefix, factor in (("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12))
        for counted in _COUNTED
        for plural in ("", "s")
    },
    **dict.fromkeys(("ns", "nsecond"), 1e-09),
    **dict.fromkeys(("us", "usecond"), 1e-06),
    **dict.fromkeys(("ms", "msecond"), 0.001),
    **dict.fromkeys(("s", "second"), 1.0),
}
# Units of whole numbers, in which a point or a comma groups digits.
_WHOLE_UNITS = {"", "ns", "nsecond", *_COUNTED}
# Not executed by threads but by a warp as a whole, whatever its threads do.
_WHOLE_WARP = frozenset({OpcodeClass.TENSOR, OpcodeClass.UNIFORM, OpcodeClass.CONTROL, OpcodeClass.COPY})

Counted = TypeVar("Counted", Level, Access)


@dataclass(frozen=True)
class _Header:
    """What the first lines of a table say.

    Attributes:
        names: Its columns.
        columns: Place of each metric, and of what else is read.
        units: Unit of each metric.
    """

    names: list[str]
    columns: Mapping[str, int]
    units: Mapping[str, str]

    def with_units(self, row: list[str]) -> _Header:
        """Return the header with the units of a line below it, where the names have none."""
        units = {m: unit or row[self.columns[m]].strip().lower() for m, unit in self.units.items()}
        return replace(self, units=units)


@dataclass(frozen=True)
class ProfiledLaunch:
    """One launch as ncu saw it.

    Attributes:
        kernel: Kernel name as ncu prints it.
        cells: What is read of it, as it is written, by metric or column.
        units: Unit of each metric.
        decimal: Decimal sign of its numbers.
        path: File that it is from.
    """

    kernel: str
    cells: Mapping[str, str]
    units: Mapping[str, str]
    decimal: str
    path: Path

    def error(self, metric: str, text: str) -> InputError:
        """Return an error about one of its cells."""
        return InputError(f"{self.path}: {metric} of {self.kernel} {text}; {_AGAIN}")


@dataclass(frozen=True)
class ProfiledLaunches:
    """The launches of a CSV, in order, read one by one each time that they are requested.

    Attributes:
        path: The CSV.
        decimal: Decimal sign of its numbers.
        kernel: Name of the kernel whose launches they are; None for all.
    """

    path: Path
    decimal: str = POINT
    kernel: str | None = None

    def __iter__(self) -> Iterator[ProfiledLaunch]:
        """Yield the launches.

        Raises:
            InputError: The CSV cannot be read, or is no such CSV.
        """
        for header, row in _records(self.path):
            kernel = row[header.columns[_KERNEL]]
            if self.kernel is None or kernel == self.kernel:
                cells = {name: row[at] for name, at in header.columns.items()}
                yield ProfiledLaunch(kernel, cells, header.units, self.decimal, self.path)

    def of(self, kernel: str) -> ProfiledLaunches:
        """Return those of one kernel."""
        return replace(self, kernel=kernel)


def read_launches(path: Path) -> ProfiledLaunches:
    """Return the launches of a CSV; the decimal sign of its numbers is told from them.

    Raises:
        InputError: The file cannot be read, is no such CSV, or leaves open what its numbers mean.
    """
    sign = DecimalSign()
    for launch in ProfiledLaunches(path):
        for metric, cell in launch.cells.items():
            if metric in _METRICS:
                counts = [number for _, number in _PAIR.findall(cell)]
                whole = bool(counts) or launch.units.get(metric, "") in _WHOLE_UNITS
                sign.see(metric, [cell.partition("(")[0].strip(), *counts], whole=whole)
        try:
            told = sign.told()
        except InputError as error:
            raise launch.error("the CSV", f"holds {error}") from error
        if told is not None:
            return ProfiledLaunches(path, told)
    for example in sign.unclear.values():
        raise InputError(f"{path}: {quoted(example)} may be thousands or a fraction; {_AGAIN}")
    return ProfiledLaunches(path)


def _records(path: Path) -> Iterator[tuple[_Header, list[str]]]:
    """Yield each row of a CSV with the header above it.

    Raises:
        InputError: There is no header, or a row that is cut off.
    """
    csv.field_size_limit(_MAX_LINE)
    rows = csv.reader(chain.from_iterable(TextFile(path, _MAX_LINE).lines()))
    header: _Header | None = None
    error, count = "", 0
    try:
        for row in rows:
            if "ID" in row and _KERNEL in row:
                header = _header(path, row)
            elif header is None or not row or row[0].startswith("=="):
                error = error or next((cell for cell in row[:1] if _ERROR in cell or _PERMISSION in cell), "")
            elif len(row) != len(header.names):
                # What the program itself writes may stand between the launches.
                if len(row) <= header.columns[_KERNEL] or not row[0].strip().isdigit():
                    continue
                raise InputError(
                    f"{path}, line {rows.line_num}: {len(row)} cells under {len(header.names)} names; is it"
                    " cut off?"
                )
            elif row[header.columns["ID"]].strip():
                count += 1
                yield header, row
            else:
                header = header.with_units(row)
    except csv.Error as problem:
        raise InputError(f"{path}, line {rows.line_num}: {problem}") from problem
    if header is None or (error and not count):
        raise InputError(f"{path} {_why_no_launches(error)}")


def _why_no_launches(error: str) -> str:
    """Return why a text holds no launches: what ncu says, if it says something."""
    if _PERMISSION in error:
        return (
            f"has no counts: ncu had no permission to read the GPU's counters ({_PERMISSION}). Profile as"
            " root, or load the module nvidia with NVreg_RestrictProfilingToAdminUsers=0 for every user"
        )
    if error:
        return f"has no counts: ncu says {quoted(error.removeprefix(_ERROR).strip())}"
    return (
        f"is no CSV of ncu's raw page (no line with ID and {_KERNEL}); write it with"
        " `ncu --csv --page raw --print-metric-instances details`"
    )


def _header(path: Path, names: list[str]) -> _Header:
    if "Metric Name" in names:
        raise InputError(f"{path} is ncu's details page; write it again with `--page raw`")
    columns: dict[str, int] = {}
    units: dict[str, str] = {}
    for at, name in enumerate(names):
        found = _NAME.match(name)
        metric = found["metric"] if found is not None else ""
        metric = next((one for one in (metric, metric.removesuffix(".sum")) if one in _METRICS), "")
        if name in _COLUMNS:
            columns[name] = at
        elif found is not None and metric:
            columns.setdefault(metric, at)
            units.setdefault(metric, (found["unit"] or "").strip().lower())
    return _Header(names, columns, units)


def work_of(launches: Iterable[ProfiledLaunch], name: str, path: Path) -> KernelWork:
    """Return what some launches executed and moved, together.

    Threads are counted as 32 a warp instruction, less those that took no part where the CSV has
    executions by threads (instructions of a whole warp, as on the tensor cores, always count 32). Lanes that
    took no part are counted as `idle`.

    Args:
        launches: At least one.
        name: Name of the work.
        path: Where they were read, for the error.

    Raises:
        InputError: A launch has no executed opcodes, or a cell that is no number.
    """
    opcodes: dict[str, float] = {}
    idle: dict[str, float] = {}
    levels, accesses = dict.fromkeys(_LEVELS, 0.0), dict.fromkeys(_ACCESSES, 0.0)
    time_s = 0.0
    modifiers = True
    for launch in launches:
        warps, with_modifiers = _opcodes(launch, _OPCODES)
        if not warps:
            raise InputError(
                f"{path}: {launch.kernel} has no executed opcodes; profile with `ncu --metrics"
                f" {_OPCODES}{_MODIFIERS} --print-metric-instances details` (ncu 2023.1 or newer)"
            )
        threads, _ = _opcodes(launch, _THREADS)
        modifiers = modifiers and with_modifiers
        for opcode, count in lanes_of(warps, threads).items():
            opcodes[opcode] = opcodes.get(opcode, 0.0) + count
            idle[opcode] = idle.get(opcode, 0.0) + WARP * warps[opcode] - count
        for level, ways in _LEVELS.items():
            levels[level] += _first(launch, ways)
        for access, ways in _ACCESSES.items():
            accesses[access] += _first(launch, ways)
        time_s += _number(launch, _DURATION)
    return KernelWork(
        name,
        tuple(sorted(opcodes.items())),
        _counted(levels),
        time_s,
        modifiers,
        _counted(accesses),
        tuple((opcode, lanes) for opcode, lanes in sorted(idle.items()) if lanes),
    )


def launch_shape(launch: ProfiledLaunch, path: Path) -> tuple[int, int]:
    """Return blocks of a launch, and threads a block.

    Args:
        launch: The launch.
        path: Where it was read, for the error.

    Raises:
        InputError: It does not say.
    """
    sizes = []
    for name in _SHAPE:
        numbers = re.findall(r"\d+", launch.cells.get(name, ""))
        if not numbers:
            raise InputError(
                f"{path}: {launch.kernel} has no {name}, so no time can be modelled; give `time_s`"
            )
        sizes.append(math.prod(int(number) for number in numbers))
    return sizes[0], sizes[1]


def _opcodes(launch: ProfiledLaunch, metric: str) -> tuple[dict[str, float], bool]:
    """Return a per-opcode metric, with modifiers where there are, and whether it has them.

    Raises:
        InputError: A count is no whole number, or there is something else beside the counts.
    """
    for name, has_modifiers in ((metric + _MODIFIERS, True), (metric, False)):
        cell = launch.cells.get(name, "")
        pairs = _PAIR.findall(cell)
        if not pairs:
            continue
        beside = _PAIR.sub("", cell)
        if not _BESIDE.fullmatch(beside):
            raise launch.error(name, f"has {quoted(beside)} beside its counts")
        found: dict[str, float] = {}
        for opcode, number in pairs:
            value = _parsed(launch, name, number)
            if not value.is_integer():
                raise launch.error(name, f"counts {quoted(number)} {opcode}, which is no whole number")
            found[opcode] = found.get(opcode, 0.0) + value
        return found, has_modifiers
    return {}, False


def lanes_of(warps: Mapping[str, float], threads: Mapping[str, float]) -> dict[str, float]:
    """Return executions by threads: 32 a warp for what a warp executes as one.

    Args:
        warps: Executions by warps, by opcode.
        threads: Executions by the threads that took part; none where they were not counted.
    """
    counts = {}
    for opcode, n in warps.items():
        whole = WARP * n
        seen = threads.get(opcode, threads.get(opcode.partition(".")[0], whole) if not threads else whole)
        counts[opcode] = whole if opcode_class(opcode) in _WHOLE_WARP else min(seen, whole)
    return counts


def _counted(totals: Mapping[Counted, float]) -> tuple[tuple[Counted, float], ...]:
    """Return the totals of what all launches count; what one of them lacks was not counted."""
    return tuple((one, total) for one, total in totals.items() if math.isfinite(total))


def _first(launch: ProfiledLaunch, sets: Sequence[tuple[Sequence[str], float]]) -> float:
    """Return the sum of the first set of metrics that the launch has, NaN where it has none.

    Raises:
        InputError: It has a part of one set, and no other.
    """
    lacking: list[str] = []
    for metrics, size in sets:
        values = {metric: _number(launch, metric) for metric in metrics}
        absent = [metric for metric, value in values.items() if math.isnan(value)]
        if not absent:
            return size * sum(values.values())
        lacking += absent if len(absent) < len(metrics) else []
    if lacking:
        raise launch.error(lacking[0], "is missing, so that the bytes are not all counted")
    return math.nan


def _number(launch: ProfiledLaunch, metric: str) -> float:
    """Return a plain metric in base units, NaN where the launch has none.

    Raises:
        InputError: Its cell is no number, or its unit is not known.
    """
    cell = launch.cells.get(metric, "").partition("(")[0].strip()
    if cell.lower() in _ABSENT:
        return math.nan
    unit = launch.units.get(metric, "")
    if unit not in _UNITS:
        raise launch.error(metric, f"is in {quoted(unit)}, which is no unit that is known")
    return _parsed(launch, metric, cell) * _UNITS[unit]


def _parsed(launch: ProfiledLaunch, metric: str, text: str) -> float:
    try:
        value, unit = parse_number(text, launch.decimal)
    except ValueError as error:
        raise launch.error(metric, f"is {quoted(text)}: {error}") from error
    if unit:
        raise launch.error(metric, f"is {quoted(text)}, which is no number")
    return value
