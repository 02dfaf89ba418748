"""Manifests of the first schema as those of the second, in plain values.

Each kind of run had a manifest of its own then. What all of them have now stood beside what only a kind has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.storage import codec
from ptxbench.storage.codec import Place
from ptxbench.storage.document import Plain, major_schema

_HEAD = ("ptxbench_version", "commit", "created", "gpus", "host", "sensors")
# What measured kernels kept of their GPU beside its name.
_KERNELS_GPU = ("uuid_hash", "driver", "power_limit_w", "max_sm_clock_mhz")
_UNKNOWN_GPU = cast(Plain, codec.encode(GpuInfo.partly_known("", "")))


def migrated(plain: Plain, place: Place) -> Plain:
    """Return the plain values of a manifest of any age as those of this schema.

    Args:
        plain: As they are in the file.
        place: The file.

    Raises:
        InputError: It is of a newer major schema than this version reads, or of none.
    """
    told = next(((key, migrate) for key, migrate in MIGRATIONS.items() if key in plain), None)
    if told is None or isinstance(plain.get("schema"), str):
        major_schema(plain, "schema", place)
        return plain
    key, migrate = told
    major_schema(plain, key if key.endswith("_version") else "", place)
    return migrate(plain)


def _parted(kind: str, plain: Plain) -> Plain:
    """Return a manifest with a head, whatever its kind, and the part of its kind."""
    if "gpu" in plain:
        plain = {"gpus": [plain["gpu"]], **plain}
    head = {key: plain[key] for key in _HEAD if key in plain}
    return {"kind": kind, **head, "part": {key: plain[key] for key in plain if key not in _HEAD}}


# They had all that they have now, in one level.
table_from_1 = partial(_parted, "table")
tuning_from_1 = partial(_parted, "tuning")
concurrent_from_1 = partial(_parted, "concurrent")
study_from_1 = partial(_parted, "study")


def recording_from_1(plain: Plain) -> Plain:
    """Return the manifest of recordings: a roofline was told by its purpose alone."""
    return _parted("roofline" if plain.get("purpose") == "roofline" else "recording", plain)


def program_from_1(plain: Plain) -> Plain:
    """Return the manifest of a program's run: `command` was the program's, of GPUs it had boards alone."""
    words = {"program": plain["command"]} if "command" in plain else {}
    head = {"ptxbench_version": plain.get("version"), "commit": plain.get("commit") or None}
    rest = {key: value for key, value in plain.items() if key != "command"}
    return _parted("program", {"created": None, "gpus": [], **rest, **head, **words})


def kernels_from_1(plain: Plain) -> Plain:
    """Return the manifest of measured kernels: of the GPU it had five values, of ptxbench nothing."""
    gpu = {**_UNKNOWN_GPU, "name": plain.get("gpu"), **{k: plain[k] for k in _KERNELS_GPU if k in plain}}
    rest = {key: value for key, value in plain.items() if key not in ("gpu", *_KERNELS_GPU)}
    head = {"ptxbench_version": "", "commit": None, "created": plain.get("begun")}
    return _parted("kernels", {**rest, **head, "gpus": [gpu]})


# By a key that only this kind had.
MIGRATIONS: Mapping[str, Callable[[Plain], Plain]] = {
    "schema_version": table_from_1,
    "recording_version": recording_from_1,
    "tuning_version": tuning_from_1,
    "concurrent_version": concurrent_from_1,
    "is_simulated": program_from_1,
    "trials": kernels_from_1,
    "cases": study_from_1,
    "tools": study_from_1,
}
