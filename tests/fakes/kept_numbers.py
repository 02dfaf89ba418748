"""Numbers that the code gave before, in a JSON file beside the test that works them out again.

A number that changes is then seen, and CHANGELOG says why. `KEEP_NUMBERS=1 pytest FILE` writes the file anew.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest


def assert_as_kept(test_file: str, found: Mapping[str, object], rel: float = 1e-7) -> None:
    """Compare results of any kind, by name, with those in the JSON file of the test's name.

    Sums over many values differ by `rel` between versions of numpy; what is searched for differs by more.
    """
    path = Path(test_file).with_suffix(".json")
    plain = {name: _plain(value) for name, value in found.items()}
    if os.environ.get("KEEP_NUMBERS"):
        lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in plain.items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    kept = json.loads(path.read_text())
    assert plain.keys() == kept.keys()
    for name, value in kept.items():
        assert _is_same(plain[name], value, rel), (
            f"{name} is {plain[name]} and was {value}: a slip, or a change that CHANGELOG names"
        )


def _plain(value: object) -> object:
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    match value:
        case np.ndarray():
            return _plain(value.tolist())
        case Mapping():
            return {str(key): _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case bool() | None:
            return value
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            return float(f"{value:.10g}") if math.isfinite(value) else str(float(value))
        case _:
            return str(value)


def _is_same(one: object, other: object, rel: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_is_same(a, b, rel) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key], rel) for key in one)
    if isinstance(one, float) and isinstance(other, int | float):
        return one == pytest.approx(other, rel=rel, abs=1e-10)
    return type(one) is type(other) and one == other
