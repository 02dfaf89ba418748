"""Sessions of `EnergyMonitor` and of `run` on a simulated GPU whose sensors have a fault, with the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from fakes.fault_cases import Case
from fakes.faults import Fault, Moment
from fakes.loads import LoadedGpu
from fakes.troubled import NO_TROUBLE, Trouble

import ptxbench
from ptxbench.api.board import Board, open_boards
from ptxbench.attribute.attribution import NO_KERNEL
from ptxbench.attribute.launches import LaunchLog, join_launches
from ptxbench.attribute.program import energy_of, recorded_board, recording
from ptxbench.attribute.recorded import RecordedProgram, program_manifest
from ptxbench.sensors.base import Reader, Reading, SourceName

LENGTHS_S = (0.5, 1.0, 0.2, 2.0, 0.1, 1.0, 0.5, 2.0)
_KERNELS = ("a", "b")


class _Distorted:
    """A reader with a fault behind it."""

    def __init__(self, reader: Reader, board: Board, fault: Fault, began_ns: int) -> None:
        self._reader, self._board, self._fault, self._began_ns = reader, board, fault, began_ns
        self.name = reader.name

    def read(self) -> tuple[Reading, ...]:
        since_s = (self._board.clock.now_ns() - self._began_ns) / 1e9
        return self._fault(Moment(self.name, "", since_s, since_s), self._reader.read())


def distorted_board(made: LoadedGpu, fault: Fault, others: int = 0) -> Board:
    """Return a simulated GPU with a fault in its power sources, and other processes on it."""
    (board,) = open_boards(made.gpu)
    began_ns = board.clock.now_ns()
    return replace(
        board,
        sources=tuple(_Distorted(source, board, fault, began_ns) for source in board.sources),
        other_processes=others,
    )


def by_monitor(
    sources: Sequence[SourceName], fault: Fault, seed: int = 1, trouble: Trouble = NO_TROUBLE
) -> list[Case]:
    """Measure windows of several lengths, each of another load, some of them with load beside."""
    made = LoadedGpu(*sources, seed=seed)
    truths = []
    with ptxbench.EnergyMonitor([distorted_board(made, fault, trouble.others)]) as monitor:
        made.gpu.sleep(2.0)
        for i, length_s in enumerate(LENGTHS_S):
            if trouble.slow_mhz and 2 * i == len(LENGTHS_S):
                made.slow_down(trouble.slow_mhz)
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
    sources: Sequence[SourceName], fault: Fault, seed: int = 1, trouble: Trouble = NO_TROUBLE
) -> tuple[RecordedProgram, dict[str, float]]:
    """Record a program of two kernels in turn; return it, and the true energy of the run and each kernel."""
    made = LoadedGpu(*sources, seed=seed)
    rng, board = np.random.default_rng(seed), distorted_board(made, fault, trouble.others)
    parts, truth = [], dict.fromkeys(("run", *_KERNELS), 0.0)
    powers_w = dict(zip(_KERNELS, rng.uniform(80, 450, 2), strict=True))
    clock = board.clock
    with recording([board]) as recordings:
        start_ns, before_j = clock.now_ns(), made.energy_j()
        made.gpu.sleep(0.7)
        for i in range(12):
            if trouble.slow_mhz and i == 6:
                made.slow_down(trouble.slow_mhz)
            for name, power_w in powers_w.items():
                begin_ns, begin_j = clock.now_ns(), made.energy_j()
                made.load(rng.uniform(0.2, 0.5), power_w)
                times = (np.array([at], dtype=np.int64) for at in (begin_ns, clock.now_ns()))
                parts.append((name, *times, "stream"))
                truth[name] += made.energy_j() - begin_j
            made.gpu.sleep(rng.uniform(0.05, 0.3))
        made.gpu.sleep(0.4)
        end_ns, truth["run"] = clock.now_ns(), made.energy_j() - before_j
    recorded = recorded_board(recordings[0])
    log = LaunchLog({"": join_launches(parts)}, 1, 0, ())
    manifest = program_manifest(["load"], 0, (start_ns, end_ns), [recorded.facts], log, is_simulated=True)
    return RecordedProgram(manifest, (recorded,), log), truth


def by_run(
    sources: Sequence[SourceName], fault: Fault, seed: int = 1, trouble: Trouble = NO_TROUBLE
) -> list[Case]:
    """Measure a program of two kernels in turn: the whole run, and each kernel."""
    program, truth = record(sources, fault, seed, trouble)
    found = energy_of(program)
    (gpu,) = found.gpus
    energy = gpu.energy
    said = tuple(text for text in (energy.reason, *energy.notes, *found.remarks) if text)
    alone = (share for share in gpu.kernels if share.names != (NO_KERNEL,) and len(share.names) == 1)
    rows = [("run", energy.energy_j, energy.interval_j)]
    rows += [(share.names[0], share.energy_j, share.interval_j) for share in alone]
    return [Case(name, truth[name], energy_j, interval_j, said) for name, energy_j, interval_j in rows]
