"""A product of f16 or bf16 by wgmma and bulk copies beside torch.matmul: is it right, and what does it take?

    python runners/hopper_gemm.py --gpu 0 --out hopper_gemm.json

Needs an H100 or H200, nvcc and PyTorch. hopper_gemm.cu is built with blocks alone and in pairs that
share B. Of each size both are compared with torch.matmul on fresh inputs, and called in rounds with it, in
random order, until clock and power have settled. Two sizes take two minutes.
With --once under ncu, `ptxbench estimate gemm --ncu FILE --against NAME` sets the parts side by side.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.select import open_gpu
from ptxbench.storage.atomic import write_text
from ptxbench.tune.source import variant_source
from ptxbench.tune.spec import Source

SOURCE = Path(__file__).with_suffix(".cu")
TARGET = "sm_90a"
TILE_M, TILE_N, TILE_K, THREADS = 128, 256, 64, 384
# Of cuda.h: CU_TENSOR_MAP_...
_FLOAT16, _NOT_INTERLEAVED, _SWIZZLE_128B, _L2_PROMOTION_256B, _FILL_ZERO = 6, 0, 3, 3, 0
_ROW_BYTES, _STAGES = 128, 4
_DYNAMIC_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
SHARED_BYTES = _STAGES * ((TILE_M + TILE_N) * _ROW_BYTES + 16)  # with two barriers a stripe


@dataclass(frozen=True)
class Form:
    """A way to build the kernel.

    Attributes:
        cluster: Blocks that share B.
        group: Rows of tiles that are taken together.
        dtype: "f16" or "bf16".
    """

    cluster: int
    group: int
    dtype: str = "f16"

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
        macros: dict[str, int | float | str]
        macros = {"CLUSTER": self.cluster, "GROUP": self.group, "STAGES": _STAGES, "TYPE": self.dtype}
        source = Source(SOURCE, SOURCE.read_bytes(), "gemm", ("-std=c++17",))
        return variant_source(source, macros, TARGET).build().image


DTYPES = {"f16": "float16", "bf16": "bfloat16"}
# Of both orders of tiles that were tried, the better one of each.
FORMS = (Form(cluster=1, group=16), Form(cluster=2, group=8))


@cache
def tensor_map(address: int, shape: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]) -> Any:
    """Return how the copy engine finds boxes of an array of two-byte numbers, swizzled by 128 bytes.

    Args:
        address: Of the array.
        shape: Elements along each dimension, the fastest first.
        strides: Bytes from one to the next of each dimension but the first.
        box: Elements of a box.
    """
    words = (ctypes.c_uint64 * 24)()
    skipped = -ctypes.addressof(words) % 64  # a map begins at a multiple of 64 bytes
    rank = len(shape)
    found = (ctypes.c_uint64 * 16).from_buffer(words, skipped)
    _call(
        "cuTensorMapEncodeTiled",
        found,
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
    return found


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: Any) -> None:
    """Call the driver, which torch has made ready for this thread."""
    error = getattr(_driver(), name)(*arguments)
    if error:
        raise PtxbenchError(f"{name} fails: error {error} of the driver")


def loaded(form: Form) -> Callable[[Any, Any], Any]:
    """Return the product of two tensors by a form of the kernel."""
    import torch

    multiprocessors = torch.cuda.get_device_properties().multi_processor_count
    torch.cuda.synchronize()
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    _call("cuModuleLoadData", ctypes.byref(module), form.cubin)
    _call("cuModuleGetFunction", ctypes.byref(kernel), module, b"gemm")
    _call("cuFuncSetAttribute", kernel, _DYNAMIC_SHARED_BYTES, SHARED_BYTES)
    blocks = multiprocessors // form.cluster * form.cluster
    results: dict[tuple[int, int], Any] = {}

    def product(a: Any, b: Any) -> Any:
        (m, k), n = a.shape, b.shape[1]
        c = results.get((m, n))
        if c is None:
            c = results[m, n] = torch.empty((m, n), dtype=a.dtype, device=a.device)
        chunks = TILE_N // 64 // form.cluster
        values = (
            tensor_map(a.data_ptr(), (k, m), (2 * k,), (TILE_K, TILE_M)),
            tensor_map(b.data_ptr(), (64, k, n // 64), (2 * n, 128), (64, TILE_K, chunks)),
            ctypes.c_void_p(c.data_ptr()),
            *map(ctypes.c_int, (m, n, k)),
        )
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _call("cuLaunchKernel", kernel, blocks, 1, 1, THREADS, 1, 1, SHARED_BYTES, stream, arguments, None)
        return c

    product.__name__ = form.name
    return product


def measure(
    size: int, seconds: float, products: Sequence[Callable[[Any, Any], Any]], dtype: Any
) -> dict[str, Any]:
    """Compare products of square matrices with torch.matmul, print that, and return it as JSON has it."""
    import torch

    import ptxbench

    def inputs() -> tuple[Any, Any]:
        return tuple(torch.randn((size, size), dtype=dtype, device="cuda") for _ in range(2))

    found = ptxbench.compare(torch.matmul, *products, inputs=inputs, check=True, budget=seconds)
    print(f"{size} cubed\n{found}\n", flush=True)
    times = {one.name: one.time_s for one in found.benches}
    return {"size": size, "tflops": {n: 2e-12 * size**3 / t for n, t in times.items()}, **found.document()}


def main() -> int:
    """Measure, print, write, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", type=int, default=0, help="number of the GPU")
    parser.add_argument("--size", type=int, action="append", help="m, n and k (default: 4096 and 8192)")
    parser.add_argument("--dtype", choices=list(DTYPES), default="f16")
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
        import torch

        torch.cuda.set_device(options.gpu)
        dtype = getattr(torch, DTYPES[options.dtype])
        products = [loaded(replace(form, dtype=options.dtype)) for form in FORMS]
        if options.once:
            a, b = (torch.randn((sizes[0], sizes[0]), dtype=dtype, device="cuda") for _ in range(2))
            for product in (torch.matmul, *products):
                print(f"{product.__name__}: {a.shape[0]} cubed", flush=True)
                product(a, b)
                torch.cuda.synchronize()
            return 0
        gpu = open_gpu(str(options.gpu))
        document: dict[str, Any] = {"gpu": asdict(gpu.info), "dtype": options.dtype}
        document["created"] = datetime.now(UTC).isoformat()
        gpu.close()
        document["sizes"] = [measure(size, options.seconds, products, dtype) for size in sizes]
    except (ImportError, PtxbenchError) as error:
        print(f"hopper_gemm: {error}", file=sys.stderr)
        return 2
    if options.out is not None:
        write_text(options.out, json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
