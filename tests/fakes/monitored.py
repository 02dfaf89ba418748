"""Sessions of `EnergyMonitor` and of `run` on a simulated GPU whose sensors have a fault, with the truth."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from fakes.distorters import Fault, Moment
from fakes.loads import LoadedGpu

import ptxbench
from ptxbench.api.board import Board, open_boards
from ptxbench.attribute.attribution import NO_KERNEL
from ptxbench.attribute.launches import LaunchLog, join_launches
from ptxbench.attribute.program import energy_of, recorded_board, recording
from ptxbench.attribute.recorded import RecordedProgram, run_facts
from ptxbench.sensors.base import Reader, Reading, SourceName

LENGTHS_S = (0.5, 1.0, 0.2, 2.0, 0.1, 1.0, 0.5, 2.0)
_KERNELS = ("a", "b")
# What is said where no second source can tell.
_UNCHECKED = re.compile("nothing checks|too little ran to compare")
# The simulated counter's gain is 1.001, and no interval holds a gain.
_GAIN = 0.0011


@dataclass(frozen=True)
class Case:
    """What a consumer said of one energy.

    Attributes:
        name: Of what.
        truth_j: The truth.
        energy_j: What was given; NaN where nothing was.
        interval_j: Its 95% interval.
        said: Notes, and the reason of a status that is not ok.
    """

    name: str
    truth_j: float
    energy_j: float
    interval_j: tuple[float, float]
    said: tuple[str, ...]

    @property
    def is_checked(self) -> bool:
        """Whether a second source was read, or what is said is more than that there was none."""
        return not self.said or not all(_UNCHECKED.search(text) for text in self.said)

    @property
    def is_held(self) -> bool:
        """Whether the interval holds the truth; no number is no wrong one."""
        return self.is_within(1.0)

    def is_within(self, factor: float) -> bool:
        """Whether the truth is within so many half-widths of the interval's middle."""
        if not np.isfinite(self.energy_j):
            return True
        low_j, high_j = self.interval_j
        allowed_j = factor * (high_j - low_j) / 2 + _GAIN * self.truth_j
        return abs(self.truth_j - (low_j + high_j) / 2) <= allowed_j


class _Distorted:
    """A reader with a fault behind it."""

    def __init__(self, reader: Reader, board: Board, fault: Fault, began_ns: int) -> None:
        self._reader, self._board, self._fault, self._began_ns = reader, board, fault, began_ns
        self.name = reader.name

    def read(self) -> tuple[Reading, ...]:
        since_s = (self._board.clock.now_ns() - self._began_ns) / 1e9
        return self._fault(Moment(self.name, "", since_s, since_s), self._reader.read())


def distorted_board(made: LoadedGpu, fault: Fault) -> Board:
    """Return a simulated GPU with a fault in its power sources."""
    (board,) = open_boards(made.gpu)
    began_ns = board.clock.now_ns()
    return replace(
        board, sources=tuple(_Distorted(source, board, fault, began_ns) for source in board.sources)
    )


def by_monitor(sources: Sequence[SourceName], fault: Fault, seed: int = 1) -> list[Case]:
    """Measure windows of several lengths, each of another load, some of them with load beside."""
    made = LoadedGpu(*sources, seed=seed)
    truths = []
    with ptxbench.EnergyMonitor([distorted_board(made, fault)]) as monitor:
        made.gpu.sleep(2.0)
        for length_s in LENGTHS_S:
            before_j = made.energy_j()
            with monitor.window(f"{length_s} s"):
                made.load(length_s)
            truths.append(made.energy_j() - before_j)
            made.gpu.sleep(made.about(0.4))
    return [
        Case(one.name, truth_j, one.energy_j, one.interval_j, one.notes)
        for one, truth_j in zip(monitor.measured, truths, strict=True)
    ]


def record(
    sources: Sequence[SourceName], fault: Fault, seed: int = 1
) -> tuple[RecordedProgram, dict[str, float]]:
    """Record a program of two kernels in turn; return it, and the true energy of the run and each kernel."""
    made = LoadedGpu(*sources, seed=seed)
    chance, board = np.random.default_rng(seed), distorted_board(made, fault)
    parts, truth = [], dict.fromkeys(("run", *_KERNELS), 0.0)
    powers_w = dict(zip(_KERNELS, chance.uniform(80, 450, 2), strict=True))
    clock = board.clock
    with recording([board]) as recordings:
        start_ns, before_j = clock.now_ns(), made.energy_j()
        made.gpu.sleep(0.7)
        for _ in range(12):
            for name, power_w in powers_w.items():
                begin_ns, begin_j = clock.now_ns(), made.energy_j()
                made.load(chance.uniform(0.2, 0.5), power_w)
                times = (np.array([at], dtype=np.int64) for at in (begin_ns, clock.now_ns()))
                parts.append((name, *times, "stream"))
                truth[name] += made.energy_j() - begin_j
            made.gpu.sleep(chance.uniform(0.05, 0.3))
        made.gpu.sleep(0.4)
        end_ns, truth["run"] = clock.now_ns(), made.energy_j() - before_j
    recorded = recorded_board(recordings[0])
    log = LaunchLog({"": join_launches(parts)}, 1, 0, ())
    facts = run_facts(["load"], 0, (start_ns, end_ns), [recorded.facts], log, is_simulated=True)
    return RecordedProgram(facts, (recorded,), log), truth


def by_run(sources: Sequence[SourceName], fault: Fault, seed: int = 1) -> list[Case]:
    """Measure a program of two kernels in turn: the whole run, and each kernel."""
    program, truth = record(sources, fault, seed)
    found = energy_of(program)
    (gpu,) = found.gpus
    energy = gpu.energy
    said = tuple(text for text in (energy.reason, *energy.notes, *found.remarks) if text)
    alone = (share for share in gpu.kernels if share.names != (NO_KERNEL,) and len(share.names) == 1)
    rows = [("run", energy.energy_j, energy.interval_j)]
    rows += [(share.names[0], share.energy_j, share.interval_j) for share in alone]
    return [Case(name, truth[name], energy_j, interval_j, said) for name, energy_j, interval_j in rows]


Consumer = Callable[[Sequence[SourceName], Fault, int], list[Case]]
CONSUMERS: dict[str, Consumer] = {"EnergyMonitor": by_monitor, "run": by_run}
