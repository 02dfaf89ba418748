"""The kernels of runners/validate_kernels.py: what is judged, what the model may be fitted to, and sleep.

Needs PyTorch and CuPy on the GPU's machine; nothing else of ptxbench does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cuda_kernels
import cupy
import torch
import torch_kernels
from kernel_operands import BOTH, GIB, RANDOM, ZEROS, Call
from validation_file import Purpose

_MARKERS = 128


@dataclass(frozen=True)
class Case:
    """One kernel on one kind of operands.

    Attributes:
        name: Name of the kernel and its size.
        operands: "random" or "zeros".
        purpose: What its measurement may be used for.
        prepare: Makes the operands and returns what runs the kernel once.
        data_decides: Whether what the kernel executes depends on its operands, so that each are counted.
    """

    name: str
    operands: str
    purpose: Purpose
    prepare: Callable[[str], Call]
    data_decides: bool = False


def all_cases() -> tuple[Case, ...]:
    """Return every case in the order of their numbers, the most wanted first: time may run out."""
    return tuple(
        Case(name, operands, purpose, prepare, data_decides=name.startswith("sort"))
        for purpose, table in (
            (Purpose.FIT, _fit()),
            (Purpose.JUDGED, _judged()),
            (Purpose.STATIC, _static()),
        )
        for name, (patterns, prepare) in table.items()
        for operands in patterns
    )


def marker(number: int) -> Call:
    """Return a kernel named after a case's number: it stands before the case's kernels in a profile."""
    code = "\n".join(f'extern "C" __global__ void ptxbench_case_{i}() {{}}' for i in range(_MARKERS))
    kernel = cupy.RawModule(code=code).get_function(f"ptxbench_case_{number}")
    return lambda: kernel((1,), (32,), ())


_Table = dict[str, tuple[tuple[str, ...], Callable[[str], Call]]]


def _judged() -> _Table:
    f64, f32, bf16, f16 = torch.float64, torch.float32, torch.bfloat16, torch.float16
    return {
        "gemm-f64-4096": (BOTH, torch_kernels.gemm(f64, 4096, 4096, 4096)),
        "gemm-f64-8192x2048x1024": (BOTH, torch_kernels.gemm(f64, 8192, 2048, 1024)),
        "gemm-f32-4096": (BOTH, torch_kernels.gemm(f32, 4096, 4096, 4096)),
        "gemm-f32-8192x2048x1024": (BOTH, torch_kernels.gemm(f32, 8192, 2048, 1024)),
        "gemm-tf32-8192": (BOTH, torch_kernels.gemm(f32, 8192, 8192, 8192, tf32=True)),
        "gemm-tf32-4096x4096x1024": (BOTH, torch_kernels.gemm(f32, 4096, 4096, 1024, tf32=True)),
        "gemm-bf16-8192": (BOTH, torch_kernels.gemm(bf16, 8192, 8192, 8192)),
        "gemm-bf16-4096": (BOTH, torch_kernels.gemm(bf16, 4096, 4096, 4096)),
        "gemm-f16-8192x8192x2048": (BOTH, torch_kernels.gemm(f16, 8192, 8192, 2048)),
        "gemm-f16-4096x2048x8192": (BOTH, torch_kernels.gemm(f16, 4096, 2048, 8192)),
        "multiply-add-f32": (BOTH, torch_kernels.multiply_add),
        "add-bf16": (BOTH, torch_kernels.add_bf16),
        "gelu-f32": (BOTH, torch_kernels.of_one(f32, (GIB // 4,), torch.nn.functional.gelu)),
        "sum-f32": (BOTH, torch_kernels.of_one(f32, (GIB // 4,), torch.sum)),
        "softmax-f32": (BOTH, torch_kernels.of_one(f32, (32768, 4096), lambda x: torch.softmax(x, -1))),
        "softmax-bf16": (BOTH, torch_kernels.of_one(bf16, (32768, 4096), lambda x: torch.softmax(x, -1))),
        "layernorm-f32": (BOTH, torch_kernels.layer_norm(f32)),
        "layernorm-bf16": (BOTH, torch_kernels.layer_norm(bf16)),
        "transpose-f32": (BOTH, torch_kernels.transpose),
        "stencil7-f32": (BOTH, cuda_kernels.stencil7),
        "heat5-f64": (BOTH, cuda_kernels.heat5),
        "fft-c64": (BOTH, torch_kernels.of_one(torch.complex64, (8192, 8192), torch.fft.fft)),
        "sort-i32": (BOTH, torch_kernels.sort),
        "gather-f32": (BOTH, torch_kernels.gather),
        "nbody-f32": (BOTH, cuda_kernels.nbody),
        "hash-u32": ((RANDOM,), cuda_kernels.hash32),
    }


def _fit() -> _Table:
    f64, f32, bf16, f16 = torch.float64, torch.float32, torch.bfloat16, torch.float16
    table: _Table = {
        # What no session has measured comes first: accesses that do not take whole lines, and slow streams.
        "read-random": (BOTH, cuda_kernels.read_random("read_random", 4, 1 << 26, 128)),
        "read-random4": (BOTH, cuda_kernels.read_random("read_random4", 1, 1 << 27, 256)),
        "read-sectors": (BOTH, cuda_kernels.repeated_read("read_sectors", 24 << 16, 800, shared_by_all=True)),
        "read-lines": (BOTH, cuda_kernels.repeated_read("read_lines", 8192, 64)),
        "read-strided": (BOTH, cuda_kernels.read_strided),
        "slow-copy": (BOTH, cuda_kernels.stream("copy16", cupy.uint32, blocks_per_sm=0.25)),
        "xorshift-u32": ((RANDOM,), cuda_kernels.xorshift),
        "logsumexp-bf16": (BOTH, torch_kernels.of_one(bf16, (32768, 4096), lambda x: torch.logsumexp(x, -1))),
        "cast-bf16": (BOTH, torch_kernels.of_one(bf16, (GIB // 4,), lambda x: x.float())),
        "copy": (BOTH, cuda_kernels.stream("copy16", cupy.uint32)),
        "read": (BOTH, cuda_kernels.read_dram),
        "read-l2": (BOTH, cuda_kernels.repeated_read("read_l2", 24 << 16, 200, shared_by_all=True)),
        "read-l1": (BOTH, cuda_kernels.repeated_read("read_l1", 4096, 4000)),
        "read-shared": (BOTH, cuda_kernels.repeated_read("read_shared", 2048, 4000)),
        "mixed8": (BOTH, cuda_kernels.stream("mixed8", cupy.float32)),
        "mixed32": (BOTH, cuda_kernels.stream("mixed32", cupy.float32)),
        "mixed128": (BOTH, cuda_kernels.stream("mixed128", cupy.float32)),
        "batch-f64": (BOTH, torch_kernels.batch(f64, 1024)),
        "batch-f32": (BOTH, torch_kernels.batch(f32, 1024)),
        "batch-tf32": (BOTH, torch_kernels.batch(f32, 1024, tf32=True)),
        "batch-bf16": (BOTH, torch_kernels.batch(bf16, 2048)),
        "batch-f16": (BOTH, torch_kernels.batch(f16, 2048)),
        "convolution-bf16": (BOTH, torch_kernels.convolution),
        "attention-bf16": (BOTH, torch_kernels.attention),
        "cumsum-f32": (BOTH, torch_kernels.of_one(f32, (32768, 4096), lambda x: torch.cumsum(x, -1))),
        "sin-f32": (BOTH, torch_kernels.of_one(f32, (GIB // 4,), torch.sin)),
        "maximum-i32": (BOTH, torch_kernels.maximum),
    }
    for share in (1.0, 0.75, 0.5):
        for kind in ("f16", "tf32", "f64"):
            patterns = BOTH if share == 1 else (RANDOM,)
            table[f"mma-{kind}@{share:g}"] = (patterns, cuda_kernels.mma(kind, share))
    return table


def _static() -> _Table:
    return {"sleep": ((ZEROS,), cuda_kernels.sleep)}
