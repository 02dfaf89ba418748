"""A program's run on one time axis, as trace events that Perfetto and Chrome's tracing show.

The format is the JSON Object Format of "Trace Event Format" (Google, 2016): times in us, complete events for
kernels, nestable asynchronous events for ranges, counter events for power, clock and temperature.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from ptxbench.attribute.attribution import Share
from ptxbench.attribute.launches import Launches
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.recorded import RecordedBoard, RecordedProgram
from ptxbench.core.demangle import shortened
from ptxbench.core.estimate import finite
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Float64s
from ptxbench.storage.atomic import replacing

_PROGRAM = 0
_FIRST_GPU = 1
# Names of templates have thousands of characters.
_LONGEST_NAME = 200
_COUNTERS = ((SourceName.CLOCK, "SM clock", "MHz"), (SourceName.TEMPERATURE, "temperature", "C"))
Event = dict[str, Any]


def write_timeline(recorded: RecordedProgram, program: ProgramEnergy, path: Path) -> None:
    """Write a run as trace events; a name that ends with .gz is compressed.

    Args:
        recorded: The run.
        program: What it took.
        path: The file.

    Raises:
        InputError: The file cannot be written.
    """
    with replacing(path) as file:
        packed = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if path.suffix == ".gz" else file
        text = io.TextIOWrapper(cast(BinaryIO, packed), encoding="utf-8")
        head = json.dumps(_about(program))
        text.write(f'{{"displayTimeUnit":"ms","otherData":{head},"traceEvents":[')
        for number, event in enumerate(events(recorded, program)):
            text.write(("," if number else "") + "\n" + json.dumps(event, separators=(",", ":")))
        text.write("\n]}\n")
        text.flush()
        text.detach()
        if packed is not file:
            packed.close()


def events(recorded: RecordedProgram, program: ProgramEnergy) -> Iterator[Event]:
    """Yield the events of a run: its begin is 0.

    A reading of power stands at the middle of the time that it averages over.
    """
    yield _named("process_name", _PROGRAM, 0, "program")
    yield from _range_events(recorded)
    for number, (board, gpu) in enumerate(zip(recorded.boards, program.gpus, strict=True)):
        at = _FIRST_GPU + number
        title = f"{board.facts.name}, SIMULATED" if program.is_simulated else board.facts.name
        yield _named("process_name", at, 0, title)
        yield from _counter_events(recorded, board, gpu, at)
        launches = recorded.log.by_gpu.get(board.facts.uuid)
        if launches is not None:
            yield from _kernel_events(launches, gpu, recorded.facts.start_ns, at)


def _about(program: ProgramEnergy) -> dict[str, Any]:
    return {
        "command": list(program.command),
        "energy_j": [finite(gpu.energy.energy_j) for gpu in program.gpus],
        "simulated": program.is_simulated,
        "remarks": list(program.remarks),
    }


def _named(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _range_events(recorded: RecordedProgram) -> Iterator[Event]:
    number = 0
    for ranges in recorded.log.ranges:
        common = {"cat": str(ranges.kind), "name": ranges.name, "pid": _PROGRAM, "tid": 0}
        for start_ns, end_ns in zip(ranges.start_ns.tolist(), ranges.end_ns.tolist(), strict=True):
            number += 1
            for phase, at_ns in (("b", start_ns), ("e", end_ns)):
                yield {**common, "ph": phase, "id": number, "ts": (at_ns - recorded.facts.start_ns) / 1e3}


def _counter_events(
    recorded: RecordedProgram, board: RecordedBoard, gpu: GpuShare, process: int
) -> Iterator[Event]:
    window = recorded.facts.window
    power = board.power(window)
    at_ns = power.at_ns - float(window.start_ns) - gpu.delay_s * 1e9
    yield from _counter("power", "W", at_ns, power.power_w, process)
    for at, text in zip(((power.left_out_ns - window.start_ns) / 1e3).tolist(), power.left_out, strict=True):
        yield {"ph": "i", "s": "p", "name": f"reading left out: {text}", "pid": process, "ts": at}
    for source, name, unit in _COUNTERS:
        series = board.of(source)
        if series is not None:
            yield from _counter(name, unit, series.time_ns - float(window.start_ns), series.value, process)


def _counter(
    name: str, unit: str, at_ns: npt.NDArray[np.floating[Any]], value: Float64s, process: int
) -> Iterator[Event]:
    for at, one in zip((at_ns / 1e3).tolist(), value.tolist(), strict=True):
        yield {"ph": "C", "name": f"{name} ({unit})", "pid": process, "ts": at, "args": {unit: one}}


def _kernel_events(launches: Launches, gpu: GpuShare, origin_ns: int, process: int) -> Iterator[Event]:
    for lane, name in enumerate(launches.lanes):
        yield _named("thread_name", process, lane, name)
    members = [member for share in gpu.kernels for member in share.members]
    about = {name: {"mean power of this name's group (W)": w} for name, w in _mean_powers(members).items()}
    about |= {name: {"mean power of this name (W)": w} for name, w in _mean_powers(gpu.kernels).items()}
    last = [{"args": about[name]} if name in about else {} for name in launches.names]
    shown = [shortened(name, _LONGEST_NAME) for name in launches.names]
    for piece in launches.pieces():
        columns = (piece.name, piece.lane, piece.start_ns - origin_ns, piece.end_ns - piece.start_ns)
        for name, lane, start_ns, length_ns in zip(*map(np.ndarray.tolist, columns), strict=True):
            yield {
                **{"ph": "X", "name": shown[name], "cat": "kernel", "pid": process, "tid": lane},
                **{"ts": start_ns / 1e3, "dur": length_ns / 1e3},
                **last[name],
            }


def _mean_powers(kernels: Sequence[Share]) -> dict[str, float]:
    """Return the mean power of each kernel name that could be told apart, W."""
    return {
        share.names[0]: round(share.energy_j / share.time_s, 1)
        for share in kernels
        if len(share.names) == 1 and share.time_s > 0
    }
