"""Which faults of a board's sensors `table` holds or says, and which come out silent.

    python tests/table_fault_matrix.py [--kind late] [--board alone] [--silent]

Each case is one fault, in one strength, on one set of sources of a simulated H200, for a run of two rows. It
is *held* where no row has a number, or their intervals, with the scale that they share, hold the truth;
*unchecked* where all that is said is that no energy counter was there to check the source; and *silent*
otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fakes import distorters as d
from fakes.faults import Fault, FaultyGpu, LateGpu
from fakes.measuring import WatchedGpu, asked, measured

from ptxbench.core.status import Status
from ptxbench.devices.simulated.profiles import H200
from ptxbench.sensors.base import SourceName
from ptxbench.storage.manifest import Manifest, read_run_manifest
from ptxbench.storage.schema import TableRow

S = SourceName
BOARDS: dict[str, tuple[SourceName, ...]] = {
    "samples + counter": (S.SAMPLES, S.COUNTER),
    "counter + instant": (S.COUNTER, S.INSTANT),
    "samples alone": (S.SAMPLES,),
}
WHAT = asked("fma.rn.f32", "fma.rn.f64", min_repeats=3, max_repeats=3, window_s=0.6)
# A run takes some 17 s.
_MID_S = 8.0
_POLL_S = 0.0055

Make = Callable[[], Fault]


def in_time(change: Callable[[float, float], float]) -> Make:
    return lambda: d.changed_in_time(change)


POWER: dict[str, dict[str, Make]] = {
    "none": {"": in_time(lambda _, w: w)},
    "unit x 1000": {"mW": in_time(lambda _, w: 1000 * w), "kW": in_time(lambda _, w: w / 1000)},
    "zeros": {f"every {n}": lambda n=n: d.spikes(n, 0.0) for n in (2, 3, 7, 20)},
    "negative": {f"every {n}": lambda n=n: d.spikes(n, -1.0) for n in (2, 3, 7, 20)},
    "frozen": {
        "at 310 W": lambda: d.frozen_values(310.0),
        **{f"from {s:g} s": lambda s=s: d.frozen_while(lambda m: m.at_s > s) for s in (3.0, _MID_S, 13.0)},
    },
    "lost": {f"{x:.0%}": lambda x=x: d.lost(x) for x in (0.1, 0.3, 0.5, 0.7, 0.9)},
    "gain": {
        f"{x:g}": in_time(lambda _, w, x=x: x * w)
        for x in (0.6, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.2, 1.3)
    },
    "offset": {f"{x:+g} W": in_time(lambda _, w, x=x: w + x) for x in (-30, 20, 60)},
    "gain step": {
        f"to {x:g}": in_time(lambda t, w, x=x: w * (x if t > _MID_S else 1))
        for x in (0.7, 0.9, 1.05, 1.1, 1.3)
    },
    "slow drift": {
        f"{x:+g}/s": in_time(lambda t, w, x=x: w * (1 + x * t)) for x in (0.002, 0.01, 0.03, -0.01)
    },
    "compressed": {
        f"from {x:g} W": in_time(lambda _, w, x=x: min(w, x) + 0.5 * max(w - x, 0.0))
        for x in (200.0, 300.0, 400.0, 500.0)
    },
    "clipped": {f"at {x:g} W": in_time(lambda _, w, x=x: min(w, x)) for x in (300.0, 400.0, 550.0)},
    "spikes": {
        f"x {x:g}, every {n}": lambda x=x, n=n: d.spikes(n, x)
        for x, n in ((1000.0, 100), (3.0, 20), (1.6, 7), (1.6, 20), (1.3, 7))
    },
    "stamps alike": {f"every {n}": lambda n=n: d.stamps_of_another(n) for n in (2, 5, 20)},
    "future": {f"{s:g} s": lambda s=s: d.future_stamps(s) for s in (0.05, 1.0)},
    "clock step": {
        f"{s:+g} s": lambda s=s: d.clock_set_back(_MID_S, -s) for s in (-2, -0.5, -0.1, 0.1, 0.5, 2)
    },
}
COUNTER: dict[str, dict[str, Make]] = {
    "counter wrapped": {"": lambda: d.of_counter(lambda _, j: j % 1000.0)},
    "counter reset": {"": lambda: d.of_counter(lambda t, j: j if t < _MID_S else j - 251_000.0)},
    "counter frozen": {
        "": lambda: d.of_counter(lambda *_: 250_000.0),
        "from the middle": lambda: d.of_counter(lambda t, j: j if t < _MID_S else 252_000.0),
    },
    "counter scaled": {
        f"{x:g}": lambda x=x: d.of_counter(lambda _, j: x * j) for x in (0.5, 0.9, 0.95, 1.05, 1.1, 2.0)
    },
    "counter negative": {"": lambda: d.of_counter(lambda _, j: -j)},
}
LATE_S = (0.1, 0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Found:
    """What a run gave."""

    rows: Mapping[str, TableRow]
    manifest: Manifest


def run_of(gpu: WatchedGpu) -> Found:
    with tempfile.TemporaryDirectory() as place:
        rows = measured(gpu, Path(place, "run"), WHAT)
        return Found({row.instruction: row for row in rows}, read_run_manifest(Path(place, "run")))


def verdict(found: Found, clean: Found) -> tuple[str, str]:
    """Return what became of a fault, and the worst row."""
    wrong = []
    for name, row in found.rows.items():
        true = clean.rows[name]
        allowed_pj = row.dynamic_ci95_pj + true.dynamic_ci95_pj
        allowed_pj += (found.manifest.scale_ci95 or 0.0) * abs(row.dynamic_pj)
        if row.status is Status.OK and abs(row.dynamic_pj - true.dynamic_pj) > allowed_pj:
            off = 100 * (row.dynamic_pj / true.dynamic_pj - 1)
            wrong.append(f"{name} {off:+.1f} ± {100 * row.dynamic_ci95_pj / row.dynamic_pj:.1f}%")
    if not wrong:
        first = next(iter(found.rows.values()))
        return "held", f"{first.status}: {first.reason}"
    is_said = found.manifest.source_check and "not checked" in found.manifest.source_check.note
    return ("unchecked" if is_said else "silent"), "; ".join(wrong)


def cases(sources: tuple[SourceName, ...]) -> dict[tuple[str, str], Callable[[], WatchedGpu]]:
    """Return a GPU for each case of a board."""
    profile = replace(H200, sensors=tuple(s for name in sources for s in H200.sensors if s.source is name))
    kinds = POWER | (COUNTER if S.COUNTER in sources else {})
    found: dict[tuple[str, str], Callable[[], WatchedGpu]] = {
        (kind, strength): lambda make=make: FaultyGpu(profile, make(), _POLL_S)
        for kind, strengths in kinds.items()
        for strength, make in strengths.items()
    }
    return found | {("late", f"{s:g} s"): lambda s=s: LateGpu(s, profile, _POLL_S) for s in LATE_S}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default="", help="kinds with this in their name")
    parser.add_argument("--board", default="", help="boards with this in their name")
    parser.add_argument("--silent", action="store_true", help="show only what comes out silent")
    arguments = parser.parse_args()
    became: dict[str, Counter[str]] = {}
    for board, sources in BOARDS.items():
        if arguments.board not in board:
            continue
        tried = cases(sources)
        clean = run_of(tried["none", ""]())
        for (kind, strength), make in tried.items():
            if arguments.kind not in kind:
                continue
            state, text = verdict(run_of(make()), clean)
            became.setdefault(kind, Counter())[state] += 1
            if state == "silent" or not arguments.silent:
                print(f"{state:<9}  {board:<17}  {kind} {strength}: {text[:120]}", flush=True)
    states = ("held", "unchecked", "silent")
    print(f"\n{'kind':<18}" + "".join(f"{state:>11}" for state in states))
    for kind, counts in became.items():
        print(f"{kind:<18}" + "".join(f"{counts[state]:>11}" for state in states))
    total = sum(became.values(), Counter())
    print(f"{'all':<18}" + "".join(f"{total[state]:>11}" for state in states))
    return 1 if total["silent"] else 0


if __name__ == "__main__":
    sys.exit(main())
