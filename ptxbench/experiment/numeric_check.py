"""Runs a module on a GPU and compares what it computes with the reference in numpy, and its passes.

What can be done without the GPU, the assembling and the reference, is done ahead (`expect_module`), so that a
run that measures does not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.types import TYPES
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import OVERHEAD, TARGET
from ptxbench.core.condition import Pattern
from ptxbench.devices.base import Gpu, Launch
from ptxbench.emulator.bits import Bits
from ptxbench.emulator.compare import differing
from ptxbench.emulator.kernel import expected_results
from ptxbench.experiment.pass_check import (
    CountingModule,
    active_threads,
    counting_module,
    miscounted,
    stored,
)
from ptxbench.sass.module import Module

# Few, as the emulator computes the results of every thread.
BLOCKS, ITERATIONS = 2, 3
BLOCK = 256
SEED = 5
# A chain carries the error of an approximate function on, and in a few threads far: on an H200 the results of
# 11 of 512 threads differed in the worst module. What computes another thing differs in nearly all.
_APPROXIMATE_MAY_DIFFER = 0.1


@dataclass(frozen=True)
class Computed:
    """What the kernels of a module did on a GPU, compared with what they must do.

    Attributes:
        result: match, mismatch or unchecked, target and overhead together.
        passes: Whether each kernel makes as many passes of its loop as requested (`pass_check`): confirmed,
            wrong or unchecked.
        detail: What is wrong, or why something is not checked.
    """

    result: str
    passes: str
    detail: str

    @property
    def is_wrong(self) -> bool:
        """Whether a measurement of the module would be one of something else."""
        return self.result == "mismatch" or self.passes == "wrong"


@dataclass(frozen=True, eq=False)
class ExpectedModule:
    """What the kernels of a module must do when they are launched small.

    Attributes:
        launch: The launch of its target kernel.
        results: What every thread of target and overhead stores, by kernel, or the opcode that the reference
            does not know.
        counting: The module that tells the passes.
        type_name: PTX type of the results.
        approximate: Whether an approximate function makes them.
    """

    launch: Launch
    results: tuple[tuple[str, Bits | str], ...]
    counting: CountingModule
    type_name: str
    approximate: bool

    def computed(self, gpu: Gpu) -> Computed:
        """Launch the module's kernels, a few passes each, and compare.

        Args:
            gpu: A real GPU: no other computes anything.

        Raises:
            LaunchError: A kernel did not run.
            GpuError: The GPU stopped answering.
        """
        outcomes = [
            self._compared(kernel, stored(gpu, replace(self.launch, kernel=kernel)), expected)
            for kernel, expected in self.results
        ]
        # The overhead kernel may be known where the target is not; the row is then not checked.
        result = "mismatch" if "mismatch" in dict(outcomes) else outcomes[0][0]
        details = [text for what, text in outcomes if text and what == result]
        wrong = "" if self.counting.unlike else miscounted(gpu, self.counting, self.launch)
        details += [text for text in (self.counting.unlike, wrong) if text]
        passes = "unchecked" if self.counting.unlike else "wrong" if wrong else "confirmed"
        return Computed(result, passes, "; ".join(dict.fromkeys(details)))

    def _compared(self, kernel: str, output: Bits, expected: Bits | str) -> tuple[str, str]:
        if isinstance(expected, str):
            return "unchecked", f"no reference for {expected}"
        active = int(active_threads(self.launch).sum())
        wrong = differing(output, expected, TYPES[self.type_name], approximate=self.approximate)
        if wrong.sum() <= (_APPROXIMATE_MAY_DIFFER * active if self.approximate else 0):
            return "match", ""
        first = int(np.argmax(wrong))
        return "mismatch", (
            f"{kernel}: {int(wrong.sum())} of {active} threads differ; thread {first} has "
            f"{int(output[first]):#x}, the reference {int(expected[first]):#x}"
        )


def has_reference(module: Module) -> bool:
    """Return whether the reference knows what a module's target kernel computes."""
    return not isinstance(_reference(module.instruction.name, module.ptx, TARGET, _block(module)), str)


def _block(module: Module) -> int:
    return module.instruction.block or max(BLOCK, module.instruction.unit.threads)


def expect_module(gpu: Gpu, module: Module) -> ExpectedModule:
    """Work out what a module must compute; nothing is launched.

    Args:
        gpu: Whose assembler is used.
        module: A measuring module of the GPU's target.

    Raises:
        ToolError: A tool is missing or was stopped.
    """
    row, ptx, block = module.instruction, module.ptx, _block(module)
    return ExpectedModule(
        check_launch(module, BLOCKS, ITERATIONS),
        tuple((kernel, _reference(row.name, ptx, kernel, block)) for kernel in (TARGET, OVERHEAD)),
        counting_module(gpu, ptx, module.cubin),
        row.type_of("x"),
        ".approx" in ptx or ".full" in ptx,
    )


def check_launch(module: Module, blocks: int, iterations: int) -> Launch:
    """Return a launch of a module's target kernel whose threads store what they compute."""
    row, block = module.instruction, _block(module)
    return Launch(
        trial_id="check",
        cubin=module.cubin,
        kernel=TARGET,
        grid=blocks,
        block=block,
        iterations=iterations,
        operands=(operand_bytes(row, Pattern.RANDOM, SEED),),
        pattern=Pattern.RANDOM,
        lanes=module.lanes,
        scratch_bytes=row.scratch * block * blocks,
        result_bytes=8 * block * blocks,
    )


@lru_cache(maxsize=64)
def _reference(name: str, ptx: str, kernel: str, block: int) -> Bits | str:
    """Return every thread's result, or the opcode that the reference does not know."""
    try:
        operands = operand_bytes(find_instruction(name), Pattern.RANDOM, SEED)
        return expected_results(ptx, kernel, operands, BLOCKS * block, ITERATIONS, block)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return str(error)
