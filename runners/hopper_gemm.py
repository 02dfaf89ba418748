"""A product of f16 matrices by wgmma and bulk copies beside torch.matmul: is it right, and what does it take?

    python runners/hopper_gemm.py --gpu 0 --out hopper_gemm.json

Needs an H100 or H200, nvcc, PyTorch and CuPy. hopper_gemm.cu is built with blocks alone and in pairs that
share B, and with two orders of tiles. Of each size all are compared with torch.matmul on fresh inputs, and
called in rounds with it, in random order, until clock and power have settled. Two sizes take two minutes.
It does not work yet: on an H200 its first launch ended with a misaligned address.
With --once under ncu, `ptxbench estimate gemm --ncu FILE --against NAME` sets the parts side by side.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ptxbench.core.errors import PtxbenchError
from ptxbench.core.toolchain import tool_folder
from ptxbench.storage.atomic import write_text
from ptxbench.tune.source import variant_source
from ptxbench.tune.spec import Source

SOURCE = Path(__file__).with_suffix(".cu")
TARGET = "sm_90a"
TILE_M, TILE_N, TILE_K, THREADS = 128, 256, 64, 384
# Of cuda.h: CU_TENSOR_MAP_...
_FLOAT16, _NOT_INTERLEAVED, _SWIZZLE_128B, _L2_PROMOTION_256B, _FILL_ZERO = 6, 0, 3, 3, 0
_ROW_BYTES, _STAGES = 128, 4
SHARED_BYTES = _STAGES * (TILE_M + TILE_N) * _ROW_BYTES


@dataclass(frozen=True)
class Form:
    """A way to build the kernel.

    Attributes:
        cluster: Blocks that share B.
        group: Rows of tiles that are taken together.
    """

    cluster: int
    group: int

    @property
    def name(self) -> str:
        """Such as "pairs, 8 rows"."""
        return f"{'pairs' if self.cluster > 1 else 'alone'}, {self.group} rows"

    @property
    def cubin(self) -> bytes:
        """Its machine code.

        Raises:
            ToolError: nvcc is missing.
            RefusedModuleError: It refused the source.
        """
        macros = {"CLUSTER": self.cluster, "GROUP": self.group, "STAGES": _STAGES}
        source = Source(SOURCE, SOURCE.read_bytes(), "gemm", ("-std=c++17",))
        return variant_source(source, macros, TARGET).build().image


FORMS = tuple(Form(cluster, group) for cluster in (1, 2) for group in (8, 16))


@cache
def tensor_map(address: int, shape: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]) -> Any:
    """Return how the copy engine finds boxes of an array of f16, swizzled by 128 bytes, on the device.

    Args:
        address: Of the array.
        shape: Elements along each dimension, the fastest first.
        strides: Bytes from one to the next of each dimension but the first.
        box: Elements of a box.
    """
    import cupy

    words = (ctypes.c_uint64 * 24)()
    skipped = -ctypes.addressof(words) % 64 // 8  # a map begins at a multiple of 64 bytes
    rank = len(shape)
    error = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.byref(words, 8 * skipped),
        _FLOAT16,
        rank,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*shape),
        (ctypes.c_uint64 * (rank - 1))(*strides),
        (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        _NOT_INTERLEAVED,
        _SWIZZLE_128B,
        _L2_PROMOTION_256B,
        _FILL_ZERO,
    )
    if error:
        raise PtxbenchError(f"a tensor map of {shape} cannot be made: error {error} of the driver")
    return cupy.asarray(words[skipped : skipped + 16], dtype=cupy.uint64)


def loaded(form: Form) -> Callable[[Any, Any], Any]:
    """Return the product of two tensors by a form of the kernel."""
    import cupy
    import numpy as np
    import torch

    with tool_folder() as folder:
        (folder / "gemm.cubin").write_bytes(form.cubin)
        kernel = cupy.RawModule(path=str(folder / "gemm.cubin")).get_function("gemm")
    kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
    multiprocessors = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
    blocks = multiprocessors // form.cluster * form.cluster
    results: dict[tuple[int, int], Any] = {}

    def product(a: Any, b: Any) -> Any:
        (m, k), n = a.shape, b.shape[1]
        c = results.get((m, n))
        if c is None:
            c = results[m, n] = torch.empty((m, n), dtype=torch.float16, device=a.device)
        map_a = tensor_map(a.data_ptr(), (k, m), (2 * k,), (TILE_K, TILE_M))
        chunks = TILE_N // 64 // form.cluster
        map_b = tensor_map(b.data_ptr(), (64, k, n // 64), (2 * n, 128), (64, TILE_K, chunks))
        sizes = [np.int32(one) for one in (m, n, k)]
        kernel(
            (blocks,),
            (THREADS,),
            (map_a, map_b, np.uint64(c.data_ptr()), *sizes),
            shared_mem=SHARED_BYTES,
        )
        return c

    product.__name__ = form.name
    return product


def measure(size: int, seconds: float, products: Sequence[Callable[[Any, Any], Any]]) -> dict[str, Any]:
    """Compare products of square matrices with torch.matmul, print that, and return it as JSON has it."""
    import torch

    import ptxbench

    def inputs() -> tuple[Any, Any]:
        return tuple(torch.randn((size, size), dtype=torch.float16, device="cuda") for _ in range(2))  # type: ignore[return-value]

    found = ptxbench.compare(torch.matmul, *products, inputs=inputs, check=True, budget=seconds)
    print(f"{size} cubed\n{found}\n", flush=True)
    times = {one.name: one.time_s for one in found.benches}
    return {"size": size, "tflops": {n: 2e-12 * size**3 / t for n, t in times.items()}, **found.document()}


def main() -> int:
    """Measure, print, write, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", type=int, default=0, help="number of the GPU")
    parser.add_argument("--size", type=int, action="append", help="m, n and k (default: 4096 and 8192)")
    parser.add_argument("--seconds", type=float, default=50.0, help="of each size, compiling left out")
    parser.add_argument(
        "--once", action="store_true", help="call each once, for a profiler, and measure nothing"
    )
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args()
    sizes = options.size or [4096, 8192]
    wrong = next((one for one in sizes if one < 1 or one % (2 * TILE_N)), None)
    if wrong is not None:
        parser.error(f"--size {wrong}: tiles divide multiples of {2 * TILE_N} alone")
    try:
        import cupy
        import torch

        torch.cuda.set_device(options.gpu)
        cupy.cuda.Device(options.gpu).use()
        products = [loaded(form) for form in FORMS]
        if options.once:
            a, b = (torch.randn((sizes[0], sizes[0]), dtype=torch.float16, device="cuda") for _ in range(2))
            for product in (torch.matmul, *products):
                product(a, b)
            torch.cuda.synchronize()
            return 0
        found = [measure(size, options.seconds, products) for size in sizes]
    except (ImportError, PtxbenchError) as error:
        print(f"hopper_gemm: {error}", file=sys.stderr)
        return 2
    if options.out is not None:
        write_text(options.out, json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
