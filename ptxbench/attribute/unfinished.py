"""A program's run on the disk as it comes, so that what was measured outlives a killed ptxbench."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import numpy as np
import pyarrow as pa

from ptxbench.attribute.launches import read_launches
from ptxbench.attribute.recorded import (
    CURE,
    ProgramManifest,
    RecordedBoard,
    RecordedProgram,
    log_facts,
    recorded_boards,
)
from ptxbench.core.closing import Closing
from ptxbench.core.errors import InputError
from ptxbench.sensors.trace import Series
from ptxbench.storage import traces
from ptxbench.storage.atomic import sync_folder
from ptxbench.storage.file_errors import require_regular, writing
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.manifest import read_manifest, write_manifest

# What is there until the run is over: how it began, its readings so far, and what its processes write.
BEGUN, READINGS, LOG = "begun.json", "readings.arrows", "log"


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

    def begin(self, manifest: ProgramManifest) -> None:
        """Keep how the run began; from now on it can be read.

        Raises:
            InputError: The folder cannot be written.
        """
        write_manifest(self._folder / BEGUN, manifest)

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
                    os.fsync(file.fileno())
                    self._sync_log()
        except OSError as failure:
            self._failure = failure

    def _sync_log(self) -> None:
        """Make what the command's processes have written outlive a power cut, too."""
        for path in self.log.iterdir():
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(self.log)
        sync_folder(self._folder)


def forget_unfinished(folder: Path) -> None:
    """Remove what a run that is kept whole no longer needs."""
    for name in (BEGUN, READINGS):
        with suppress(OSError):
            (folder / name).unlink()
    shutil.rmtree(folder / LOG, ignore_errors=True)


def load_unfinished(folder: Path) -> RecordedProgram:
    """Read a run that was not kept to its end: what was measured until then.

    Raises:
        InputError: The folder holds no reading, or a file of it is damaged.
    """
    manifest = read_manifest(folder / BEGUN, ProgramManifest, Kind.PROGRAM)
    begun = manifest.part
    readings = _readings(folder / READINGS)
    if not len(readings):
        raise InputError(f"{folder}: it ended before a reading was kept")
    boards = recorded_boards(begun, readings, folder / READINGS)
    end_ns = min(map(_known_until_ns, boards))
    if end_ns <= begun.start_ns:
        raise InputError(f"{folder}: it ended before anything that the command drew is known")
    log = read_launches(folder / LOG, end_ns, is_early=True)
    facts = replace(begun, end_ns=end_ns, **log_facts(log))
    return RecordedProgram(replace(manifest, part=facts), boards, log)


def _known_until_ns(board: RecordedBoard) -> int:
    """Return until when the energy of a board is known: what it drew shows in later readings, too."""
    last_ns = max(int(one.end_ns[-1]) for one in board.series() if one.source in board.recorded)
    return last_ns - round(board.context_s * 1e9)


def _readings(path: Path) -> pa.Table:
    """Return the readings that are whole; the last ones may be torn."""
    batches: list[pa.RecordBatch] = []
    if path.exists():
        require_regular(path, CURE)
        with path.open("rb") as file, suppress(pa.ArrowInvalid, OSError), pa.ipc.open_stream(file) as stream:
            if stream.schema != traces.SCHEMA:
                raise InputError(f"{path} holds other columns; {CURE}")
            # Those before a torn one stay in the list.
            batches.extend(stream)
    return pa.Table.from_batches(batches, traces.SCHEMA)
