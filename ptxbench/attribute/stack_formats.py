"""Stacks in the formats of the programs that show flame graphs: a function a format, from stacks to bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptxbench.attribute.stacks import Frame, Stacks, tree
from ptxbench.core.errors import InputError
from ptxbench.core.version import VERSION

_MICRO, _NANO = 1e6, 1e9
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def collapsed(stacks: Stacks) -> bytes:
    """Return a line a stack with its microjoules: what flamegraph.pl, inferno and others read."""
    lines = [
        f"{';'.join(_plain(frame) for frame in one.frames)} {round(one.energy_j * _MICRO)}"
        for one in stacks.stacks
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def speedscope(stacks: Stacks) -> bytes:
    """Return a file for https://www.speedscope.app: energy and time."""
    frames = list(dict.fromkeys(frame for one in stacks.stacks for frame in one.frames))
    number = {frame: i for i, frame in enumerate(frames)}
    samples = [[number[frame] for frame in one.frames] for one in stacks.stacks]

    def part(name: str, unit: str, weights: Sequence[float]) -> dict[str, Any]:
        return {
            "type": "sampled",
            "name": name,
            "unit": unit,
            "startValue": 0,
            "endValue": sum(weights),
            "samples": samples,
            "weights": weights,
        }

    document = {
        "$schema": _SCHEMA,
        "name": stacks.title,
        "exporter": f"ptxbench {VERSION}",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": [
            part("energy, microjoules", "none", [one.energy_j * _MICRO for one in stacks.stacks]),
            part("time", "nanoseconds", [one.time_s * _NANO for one in stacks.stacks]),
        ],
    }
    return json.dumps(document).encode()


def hatchet(stacks: Stacks) -> bytes:
    """Return the literal that `hatchet.GraphFrame.from_literal` takes, as JSON."""
    return json.dumps([_literal(one) for one in tree(stacks).within()]).encode()


def pprof(stacks: Stacks) -> bytes:
    """Return a gzipped profile.proto for `go tool pprof` and all that read it: energy, time, calls."""
    texts: dict[str, int] = {"": 0}

    def text(of: str) -> int:
        return texts.setdefault(of, len(texts))

    types = [("energy", "microjoules"), ("time", "nanoseconds"), ("calls", "count")]
    body = [_message(1, _number(1, text(kind)), _number(2, text(unit))) for kind, unit in types]
    frames = list(dict.fromkeys(frame for one in stacks.stacks for frame in one.frames))
    number = {frame: i + 1 for i, frame in enumerate(frames)}
    for one in stacks.stacks:
        values = (round(one.energy_j * _MICRO), round(one.time_s * _NANO), round(one.calls))
        # The innermost frame comes first.
        body.append(
            _message(2, _packed(1, [number[frame] for frame in reversed(one.frames)]), _packed(2, values))
        )
    for frame, i in number.items():
        body.append(_message(4, _number(1, i), _message(4, _number(1, i))))
        body.append(_message(5, _number(1, i), _number(2, text(frame)), _number(3, text(frame))))
    comment = _number(13, text(f"{stacks.title}, by ptxbench {VERSION}"))
    default = _number(14, text("energy"))
    body += [_bytes(6, of.encode()) for of in texts]
    return gzip.compress(b"".join([*body, comment, default]), mtime=0)


FORMATS: Mapping[str, Callable[[Stacks], bytes]] = {
    "collapsed": collapsed,
    "hatchet": hatchet,
    "pprof": pprof,
    "speedscope": speedscope,
}
# A file's ending says its format.
_ENDINGS = {
    ".collapsed": "collapsed",
    ".folded": "collapsed",
    ".hatchet.json": "hatchet",
    ".pb.gz": "pprof",
    ".speedscope.json": "speedscope",
}


def format_of(path: Path) -> str:
    """Return the format that a file's ending says.

    Raises:
        InputError: It says none.
    """
    for ending, name in _ENDINGS.items():
        if path.name.endswith(ending):
            return name
    raise InputError(f"{path} must end with one of {', '.join(_ENDINGS)}")


def _plain(frame: str) -> str:
    return frame.replace(";", ",").replace("\n", " ")


def _literal(frame: Frame) -> dict[str, Any]:
    return {
        "frame": {"name": frame.name, "type": "function"},
        "metrics": {
            "energy": frame.own_j,
            "energy (inc)": frame.energy_j,
            "time": frame.own_s,
            "time (inc)": frame.time_s,
        },
        "children": [_literal(one) for one in frame.within()],
    }


def _varint(value: int) -> bytes:
    """Return a number as protocol buffers write it."""
    value &= (1 << 64) - 1
    digits = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        digits.append(low | (0x80 if value else 0))
        if not value:
            return bytes(digits)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _message(field: int, *parts: bytes) -> bytes:
    return _bytes(field, b"".join(parts))


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, values)))
