"""The kernels of runners/validate_kernels.py: what is judged, what the model may be fitted to, and sleep.

Needs PyTorch and CuPy on the GPU's machine; nothing else of ptxbench does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import torch

from ptxbench.model.validation_file import Purpose

Call = Callable[[], object]
ZEROS, RANDOM = "zeros", "random"
BOTH = (RANDOM, ZEROS)
_SOURCE = Path(__file__).with_suffix(".cu")
_MARKERS = 128
_GIB = 1 << 30


@dataclass(frozen=True)
class Case:
    """One kernel on one kind of operands.

    Attributes:
        name: Name of the kernel and its size.
        operands: "random" or "zeros".
        purpose: What its measurement may be used for.
        prepare: Makes the operands and returns what runs the kernel once.
    """

    name: str
    operands: str
    purpose: Purpose
    prepare: Callable[[str], Call]


def all_cases() -> tuple[Case, ...]:
    """Return every case in the order of their numbers, the most wanted first: time may run out."""
    return tuple(
        Case(name, operands, purpose, prepare)
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
        "gemm-f64-4096": (BOTH, _gemm(f64, 4096, 4096, 4096)),
        "gemm-f64-8192x2048x1024": (BOTH, _gemm(f64, 8192, 2048, 1024)),
        "gemm-f32-4096": (BOTH, _gemm(f32, 4096, 4096, 4096)),
        "gemm-f32-8192x2048x1024": (BOTH, _gemm(f32, 8192, 2048, 1024)),
        "gemm-tf32-8192": (BOTH, _gemm(f32, 8192, 8192, 8192, tf32=True)),
        "gemm-tf32-4096x4096x1024": (BOTH, _gemm(f32, 4096, 4096, 1024, tf32=True)),
        "gemm-bf16-8192": (BOTH, _gemm(bf16, 8192, 8192, 8192)),
        "gemm-bf16-4096": (BOTH, _gemm(bf16, 4096, 4096, 4096)),
        "gemm-f16-8192x8192x2048": (BOTH, _gemm(f16, 8192, 8192, 2048)),
        "gemm-f16-4096x2048x8192": (BOTH, _gemm(f16, 4096, 2048, 8192)),
        "multiply-add-f32": (BOTH, _multiply_add),
        "add-bf16": (BOTH, _add_bf16),
        "gelu-f32": (BOTH, _of_one(f32, (_GIB // 4,), torch.nn.functional.gelu)),
        "sum-f32": (BOTH, _of_one(f32, (_GIB // 4,), torch.sum)),
        "softmax-f32": (BOTH, _of_one(f32, (32768, 4096), lambda x: torch.softmax(x, -1))),
        "softmax-bf16": (BOTH, _of_one(bf16, (32768, 4096), lambda x: torch.softmax(x, -1))),
        "layernorm-f32": (BOTH, _layer_norm(f32)),
        "layernorm-bf16": (BOTH, _layer_norm(bf16)),
        "transpose-f32": (BOTH, _transpose),
        "stencil7-f32": (BOTH, _stencil7),
        "heat5-f64": (BOTH, _heat5),
        "fft-c64": (BOTH, _of_one(torch.complex64, (8192, 8192), torch.fft.fft)),
        "sort-i32": (BOTH, _sort),
        "gather-f32": (BOTH, _gather),
        "nbody-f32": (BOTH, _nbody),
        "hash-u32": ((RANDOM,), _hash32),
    }


def _fit() -> _Table:
    f64, f32, bf16, f16 = torch.float64, torch.float32, torch.bfloat16, torch.float16
    table: _Table = {
        # What no sitting has measured comes first: accesses that do not take whole lines, and slow streams.
        "read-random": (BOTH, _read_random("read_random", 4, 1 << 26, 128)),
        "read-random4": (BOTH, _read_random("read_random4", 1, 1 << 27, 256)),
        "read-sectors": (BOTH, _passes("read_sectors", 24 << 16, 800, shared_by_all=True)),
        "read-lines": (BOTH, _passes("read_lines", 8192, 64)),
        "read-strided": (BOTH, _read_strided),
        "slow-copy": (BOTH, _stream("copy16", cupy.uint32, blocks_per_sm=0.25)),
        "xorshift-u32": ((RANDOM,), _xorshift),
        "logsumexp-bf16": (BOTH, _of_one(bf16, (32768, 4096), lambda x: torch.logsumexp(x, -1))),
        "cast-bf16": (BOTH, _of_one(bf16, (_GIB // 4,), lambda x: x.float())),
        "copy": (BOTH, _stream("copy16", cupy.uint32)),
        "read": (BOTH, _read_dram),
        "read-l2": (BOTH, _passes("read_l2", 24 << 16, 200, shared_by_all=True)),
        "read-l1": (BOTH, _passes("read_l1", 4096, 4000)),
        "read-shared": (BOTH, _passes("read_shared", 2048, 4000)),
        "mixed8": (BOTH, _stream("mixed8", cupy.float32)),
        "mixed32": (BOTH, _stream("mixed32", cupy.float32)),
        "mixed128": (BOTH, _stream("mixed128", cupy.float32)),
        "batch-f64": (BOTH, _batch(f64, 1024)),
        "batch-f32": (BOTH, _batch(f32, 1024)),
        "batch-tf32": (BOTH, _batch(f32, 1024, tf32=True)),
        "batch-bf16": (BOTH, _batch(bf16, 2048)),
        "batch-f16": (BOTH, _batch(f16, 2048)),
        "convolution-bf16": (BOTH, _convolution),
        "attention-bf16": (BOTH, _attention),
        "cumsum-f32": (BOTH, _of_one(f32, (32768, 4096), lambda x: torch.cumsum(x, -1))),
        "sin-f32": (BOTH, _of_one(f32, (_GIB // 4,), torch.sin)),
        "maximum-i32": (BOTH, _maximum),
    }
    for share in (1.0, 0.75, 0.5):
        for kind in ("f16", "tf32", "f64"):
            patterns = BOTH if share == 1 else (RANDOM,)
            table[f"mma-{kind}@{share:g}"] = (patterns, _mma(kind, share))
    return table


def _static() -> _Table:
    return {"sleep": ((ZEROS,), _sleep)}


# ---- PyTorch ----


def _values(shape: tuple[int, ...], dtype: torch.dtype, operands: str) -> torch.Tensor:
    if operands == ZEROS:
        return torch.zeros(shape, dtype=dtype, device="cuda")
    return torch.randn(shape, dtype=dtype, device="cuda")


def _allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed


def _gemm(dtype: torch.dtype, m: int, n: int, k: int, tf32: bool = False) -> Callable[[str], Call]:
    def prepare(operands: str) -> Call:
        a, b = _values((m, k), dtype, operands), _values((k, n), dtype, operands)
        c = torch.empty((m, n), dtype=dtype, device="cuda")

        def call() -> None:
            _allow_tf32(tf32)
            torch.mm(a, b, out=c)

        return call

    return prepare


def _batch(dtype: torch.dtype, n: int, tf32: bool = False) -> Callable[[str], Call]:
    def prepare(operands: str) -> Call:
        a, b = _values((16, n, n), dtype, operands), _values((16, n, n), dtype, operands)
        c = torch.empty_like(a)

        def call() -> None:
            _allow_tf32(tf32)
            torch.bmm(a, b, out=c)

        return call

    return prepare


def _of_one(
    dtype: torch.dtype, shape: tuple[int, ...], function: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[str], Call]:
    def prepare(operands: str) -> Call:
        x = _values(shape, dtype, operands)
        return lambda: function(x)

    return prepare


def _multiply_add(operands: str) -> Call:
    a, b, c = (_values((_GIB // 4,), torch.float32, operands) for _ in range(3))
    out = torch.empty_like(a)
    return lambda: torch.addcmul(a, b, c, out=out)


def _add_bf16(operands: str) -> Call:
    a, b = (_values((_GIB // 2,), torch.bfloat16, operands) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.add(a, b, out=out)


def _maximum(operands: str) -> Call:
    a, b = (_integers(_GIB // 4, operands) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.maximum(a, b, out=out)


def _layer_norm(dtype: torch.dtype) -> Callable[[str], Call]:
    def prepare(operands: str) -> Call:
        x, weight, bias = (_values(s, dtype, operands) for s in ((32768, 4096), (4096,), (4096,)))
        return lambda: torch.nn.functional.layer_norm(x, (4096,), weight, bias)

    return prepare


def _transpose(operands: str) -> Call:
    x = _values((16384, 16384), torch.float32, operands)
    out = torch.empty_like(x)
    return lambda: out.copy_(x.t())


def _integers(n: int, operands: str) -> torch.Tensor:
    if operands == ZEROS:
        return torch.zeros(n, dtype=torch.int32, device="cuda")
    return torch.randint(-(2**31), 2**31 - 1, (n,), dtype=torch.int32, device="cuda")


def _sort(operands: str) -> Call:
    x = _integers(1 << 26, operands)
    return lambda: torch.sort(x)


def _gather(operands: str) -> Call:
    x = _values((1 << 27,), torch.float32, operands)
    index = torch.randint(0, len(x), (1 << 26,), device="cuda")
    out = torch.empty(len(index), dtype=torch.float32, device="cuda")
    return lambda: torch.index_select(x, 0, index, out=out)


def _convolution(operands: str) -> Call:
    x = _values((64, 256, 56, 56), torch.bfloat16, operands).to(memory_format=torch.channels_last)
    w = _values((256, 256, 3, 3), torch.bfloat16, operands).to(memory_format=torch.channels_last)
    return lambda: torch.nn.functional.conv2d(x, w, padding=1)


def _attention(operands: str) -> Call:
    q, k, v = (_values((8, 32, 4096, 128), torch.bfloat16, operands) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


# ---- CUDA C++ through CuPy ----


@cache
def _module() -> Any:
    return cupy.RawModule(code=_SOURCE.read_text(), options=("--std=c++17",))


def _function(name: str) -> Any:
    return _module().get_function(name)


def _sms() -> int:
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])


def _array(count: int, dtype: Any, operands: str) -> Any:
    """Return an array of CuPy; PyTorch fills it, in place of CuPy's slower generators."""
    kind = cupy.dtype(dtype)
    if operands == ZEROS:
        return cupy.zeros(count, dtype)
    if kind.kind == "f":
        values = torch.randn(count, dtype=getattr(torch, kind.name), device="cuda")
    else:
        values = _integers(count, operands)
    return cupy.asarray(values).view(dtype)


def _nbody(operands: str) -> Call:
    n, kernel = 1 << 17, _function("nbody")
    body, force = _array(4 * n, cupy.float32, operands), cupy.empty(4 * n, cupy.float32)
    return lambda: kernel((n // 256,), (256,), (body, force, cupy.int32(n)))


def _hash32(operands: str) -> Call:
    n, kernel = 1 << 22, _function("hash32")
    x, out = _array(n, cupy.uint32, operands), cupy.empty(n, cupy.uint32)
    return lambda: kernel((n // 256,), (256,), (x, out, cupy.int32(1000)))


def _stencil7(operands: str) -> Call:
    n, kernel = 640, _function("stencil7")
    x, out = _array(n**3, cupy.float32, operands), cupy.empty(n**3, cupy.float32)
    return lambda: kernel((n // 32, n // 8), (32, 8), (x, out, cupy.int32(n)))


def _heat5(operands: str) -> Call:
    n, kernel = 8192, _function("heat5")
    x, out = _array(n * n, cupy.float64, operands), cupy.empty(n * n, cupy.float64)
    return lambda: kernel((n // 32, n // 8), (32, 8), (x, out, cupy.int32(n)))


def _stream(name: str, dtype: Any, blocks_per_sm: float = 8) -> Callable[[str], Call]:
    def prepare(operands: str) -> Call:
        kernel, words = _function(name), _GIB // 4
        x, out = _array(words, dtype, operands), cupy.empty(words, dtype)
        blocks = round(_sms() * blocks_per_sm)
        return lambda: kernel((blocks,), (256,), (x, out, cupy.int64(words // 4)))

    return prepare


def _read_dram(operands: str) -> Call:
    kernel, words, blocks = _function("read16"), _GIB // 2, _sms() * 8
    x, out = _array(words, cupy.uint32, operands), cupy.empty(blocks * 256 * 4, cupy.uint32)
    return lambda: kernel((blocks,), (256,), (x, out, cupy.int64(words // 4)))


def _read_strided(operands: str) -> Call:
    kernel, blocks, lines = _function("read_strided"), _sms() * 8, 24
    threads = blocks * 256
    x, out = _array(threads * lines * 32, cupy.uint32, operands), cupy.empty(threads, cupy.uint32)
    return lambda: kernel((blocks,), (256,), (x, out, cupy.int32(lines)))


def _read_random(name: str, words: int, n: int, reads: int) -> Callable[[str], Call]:
    def prepare(operands: str) -> Call:
        kernel, blocks = _function(name), _sms() * 8
        x, out = _array(words * n, cupy.uint32, operands), cupy.empty(words * blocks * 256, cupy.uint32)
        return lambda: kernel((blocks,), (256,), (x, out, cupy.uint32(n), cupy.int32(reads)))

    return prepare


def _xorshift(operands: str) -> Call:
    n, kernel = 1 << 22, _function("xorshift")
    x, out = _array(n, cupy.uint32, operands), cupy.empty(n, cupy.uint32)
    return lambda: kernel((n // 256,), (256,), (x, out, cupy.int32(1000)))


def _passes(name: str, n: int, passes: int, shared_by_all: bool = False) -> Callable[[str], Call]:
    def prepare(operands: str) -> Call:
        kernel, sms = _function(name), _sms()
        x = _array(4 * n * (1 if shared_by_all else sms), cupy.uint32, operands)
        out = cupy.empty(4 * sms * 1024, cupy.uint32)
        return lambda: kernel((sms,), (1024,), (x, out, cupy.int32(n), cupy.int32(passes)))

    return prepare


def _mma(kind: str, share: float) -> Callable[[str], Call]:
    def prepare(operands: str) -> Call:
        kernel, blocks = _function(f"mma_{kind}"), round(share * _sms())
        words = blocks * 512 * (8 if kind == "f64" else 24)
        words *= 2 if kind == "f16" else 1
        x = _array(words, {"f64": cupy.float64, "f16": cupy.float16, "tf32": cupy.float32}[kind], operands)
        out = cupy.empty(blocks * 512 * 16, cupy.float64)
        return lambda: kernel((blocks,), (512,), (x, out, cupy.int32(4000)))

    return prepare


def _sleep(operands: str) -> Call:  # noqa: ARG001
    kernel = _function("sleeping")
    return lambda: kernel((_sms(),), (1024,), (cupy.int32(50),))
