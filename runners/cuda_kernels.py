"""Kernels of cuda_kernels.cu: a function makes operands, "random" or "zeros", and returns what runs one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cupy
from kernel_operands import GIB, Call, array

_SOURCE = Path(__file__).with_suffix(".cu")


@cache
def _module() -> Any:
    return cupy.RawModule(code=_SOURCE.read_text(), options=("--std=c++17",))


def _function(name: str) -> Any:
    return _module().get_function(name)


def _sms() -> int:
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])


def nbody(operands: str) -> Call:
    """Forces among 2^17 bodies."""
    n, kernel = 1 << 17, _function("nbody")
    body, force = array(4 * n, cupy.float32, operands), cupy.empty(4 * n, cupy.float32)
    return lambda: kernel((n // 256,), (256,), (body, force, cupy.int32(n)))


def hash32(operands: str) -> Call:
    """Hash of 2^22 words, a thousand rounds."""
    n, kernel = 1 << 22, _function("hash32")
    x, out = array(n, cupy.uint32, operands), cupy.empty(n, cupy.uint32)
    return lambda: kernel((n // 256,), (256,), (x, out, cupy.int32(1000)))


def stencil7(operands: str) -> Call:
    """Seven points of a cube of 640^3 f32 values."""
    n, kernel = 640, _function("stencil7")
    x, out = array(n**3, cupy.float32, operands), cupy.empty(n**3, cupy.float32)
    return lambda: kernel((n // 32, n // 8), (32, 8), (x, out, cupy.int32(n)))


def heat5(operands: str) -> Call:
    """Step of the heat equation on 8192 x 8192 f64 values."""
    n, kernel = 8192, _function("heat5")
    x, out = array(n * n, cupy.float64, operands), cupy.empty(n * n, cupy.float64)
    return lambda: kernel((n // 32, n // 8), (32, 8), (x, out, cupy.int32(n)))


def stream(name: str, dtype: Any, blocks_per_sm: float = 8) -> Callable[[str], Call]:
    """Kernel `name`: 1 GiB of `dtype` read, and as much written."""

    def prepare(operands: str) -> Call:
        kernel, words = _function(name), GIB // 4
        x, out = array(words, dtype, operands), cupy.empty(words, dtype)
        blocks = round(_sms() * blocks_per_sm)
        return lambda: kernel((blocks,), (256,), (x, out, cupy.int64(words // 4)))

    return prepare


def read_dram(operands: str) -> Call:
    """Read of 2 GiB, once."""
    kernel, words, blocks = _function("read16"), GIB // 2, _sms() * 8
    x, out = array(words, cupy.uint32, operands), cupy.empty(blocks * 256 * 4, cupy.uint32)
    return lambda: kernel((blocks,), (256,), (x, out, cupy.int64(words // 4)))


def read_strided(operands: str) -> Call:
    """Reads of lines that each thread has for itself, 4 bytes at a time."""
    kernel, blocks, lines = _function("read_strided"), _sms() * 8, 24
    threads = blocks * 256
    x, out = array(threads * lines * 32, cupy.uint32, operands), cupy.empty(threads, cupy.uint32)
    return lambda: kernel((blocks,), (256,), (x, out, cupy.int32(lines)))


def read_random(name: str, words: int, n: int, reads: int) -> Callable[[str], Call]:
    """Kernel `name`: `reads` reads of each thread from anywhere in n values of `words` words."""

    def prepare(operands: str) -> Call:
        kernel, blocks = _function(name), _sms() * 8
        x, out = array(words * n, cupy.uint32, operands), cupy.empty(words * blocks * 256, cupy.uint32)
        return lambda: kernel((blocks,), (256,), (x, out, cupy.uint32(n), cupy.int32(reads)))

    return prepare


def xorshift(operands: str) -> Call:
    """Random numbers, a thousand from each of 2^22 generators."""
    n, kernel = 1 << 22, _function("xorshift")
    x, out = array(n, cupy.uint32, operands), cupy.empty(n, cupy.uint32)
    return lambda: kernel((n // 256,), (256,), (x, out, cupy.int32(1000)))


def repeated_read(name: str, n: int, passes: int, shared_by_all: bool = False) -> Callable[[str], Call]:
    """Kernel `name`: `passes` reads of n values of 16 bytes, the same for all blocks or n for each block."""

    def prepare(operands: str) -> Call:
        kernel, sms = _function(name), _sms()
        x = array(4 * n * (1 if shared_by_all else sms), cupy.uint32, operands)
        out = cupy.empty(4 * sms * 1024, cupy.uint32)
        return lambda: kernel((sms,), (1024,), (x, out, cupy.int32(n), cupy.int32(passes)))

    return prepare


def mma(kind: str, share: float) -> Callable[[str], Call]:
    """Products of the tensor cores on registers, a block on each of a share of the SMs."""

    def prepare(operands: str) -> Call:
        kernel, blocks = _function(f"mma_{kind}"), round(share * _sms())
        words = blocks * 512 * (8 if kind == "f64" else 24)
        words *= 2 if kind == "f16" else 1
        x = array(words, {"f64": cupy.float64, "f16": cupy.float16, "tf32": cupy.float32}[kind], operands)
        out = cupy.empty(blocks * 512 * 16, cupy.float64)
        return lambda: kernel((blocks,), (512,), (x, out, cupy.int32(4000)))

    return prepare


def sleep(operands: str) -> Call:  # noqa: ARG001
    """Every SM filled, and nothing done."""
    kernel = _function("sleeping")
    return lambda: kernel((_sms(),), (1024,), (cupy.int32(50),))
