"""Runs one catalogue row on a GPU and compares what it computes with the reference in numpy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.types import TYPES
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import OVERHEAD, TARGET, render_module
from ptxbench.core.condition import Form, OptLevel, Pattern
from ptxbench.core.errors import InputError, LaunchError, RefusedModuleError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.target import find_target
from ptxbench.devices.base import Gpu, Launch
from ptxbench.emulator.bits import Bits
from ptxbench.emulator.compare import differing
from ptxbench.emulator.kernel import expected_results
from ptxbench.experiment.pass_check import wrong_passes
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop_check import check_loops

BLOCKS, ITERATIONS, MANY_ITERATIONS = 2, 3, 100
BLOCK = 256
SEED = 5


@dataclass(frozen=True)
class Checked:
    """What one row's module did on a GPU at one optimization level and in one form.

    Attributes:
        instruction: Catalogue name.
        category: Its category.
        opt_level: Optimization level.
        form: Latency or throughput form.
        gate: Verdict of the loop check, or "" where nothing was assembled.
        launched: Whether target and overhead ended, small and on every SM.
        result: match, mismatch or unchecked, target and overhead together.
        detail: What failed, or why it is not checked.
        elapsed_ms: Time of the launch on every SM.
        passes: Whether each kernel makes as many passes of its loop as requested (`pass_check`): confirmed,
            wrong or unchecked.
    """

    instruction: str
    category: str
    opt_level: str
    form: str
    gate: str
    launched: bool
    result: str
    detail: str
    elapsed_ms: float
    passes: str = "unchecked"

    @property
    def failed(self) -> bool:
        """Whether anything is wrong with it."""
        wrong = self.result == "mismatch" or self.passes == "wrong"
        return not self.launched or self.gate in ("", "refused") or wrong


def check_row(gpu: Gpu, row: Instruction, opt_level: OptLevel, form: Form) -> Checked:
    """Assemble, check and launch one module, small (compared with the reference) and on every SM.

    Args:
        gpu: What runs it.
        row: Catalogue row; the GPU's target has it.
        opt_level: Optimization level.
        form: Latency or throughput form.

    Raises:
        GpuError: The GPU stopped answering, and with it this process.
        ToolError: nvdisasm is missing.
    """
    target = find_target(gpu.info.target)
    lost = Checked(row.name, row.category, opt_level, form, "", False, "unchecked", "", 0.0)
    try:
        ptx = render_module(row, target, form)
        cubin = gpu.assemble(ptx, opt_level)
        checked = check_loops(row, opt_level, parse_listing(disassemble(cubin.image)), target.name, form)
    except (InputError, RefusedModuleError) as error:
        return replace(lost, detail=str(error))
    block = row.block or max(BLOCK, row.unit.threads)
    chip = gpu.info.sm_count
    launch = Launch(
        trial_id="check",
        cubin=cubin,
        kernel=TARGET,
        grid=BLOCKS,
        block=block,
        iterations=ITERATIONS,
        operands=(operand_bytes(row, Pattern.RANDOM, SEED),),
        pattern=Pattern.RANDOM,
        scratch_bytes=row.scratch * block * max(BLOCKS, chip),
        output_bytes=8 * block * BLOCKS,
    )
    try:
        result, detail = _results(gpu, row, ptx, launch)
        is_real = gpu.info.kind is GpuKind.REAL
        passes = wrong_passes(gpu, ptx, launch) if is_real else ""
        large = replace(launch, grid=chip, iterations=MANY_ITERATIONS, output_bytes=0)
        elapsed_ms = round(1e3 * gpu.run(large).window.elapsed_s, 4)
    except LaunchError as error:
        return replace(lost, gate=checked.verdict, detail=str(error))
    return replace(
        lost,
        gate=checked.verdict,
        launched=True,
        result=result,
        detail="; ".join(part for part in (checked.reason, detail, passes) if part),
        elapsed_ms=elapsed_ms,
        passes="wrong" if passes else "confirmed" if is_real else "unchecked",
    )


def _results(gpu: Gpu, row: Instruction, ptx: str, launch: Launch) -> tuple[str, str]:
    """Launch target and overhead; return match, mismatch or unchecked, and why."""
    outcomes = []
    for kernel in (TARGET, OVERHEAD):
        output = gpu.run(replace(launch, kernel=kernel)).output.view(np.uint64)
        outcomes.append(
            ("unchecked", "a simulated GPU computes nothing")
            if gpu.info.kind is not GpuKind.REAL
            else _compared(row, ptx, kernel, launch, output)
        )
    # The overhead kernel may be known where the target is not; the row is then not checked.
    result = "mismatch" if "mismatch" in dict(outcomes) else outcomes[0][0]
    return result, "; ".join(dict.fromkeys(text for what, text in outcomes if text and what == result))


@lru_cache(maxsize=64)
def _reference(name: str, ptx: str, kernel: str, block: int) -> Bits | str:
    """Return every thread's result, or the opcode that the reference does not know."""
    try:
        operands = operand_bytes(find_instruction(name), Pattern.RANDOM, SEED)
        return expected_results(ptx, kernel, operands, BLOCKS * block, ITERATIONS, block)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return str(error)


def _compared(row: Instruction, ptx: str, kernel: str, launch: Launch, output: Bits) -> tuple[str, str]:
    expected = _reference(row.name, ptx, kernel, launch.block)
    if isinstance(expected, str):
        return "unchecked", f"no reference for {expected}"
    approximate = ".approx" in ptx or ".full" in ptx
    wrong = differing(output, expected, TYPES[row.type_of("x")], approximate=approximate)
    if not wrong.any():
        return "match", ""
    first = int(np.argmax(wrong))
    return "mismatch", (
        f"{kernel}: {int(wrong.sum())} of {wrong.size} threads differ; thread {first} has "
        f"{int(output[first]):#x}, the reference {int(expected[first]):#x}"
    )
