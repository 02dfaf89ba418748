"""What the kernels of validate_kernels.py work on: values drawn by chance, or zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import torch

# Runs a kernel once on its operands.
Call = Callable[[], object]
ZEROS, RANDOM = "zeros", "random"
BOTH = (RANDOM, ZEROS)
GIB = 1 << 30


def values(shape: tuple[int, ...], dtype: torch.dtype, operands: str) -> torch.Tensor:
    """Return floats of PyTorch on the GPU; those drawn have mean 0 and variance 1."""
    if operands == ZEROS:
        return torch.zeros(shape, dtype=dtype, device="cuda")
    return torch.randn(shape, dtype=dtype, device="cuda")


def integers(n: int, operands: str) -> torch.Tensor:
    """Return `n` i32 of PyTorch on the GPU; those drawn have all bits by chance."""
    if operands == ZEROS:
        return torch.zeros(n, dtype=torch.int32, device="cuda")
    return torch.randint(-(2**31), 2**31 - 1, (n,), dtype=torch.int32, device="cuda")


def array(count: int, dtype: Any, operands: str) -> Any:
    """Return an array of CuPy; PyTorch fills it, in place of CuPy's slower generators."""
    kind = cupy.dtype(dtype)
    if operands == ZEROS:
        return cupy.zeros(count, dtype)
    if kind.kind == "f":
        drawn = torch.randn(count, dtype=getattr(torch, kind.name), device="cuda")
    else:
        drawn = integers(count, operands)
    return cupy.asarray(drawn).view(dtype)
