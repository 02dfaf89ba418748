"""Kernels of Triton for tests on a GPU: a softmax of rows, and a product of square matrices."""

import triton
import triton.language as tl


@triton.jit
def softmax(y, x, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    row = tl.load(x + at, mask=inside, other=-float("inf"))
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + at, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def matmul(c, a, b, n, BLOCK: tl.constexpr):  # noqa: N803
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        step = start + tl.arange(0, BLOCK)
        left = tl.load(a + row[:, None] * n + step[None, :])
        right = tl.load(b + step[:, None] * n + column[None, :])
        total += tl.dot(left, right)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16))
