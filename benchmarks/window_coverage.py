"""How often 95% intervals of `EnergyMonitor` and `run` hold the truth, on boards as hard as real ones.

    python benchmarks/window_coverage.py --boards 20 --first 100

Each board (`modelled_board.py`) has another nature, noise and phase, and its sensors are known to the monitor
as documents and measurements on boards alike have them. It prints by sources, load and length of the window:
the share that a source resolves, the share of those that hold the truth, their mean and median half-width,
and the 95th percentile of the error, which an ideal interval would be. The loads:

- idle: the load is the window, after a second of idle;
- beside: other loads end and begin with the window;
- within: the window lies within an even load;
- bursts: the load comes and goes within the window, for 5 to 50 ms each;
- near: other loads change 10 to 80 ms beside the window, which nobody tells the monitor.

The numbers are simulated: they judge the arithmetic of the intervals. `windows_on_gpu.py` does it on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from modelled_board import ModelledBoard, Nature

import ptxbench
from ptxbench.api.window_energy import WindowEnergy
from ptxbench.attribute.launches import LaunchLog
from ptxbench.attribute.program import recorded_board, recording, share_of
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import KernelWindow

S = SourceName
SOURCES: dict[str, tuple[SourceName, ...]] = {
    "samples + counter": (S.SAMPLES, S.COUNTER),
    "counter + instant": (S.COUNTER, S.INSTANT),
    "samples": (S.SAMPLES,),
    "instant": (S.INSTANT,),
    "usage": (S.USAGE,),
}
LENGTHS_S = (0.1, 0.2, 0.5, 1.0, 2.0)
_WINDOWS = 12
# The goal that a benchmark of calibrated intervals is held to.
_LEAST, _MOST = 0.93, 0.97

Load = list[tuple[float, float]]


@dataclass(frozen=True)
class Judged:
    """A window beside the truth.

    Attributes:
        truth_j: The truth.
        energy_j: What was found.
        interval_j: Its 95% interval.
        is_resolved: Whether a source could resolve it.
    """

    truth_j: float
    energy_j: float
    interval_j: tuple[float, float]
    is_resolved: bool

    @property
    def held(self) -> bool:
        """Whether the interval holds the truth."""
        return self.interval_j[0] <= self.truth_j <= self.interval_j[1]

    @property
    def half(self) -> float:
        """Half-width of the interval, as a fraction of the truth."""
        return (self.interval_j[1] - self.interval_j[0]) / 2 / self.truth_j

    @property
    def error(self) -> float:
        """Error, as a fraction of the truth."""
        return self.energy_j / self.truth_j - 1


def _idle(rng: np.random.Generator, length_s: float) -> tuple[Load, Load, Load]:
    return [(rng.uniform(1, 1.3), 0)], [(length_s, _power_w(rng))], [(0.5, 0)]


def _beside(rng: np.random.Generator, length_s: float) -> tuple[Load, Load, Load]:
    before, after = ([(rng.uniform(0.4, 0.6), _power_w(rng))] for _ in range(2))
    return [(0.3, 0), *before], [(length_s, _power_w(rng))], after


def _within(rng: np.random.Generator, length_s: float) -> tuple[Load, Load, Load]:
    power_w = _power_w(rng)
    return [(0.3, 0), (rng.uniform(0.4, 0.6), power_w)], [(length_s, power_w)], [(0.5, power_w)]


def _bursts(rng: np.random.Generator, length_s: float) -> tuple[Load, Load, Load]:
    power_w, parts, left_s = _power_w(rng), [], length_s
    while left_s > 1e-9:
        parts.append((min(rng.uniform(0.005, 0.05), left_s), rng.choice([0.0, power_w])))
        left_s -= parts[-1][0]
    return [(rng.uniform(0.5, 0.8), 0)], parts, [(0.5, 0)]


def _near(rng: np.random.Generator, length_s: float) -> tuple[Load, Load, Load]:
    power_w = _power_w(rng)
    gaps = [(rng.uniform(0.01, 0.08), rng.choice([0.0, power_w])) for _ in range(2)]
    before, after = [(0.3, 0), (0.3, _power_w(rng)), gaps[0]], [gaps[1], (0.4, _power_w(rng))]
    return before, [(length_s, power_w)], after


def _power_w(rng: np.random.Generator) -> float:
    return float(rng.uniform(80, 420))


LOADS: dict[str, Callable[[np.random.Generator, float], tuple[Load, Load, Load]]] = {
    "idle": _idle,
    "beside": _beside,
    "within": _within,
    "bursts": _bursts,
    "near": _near,
}


def session(
    sources: Sequence[SourceName], load: str, length_s: float, seed: int, windows: int = _WINDOWS
) -> tuple[ModelledBoard, list[tuple[float, float]]]:
    """Return a board with a load of many windows, and when each begins and ends."""
    rng = np.random.default_rng(1000 + seed)
    parts: Load = [(2.0, 0)]
    spans = []
    for _ in range(windows):
        before, within, after = LOADS[load](rng, length_s)
        start_s = sum(part[0] for part in (*parts, *before))
        spans.append((start_s, start_s + sum(part[0] for part in within)))
        parts += [*before, *within, *after]
    nature = Nature.by_chance(np.random.default_rng(seed))
    # No interval holds the gain of the source itself.
    nature = replace(nature, counter_gain=1.0) if sources[0] is S.COUNTER else nature
    return ModelledBoard([*parts, (3.0, 0)], sources, seed, nature), spans


def by_monitor(sources: Sequence[SourceName], load: str, length_s: float, seed: int) -> Iterator[Judged]:
    """Yield the windows of one board as `EnergyMonitor` gives them."""
    board, spans = session(sources, load, length_s, seed)
    with ptxbench.EnergyMonitor([board.board()]) as monitor:
        for number, (start_s, end_s) in enumerate(spans):
            board.sleep_until(start_s)
            with monitor.window(str(number)):
                board.sleep_until(end_s)
        board.sleep_until(spans[-1][1] + 2)
    for found, span in zip(monitor.measured, spans, strict=True):
        yield _judged(found, board.energy_j(*span))


def by_run(sources: Sequence[SourceName], load: str, length_s: float, seed: int) -> Iterator[Judged]:
    """Yield the energy of programs that last as long as the windows, as `run` gives it."""
    board, spans = session(sources, load, length_s, seed)
    with recording([board.board()]) as recordings:
        board.sleep_until(spans[-1][1] + 2)
    recorded = recorded_board(recordings[0])
    for start_s, end_s in spans:
        start_ns, end_ns = board.at_ns(start_s), board.at_ns(end_s)
        window = KernelWindow(start_ns, end_ns, (end_ns - start_ns) / 1e9)
        found = share_of(recorded, window, LaunchLog({}, 0, 0, ())).energy
        one = WindowEnergy("", window.elapsed_s, (found,), "")
        yield _judged(one, board.energy_j(start_s, end_s))


def _judged(found: WindowEnergy, truth_j: float) -> Judged:
    return Judged(truth_j, found.energy_j, found.interval_j, found.is_resolved)


CONSUMERS = {"EnergyMonitor": by_monitor, "run": by_run}
HEADER = (
    f"{'consumer':14}{'sources':19}{'load':8}{'s':>5}{'n':>5} {'resolved':>9}{'held':>8}"
    f"{'half, mean':>12}{'median':>9}{'error, 95th':>13}"
)


def line(consumer: str, sources: str, load: str, length: str, judged: Sequence[Judged]) -> str:
    """Return a row of the table."""
    known = [one for one in judged if one.is_resolved]
    text = f"{consumer:14}{sources:19}{load:8}{length:>5}{len(judged):5} {len(known) / len(judged):9.0%}"
    if not known:
        return text
    half = np.array([one.half for one in known])
    error = np.abs([one.error for one in known])
    held = np.mean([one.held for one in known])
    return text + f"{held:8.1%}{half.mean():12.2%}{np.median(half):9.2%}{np.percentile(error, 95):13.2%}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; return 0 where the share that hold the truth is as wanted, over all that is resolved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", type=int, default=10, help="boards for each case")
    parser.add_argument("--first", type=int, default=0, help="seed of the first board")
    parser.add_argument("--sources", action="append", choices=SOURCES, help="all unless told")
    parser.add_argument("--load", action="append", choices=LOADS, help="all unless told")
    parser.add_argument("--consumer", action="append", choices=CONSUMERS, help="both unless told")
    chosen = parser.parse_args(arguments)
    print(HEADER)
    everything: list[Judged] = []
    for consumer in chosen.consumer or CONSUMERS:
        for sources in chosen.sources or SOURCES:
            for load in chosen.load or LOADS:
                for length_s in LENGTHS_S:
                    judged = [
                        one
                        for seed in range(chosen.first, chosen.first + chosen.boards)
                        for one in CONSUMERS[consumer](SOURCES[sources], load, length_s, seed)
                    ]
                    everything += judged
                    print(line(consumer, sources, load, f"{length_s:g}", judged), flush=True)
    print(line("all", "", "", "", everything))
    held = np.mean([one.held for one in everything if one.is_resolved])
    return int(not _LEAST <= held <= _MOST)


if __name__ == "__main__":
    sys.exit(main())
