"""A profile as a page for a browser: a flame graph, a table to sort and search, power over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxbench.attribute.replay.profile import Profile
from ptxbench.attribute.replay.replayed import ProfileFolder
from ptxbench.attribute.replay.shown import foot, head, launch_shape
from ptxbench.attribute.stacks import Frame, profile_stacks, tree
from ptxbench.core.demangle import short_name
from ptxbench.core.version import VERSION
from ptxbench.report.web_page import fill_page, plain

_MOST_POINTS = 3000


def page(folder: ProfileFolder, profile: Profile) -> str:
    """Return the page.

    Args:
        folder: The run, for its readings.
        profile: What it gave.
    """
    rows = [
        {
            "name": row.name,
            "short": short_name(row.name) if row.kind is not None else row.name,
            "shape": launch_shape(row.kind.node) if row.kind is not None else "",
            "calls": row.calls,
            "status": str(row.status),
            "reason": row.reason,
            **{
                key: plain(value)
                for key, value in (
                    ("energy_j", row.energy_j),
                    ("half_j", row.half_j),
                    ("share", profile.share(row)),
                    ("launch_s", row.launch_s),
                    ("launch_j", row.launch_j),
                    ("power_w", row.power_w),
                )
            },
        }
        for row in profile.rows
    ]
    title = f"The joules of a step on {profile.gpu}"
    document = {
        "title": title,
        "simulated": profile.is_simulated,
        "head": head(profile),
        "notes": foot(profile),
        "rows": rows,
        "tree": _frame(tree(profile_stacks(profile))),
        "power": _power(folder),
        "footer": f"ptxbench {VERSION}. The energy is that of the whole board, idle power included.",
    }
    return fill_page("profile.html", title, document)


def _frame(frame: Frame) -> dict[str, Any]:
    return {
        "name": frame.name,
        "energy": plain(frame.energy_j),
        "time": plain(frame.time_s),
        "children": [_frame(one) for one in frame.within()],
    }


def _power(folder: ProfileFolder) -> list[list[object]]:
    """Return time and power of the best source within the windows of all recordings, thinned."""
    recordings = folder.recordings
    source = recordings.manifest.sensors[0]
    times, powers = [np.empty(0)], [np.empty(0)]
    for one in recordings.recordings:
        series = recordings.trace(one.name).of(source.source)
        if series is None or series.counts_energy:
            continue
        good = series.good()
        inside = (good.time_ns >= one.windows[0].start_ns) & (good.time_ns <= one.windows[0].end_ns)
        times.append(good.time_ns[inside] / 1e9)
        powers.append(good.value[inside])
    at_s, power_w = np.concatenate(times), np.concatenate(powers)
    if not len(at_s):
        return []
    step = -(-len(at_s) // _MOST_POINTS)
    points = zip((at_s[::step] - at_s[0]).tolist(), power_w[::step].tolist(), strict=True)
    return [[plain(at), plain(watts)] for at, watts in points]
