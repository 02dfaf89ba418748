"""Energy beside each kernel of a trace of the PyTorch profiler."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ptxbench.attribute.baseline import read_energy
from ptxbench.attribute.replay.profile import Profile, profile_of
from ptxbench.attribute.replay.replayed import ProfileFolder
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import finite
from ptxbench.devices.step import NodeType
from ptxbench.storage.atomic import write_bytes
from ptxbench.storage.file_errors import read_bytes
from ptxbench.storage.folder_kind import Kind, kind_of

# What Chrome's format calls an event that has a duration.
_WHOLE = "X"
_US = 1e-6
# Name, grid and block of a kernel.
Shape = tuple[str, tuple[int, ...], tuple[int, ...]]
# What stands beside a kernel, by its event; None where nothing is known.
Known = Callable[[Mapping[str, Any]], dict[str, Any] | None]


def annotate(trace: Path | str, found: Profile | Path | str, out: Path | str) -> int:
    """Write a trace with energy, as `ptxbench.torch.annotate` says."""
    path = Path(trace)
    data = read_bytes(path, "name a trace that the PyTorch profiler wrote")
    try:
        document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        events = document["traceEvents"] if isinstance(document, dict) else document
        kernels = [event for event in events if event.get("cat") == "kernel" and event.get("ph") == _WHOLE]
    except (ValueError, KeyError, TypeError, AttributeError, OSError, EOFError) as error:
        raise InputError(f"{path} is no trace of the PyTorch profiler ({error})") from error
    known, count = _known(found), 0
    for event in kernels:
        more = known(event)
        if more is not None:
            event["args"] = {**(event.get("args") or {}), **more}
            count += 1
    text = json.dumps(document).encode()
    write_bytes(Path(out), gzip.compress(text) if str(out).endswith(".gz") else text)
    return count


def _known(found: Profile | Path | str) -> Known:
    """Return what tells the energy of a kernel."""
    if isinstance(found, Profile):
        return _by_profile(found)
    path = Path(found)
    if kind_of(path)[0] is Kind.PROFILE:
        folder = ProfileFolder.open(path)
        with folder.recordings:
            return _by_profile(profile_of(folder))
    return _by_run(read_energy(path))


def _by_profile(profile: Profile) -> Known:
    by_shape: dict[Shape, dict[str, Any]] = {}
    for row in profile.rows:
        node = row.kind.node if row.kind is not None else None
        if node is None or node.type is not NodeType.KERNEL or finite(row.energy_j) is None:
            continue
        by_shape[row.name, node.grid, node.block] = {
            "energy (J)": row.launch_j,
            "energy interval (J)": [end / row.calls for end in row.interval_j],
            "power (W)": row.power_w,
            "energy status": str(row.status),
        }

    def known(event: Mapping[str, Any]) -> dict[str, Any] | None:
        given = event.get("args") or {}
        grid, block = (tuple(given.get(name) or ()) for name in ("grid", "block"))
        return by_shape.get((str(event.get("name")), grid, block))

    return known


def _by_run(report: Mapping[str, Any]) -> Known:
    power_w: dict[str, float] = {}
    for row in report.get("kernels", ()):
        parts = row.get("members") or ([row] if len(row["kernels"]) == 1 else [])
        for one in parts:
            name = one["kernel"] if "kernel" in one else one["kernels"][0]
            if one.get("mean_power_w") is not None:
                power_w[name] = float(one["mean_power_w"])

    def known(event: Mapping[str, Any]) -> dict[str, Any] | None:
        name, time_us = str(event.get("name")), event.get("dur")
        if name not in power_w or not isinstance(time_us, int | float):
            return None
        return {"energy (J)": power_w[name] * time_us * _US, "power (W)": power_w[name]}

    return known
