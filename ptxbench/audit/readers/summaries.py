"""Tables of what tools made of readings: Zeus, codecarbon, and the operation tables of aiconfigurator."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ptxbench.audit.claim import Cause, Claim, Reason, Span, Way
from ptxbench.audit.readers.contents import Contents
from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable
from ptxbench.meter.readers.text import open_text, read_header
from ptxbench.sensors.base import SourceName
from ptxbench.storage.file_errors import reading_parquet, require_regular

_CURE = "name a file that the tool wrote"
_J_PER_KWH = 3.6e6
_ZEUS_GPU = re.compile(r"gpu(\d+)_energy")
_COUNTED = re.compile(r"(\d+) x (.+)")

# How aiconfigurator's collector measures (collector/helper.py, Apache-2.0, as of 2026-08): the mean of
# nvmlDeviceGetPowerUsage, polled every 0.1 s from the begin of a loop on, which is to last 1 s, or 0.3 s
# where a pass took less than 0.1 ms when it was timed without a CUDA graph. It makes 6 to 3,000 rounds of 1
# or 5 passes. How long the pass took at first is not kept: from as long as in the graph to this much longer.
_COLLECTOR_POLL_S = 0.1
_LOOP_S = 1.0
_QUICK_LOOP_S, _QUICK_S = 0.3, 1e-4
_LAUNCH_S = 3e-4
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 3000
_PASSES = (1, 5)
_SHAPE = ("op_name", "gemm_dtype", "attn_dtype", "m", "n", "k", "batch_size", "isl", "num_heads", "head_dim")


def read_zeus(path: Path) -> Contents:
    """Read the log that ZeusMonitor writes: begin, name, length and joules of each window and GPU.

    Raises:
        InputError: It cannot be read.
    """
    rows = _rows(path)
    if not rows:
        raise InputError(f"{path} holds no window")
    claims = []
    for row in rows:
        length_s = _number(row, "elapsed_time")
        for column, cell in row.items():
            gpu = _ZEUS_GPU.fullmatch(column)
            if gpu is not None:
                label, read = (
                    f"{printable(row['window_name'])} GPU {gpu[1]}",
                    (Way.COUNTER, SourceName.COUNTER),
                )
                claims.append(Claim.of_energy(label, _as_float(cell), length_s, *read))
    note = (
        "energies are taken for differences of the energy counter, as on Volta and newer;"
        " with approx_instant_energy, or on older GPUs, they are made in another way"
    )
    return Contents("Zeus", claims=tuple(claims), notes=(note,))


def read_codecarbon(path: Path) -> Contents:
    """Read the emissions.csv of codecarbon: the GPUs' energy of a whole program, kWh.

    Raises:
        InputError: It cannot be read.
    """
    idle = Reason(Cause.IDLE_INCLUDED, "it is all that was drawn from start to stop, idle and set-up too")
    claims = []
    for row in _rows(path):
        length_s, energy_j = _number(row, "duration"), _J_PER_KWH * _number(row, "gpu_energy")
        counted = _COUNTED.match(row.get("gpu_model", ""))
        boards = int(counted[1]) if counted else 1
        is_nvidia = "nvidia" in row.get("gpu_model", "").lower() or counted is not None
        # Tasks of one run have its name in common.
        named = (row.get("project_name", ""), row.get("run_id", "")[:8], row.get("task_name", ""))
        claims.append(
            Claim.of_energy(
                printable(" ".join(filter(None, named))),
                energy_j,
                length_s,
                Way.COUNTER if is_nvidia else Way.UNSAID,
                SourceName.COUNTER,
                gpu=printable(counted[2] if counted else row.get("gpu_model", "")),
                boards=max(boards, 1),
                reasons=(idle,),
            )
        )
    note = "gpu_energy alone is judged: energies of CPU and memory are no readings of a GPU"
    return Contents("codecarbon", claims=tuple(claims), notes=(note,))


def read_operations(path: Path) -> Contents:
    """Read a table of operations with their latency (ms) and power (W), in Parquet.

    Raises:
        InputError: It cannot be read, or has no latency and power.
    """
    import pyarrow.parquet as pq

    require_regular(path, _CURE)
    with reading_parquet(path, _CURE):
        table = pq.read_table(path)
        missing = [name for name in ("latency", "power") if name not in table.column_names]
        if missing:
            raise InputError(f"{path} has no column {missing[0]}: it is no table of operations")
        wanted = (*_SHAPE, "device", "latency", "power", "power_limit")
        rows = table.select([name for name in wanted if name in table.column_names]).to_pylist()
    claims = tuple(_operation(row) for row in rows if _known(row, "power") and _known(row, "latency"))
    notes = [
        "the collector's window and what ran before it are not kept: 1 s, or less for a pass below 0.3 ms, "
        " after any load"
    ]
    if len(claims) < len(rows):
        notes.append(f"{len(rows) - len(claims)} of {len(rows)} rows have no power or no latency")
    return Contents("aiconfigurator", claims=claims, notes=tuple(notes))


def collector_window_s(latency_s: float) -> Span:
    """Return how long the collector's loop may have lasted, by the time of a pass."""
    quick_s = _QUICK_LOOP_S * latency_s / _QUICK_S
    low_s = _LOOP_S * latency_s / (latency_s + _LAUNCH_S)
    high_s = _LOOP_S
    if latency_s < _QUICK_S:
        low_s, high_s = min(quick_s, low_s), max(_QUICK_LOOP_S, _LOOP_S * latency_s / _QUICK_S)
    least_s = _LEAST_ROUNDS * _PASSES[0] * latency_s
    most_s = _MOST_ROUNDS * _PASSES[1] * latency_s
    high_s = min(max(high_s, _LEAST_ROUNDS * _PASSES[1] * latency_s), most_s)
    return Span(min(max(low_s, least_s), high_s, _MOST_ROUNDS * _PASSES[0] * latency_s), high_s)


def _operation(row: dict[str, Any]) -> Claim:
    shape = " ".join(printable(str(row[name])) for name in _SHAPE if row.get(name) is not None)
    power_w, limit_w = float(row["power"]), row.get("power_limit")
    return Claim(
        label=shape,
        unit="W",
        value=power_w,
        power_w=power_w,
        way=Way.MEAN,
        source=SourceName.USAGE,
        window_s=collector_window_s(float(row["latency"]) / 1e3),
        poll_s=_COLLECTOR_POLL_S,
        gpu=printable(str(row.get("device") or "")),
        limit_w=float(limit_w) if limit_w else 0.0,
    )


def _known(row: dict[str, Any], name: str) -> bool:
    value = row.get(name)
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def _rows(path: Path) -> Sequence[dict[str, str]]:
    return list(_cells(path))


def _cells(path: Path) -> Iterator[dict[str, str]]:
    table = read_header(open_text(path))
    for piece in table.pieces(table.names):
        for cells in zip(*piece.columns, strict=True):
            yield dict(zip(table.names, cells, strict=True))


def _number(row: dict[str, str], column: str) -> float:
    return _as_float(row.get(column, ""))


def _as_float(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
