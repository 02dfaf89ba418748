"""Which faults of a board's sensors `tune` and `roofline` hold or say, and which come out silent.

    python tests/tuning_fault_matrix.py [--kind late] [--only tune] [--silent]

Each case is one fault, in one strength, on one set of sources of a simulated H200. It is *held* where every
energy is within 3% of the true one, or within its interval; *said* where a variant, a kernel or the whole
run has no energy, or a sentence speaks of the readings; *unchecked* where one is off, and the only word is
that no energy counter checks the scale; and *silent* where one is off and nothing says so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fakes import distorters as d
from fakes.faults import Fault
from fakes.troubled import Trouble, TroubledGpu, every, frozen_from
from tune.fakes_kernel import write_spec

from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.profile import SensorSpec
from ptxbench.devices.simulated.profiles import H200, H200_MEMORY, RTX2080TI
from ptxbench.energy.gate.verdict import UNJUDGED
from ptxbench.experiment.roofline.measure import measure
from ptxbench.experiment.roofline.point import RooflineOptions
from ptxbench.experiment.roofline.result import work_out
from ptxbench.sensors.base import SourceName
from ptxbench.tune.bench import BenchOptions
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.tuning import Tuning, tune

_OFF = 0.03
_UNCHECKED = UNJUDGED.note
_VERDICTS = ("held", "said", "unchecked", "silent")
_MID_S = 4.0
_SPEC: dict[SourceName, SensorSpec] = {one.source: one for one in H200.sensors}
_USAGE = next(one for one in RTX2080TI.sensors if one.source is SourceName.USAGE)
BOARDS: dict[str, tuple[SensorSpec, ...]] = {
    "samples + counter": (_SPEC[SourceName.SAMPLES], _SPEC[SourceName.COUNTER]),
    "samples alone": (_SPEC[SourceName.SAMPLES],),
    "counter + usage": (_SPEC[SourceName.COUNTER], replace(_USAGE, gain=1.0)),
    "usage alone": (replace(_USAGE, gain=1.0),),
}
_COUNTED = ("samples + counter", "counter + usage")
_STAMPED = ("samples + counter", "samples alone")


def _power(change: Callable[[float, float], float]) -> Callable[[], Fault]:
    return lambda: d.changed_in_time(change)


def _counter(change: Callable[[float, float], float]) -> Callable[[], Fault]:
    return lambda: d.of_counter(change)


KINDS: dict[str, list[Trouble]] = {
    "none": [Trouble("")],
    "unit x 1000": [
        Trouble("mW", _power(lambda _, w: 1000 * w)),
        Trouble("kW", _power(lambda _, w: w / 1000)),
    ],
    "zeros": [Trouble(f"every {n}", every(n, lambda _: 0.0)) for n in (2, 3, 7, 20)],
    "negative": [Trouble(f"every {n}", every(n, lambda w: -w)) for n in (2, 3, 7, 20)],
    "frozen": [Trouble(f"from {s:g} s", frozen_from(s)) for s in (0.0, 1.5, _MID_S)],
    "late": [Trouble(f"{s:g} s", late_s=s) for s in (0.1, 0.2, 0.5, 1.0, 2.0)],
    "lost": [Trouble(f"{x:.0%}", lambda x=x: d.lost(x)) for x in (0.1, 0.3, 0.5, 0.7, 0.9)],
    "gain": [
        Trouble(f"{x:g}", _power(lambda _, w, x=x: x * w)) for x in (0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.3)
    ],
    "gain step": [
        Trouble(f"to {x:g}", _power(lambda t, w, x=x: w * (x if t > _MID_S else 1)))
        for x in (0.7, 0.9, 1.1, 1.3)
    ],
    "slow drift": [
        Trouble(f"{x:g}/s", _power(lambda t, w, x=x: w * (1 + x * t))) for x in (0.01, 0.03, -0.03)
    ],
    "compressed": [
        Trouble(f"from {x:g} W", _power(lambda _, w, x=x: min(w, x) + 0.3 * max(w - x, 0.0)))
        for x in (250.0, 350.0, 400.0)
    ],
    "clipped": [Trouble(f"at {x:g} W", _power(lambda _, w, x=x: min(w, x))) for x in (250.0, 350.0, 400.0)],
    "spikes": [
        Trouble("1.2 MW once", _power(lambda t, w: 1.2e6 if 2.0 < t < 2.05 else w)),
        Trouble("x 3, every 20", every(20, lambda w: 3 * w)),
        Trouble("x 2, every 8", every(8, lambda w: 2 * w)),
        Trouble("x 1.3, every 5", every(5, lambda w: 1.3 * w)),
    ],
    "stamps alike": [
        Trouble(f"every {n}", lambda n=n: d.stamps_of_another(n), boards=_STAMPED) for n in (2, 5, 20)
    ],
    "clock step": [
        Trouble(f"{-s:+g} s", lambda s=s: d.clock_set_back(_MID_S, s), boards=_STAMPED)
        for s in (-2.0, -0.5, -0.1, 0.1, 0.5, 2.0)
    ],
    "counter wrapped": [
        Trouble("", _counter(lambda t, j: j if t < _MID_S else j - 250_000.0), boards=_COUNTED)
    ],
    "counter reset": [Trouble("", _counter(lambda t, j: j if t < _MID_S else j % 1000.0), boards=_COUNTED)],
    "counter frozen": [
        Trouble(f"from {s:g} s", frozen_from(s, SourceName.COUNTER), boards=_COUNTED) for s in (0.0, _MID_S)
    ],
    "counter scaled": [
        Trouble(f"{x:g}", _counter(lambda _, j, x=x: x * j), boards=_COUNTED)
        for x in (0.5, 0.9, 0.95, 1.05, 1.1, 2)
    ],
    "another process": [Trouble("", others=1)],
    "thermal slowdown": [Trouble("software", reasons=0x20), Trouble("hardware", reasons=0x40)],
}


@dataclass(frozen=True)
class Outcome:
    """What a consumer gave in one case.

    Attributes:
        energies: Energies by their names, with their half intervals.
        words: What it said of readings, variants, kernels and scale.
        unchecked: Whether it said that nothing checks the scale.
    """

    energies: dict[str, tuple[float, float]]
    words: tuple[str, ...]
    unchecked: bool

    def off(self, true: Outcome) -> dict[str, float]:
        """Return by how much energies are off, of those that are."""
        found = {}
        for name, (value, half) in self.energies.items():
            right, _ = true.energies[name]
            if abs(value - right) > max(_OFF * abs(right), half):
                found[name] = value / right - 1
        return found


def tuned(board: str, trouble: Trouble) -> Outcome:
    """Tune a small kernel."""
    gpu = TroubledGpu(replace(H200, sensors=BOARDS[board]), trouble)
    # A refresh of 100 ms leaves three readings in the usual 0.4 s.
    window_s = 0.4 if board in _STAMPED else 1.0
    tuning = Tuning(_spec(), Goal(Objective.ENERGY), BenchOptions(window_s=window_s), jobs=1)
    with tempfile.TemporaryDirectory() as place:
        found = tune(gpu, tuning, Path(place, "t"))
    energies = {t.name: (t.energy_j, 1.96 * t.power_error_w * t.steady_s) for t in found.best}
    reasons = [t.reason for t in found.trials if not t.ok]
    scale, unchecked = found.scale, _UNCHECKED in found.scale
    notes = [] if unchecked else [scale]
    notes += [*reasons, *(t.note for t in found.best)]
    return Outcome(energies, tuple(filter(None, notes)), unchecked)


def roofline(board: str, trouble: Trouble) -> Outcome:
    """Measure a small roofline."""
    gpu = TroubledGpu(replace(H200_MEMORY, sensors=BOARDS[board]), trouble)
    options = RooflineOptions(("f32",), intensities=(0.25, 1, 4, 64, 256), peaks=False)
    with tempfile.TemporaryDirectory() as place:
        try:
            found = work_out(measure(gpu, options, Path(place, "r")))
        except InputError as error:
            return Outcome({}, (str(error),), unchecked=False)
    notes = [p.note for p in found.points if p.note and not p.slowed]
    left_out = [f"{name}: the power limit slowed it down" for name in found.left_out if trouble.reasons]
    return Outcome(
        {one.name: (one.value.value, one.value.uncertainty) for one in found.energies},
        (*found.unread, *notes, *left_out, *found.disturbed),
        _UNCHECKED in found.scale,
    )


CONSUMERS = {"tune": tuned, "roofline": roofline}


@cache
def _spec() -> object:
    return load_spec(write_spec(Path(tempfile.mkdtemp()) / "spec"), {"n": 1 << 22})


@cache
def _true(consumer: str, board: str) -> Outcome:
    return CONSUMERS[consumer](board, Trouble(""))


def cases(kind: str) -> Iterator[tuple[str, Trouble]]:
    """Yield board and fault of each case of a kind that can show there."""
    for trouble in KINDS[kind]:
        yield from ((board, trouble) for board in trouble.boards or BOARDS)


def verdict(found: Outcome, true: Outcome) -> str:
    """Return one of `_VERDICTS`."""
    if found.off(true):
        return "said" if found.words else "unchecked" if found.unchecked else "silent"
    return "held" if found.energies else "said"


def main() -> int:
    """Run, print the table, and return how many cases were silent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--only", choices=CONSUMERS)
    parser.add_argument("--silent", action="store_true", help="list the silent cases")
    parser.add_argument("--words", action="store_true", help="show what each case said")
    chosen = parser.parse_args()
    _cache_disassembly()
    table: Counter[tuple[str, str, str]] = Counter()
    silent = []
    consumers = [chosen.only] if chosen.only else list(CONSUMERS)
    for kind in chosen.kind or KINDS:
        for name in consumers:
            for board, trouble in cases(kind):
                found, true = CONSUMERS[name](board, trouble), _true(name, board)
                said = verdict(found, true)
                table[kind, name, said] += 1
                off = {n: f"{x:+.1%}" for n, x in found.off(true).items()}
                if said == "silent":
                    silent.append(f"silent: {kind} {trouble.strength}, {board}, {name}: {off}")
                if chosen.words:
                    print(
                        f"{kind} {trouble.strength}, {board}, {name}: {said} {off} {found.words[:1]}",
                        flush=True,
                    )
            _print_row(table, [kind], kind, name)
    for name in consumers:
        _print_row(table, list(KINDS), "all", name)
    if chosen.silent:
        print("\n".join(silent))
    return len(silent)


def _print_row(table: Counter[tuple[str, str, str]], kinds: list[str], what: str, name: str) -> None:
    counts = {one: sum(table[kind, name, one] for kind in kinds) for one in _VERDICTS}
    print(f"{what:18} {name:9} ", "  ".join(f"{one} {n:3}" for one, n in counts.items()), flush=True)


def _cache_disassembly() -> None:
    """Disassemble each module once for all cases: it is most of the time that they take."""
    from ptxbench.sass import listing

    plain, kept = listing.disassemble, cache(listing.disassemble)
    for module in [m for m in sys.modules.values() if getattr(m, "disassemble", None) is plain]:
        module.disassemble = kept


if __name__ == "__main__":
    sys.exit(min(main(), 1))
