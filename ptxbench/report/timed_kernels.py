"""Kernels with their time and energy from what other commands wrote, to be set on a roofline.

`ptxbench run --json`, `ptxbench report PROFILE --json` and `ptxbench estimate --json` name kernels with time
and energy. An estimate knows flops and bytes; of the others a CSV of ncu has them, by the kernel's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.model.ncu import read_launches, work_of
from ptxbench.model.roofline.kernels import RooflineWork, roofline_work
from ptxbench.storage.codec import read_json

_KINDS = "what `ptxbench run`, `report PROFILE` or `estimate` prints as JSON"
_RETURNED = re.compile(r"^void ")


@dataclass(frozen=True)
class TimedKernel:
    """One launch of a kernel.

    Attributes:
        name: Its name.
        energy_j: Its energy, J.
        time_s: Its time, s.
        capped: Whether the power limit was on.
        work: Its flops and bytes.
    """

    name: str
    energy_j: float
    time_s: float
    capped: bool
    work: RooflineWork


def timed_kernels(path: Path, counts: Path | None) -> tuple[TimedKernel, ...]:
    """Return the kernels of a file whose time, energy, flops and bytes are known.

    Args:
        path: What a command printed as JSON.
        counts: CSV of ncu with launches of these kernels; None: as the file says.

    Raises:
        InputError: A file cannot be read or is of another kind, or no kernel has all of these.
    """
    document = read_json(path)
    if not isinstance(document, dict):
        raise InputError(f"{path} is not {_KINDS}")
    if _is_estimate(document):
        found = [_estimated(document, path)]
    else:
        works = _works(counts) if counts is not None else {}
        rows = [row for row in _rows(document) if row[1] is not None and row[2]]
        if not rows:
            raise InputError(f"{path} names no kernel with an energy of its own; it must be {_KINDS}")
        found = [TimedKernel(*row, False, works[_plain(row[0])]) for row in rows if _plain(row[0]) in works]
        if not found:
            where = f"{counts} has none of its kernels" if counts else "flops and bytes are not in it"
            raise InputError(f"{path}: {where}, such as {rows[0][0]!r}; name a CSV of ncu by `counts`")
    return tuple(found)


def _is_estimate(document: Mapping[str, Any]) -> bool:
    return "kernel" in document and "time_s" in document


def _estimated(document: Mapping[str, Any], path: Path) -> TimedKernel:
    try:
        work = document["roofline"]
        return TimedKernel(
            str(document["kernel"]), float(document["energy_j"]), float(document["time_s"]),
            bool(document["capped"]), RooflineWork(dict(work["flops"]), dict(work["bytes_moved"])),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: the estimate has no energy, flops or bytes; estimate again") from error


def _rows(document: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, energy and time of a launch, as they are written."""
    for row in document.get("rows", []):
        if isinstance(row, dict) and "launch_j" in row:
            yield str(row["name"]), row["launch_j"], row["launch_s"]
    for profile in document.get("replay", []):
        yield from _rows(profile)
    for row in document.get("kernels", []):
        # Several names are kernels that the readings cannot tell apart.
        if isinstance(row, dict) and row.get("calls") and len(row.get("kernels", [])) == 1:
            energy_j, calls = row.get("energy_j"), row["calls"]
            yield str(row["kernels"][0]), energy_j and energy_j / calls, row["time_s"] / calls


def _works(counts: Path) -> dict[str, RooflineWork]:
    """Return what the mean launch of each kernel of a CSV does, by its plain name."""
    profiled = read_launches(counts)
    names = [launch.kernel for launch in profiled]
    works = {}
    for name in dict.fromkeys(names):
        whole = roofline_work(work_of(profiled.of(name), name, counts))
        works[_plain(name)] = RooflineWork(
            *({key: value / names.count(name) for key, value in part.items()}
              for part in (whole.flops, whole.bytes_moved))
        )  # fmt: skip
    return works


def _plain(name: str) -> str:
    """Return a kernel's name without what it returns and its arguments, which not every tool prints."""
    return _RETURNED.sub("", name).partition("(")[0].strip()
