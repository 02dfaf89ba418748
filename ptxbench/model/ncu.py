"""Executed opcodes and bytes from a CSV of Nsight Compute (`ncu --csv --page raw`).

    ncu --csv --page raw --print-units base --print-metric-instances details \
        --metrics sass__inst_executed_per_opcode_with_modifier_all,... ./program > counts.csv

docs/model.md, section 2, lists the metrics.

A cell of a metric with instances reads "12,345 (FFMA: 12,000; IADD3: 345)"; older output separates them
otherwise, so that any list of opcodes with numbers in parentheses or behind colons is taken.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ptxbench.core.errors import InputError
from ptxbench.core.threads import WARP
from ptxbench.model.opcodes import OpcodeClass, opcode_class
from ptxbench.model.work import Access, KernelWork, Level
from ptxbench.storage.file_errors import read_bytes

_OPCODES = "sass__inst_executed_per_opcode"
_THREADS = "sass__thread_inst_executed_true_per_opcode"
_MODIFIERS = "_with_modifier_all"
_KERNEL = "Kernel Name"
_SHAPE = ("Grid Size", "Block Size")
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
# "FFMA: 12,000", "FFMA (12,000)" and "FFMA=12000".
_PAIR = re.compile(r"([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)\s*[:=(]\s*(\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_UNITS = {
    "": 1.0,
    "inst": 1.0,
    "request": 1.0,
    "wavefront": 1.0,
    "tag": 1.0,
    "sector": 1.0,
    "byte": 1.0,
    "kbyte": 1e3,
    "mbyte": 1e6,
    "gbyte": 1e9,
    "tbyte": 1e12,
    "nsecond": 1e-9,
    "ns": 1e-9,
    "usecond": 1e-6,
    "us": 1e-6,
    "msecond": 1e-3,
    "ms": 1e-3,
    "second": 1.0,
    "s": 1.0,
}
# Not executed by threads but by a warp as a whole, whatever its threads do.
_WHOLE_WARP = frozenset({OpcodeClass.TENSOR, OpcodeClass.UNIFORM, OpcodeClass.CONTROL, OpcodeClass.COPY})

Counted = TypeVar("Counted", Level, Access)


@dataclass(frozen=True)
class ProfiledLaunch:
    """One launch as ncu saw it.

    Attributes:
        kernel: Kernel name as ncu prints it.
        cells: Metric and its cell; those with another unit than base are converted where they are read.
        units: Metric and its unit.
    """

    kernel: str
    cells: Mapping[str, str]
    units: Mapping[str, str]


def read_launches(path: Path) -> tuple[ProfiledLaunch, ...]:
    """Read every launch of a CSV, in order.

    Raises:
        InputError: The file cannot be read or is no such CSV.
    """
    text = read_bytes(path).decode(errors="replace")
    csv.field_size_limit(1 << 27)
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    head = next((i for i, row in enumerate(rows) if "ID" in row and _KERNEL in row), None)
    if head is None:
        raise InputError(
            f"{path} is no CSV of ncu's raw page (no line with ID and {_KERNEL}); write it with"
            " `ncu --csv --page raw --print-metric-instances details`"
        )
    names = rows[head]
    body = [row for row in rows[head + 1 :] if len(row) == len(names)]
    if "Metric Name" in names:
        raise InputError(f"{path} is ncu's details page; write it again with `--page raw`")
    units: Mapping[str, str] = {}
    if body and not body[0][names.index("ID")].strip().isdigit():
        units, body = dict(zip(names, body[0], strict=True)), body[1:]
    at = names.index(_KERNEL)
    return tuple(ProfiledLaunch(row[at], dict(zip(names, row, strict=True)), units) for row in body)


def work_of(launches: Sequence[ProfiledLaunch], name: str, path: Path) -> KernelWork:
    """Return what some launches executed and moved, together.

    Threads are counted as 32 a warp instruction, less those that took no part where the CSV has
    executions by threads (instructions of a whole warp, as on the tensor cores, always count 32).

    Args:
        launches: At least one.
        name: Name of the work.
        path: Where they were read, for the error.

    Raises:
        InputError: A launch has no executed opcodes.
    """
    opcodes: dict[str, float] = {}
    time_s = 0.0
    modifiers = True
    for launch in launches:
        warps, with_modifiers = _opcodes(launch, _OPCODES)
        if not warps:
            raise InputError(
                f"{path}: {launch.kernel} has no executed opcodes; profile with --metrics"
                f" {_OPCODES}{_MODIFIERS} and --print-metric-instances details (ncu 2023.1 or newer)"
            )
        threads, _ = _opcodes(launch, _THREADS)
        modifiers = modifiers and with_modifiers
        for opcode, count in _executions(warps, threads).items():
            opcodes[opcode] = opcodes.get(opcode, 0.0) + count
        time_s += _number(launch, _DURATION)
    return KernelWork(
        name,
        tuple(sorted(opcodes.items())),
        _totals(launches, _LEVELS),
        time_s,
        modifiers,
        _totals(launches, _ACCESSES),
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
                f"{path}: {launch.kernel} has no {name}, so no time can be modelled; give --time-s"
            )
        sizes.append(math.prod(int(number) for number in numbers))
    return sizes[0], sizes[1]


def _opcodes(launch: ProfiledLaunch, metric: str) -> tuple[dict[str, float], bool]:
    """Return a per-opcode metric, with modifiers where there are, and whether it has them."""
    for name, has_modifiers in ((metric + _MODIFIERS, True), (metric, False)):
        pairs = _PAIR.findall(_cell(launch, name))
        if pairs:
            found: dict[str, float] = {}
            for opcode, number in pairs:
                found[opcode] = found.get(opcode, 0.0) + float(number.replace(",", ""))
            return found, has_modifiers
    return {}, False


def _cell(launch: ProfiledLaunch, metric: str) -> str:
    """Return a metric's cell; some versions put the unit or a suffix behind the name."""
    for name, cell in launch.cells.items():
        if name == metric or name.startswith(f"{metric} ") or name == f"{metric}.sum":
            return cell
    return ""


def _executions(warps: Mapping[str, float], threads: Mapping[str, float]) -> dict[str, float]:
    counts = {}
    for opcode, n in warps.items():
        whole = WARP * n
        seen = threads.get(opcode, threads.get(opcode.partition(".")[0], whole) if not threads else whole)
        counts[opcode] = whole if opcode_class(opcode) in _WHOLE_WARP else min(seen, whole)
    return counts


def _totals(
    launches: Sequence[ProfiledLaunch], ways: Mapping[Counted, Sequence[tuple[Sequence[str], float]]]
) -> tuple[tuple[Counted, float], ...]:
    """Return what all launches together count of each thing; what one of them lacks was not counted."""
    found = {one: [_first(launch, sets) for launch in launches] for one, sets in ways.items()}
    return tuple((one, sum(counts)) for one, counts in found.items() if all(map(math.isfinite, counts)))


def _first(launch: ProfiledLaunch, sets: Sequence[tuple[Sequence[str], float]]) -> float:
    """Return the sum of the first set of metrics of which the launch has any, NaN where it has none."""
    for metrics, size in sets:
        values = [size * _number(launch, metric) for metric in metrics]
        counted = [value for value in values if math.isfinite(value)]
        if counted:
            return sum(counted)
    return math.nan


def _number(launch: ProfiledLaunch, metric: str) -> float:
    """Return a plain metric in base units, NaN where the launch has none."""
    cell = _cell(launch, metric).partition("(")[0].replace(",", "").strip()
    unit = launch.units.get(metric, "").strip().lower()
    try:
        return float(cell) * _UNITS[unit]
    except (ValueError, KeyError):
        return float("nan")
