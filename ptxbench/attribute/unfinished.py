"""A program's run on the disk as it comes, so that what was measured outlives a killed ptxbench."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import numpy as np
import pyarrow as pa

from ptxbench.attribute.launches import Launches, LaunchLog, read_launches
from ptxbench.attribute.recorded import BoardFacts, RecordedBoard, RecordedProgram, RunFacts
from ptxbench.core.closing import Closing
from ptxbench.core.errors import InputError
from ptxbench.sensors.trace import Series
from ptxbench.storage import codec, traces
from ptxbench.storage.atomic import write_text
from ptxbench.storage.file_errors import require_regular, writing

# What is there until the run is over: how it began, its readings so far, and what its processes write.
BEGUN, READINGS, LOG = "begun.json", "readings.arrows", "log"
_CURE = "name what `ptxbench run --out` wrote"
EXIT_CODE_UNKNOWN = -1


class RunOnDisk(Closing):
    """Writes readings into a run's folder, from a thread of its own: a slow disk delays no reading.

    Args:
        folder: The run's folder.

    Attributes:
        log: Folder into which the processes of the command write their launches.

    Raises:
        InputError: The folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.log = folder / LOG
        with writing(self.log):
            self.log.mkdir()
        self._folder, self._path = folder, folder / READINGS
        # The first column of numbers loads pandas, for seconds: not while readings are waited for.
        pa.array(np.zeros(1))
        self._queue: SimpleQueue[tuple[int, tuple[Series, ...]] | None] = SimpleQueue()
        self._failure: OSError | None = None
        self._thread = Thread(target=self._write, name="ptxbench-readings", daemon=True)
        self._thread.start()

    def begin(self, facts: RunFacts) -> None:
        """Keep how the run began; from now on it can be read.

        Raises:
            InputError: The folder cannot be written.
        """
        write_text(self._folder / BEGUN, codec.to_text(facts))

    def add(self, board: int, series: Sequence[Series]) -> None:
        """Keep some readings more; any thread may call it, and none waits for the disk.

        Args:
            board: Number of the board.
            series: Its readings since the last time.
        """
        self._queue.put((board, tuple(series)))

    def close(self) -> None:
        """Wait until all is written."""
        self._queue.put(None)
        self._thread.join()

    @property
    def trouble(self) -> str:
        """Why not all readings were kept as they came, "" where they were."""
        if self._failure is None:
            return ""
        return f"not all readings were kept as they came: {self._failure.strerror or self._failure}"

    def _write(self) -> None:
        try:
            with self._path.open("xb") as file, pa.ipc.new_stream(file, traces.SCHEMA) as stream:
                while (more := self._queue.get()) is not None:
                    board, series = more
                    stream.write_table(traces.to_table(str(board), series))
                    file.flush()
        except OSError as failure:
            self._failure = failure


def forget_unfinished(folder: Path) -> None:
    """Remove what a run that is kept whole no longer needs."""
    for name in (BEGUN, READINGS):
        with suppress(OSError):
            (folder / name).unlink()
    shutil.rmtree(folder / LOG, ignore_errors=True)


def load_unfinished(folder: Path) -> RecordedProgram:
    """Read a run of which ptxbench was killed: what was measured until then.

    Raises:
        InputError: The folder holds no reading, or a file of it is damaged.
    """
    begun = codec.decode(RunFacts, codec.read_json(folder / BEGUN), codec.Place(folder / BEGUN))
    readings = _readings(folder / READINGS)
    if not len(readings):
        raise InputError(f"{folder}: ptxbench was killed before it kept a reading")
    boards = tuple(_board(facts, i, readings, folder) for i, facts in enumerate(begun.boards))
    # Sources need readings behind a window, too.
    last_ns, context_s = int(np.max(readings["end_ns"].to_numpy())), max(one.context_s for one in boards)
    end_ns = max(begun.start_ns + 1, last_ns - round(context_s * 1e9))
    log = _until(read_launches(folder / LOG, end_ns), end_ns)
    facts = replace(
        begun,
        end_ns=end_ns,
        processes=log.processes,
        dropped=log.dropped,
        remarks=log.remarks,
        off_ns=tuple(off for off, _ in log.unseen_ns),
        on_ns=tuple(on for _, on in log.unseen_ns),
        is_counted=log.is_counted,
    )
    return RecordedProgram(facts, boards, log)


def _board(facts: BoardFacts, number: int, readings: pa.Table, folder: Path) -> RecordedBoard:
    mine = readings.filter(pa.compute.equal(readings["trial_id"], str(number)))
    return RecordedBoard(facts, traces.to_series(mine, folder / READINGS))


def _readings(path: Path) -> pa.Table:
    """Return the readings that are whole; the last ones may be torn."""
    batches: list[pa.RecordBatch] = []
    if path.exists():
        require_regular(path, _CURE)
        with path.open("rb") as file, suppress(pa.ArrowInvalid, OSError), pa.ipc.open_stream(file) as stream:
            if stream.schema != traces.SCHEMA:
                raise InputError(f"{path} holds other columns; {_CURE}")
            # Those before a torn one stay in the list.
            batches.extend(stream)
    return pa.Table.from_batches(batches, traces.SCHEMA)


def _until(log: LaunchLog, end_ns: int) -> LaunchLog:
    """Return what began by a moment: processes of the command may have gone on."""
    by_gpu = {uuid: _begun_by(launches, end_ns) for uuid, launches in log.by_gpu.items()}
    return replace(log, by_gpu=by_gpu)


def _begun_by(launches: Launches, end_ns: int) -> Launches:
    until = int(np.searchsorted(launches.start_ns, end_ns))
    columns = {name: getattr(launches, name)[:until] for name in ("name", "start_ns", "end_ns", "lane")}
    columns["end_ns"] = np.minimum(columns["end_ns"], end_ns)
    weight = None if launches.weight is None else launches.weight[:until]
    return replace(launches, **columns, weight=weight)
