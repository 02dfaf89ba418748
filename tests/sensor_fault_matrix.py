"""Which faults of a board's sensors `EnergyMonitor` and `run` hold or say, and which come out silent.

    python tests/sensor_fault_matrix.py [--seeds 1] [--kind late] [--silent]

Each case is one fault, in one strength, on one set of sources of a simulated H200, once for windows of 0.1 to
2 s and once for a program of two kernels. It is *held* where the intervals hold the truth (or there is no
number), *said* where a note or a status says what is wrong, *unchecked* where all that is said is that no
second source was there to check it, and *silent* where a number is off by more than twice its interval and
nothing is said.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fakes import distorters as d
from fakes.monitored import CONSUMERS, Case

from ptxbench.sensors.base import SourceName

S = SourceName
BOARDS: dict[str, tuple[SourceName, ...]] = {
    "samples + counter": (S.SAMPLES, S.COUNTER),
    "counter + instant": (S.COUNTER, S.INSTANT),
    "samples alone": (S.SAMPLES,),
    "usage alone": (S.USAGE,),
}
_MID_S = 5.0
# Kinds of faults, each in several strengths; a fault has a memory, so that it is made anew for each case.
POWER: dict[str, list[tuple[str, Callable[[], d.Fault]]]] = {
    "none": [("", lambda: d.changed_in_time(lambda _, w: w))],
    "unit x 1000": [("mW", lambda: d.changed_in_time(lambda _, w: 1000 * w))],
    "zeros": [(f"every {n}", lambda n=n: d.fresh_counted(n, lambda _: 0.0)) for n in (2, 3, 7, 20)],
    "negative": [(f"every {n}", lambda n=n: d.fresh_counted(n, lambda w: -w)) for n in (2, 3, 7, 20)],
    "frozen": [(f"from {s:g} s", lambda s=s: d.frozen_from(s)) for s in (0.0, 3.0, _MID_S)],
    "late": [(f"{s:g} s", lambda s=s: d.late_values(s)) for s in (0.1, 0.2, 0.5, 1.0, 2.0)],
    "lost": [(f"{x:.0%}", lambda x=x: d.missing(x)) for x in (0.1, 0.3, 0.5, 0.7, 0.9)],
    "failed": [(f"{x:.0%}", lambda x=x: d.lost(x)) for x in (0.3, 0.9)],
    "gain": [
        (f"{x:g}", lambda x=x: d.changed_in_time(lambda _, w: x * w))
        for x in (0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3)
    ],
    "gain step": [
        (f"to {x:g}", lambda x=x: d.changed_in_time(lambda t, w: w * (x if t > _MID_S else 1)))
        for x in (0.7, 0.9, 1.1, 1.3)
    ],
    "slow drift": [
        (f"{x:g}/s", lambda x=x: d.changed_in_time(lambda t, w: w * (1 + x * t))) for x in (0.01, 0.03, -0.03)
    ],
    "compressed": [
        (f"from {x:g} W", lambda x=x: d.changed_in_time(lambda _, w: min(w, x) + 0.5 * max(w - x, 0.0)))
        for x in (250.0, 350.0)
    ],
    "clipped": [
        (f"at {x:g} W", lambda x=x: d.changed_in_time(lambda _, w: min(w, x))) for x in (250.0, 350.0)
    ],
    "spikes": [
        ("1.2 MW once", lambda: d.changed_in_time(lambda t, w: 1.2e6 if 4.0 < t < 4.03 else w)),
        *(
            (f"x {x:g}, every {n}", lambda x=x, n=n: d.fresh_counted(n, lambda w: x * w))
            for x, n in ((3.0, 20), (2.0, 8))
        ),
    ],
    "stamps alike": [(f"every {n}", lambda n=n: d.stamps_of_another(n)) for n in (2, 5, 20)],
    "clock step": [
        (f"{s:+g} s", lambda s=s: d.clock_set_back(_MID_S, -s)) for s in (-2.0, -0.5, -0.1, 0.1, 0.5, 2.0)
    ],
}
COUNTER: dict[str, list[tuple[str, Callable[[], d.Fault]]]] = {
    "counter wrapped": [("", lambda: d.of_counter(lambda t, j: j if t < _MID_S else j - 250_000.0))],
    "counter reset": [("", lambda: d.of_counter(lambda t, j: j if t < _MID_S else j % 1000.0))],
    "counter frozen": [(f"from {s:g} s", lambda s=s: d.frozen_from(s, S.COUNTER)) for s in (0.0, _MID_S)],
    "counter scaled": [
        (f"{x:g}", lambda x=x: d.of_counter(lambda _, j: x * j)) for x in (0.5, 0.9, 0.95, 1.05, 1.1, 2.0)
    ],
}
KINDS = {**POWER, **COUNTER}


def cases(kind: str) -> list[tuple[str, str, Callable[[], d.Fault]]]:
    """Return board, strength and fault of each case of a kind that can show on the board."""
    found = []
    for board, sources in BOARDS.items():
        if kind in COUNTER and S.COUNTER not in sources:
            continue
        if kind in ("stamps alike", "clock step") and S.SAMPLES not in sources:
            continue
        found += [(board, strength, make) for strength, make in KINDS[kind]]
    return found


VERDICTS = ("held", "said", "unchecked", "silent")


def verdict(found: Sequence[Case]) -> str:
    """Return which of `VERDICTS` what a consumer gave in one case is: that of its worst number."""
    wrong = [one for one in found if not one.is_within(2.0)]
    if any(not one.said for one in wrong):
        return "silent"
    if any(not one.is_checked for one in wrong):
        return "unchecked"
    return "said" if wrong else "held"


def _line(kind: str, name: str, table: Counter[tuple[str, str, str]]) -> str:
    counts = [
        sum(
            n
            for key, n in table.items()
            if key[0] in (kind, key[0] * (kind == "all")) and key[1:] == (name, said)
        )
        for said in VERDICTS
    ]
    return f"{kind:18} {name:14}" + "".join(
        f"  {said} {count:3}" for said, count in zip(VERDICTS, counts, strict=True)
    )


def main() -> int:
    """Run, print the table, and return how many cases were silent though a second source could tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--silent", action="store_true", help="list the silent cases")
    parser.add_argument("--unchecked", action="store_true", help="list the unchecked ones too")
    chosen = parser.parse_args()
    table: Counter[tuple[str, str, str]] = Counter()
    silent = []
    for kind in chosen.kind or KINDS:
        for board, strength, make in cases(kind):
            for name, consumer in CONSUMERS.items():
                for seed in range(1, chosen.seeds + 1):
                    found = consumer(BOARDS[board], make(), seed)
                    said = verdict(found)
                    table[kind, name, said] += 1
                    if said in ("silent", *(["unchecked"] if chosen.unchecked else [])):
                        silent.append((kind, strength, board, name, seed, found))
        for name in CONSUMERS:
            print(_line(kind, name, table), flush=True)
    for name in CONSUMERS:
        print(_line("all", name, table))
    if chosen.silent:
        for kind, strength, board, name, seed, found in silent:
            worst = max(
                (one for one in found if not one.is_within(2.0)),
                key=lambda one: abs(one.energy_j / one.truth_j - 1),
            )
            off = worst.energy_j / worst.truth_j - 1
            print(f"{kind} {strength}, {board}, {name}, seed {seed}: {worst.name} {off:+.1%}")
    return len(silent)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
