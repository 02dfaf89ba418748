"""Modules made ready on the CPU while the GPU measures.

Rendering, the JIT, nvdisasm and the loop check of one batch run in a pool of threads while the batch before
it is measured. That does not disturb the measuring. JIT and nvdisasm, which take most of the time, run
without Python's lock. A `samples` reading bears the driver's own time stamp, so that a late poll loses
nothing. The window of a kernel is bounded from both sides (see `CudaGpu`). While a pool is at work Python
hands its lock on every quarter of a millisecond. A module that the run folder holds already is not assembled
again: the driver is the same, or the run could not be resumed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from ptxbench.analysis.subject import Subject
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import render_sleep
from ptxbench.core.condition import OptLevel, lanes_key
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import NotMeasurableError, RefusedModuleError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.core.target import find_target
from ptxbench.devices.base import Gpu
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.numeric_check import ExpectedModule, expect_module, has_reference
from ptxbench.experiment.protocols import find_protocol
from ptxbench.sass.listing import disassemble
from ptxbench.sass.module import Module, build_module
from ptxbench.storage.kernels import KernelFiles
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow

# Assemblers that run at once; and how long a thread of Python keeps another waiting, 5 ms by default: threads
# that build kernels must not keep the one that measures. Both chosen.
_MOST_THREADS = 16
_SWITCH_INTERVAL_S = 0.00025


# A subject that is ready to be measured, or the row of one that cannot be.
Outcome = BuiltKernels | TableRow


class Builder:
    """Makes batches of subjects ready ahead of the measuring; a context manager.

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

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown(cancel_futures=True)
        self._keeper.shutdown(cancel_futures=True)

    def begin(self, subjects: Sequence[Subject]) -> Future[list[Outcome]]:
        """Begin to make a batch ready.

        Its result raises ToolError where a tool is missing or was stopped, GpuError where the GPU does not
        answer, and InputError where the folder cannot be written.
        """
        built = [self._workers.submit(self._build, subject) for subject in subjects]
        return self._keeper.submit(self._keep, built)

    def begin_sleep(self) -> Future[Cubin]:
        """Begin to make the sleeping kernel ready; it is kept in the run folder."""
        return self._keeper.submit(self._sleep)

    def _sleep(self) -> Cubin:
        ptx = render_sleep(self._target)
        cubin = self._assemble(ptx, OptLevel.O3)
        self._folder.add_kernels([KernelFiles("static", ptx, disassemble(cubin.image), cubin)])
        return cubin

    def _keep(self, futures: Sequence[Future[tuple[Outcome, Module | None]]]) -> list[Outcome]:
        built = [future.result() for future in futures]
        self._folder.add_kernels(
            KernelFiles(
                "/".join((m.instruction.name, m.form, *lanes_key(m.lanes))), m.ptx, m.listing, m.cubin
            )
            for _, m in built
            if m is not None
        )
        return [outcome for outcome, _ in built]

    def _build(self, subject: Subject) -> tuple[Outcome, Module | None]:
        """Return a subject with what it takes to run it, or its row; and its module where there is one."""
        row, condition = subject.instruction, subject.condition
        protocol = find_protocol(condition.protocol)
        module = None
        reason = protocol.refusal(row, condition)
        if reason:
            return subject.row(Status.NOT_SUPPORTED, reason), None
        try:
            module = build_module(
                row, self._target, condition.opt_level, condition.form, self._assemble, condition.lanes
            )
            subject = replace(subject, loop_check=module.loop_check)
            if not module.loop_check.passed:
                return subject.row(Status.GATE_FAILED, module.loop_check.reason), module
            operands = operand_bytes(row, condition.pattern, self._folder.manifest.part.order_seed)
            expected = self._expected(module)
        except (NotMeasurableError, RefusedModuleError) as error:
            return subject.row(Status.NOT_SUPPORTED, str(error)), module
        loops = protocol.overhead_loops(row, module.kernels)
        subject = replace(subject, loops=tuple(loops.items()))
        return BuiltKernels(subject, module.cubin, operands, expected), module

    def _expected(self, module: Module) -> ExpectedModule | None:
        """Return what a module must compute; a simulated GPU charges energy and computes nothing."""
        if self._gpu.info.kind is not GpuKind.REAL or not has_reference(module):
            return None
        return expect_module(self._gpu, module)

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
