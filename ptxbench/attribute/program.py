"""Measures an unmodified program: what its GPUs drew, and which kernels took it."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from shlex import quote

from threadpoolctl import threadpool_limits

from ptxbench.api.board import Board, Recording
from ptxbench.api.window_energy import GpuEnergy
from ptxbench.api.window_log import FOLDER_VARIABLE
from ptxbench.attribute.attribution import NO_KERNEL, Share, attribute
from ptxbench.attribute.child import run_child
from ptxbench.attribute.equations import Readings
from ptxbench.attribute.injector import (
    MAX_RATE_VARIABLE,
    ReplayPlan,
    build_injector,
    find_cupti,
    injected,
    other_tool,
    replaying,
    timed,
    without_injector,
)
from ptxbench.attribute.launches import (
    Launches,
    LaunchLog,
    busy_spans,
    innermost,
    no_launches,
    read_launches,
)
from ptxbench.attribute.powers import Expected
from ptxbench.attribute.rank import Rank
from ptxbench.attribute.recorded import (
    BoardFacts,
    ProgramManifest,
    ProgramPart,
    RecordedBoard,
    RecordedProgram,
    program_manifest,
)
from ptxbench.attribute.replay.cut import without_replays
from ptxbench.attribute.replay.plan import SETTINGS
from ptxbench.attribute.unfinished import RunOnDisk
from ptxbench.core.errors import ToolError
from ptxbench.sensors.trace import NS_PER_S, KernelWindow

# Launches of a process a second from which on kernels are looked at in turns: seeing one takes 2 us.
MAX_LAUNCH_RATE_PER_S, ALL_LAUNCHES = 5000.0, 1e9
_NOTHING_REPLAYED = (
    "nothing was launched again: that needs CUPTI, and a process that launches kernels and ends by exit, not"
    " by a signal or _exit"
)


class Followed(Enum):
    """What power is told apart by."""

    KERNELS = "kernels"
    RANGES = "ranges"
    NOTHING = "nothing"


@dataclass(frozen=True)
class GpuShare:
    """What one GPU drew while the program ran, and for what.

    Attributes:
        energy: The whole board's energy.
        kernels: Its parts, the largest first; empty where they are not known.
        ranges: What it drew within NVTX ranges and windows of `EnergyMonitor`; they may overlap.
        delay_s: Mean age of what a power reading shows, s.
        idle: What it drew before the program began, None where that was not measured.
        idle_s: For how long.
    """

    energy: GpuEnergy
    kernels: tuple[Share, ...]
    ranges: tuple[Share, ...] = ()
    delay_s: float = 0.0
    idle: GpuEnergy | None = None
    idle_s: float = 0.0

    @property
    def idle_w(self) -> float:
        """Power before the program began, W; NaN where it is not known."""
        return math.nan if self.idle is None else self.idle.energy_j / self.idle_s


@dataclass(frozen=True)
class ProgramEnergy:
    """What a program took.

    Attributes:
        command: Its words.
        exit_code: Of the command; 128 + n where signal n ended it; None where the run was not kept whole.
        time_s: How long it ran, s.
        gpus: What each GPU drew.
        method: How the energy was found.
        remarks: What else to know, a sentence each.
        is_simulated: Whether the GPU is simulated.
        units: How many of each unit, such as tokens, it made.
    """

    command: tuple[str, ...]
    exit_code: int | None
    time_s: float
    gpus: tuple[GpuShare, ...]
    method: str
    remarks: tuple[str, ...]
    is_simulated: bool = False
    units: Mapping[str, float] = field(default_factory=dict)

    @property
    def energy_j(self) -> float:
        """Energy of all GPUs, J."""
        return sum(gpu.energy.energy_j for gpu in self.gpus)

    @property
    def above_idle_j(self) -> float:
        """Energy of all GPUs above what they draw when idle, J; NaN where that was not measured."""
        return self.energy_j - self.time_s * sum(gpu.idle_w for gpu in self.gpus)


def record_program(
    boards: Sequence[Board],
    words: Sequence[str],
    *,
    kernels: bool = True,
    timer: str = "cupti",
    max_launch_rate_per_s: float = MAX_LAUNCH_RATE_PER_S,
    replay: bool = False,
    replay_after: int | None = None,
    out: Path | None = None,
    idle_s: float = 0.0,
    rank: Rank | None = None,
) -> RecordedProgram:
    """Run a command and return what was recorded of it.

    With `out` readings and launches are on the disk as they come: `unfinished.load_unfinished` reads what a
    killed ptxbench leaves there, and `unfinished.forget_unfinished` removes it when the run is kept.

    Args:
        boards: The GPUs to read; they are released at the end.
        words: The command.
        kernels: Whether kernels are followed; without, the program runs exactly as it would by itself.
        timer: What times them: "cupti", or "events" around their launches.
        max_launch_rate_per_s: Rate of launches in a process from which on kernels are looked at in turns.
        replay: Whether each kind of kernel is launched again at the end of its process.
        replay_after: After how many launches of a process, in the place of its end.
        out: The run's folder, empty; None: nothing outlives this process.
        idle_s: For how long the idle power is measured before the command begins.
        rank: Which rank of a job it is.

    Raises:
        CommandNotRunError: The command could not be started.
        InputError: The folder cannot be written.
        SensorError: A GPU's first reading failed.
    """
    with ExitStack() as stack:
        kept = None if out is None else stack.enter_context(RunOnDisk(out))
        recordings = stack.enter_context(recording(boards, kept))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ptxbench-run-")))
        folder = folder if kept is None else kept.log
        clock = boards[0].clock
        environment, not_followed = _environment(
            boards,
            words,
            folder,
            kernels=kernels,
            timer=timer,
            max_launch_rate_per_s=max_launch_rate_per_s,
            replay=_replay_plan(boards, replay_after or 0) if replay or replay_after else None,
        )
        idle_ns = clock.now_ns() if idle_s else 0
        clock.sleep_s(idle_s)
        start_ns = clock.now_ns()
        if kept is not None:
            kept.begin(_begun(words, start_ns, boards, folder, not_followed, idle_ns, rank))
        code = run_child(words, environment, _last_words(out))
        end_ns = clock.now_ns()
        log = read_launches(folder, end_ns)
        over_ns = _end_without_replay(log, end_ns)
        if over_ns < end_ns:
            end_ns, log = over_ns, read_launches(folder, over_ns)
    if (replay or replay_after) and not log.replays and not not_followed:
        log = replace(log, remarks=(*log.remarks, _NOTHING_REPLAYED))
    if kept is not None and kept.trouble:
        log = replace(log, remarks=(kept.trouble, *log.remarks))
    tool = other_tool(os.environ) if kernels else None
    if tool is not None:
        remark = f"CUDA_INJECTION64_PATH names another tool, {tool}: CUPTI is left to it"
        log = replace(log, remarks=(remark, *log.remarks))
    recorded = tuple(recorded_board(one) for one in recordings)
    manifest = program_manifest(
        words,
        code,
        (start_ns, end_ns),
        [board.facts for board in recorded],
        log,
        not_followed=not_followed,
        is_simulated=not boards[0].is_device,
        idle_ns=idle_ns,
        rank=rank,
    )
    return RecordedProgram(manifest, recorded, log)


def _end_without_replay(log: LaunchLog, end_ns: int) -> int:
    """Return when a program was over, before what its last process launched again."""
    last_ns = max((int(one.start_ns[-1]) for one in log.by_gpu.values() if len(one)), default=0)
    return min([end_ns, *(one.begin_ns for one in log.replays if last_ns < (one.end_ns or end_ns))])


def _last_words(out: Path | None) -> str:
    """Return what is said where this process is killed before the command ends."""
    kept = (
        "nothing of it is kept (`ptxbench run --out FOLDER` keeps it as it comes)"
        if out is None
        else f"`ptxbench run --from {quote(str(out))}` shows what was measured until then"
    )
    return f"ptxbench: killed; the command goes on unmeasured, and {kept}"


def _begun(
    words: Sequence[str],
    start_ns: int,
    boards: Sequence[Board],
    folder: Path,
    not_followed: str,
    idle_ns: int,
    rank: Rank | None,
) -> ProgramManifest:
    """Return the manifest of a run that begins."""
    return program_manifest(
        words,
        None,
        (start_ns, start_ns),
        [board_facts(board) for board in boards],
        read_launches(folder),
        not_followed=not_followed,
        is_simulated=not boards[0].is_device,
        idle_ns=idle_ns,
        rank=rank,
    )


@contextmanager
def recording(boards: Sequence[Board], kept: RunOnDisk | None = None) -> Iterator[list[Recording]]:
    """Record what boards draw from before the block until after it, and release them."""
    recordings = [
        Recording(board, beside=True, keep=None if kept is None else partial(kept.add, number))
        for number, board in enumerate(boards)
    ]
    clock = boards[0].clock
    context_s = max(one.context_s for one in recordings)
    started: list[Recording] = []
    try:
        for one in recordings:
            one.start(int)
            started.append(one)
        clock.sleep_s(context_s)
        yield recordings
        clock.sleep_s(context_s)
    finally:
        for one in started:
            one.stop()


def recorded_board(one: Recording) -> RecordedBoard:
    """Return what a recording holds when it is over."""
    return RecordedBoard(board_facts(one.board), one.series())


def board_facts(board: Board) -> BoardFacts:
    """Return what is kept of a board."""
    return BoardFacts(
        board.name, board.uuid, board.limit_w, board.other_processes, board.sensors, board.max_power_w
    )


def energy_of(
    recorded: RecordedProgram,
    expected: Mapping[str, Expected] | None = None,
    units: Mapping[str, float] | None = None,
) -> ProgramEnergy:
    """Work out what a recorded run took.

    Args:
        recorded: The run.
        expected: What a measured table expects, by kernel name.
        units: How many of a unit it made, beside and before what it said itself.
    """
    recorded = without_replays(recorded)
    facts = recorded.facts
    gpus = tuple(
        with_idle(share_of(board, facts.window, recorded.log, expected), board, facts.idle)
        for board in recorded.boards
    )
    found = zip(recorded.boards, gpus, strict=True)
    method = "; ".join(dict.fromkeys(board.method(gpu.energy) for board, gpu in found))
    return ProgramEnergy(
        facts.program,
        facts.exit_code,
        facts.window.elapsed_s,
        gpus,
        method,
        remarks_on(facts, recorded.log),
        facts.is_simulated,
        {unit: n for unit, n in {**recorded.log.counts, **(units or {})}.items() if n > 0},
    )


def with_idle(share: GpuShare, board: RecordedBoard, idle: KernelWindow | None) -> GpuShare:
    """Return what a GPU drew with what it drew before the program began, where that was measured."""
    if idle is None:
        return share
    return replace(share, idle=board.energy(idle, (idle.end_ns,)), idle_s=idle.elapsed_s)


def share_of(
    board: RecordedBoard,
    window: KernelWindow,
    log: LaunchLog,
    expected: Mapping[str, Expected] | None = None,
) -> GpuShare:
    """Return what one GPU drew in a window that is over, and for what."""
    launches, source = _followed(board.facts.uuid, log)
    energy = board.energy(window, (), busy_spans(launches, log.unseen_ns) if launches is not None else ())
    power = board.power(window)
    if launches is None or math.isnan(energy.energy_j):
        return GpuShare(energy, (), delay_s=power.sensor.delay_s)
    readings = Readings(
        (power.at_ns - window.start_ns) / NS_PER_S,
        power.power_w,
        power.sensor.averaging_s,
        max(power.sensor.refresh_s, 1e-3),
        board.facts.limit_w,
    )
    half_j = (energy.interval_j[1] - energy.interval_j[0]) / 2
    # Several threads wait for each other longer than these small matrices take, and add up in another order
    # each time: the last digits would change.
    with threadpool_limits(1, user_api="blas"):
        found = attribute(
            readings,
            launches,
            window.elapsed_s,
            energy.energy_j,
            half_j,
            origin_ns=window.start_ns,
            ranges=log.ranges,
            unseen_ns=log.unseen_ns,
            is_counted=log.is_counted,
            expected=expected,
        )
    kernels = found.kernels if source is Followed.KERNELS else ()
    return GpuShare(energy, kernels, found.ranges, found.delay_s)


def _followed(uuid: str, log: LaunchLog) -> tuple[Launches | None, Followed]:
    """Return what a GPU's power is told apart by: its kernels, or else the ranges of the program."""
    if log.by_gpu:
        return log.by_gpu.get(uuid, no_launches()), Followed.KERNELS
    if log.ranges:
        return innermost(log.ranges), Followed.RANGES
    return None, Followed.NOTHING


def _environment(
    boards: Sequence[Board],
    words: Sequence[str],
    folder: Path,
    *,
    kernels: bool,
    timer: str,
    max_launch_rate_per_s: float,
    replay: ReplayPlan | None,
) -> tuple[dict[str, str], str]:
    """Return the command's environment, and why kernels cannot be followed, if so."""
    own = without_injector(os.environ)
    if not kernels:
        return {**own, FOLDER_VARIABLE: str(folder)}, "kernels were not requested"
    cupti = find_cupti(words[0], max(board.cuda_major for board in boards))
    leaves_cupti = timer == "events" or other_tool(own) is not None
    try:
        library = build_injector()
    except ToolError as error:
        return {**own, FOLDER_VARIABLE: str(folder)}, f"kernels are not known: {error}"
    own[MAX_RATE_VARIABLE] = repr(max_launch_rate_per_s)
    if leaves_cupti or not cupti:
        return timed(own, library, folder, forced=leaves_cupti), ""
    environment = injected(own, library, cupti, folder)
    return environment if replay is None else replaying(environment, folder, replay), ""


def _replay_plan(boards: Sequence[Board], after: int) -> ReplayPlan:
    """Return for how long kinds are launched again: until the slowest sensor has settled, and longer."""
    sensors = [board.sensors[0] for board in boards]
    settled_s = max(
        max(one.settle_s, one.regulation_s) + SETTINGS.readings * one.refresh_s for one in sensors
    )
    return ReplayPlan(max(SETTINGS.window_s, settled_s), after=after)


def remarks_on(facts: ProgramPart, log: LaunchLog) -> tuple[str, ...]:
    """Return what to know about the kernels that were followed, or why they were not."""
    said = [*filter(None, [facts.not_followed]), *log.remarks]
    if facts.exit_code is None:
        why = "as ptxbench was killed or the disk was full"
        said.insert(
            0, f"the run was not kept to its end, {why}: this is its first {facts.window.elapsed_s:.4g} s"
        )
    if not log.by_gpu:
        whole = "energy by the program's ranges" if log.ranges else "whole-run energy"
        unknown = ("not known", "not requested")
        said = [f"{text}; {whole}" if any(word in text for word in unknown) else text for text in said]
    foreign = [board.name for board in facts.boards if board.other_processes > 0]
    said += [f"{name}: another process was on it, whose energy is included" for name in foreign]
    if facts.not_followed:
        return tuple(said)
    if not log.processes:
        said.append("no process of the command started CUDA: what the GPUs drew is not the command's")
    if log.dropped:
        where = (
            "those that were seen stand for them" if log.unseen_ns else f"their energy is in {NO_KERNEL!r}"
        )
        said.append(f"{log.dropped} kernels were lost: {where}")
    if log.unseen_ns:
        share = sum(on - off for off, on in log.unseen_ns) / 1e9 / facts.window.elapsed_s
        how = (
            "calls are estimated by the launches counted meanwhile"
            if log.is_counted
            else "launches were not counted meanwhile: calls, time and energy may be too low"
        )
        said.append(f"kernels came too fast and were not looked at for {share:.0%} of the time: {how}")
    unread = set(log.by_gpu) - {board.uuid for board in facts.boards}
    if unread:
        said.append(f"kernels also ran on {len(unread)} GPUs that were not read: {', '.join(sorted(unread))}")
    return tuple(said)
