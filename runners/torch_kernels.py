"""Kernels of PyTorch: a function makes operands, "random" or "zeros", and returns what runs one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from kernel_operands import GIB, Call, integers, values


def _allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed


def gemm(dtype: torch.dtype, m: int, n: int, k: int, tf32: bool = False) -> Callable[[str], Call]:
    """Product of an m x k matrix and a k x n matrix."""

    def prepare(operands: str) -> Call:
        a, b = values((m, k), dtype, operands), values((k, n), dtype, operands)
        c = torch.empty((m, n), dtype=dtype, device="cuda")

        def call() -> None:
            _allow_tf32(tf32)
            torch.mm(a, b, out=c)

        return call

    return prepare


def batch(dtype: torch.dtype, n: int, tf32: bool = False) -> Callable[[str], Call]:
    """Sixteen products of n x n matrices."""

    def prepare(operands: str) -> Call:
        a, b = values((16, n, n), dtype, operands), values((16, n, n), dtype, operands)
        c = torch.empty_like(a)

        def call() -> None:
            _allow_tf32(tf32)
            torch.bmm(a, b, out=c)

        return call

    return prepare


def of_one(
    dtype: torch.dtype, shape: tuple[int, ...], function: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[str], Call]:
    """Any function on one array of floats."""

    def prepare(operands: str) -> Call:
        x = values(shape, dtype, operands)
        return lambda: function(x)

    return prepare


def multiply_add(operands: str) -> Call:
    """Sum of one array and the product of two, 1 GiB each of f32."""
    a, b, c = (values((GIB // 4,), torch.float32, operands) for _ in range(3))
    out = torch.empty_like(a)
    return lambda: torch.addcmul(a, b, c, out=out)


def add_bf16(operands: str) -> Call:
    """Sum of two arrays, 1 GiB each of bf16."""
    a, b = (values((GIB // 2,), torch.bfloat16, operands) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.add(a, b, out=out)


def maximum(operands: str) -> Call:
    """Greater values of two arrays, 1 GiB each of i32."""
    a, b = (integers(GIB // 4, operands) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.maximum(a, b, out=out)


def layer_norm(dtype: torch.dtype) -> Callable[[str], Call]:
    """Layer norm of 32768 rows of 4096 values."""

    def prepare(operands: str) -> Call:
        x, weight, bias = (values(s, dtype, operands) for s in ((32768, 4096), (4096,), (4096,)))
        return lambda: torch.nn.functional.layer_norm(x, (4096,), weight, bias)

    return prepare


def transpose(operands: str) -> Call:
    """Transpose of 16384 x 16384 f32 values, copied."""
    x = values((16384, 16384), torch.float32, operands)
    out = torch.empty_like(x)
    return lambda: out.copy_(x.t())


def sort(operands: str) -> Call:
    """Sort of 2^26 i32 values."""
    x = integers(1 << 26, operands)
    return lambda: torch.sort(x)


def gather(operands: str) -> Call:
    """2^26 f32 values from random places of 2^27."""
    x = values((1 << 27,), torch.float32, operands)
    index = torch.randint(0, len(x), (1 << 26,), device="cuda")
    out = torch.empty(len(index), dtype=torch.float32, device="cuda")
    return lambda: torch.index_select(x, 0, index, out=out)


def convolution(operands: str) -> Call:
    """Convolution, 3 x 3, of 64 images of 56 x 56 with 256 channels, bf16."""
    x = values((64, 256, 56, 56), torch.bfloat16, operands).to(memory_format=torch.channels_last)
    w = values((256, 256, 3, 3), torch.bfloat16, operands).to(memory_format=torch.channels_last)
    return lambda: torch.nn.functional.conv2d(x, w, padding=1)


def attention(operands: str) -> Call:
    """Attention of 8 x 32 heads over 4096 tokens, 128 wide, bf16."""
    q, k, v = (values((8, 32, 4096, 128), torch.bfloat16, operands) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
