"""From a variant to its machine code, and what that takes and executes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxbench.catalogue.occupancy import BlockNeeds
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.render import render_kernel
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import RefusedModuleError
from ptxbench.core.target import find_target
from ptxbench.core.threads import WARP
from ptxbench.devices.base import Bytes, Launch
from ptxbench.sass.executed import LoopedKernel, looped_kernel
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop import LoopError
from ptxbench.sass.resources import Resources, kernel_resources
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.variant import PLAIN, DType, Form, Problem, Variant

ENTRY = "gemm"
# From here on mma multiplies f64 by m16n8 (PTX ISA, "mma").
WIDE_MMA_CAPABILITY = 90
KINDS: dict[DType, np.dtype[Any]] = {
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.F16: np.dtype(np.float16),
    DType.C64: np.dtype(np.complex64),
    DType.C128: np.dtype(np.complex128),
}
RESULTS = {dtype: np.dtype(np.float32) if dtype is DType.F16 else kind for dtype, kind in KINDS.items()}


@dataclass(frozen=True)
class Kernel:
    """A variant, assembled.

    Attributes:
        variant: Its parameters.
        cubin: Its machine code.
        code: The same, as its loop and the rest.
        resources: Registers and stack.
        form: What of a problem it is made for.
    """

    variant: Variant
    cubin: Cubin
    code: LoopedKernel
    resources: Resources
    form: Form = PLAIN

    @property
    def needs(self) -> BlockNeeds:
        """What a block takes of an SM."""
        shared = self.variant.shared_bytes(self.form)
        return BlockNeeds(self.variant.threads, self.resources.registers, shared)

    def executed(self, problem: Problem) -> Counter[str]:
        """Return how often each opcode is executed by a thread, over all threads of one launch."""
        blocks_n, blocks_m = self.variant.grid(problem)
        threads = blocks_n * blocks_m * self.variant.warps * WARP
        per_warp = self.code.executed(self.variant.trips(problem))
        return Counter({opcode: n * threads for opcode, n in per_warp.items()})

    def launch(self, problem: Problem, inputs: tuple[Bytes, ...], pattern: str = "random") -> Launch:
        """Return the launch that computes a problem.

        Args:
            problem: It has the kernel's form.
            inputs: A, B and, for an update, C, row-major, as bytes.
            pattern: Name of their operand pattern.
        """
        v = self.variant
        blocks_n, blocks_m = v.grid(problem)
        return Launch(
            trial_id=v.name,
            cubin=self.cubin,
            kernel=ENTRY,
            grid=blocks_n,
            grid_y=blocks_m,
            block=v.threads,
            shared_bytes=v.shared_bytes(self.form),
            operands=inputs,
            result_bytes=problem.m * problem.n * problem.dtype.result_bytes,
            scalars=(problem.m, problem.n, problem.k),
            iterations=v.trips(problem),
            pattern=pattern,
        )


@dataclass(frozen=True)
class Refused:
    """A variant of which no good kernel came.

    Attributes:
        variant: Its parameters.
        reason: Why, in a sentence.
    """

    variant: Variant | Configuration
    reason: str


def render_variant(variant: Variant, target: str, form: Form = PLAIN) -> str:
    """Return the PTX of a variant for a target and the form of a problem."""
    found = find_target(target)
    return render_kernel(
        variant.template,
        found,
        variant=variant,
        form=form,
        a=variant.stripe_a(form.op_a),
        b=variant.stripe_b(form.op_b),
        beta=variant.dtype.literal(form.beta),
        wide=found.capability >= WIDE_MMA_CAPABILITY,
    )


def build_kernel(variant: Variant, target: str, form: Form = PLAIN) -> Kernel | Refused:
    """Render, assemble and take apart one variant.

    A kernel that spills registers is refused: its local memory is no part of what is tuned, and it loses.

    Args:
        variant: Its parameters.
        target: Such as "sm_90a".
        form: What of a problem it is made for.

    Raises:
        ToolError: ptxas or nvdisasm is missing.
    """
    try:
        cubin = assemble_ptx(render_variant(variant, target, form), target, OptLevel.O3)
        resources = kernel_resources(cubin.image)[ENTRY]
        if resources.stack_bytes:
            return Refused(variant, f"spills {resources.stack_bytes} bytes of registers a thread")
        code = looped_kernel(parse_listing(disassemble(cubin.image))[ENTRY])
    except (RefusedModuleError, LoopError) as error:
        return Refused(variant, str(error))
    return Kernel(variant, cubin, code, resources, form)


def operand_matrices(problem: Problem, seed: int, pattern: str = "random") -> tuple[Bytes, ...]:
    """Return A, B and, for an update, C as bytes: values of mean 0 and variance 1 a part, or zeros.

    Args:
        problem: Sizes and type.
        seed: Of the random generator.
        pattern: "random" or "zeros".
    """
    kinds = [(KINDS[problem.dtype], shape) for shape in problem.shapes]
    if problem.beta:
        kinds.append((RESULTS[problem.dtype], (problem.m, problem.n)))
    if pattern == "zeros":
        return tuple(np.zeros(shape, kind).view(np.uint8).ravel() for kind, shape in kinds)
    generator = np.random.default_rng(seed)
    return tuple(
        generator.standard_normal((*shape[:-1], shape[-1] * problem.dtype.parts), np.float32)
        .astype(np.empty(0, kind).real.dtype)
        .view(np.uint8)
        .ravel()
        for kind, shape in kinds
    )
