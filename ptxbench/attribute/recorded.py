"""What was recorded of a program's run, in memory and in its folder; every number is worked out from it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ptxbench.api.board_readings import BoardReadings, compare_gated, gated
from ptxbench.attribute.launches import GatheredLaunches, Index, Launches, LaunchLog, weighted_by_time
from ptxbench.attribute.process_log import PIECE
from ptxbench.attribute.ranges import RangeKind, join_ranges
from ptxbench.attribute.rank import Rank, rank_folders
from ptxbench.attribute.replay.program_log import ProcessReplay
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.energy.gate.comparison import Comparison
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow, Series
from ptxbench.storage import traces
from ptxbench.storage.atomic import replacing, write_parquet
from ptxbench.storage.file_errors import reading_parquet, require_regular
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.manifest import Manifest, new_manifest, read_manifest, write_manifest

RUN, READINGS, LAUNCHES, RANGES = "run.json", "readings.parquet", "launches.parquet", "ranges.parquet"
FILES = (RUN, READINGS, LAUNCHES, RANGES)
CURE = "name what `ptxbench run --out` wrote"
_LAUNCH_COLUMNS = ("gpu", "name", "lane", "start_ns", "end_ns")
# For how many kernels each one stands; runs of before it was kept have none.
_WEIGHT = "weight"
_LAUNCHES = pa.schema(
    [
        *(
            (name, pa.int64() if name.endswith("_ns") else pa.dictionary(pa.int32(), pa.string()))
            for name in _LAUNCH_COLUMNS
        ),
        (_WEIGHT, pa.float64()),
    ]
)
_RANGE_COLUMNS = ("kind", "name", "start_ns", "end_ns")


@dataclass(frozen=True)
class BoardFacts:
    """What is known of one GPU that was read.

    Attributes:
        name: Name and index.
        uuid: Its UUID, "" of a simulated one.
        limit_w: Power limit, NaN where it is not known.
        other_processes: Processes that computed on it before the run, -1 where NVML does not tell.
        sensors: What its power sources are like, best first.
        max_power_w: Highest power limit that can be set, NaN where it is not known, and in runs of before
            this was kept.
    """

    name: str
    uuid: str
    limit_w: float
    other_processes: int
    sensors: tuple[SensorDescription, ...]
    max_power_w: float = math.nan

    def fault(self) -> str:
        """Return what no board that was read lacks, for the reader of a file; "" where all is well."""
        return "" if self.sensors else "has no sensors, and every board was read by one"

    def gpu(self, kind: GpuKind) -> GpuInfo:
        """Return the same for the manifest, where a board is named by a hash."""
        named = hashlib.sha256(self.uuid.encode()).hexdigest()[:12] if self.uuid else ""
        return replace(
            GpuInfo.partly_known(self.name, named, power_limit_w=self.limit_w),
            kind=kind,
            max_power_limit_w=self.max_power_w,
        )


@dataclass(frozen=True, kw_only=True)
class ProgramPart:
    """What only a program's run has, beside its readings and kernels.

    Attributes:
        is_simulated: Whether the GPU is simulated.
        program: The words of the program's command.
        exit_code: Its exit code; 128 + n where signal n ended it; None where the run was not kept whole.
        start_ns: Its begin, host time.
        end_ns: Its end.
        boards: The GPUs that were read.
        not_followed: Why kernels were not followed, "" where they were.
        processes: Processes that wrote kernels, or why they could not.
        dropped: Kernels that were lost.
        remarks: What else the processes said, a sentence each.
        off_ns: When kernels were no longer looked at, as they came too fast; host time.
        on_ns: When they were again.
        is_counted: Whether launches were counted while kernels were not looked at.
        counts: How many of each unit, such as tokens, the program said to have made.
        idle_ns: From when on the board was idle before the run, for its idle power, host time; 0: not kept.
        replays: What processes launched again when they were over.
        rank: Which rank of a job it was, None where it was none.
    """

    is_simulated: bool
    program: tuple[str, ...]
    exit_code: int | None
    start_ns: int
    end_ns: int
    boards: tuple[BoardFacts, ...]
    not_followed: str
    processes: int
    dropped: int
    remarks: tuple[str, ...]
    off_ns: tuple[int, ...]
    on_ns: tuple[int, ...]
    is_counted: bool = False
    counts: Mapping[str, float] = field(default_factory=dict)
    idle_ns: int = 0
    replays: tuple[ProcessReplay, ...] = ()
    rank: Rank | None = None

    @property
    def idle(self) -> KernelWindow | None:
        """The time before the run in which the board was idle, None where it was not measured."""
        if not self.idle_ns:
            return None
        return KernelWindow.spanning(self.idle_ns, self.start_ns)

    @property
    def window(self) -> KernelWindow:
        """The run as a window."""
        return KernelWindow.spanning(self.start_ns, self.end_ns)


ProgramManifest = Manifest[ProgramPart]


class RecordedBoard(BoardReadings):
    """What a board drew in a run that is over.

    Attributes:
        facts: Which board.

    Args:
        facts: Which board.
        series: Its readings.
    """

    def __init__(self, facts: BoardFacts, series: tuple[Series, ...]) -> None:
        super().__init__(facts.name, facts.sensors, facts.limit_w, facts.max_power_w)
        self.facts = facts
        self._series = series

    def series(self) -> tuple[Series, ...]:
        """Return all readings, of each source."""
        return self._series

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the power source beside the energy counter, over all that was recorded."""
        sources = gated(self._series, self._sensors, self._max_power_w)
        return compare_gated(sources, self._max_power_w)

    def of(self, source: SourceName) -> Series | None:
        """Return the good readings of one source, None where it was not recorded."""
        return next((one.good() for one in self._series if one.source is source), None)


@dataclass(frozen=True)
class RecordedProgram:
    """A program's run.

    Attributes:
        manifest: What ran when, and on what.
        boards: What each GPU drew.
        log: Kernels and ranges.
    """

    manifest: ProgramManifest
    boards: tuple[RecordedBoard, ...]
    log: LaunchLog

    @property
    def facts(self) -> ProgramPart:
        """What ran when."""
        return self.manifest.part


# What a manifest keeps of the log of kernels as it is.
_LOGGED = ("processes", "dropped", "remarks", "is_counted", "counts", "replays")


def log_facts(log: LaunchLog) -> dict[str, Any]:
    """Return what a manifest keeps of the log of kernels, as fields of `ProgramPart`."""
    off_ns, on_ns = (tuple(span[side] for span in log.unseen_ns) for side in (0, 1))
    return {"off_ns": off_ns, "on_ns": on_ns, **{name: getattr(log, name) for name in _LOGGED}}


def program_manifest(
    command: Sequence[str],
    exit_code: int | None,
    times_ns: tuple[int, int],
    boards: Sequence[BoardFacts],
    log: LaunchLog,
    *,
    not_followed: str = "",
    is_simulated: bool = False,
    idle_ns: int = 0,
    rank: Rank | None = None,
) -> ProgramManifest:
    """Return the manifest of a run that is over.

    Args:
        command: Its words.
        exit_code: Its exit code; None while it runs.
        times_ns: Its begin and end, host time.
        boards: The GPUs that were read.
        log: Its kernels.
        not_followed: Why kernels were not followed.
        is_simulated: Whether the GPU is simulated.
        idle_ns: From when on the board was idle before the run, host time; 0: not kept.
        rank: Which rank of a job it was.
    """
    part = ProgramPart(
        is_simulated=is_simulated,
        program=tuple(command),
        exit_code=exit_code,
        start_ns=times_ns[0],
        end_ns=times_ns[1],
        boards=tuple(boards),
        not_followed=not_followed,
        idle_ns=idle_ns,
        rank=rank,
        **log_facts(log),
    )
    kind = GpuKind.SIMULATED if is_simulated else GpuKind.REAL
    sensors = boards[0].sensors if boards else ()
    return new_manifest(Kind.PROGRAM, part, tuple(board.gpu(kind) for board in boards), sensors)


def keep(recorded: RecordedProgram, folder: Path) -> None:
    """Write a run into a folder; `run.json` is last, so that a folder that has it is whole.

    Raises:
        InputError: The folder cannot be written.
    """
    with replacing(folder / READINGS) as file:
        traces.write(
            file, (traces.to_table(str(i), board.series()) for i, board in enumerate(recorded.boards))
        )
    with (
        replacing(folder / LAUNCHES) as file,
        pq.ParquetWriter(file, _LAUNCHES, compression="zstd") as writer,
    ):
        for uuid, launches in recorded.log.by_gpu.items():
            for piece in launches.pieces():
                writer.write_table(_launch_table(uuid, piece))
    write_parquet(folder / RANGES, _range_table(recorded.log))
    write_manifest(folder / RUN, recorded.manifest)


def load(folder: Path) -> RecordedProgram:
    """Read a run that `keep` wrote.

    Raises:
        InputError: The folder is no such run, or a file of it is damaged.
    """
    path = folder / RUN
    if not path.exists():
        if rank_folders(folder):
            raise InputError(
                f"{folder} is a job of several ranks: `ptxbench report {folder}` sums them up; name one of"
                " its folders for its run alone"
            )
        raise InputError(f"{folder} is no run of a program (no {RUN}): name what `ptxbench run --out` wrote")
    manifest = read_manifest(path, ProgramManifest, Kind.PROGRAM)
    facts = manifest.part
    boards = recorded_boards(facts, traces.read(folder / READINGS), folder / READINGS)
    with _parquet(folder / RANGES, _RANGE_COLUMNS) as file:
        ranges = file.read()
    parts = zip(*(ranges[name].to_pylist() for name in _RANGE_COLUMNS), strict=True)
    try:
        found = join_ranges((RangeKind(kind), name, start, end) for kind, name, start, end in parts)
    except (ValueError, TypeError) as error:
        raise InputError(f"{folder / RANGES}: {error}") from error
    unseen_ns = tuple(zip(facts.off_ns, facts.on_ns, strict=False))
    kept: dict[str, Any] = {name: getattr(facts, name) for name in _LOGGED}
    log = LaunchLog(_by_gpu(folder / LAUNCHES, unseen_ns), ranges=found, unseen_ns=unseen_ns, **kept)
    return RecordedProgram(manifest, boards, log)


def recorded_boards(facts: ProgramPart, readings: pa.Table, path: Path) -> tuple[RecordedBoard, ...]:
    """Return what the boards of a run drew.

    Args:
        facts: Of the run.
        readings: Those of all boards.
        path: Where they are from.

    Raises:
        InputError: Those of a board are missing.
    """
    of_board = dict(traces.parts(readings, "trial_id"))
    none = readings.slice(0, 0)
    boards = tuple(
        RecordedBoard(board, traces.to_series(of_board.get(str(i), none), path))
        for i, board in enumerate(facts.boards)
    )
    for board in boards:
        if all(board.of(source) is None for source in board.recorded):
            raise InputError(f"{path}: readings of {board.facts.name} are missing")
    return boards


def _launch_table(uuid: str, launches: Launches) -> pa.Table:
    """Return launches of one GPU as columns."""
    return pa.table(
        {
            "gpu": _dictionary(np.zeros(len(launches), dtype=np.int32), (uuid,)),
            "name": _dictionary(launches.name, launches.names),
            "lane": _dictionary(launches.lane, launches.lanes),
            "start_ns": launches.start_ns,
            "end_ns": launches.end_ns,
            _WEIGHT: np.ones(len(launches)) if launches.weight is None else launches.weight,
        },
        schema=_LAUNCHES,
    )


def _dictionary(index: Index, texts: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(index, type=pa.int32()), pa.array(texts, type=pa.string()))


def _range_table(log: LaunchLog) -> pa.Table:
    times = {
        name: np.concatenate([np.empty(0, dtype=np.int64), *(getattr(one, name) for one in log.ranges)])
        for name in ("start_ns", "end_ns")
    }
    each = [one for one in log.ranges for _ in range(len(one))]
    return pa.table(
        {
            "kind": pa.array([str(one.kind) for one in each], type=pa.string()),
            "name": pa.array([one.name for one in each], type=pa.string()),
            **times,
        }
    )


@contextmanager
def _parquet(path: Path, names: Sequence[str]) -> Iterator[pq.ParquetFile]:
    """Open a file of a run that has some columns at least."""
    if not path.exists():
        raise InputError(f"{path} is missing: the run is not whole")
    require_regular(path, CURE)
    with reading_parquet(path, CURE), pq.ParquetFile(path) as file:
        missing = set(names) - set(file.schema_arrow.names)
        if missing:
            raise InputError(f"{path} has no column {', '.join(sorted(missing))}")
        yield file


def _by_gpu(path: Path, unseen_ns: Sequence[tuple[int, int]]) -> dict[str, Launches]:
    with _parquet(path, _LAUNCH_COLUMNS) as file:
        gathered = GatheredLaunches(file.metadata.num_rows)
        has_weight = _WEIGHT in file.schema_arrow.names
        for batch in file.iter_batches(PIECE):
            for uuid, mine in traces.parts(batch, "gpu"):
                names, lanes = (_encoded(mine[column]) for column in ("name", "lane"))
                start_ns, end_ns = (traces.to_numpy(mine[side]) for side in ("start_ns", "end_ns"))
                # Without times unseen each kernel stands for itself.
                weight = traces.to_numpy(mine[_WEIGHT]) if has_weight and unseen_ns else None
                gathered.add(uuid, Launches(*names, start_ns, end_ns, *lanes, weight))
    # Else what the pieces took stays beside all that is worked out from them.
    pa.default_memory_pool().release_unused()
    by_gpu = gathered.by_gpu()
    if has_weight:
        return by_gpu
    return {uuid: weighted_by_time(launches, unseen_ns) for uuid, launches in by_gpu.items()}


def _encoded(column: pa.Array) -> tuple[tuple[str, ...], Index]:
    """Return the texts of a column that occur, and which of them each row has."""
    texts = pc.unique(column.cast(pa.string()))
    return tuple(texts.to_pylist()), traces.to_numpy(pc.index_in(column.cast(pa.string()), texts))
