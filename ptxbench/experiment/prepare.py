"""Modules made ready on the CPU while the GPU measures.

Rendering, the JIT, nvdisasm and the gate of one batch run in a pool of threads while the batch before
it is measured. That does not disturb the measuring: JIT and nvdisasm, which take most of the time,
run without Python's lock; a `samples` reading bears the driver's own time stamp, so that a late poll
loses nothing; the window of a kernel is bounded from both sides (see `CudaGpu`); and while a pool is
at work Python hands its lock on every quarter of a millisecond. A module that the run folder holds
already is not assembled again: the driver is the same, or the run could not be gone on with.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from ptxbench.analysis.overhead import overhead_loops
from ptxbench.analysis.subject import Subject, empty_row
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import render_sleep
from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import NotMeasurableError, RefusedModuleError
from ptxbench.core.status import Status
from ptxbench.core.target import find_target
from ptxbench.devices.base import Gpu
from ptxbench.experiment.arafa import arafa_refusal
from ptxbench.experiment.loaded_unit import LoadedUnit
from ptxbench.experiment.plan import Task
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.module import Module, build_module
from ptxbench.storage.kernels import KernelFiles
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow

_MOST_THREADS = 16
_SWITCH_INTERVAL_S = 0.00025


@dataclass(frozen=True)
class Prepared:
    """One task, ready to be measured or refused.

    Attributes:
        task: What was asked for.
        loaded: Its unit, or None where it cannot be measured.
        row: Its row in that case.
    """

    task: Task
    loaded: LoadedUnit | None
    row: TableRow | None


@dataclass(frozen=True)
class _Built:
    """What a worker hands over."""

    prepared: Prepared
    module: Module | None


class Preparer:
    """Makes batches of tasks ready ahead of the measuring; a context manager.

    Args:
        gpu: Whose assembler is used.
        folder: Where kernels are kept.
    """

    def __init__(self, gpu: Gpu, folder: RunFolder) -> None:
        self._gpu = gpu
        self._folder = folder
        self._target = find_target(gpu.info.target)
        threads = min(_MOST_THREADS, os.cpu_count() or 1)
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="ptxbench-prepare")
        # One thread keeps the kernels, so that the folder has one writer of them.
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="ptxbench-keep")

    def __enter__(self) -> Preparer:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(cancel_futures=True)
        self._keeper.shutdown(cancel_futures=True)

    def begin(self, tasks: Sequence[Task]) -> Future[list[Prepared]]:
        """Begin to make a batch ready.

        Its result raises ToolError where a tool is missing or was stopped, GpuError where the GPU does not
        answer, and InputError where the folder cannot be written.
        """
        built = [self._workers.submit(self._build, task) for task in tasks]
        return self._keeper.submit(self._keep, built)

    def begin_sleep(self) -> Future[Cubin]:
        """Begin to make the sleeping kernel ready; it is kept in the run folder."""
        return self._keeper.submit(self._sleep)

    def _sleep(self) -> Cubin:
        ptx = render_sleep(self._target)
        cubin = self._assemble(ptx, OptLevel.O3)
        self._folder.add_kernels([KernelFiles("static", ptx, disassemble(cubin.image), cubin)])
        return cubin

    def _keep(self, futures: Sequence[Future[_Built]]) -> list[Prepared]:
        built = [future.result() for future in futures]
        self._folder.add_kernels(
            KernelFiles(f"{m.instruction.name}/{m.form}", m.ptx, m.listing, m.cubin)
            for b in built
            if (m := b.module) is not None
        )
        return [b.prepared for b in built]

    def _build(self, task: Task) -> _Built:
        """Build one module, and what else it takes to run it."""
        row, level = task.instruction, task.opt_level

        def refused(status: Status, reason: str, module: Module | None = None) -> _Built:
            judgement = module.judgement if module else None
            empty = empty_row(row, level, task.protocol, task.pattern, status, reason, judgement)
            return _Built(Prepared(task, None, empty), module)

        module = None
        reason = arafa_refusal(row) if task.protocol == ARAFA else ""
        if reason:
            return refused(Status.NOT_SUPPORTED, reason)
        try:
            module = build_module(row, self._target, level, task.form, self._assemble)
            if not module.judgement.passed:
                return refused(Status.GATE_FAILED, module.judgement.reason, module)
            operands = operand_bytes(row, task.pattern, self._folder.manifest.order_seed)
        except (NotMeasurableError, RefusedModuleError) as error:
            return refused(Status.NOT_SUPPORTED, str(error), module)
        loops = overhead_loops(row, parse_listing(module.listing)) if task.protocol == DYNAMIC else {}
        unit = Subject(row, level, module.judgement, task.protocol, task.pattern, tuple(loops.items()))
        return _Built(Prepared(task, LoadedUnit(unit, module.cubin, operands), None), module)

    def _assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        held = self._folder.kernels.find(ptx, opt_level)
        return self._gpu.assemble(ptx, opt_level) if held is None else self._folder.kernels.cubin(held)


@contextmanager
def quick_switching() -> Iterator[None]:
    """Let Python's threads wait for each other no longer than a fraction of a millisecond."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)
