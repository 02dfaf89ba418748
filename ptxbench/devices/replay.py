"""A recorded run in the place of a GPU, so that everything after the launch can be computed again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from ptxbench.core.clock import VirtualClock
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import LaunchError, ReplayError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.status import Status
from ptxbench.devices.base import Launch
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import ConcurrentRun, KernelRun, SequenceRun, Telemetry
from ptxbench.sensors.trace import KernelWindow
from ptxbench.storage.kernels import KernelEntry
from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TableRow, TrialRecord
from ptxbench.storage.table import TABLE

_SHARED_PREFIX = "overhead/"
# Statements by which blocks tell when they began and ended: once it was block 0 alone.
_STAMPING = re.compile(r"[^;{}]*%(?:stamps?|first)\b[^;]*;")
_UNKNOWN = Telemetry(float("nan"), float("nan"), float("nan"), -1, -1)


class ReplayGpu:
    """A GPU that answers each launch with what was recorded of it.

    Args:
        folder: The run, finished or not; closed with this GPU.

    Raises:
        InputError: The run's readings or kernels are not in its folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        folder.require_whole()
        self._folder = folder
        records = folder.records()
        self._state = _before(records[0]) if records else _UNKNOWN
        self._clock = VirtualClock(min((r.record_begin_ns for r in records), default=0))

    @property
    def path(self) -> Path:
        """Folder of the recorded run."""
        return self._folder.path

    @property
    def manifest(self) -> TableManifest:
        """What the recorded run is."""
        return self._folder.manifest

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        """The recorded trials, in their order."""
        return tuple(self._folder.records())

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """The recorded rows; none where the run wrote no table."""
        return tuple(self._folder.rows())

    @property
    def info(self) -> GpuInfo:
        """The run's first board, marked as replayed."""
        return replace(self._folder.manifest.gpu, kind=GpuKind.REPLAYED, index=-1)

    @property
    def clock(self) -> VirtualClock:
        """A clock that stands at the end of the last recording."""
        return self._clock

    @property
    def sensors(self) -> tuple[SensorDescription, ...]:
        """The power sources as the run described them."""
        return self._folder.manifest.sensors

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        """Return the machine code that the run had made of `ptx`, or of the same code in another layout.

        Raises:
            ReplayError: The run holds no such kernel.
        """
        entry = self._folder.kernels.find(ptx, opt_level) or self._by_code.get((_code(ptx), opt_level))
        if entry is None:
            version = self._folder.manifest.ptxbench_version
            raise ReplayError(
                f"{self._folder.path} holds no kernel of this PTX at -{opt_level}; "
                f"its PTX was rendered by ptxbench {version}, replay it with that version"
            )
        return self._folder.kernels.cubin(entry)

    @cached_property
    def _by_code(self) -> dict[tuple[str, OptLevel], KernelEntry]:
        """The kernels by their PTX without what makes no code."""
        kernels = self._folder.kernels
        return {(_code(kernels.ptx(entry)), entry.opt_level): entry for entry in kernels.entries}

    def blocks_per_sm(self, cubin: Cubin, kernel: str, block: int) -> int:
        """Return how many blocks the recorded launches put on one SM; 0 where they were smaller blocks.

        Raises:
            ReplayError: The run holds no launch of `kernel` with `block` threads or fewer.
        """
        launches = [
            (r.block, r.grid)
            for r in self._folder.records()
            if (r.cubin_sha256, r.kernel) == (cubin.sha256, kernel)
        ]
        grids = [grid for size, grid in launches if size == block]
        if not grids and any(size < block for size, _ in launches):
            return 0
        if not grids:
            raise ReplayError(f"{self._folder.path} holds no launch of {kernel} with {block} threads a block")
        return max(1, max(grids) // self.info.sm_count)

    def require_shared_static(self) -> None:
        """Refuse a run of which dynamic rows cannot be computed again.

        Raises:
            ReplayError: It measured static power anew for each row, as the first versions of ptxbench did.
        """
        path = self._folder.path
        # Of the kernel that all rows share the trials bear no row's name.
        if any(r.role is Role.STATIC and "/" in r.subject for r in self._folder.records()):
            raise ReplayError(
                f"{path} was recorded by an early ptxbench, which measured static power anew for each row; "
                f"this one cannot compute its dynamic rows again. They are in {path / TABLE}"
            )

    def run(self, launch: Launch) -> KernelRun:
        """Return what was recorded of `launch`; the output was not kept and is empty.

        The run keeps one throttle mask a trial, which stands for before, during and after.

        Raises:
            ReplayError: The run does not hold the trial, or holds another launch under its id.
            LaunchError: The recorded launch failed.
        """
        record = self._find(launch)
        if record.status is Status.LAUNCH_FAILED:
            raise LaunchError(record.reason)
        return self.recorded(record)

    def recorded(self, record: TrialRecord) -> KernelRun:
        """Return what was recorded of a trial; of one that failed, an empty trace and no window.

        Args:
            record: One of `records`.
        """
        trace = self._folder.trace(record.trial_id)
        self._state = _after(record)
        self._clock.sleep_s((record.record_end_ns - self._clock.now_ns()) / 1e9)  # a clock never goes back
        return KernelRun(
            window=_window(record),
            trace=trace,
            before=_before(record),
            after=self._state,
            throttle_reasons=record.throttle_reasons,
        )

    def run_sequence(
        self, launches: Sequence[Launch], gaps_s: Sequence[float], poll_interval_s: float | None = None
    ) -> SequenceRun:
        """Refuse: a run folder keeps recordings of one launch each.

        Raises:
            ReplayError: Always.
        """
        del gaps_s, poll_interval_s
        raise ReplayError(
            f"{self._folder.path} holds no recording that spans {len(launches)} launches; "
            "it needs a real or simulated GPU"
        )

    def run_concurrently(self, launches: Sequence[Launch], rounds: int = 1) -> ConcurrentRun:  # noqa: ARG002
        """Refuse: no kernels that ran at once are recorded.

        Raises:
            ReplayError: Always.
        """
        raise self._runs_nothing(launches[0])

    def time_s(self, launch: Launch) -> NoReturn:
        """Refuse: what was not recorded has no time, and no output.

        Raises:
            ReplayError: Always.
        """
        raise self._runs_nothing(launch)

    compute = time_s

    def telemetry(self) -> Telemetry:
        """Return the state after the last run, or before the first one."""
        return self._state

    def close(self) -> None:
        """Close the run."""
        self._folder.close()

    def _runs_nothing(self, launch: Launch) -> ReplayError:
        return ReplayError(
            f"{self._folder.path} is a recorded run and cannot launch {launch.kernel}; "
            "it needs a real or simulated GPU"
        )

    def _find(self, launch: Launch) -> TrialRecord:
        record = self._folder.record(launch.trial_id)
        if record is None:
            raise ReplayError(f"{self._folder.path} holds no trial {launch.trial_id}")
        requested: dict[str, object] = {
            "kernel": launch.kernel,
            "grid": launch.grid,
            "block": launch.block,
            "iterations": launch.iterations,
            "operands": launch.pattern,
        }
        if not launch.trial_id.startswith(_SHARED_PREFIX):
            # A shared overhead loop is named after its code, and may come from any module that has it.
            requested["cubin_sha256"] = launch.cubin.sha256
        for key, value in requested.items():
            if getattr(record, key) != value:
                raise ReplayError(
                    f"{self._folder.path}: trial {launch.trial_id} was recorded with {key} "
                    f"{getattr(record, key)}, not {value}"
                )
        return record


def _code(ptx: str) -> str:
    """Return a PTX module without comments, layout, declared registers and stamps: none is in its loop."""
    bare = re.sub(r"//.*|\.reg\b[^;]*;", "", ptx)
    return " ".join(_STAMPING.sub("", bare).split())


def _window(record: TrialRecord) -> KernelWindow:
    return KernelWindow(
        record.start_ns, record.end_ns, record.elapsed_s, record.cycles, record.globaltimer_ns
    )


def _before(record: TrialRecord) -> Telemetry:
    return replace(_after(record), temperature_c=record.temperature_before_c)


def _after(record: TrialRecord) -> Telemetry:
    return Telemetry(
        temperature_c=record.temperature_after_c,
        sm_clock_mhz=record.sm_clock_mhz,
        memory_clock_mhz=record.memory_clock_mhz,
        throttle_reasons=record.throttle_reasons,
        other_processes=record.other_processes,
    )
