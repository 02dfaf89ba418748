"""Numbers that the code gave before, in a JSON file beside the test that works them out again.

A number that changes is then seen, and CHANGELOG says why. `KEEP_NUMBERS=1 pytest FILE` writes the file anew.
A dataclass may have more fields at its end than it had.
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
    if os.environ.get("KEEP_NUMBERS"):
        lines = (f"{json.dumps(name)}: {json.dumps(_plain(value))}" for name, value in found.items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    kept = json.loads(path.read_text())
    assert found.keys() == kept.keys()
    for name, value in kept.items():
        assert _is_same(found[name], value, rel), (
            f"{name} is {_plain(found[name])} and was {value}: a slip, or a change that CHANGELOG names"
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


def _is_same(found: object, kept: object, rel: float) -> bool:
    if is_dataclass(found):
        values = [getattr(found, field.name) for field in fields(found)]
        return isinstance(kept, list) and _is_same(values[: len(kept)], kept, rel)
    plain = _plain(found)
    if isinstance(plain, list) and isinstance(kept, list):
        return len(plain) == len(kept) and all(_is_same(a, b, rel) for a, b in zip(found, kept, strict=True))
    if isinstance(plain, dict) and isinstance(kept, dict):
        by_name = {str(key): one for key, one in found.items()}
        return by_name.keys() == kept.keys() and all(_is_same(by_name[key], kept[key], rel) for key in kept)
    if isinstance(plain, float) and isinstance(kept, int | float):
        return plain == pytest.approx(kept, rel=rel, abs=1e-10)
    return type(plain) is type(kept) and plain == kept
