"""Captures a step as a CUDA graph: by PyTorch where it is loaded, else from a stream, such as CuPy's."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ptxbench.attribute.replay.modules import marked, require_model
from ptxbench.core.errors import ArgumentError, InputError

if TYPE_CHECKING:
    from ptxbench.devices.cuda import CudaGpu

# PyTorch warms up before it captures: libraries are loaded, and gradients are made.
TORCH_WARM_UP = 3


@dataclass(frozen=True)
class Captured:
    """A captured step.

    Attributes:
        graph: Handle of its CUDA graph.
        memory: Address and size of memory that it may work on, beside what its launches name.
        release: Gives back what holds the graph and its memory, and what was changed beside memory.
        modules: The module of each node, in the order in which they were captured; "" for none.
    """

    graph: int
    memory: Sequence[tuple[int, int]]
    release: Callable[[], None]
    modules: Sequence[str] = ()


def capture(
    gpu: CudaGpu, step: Any, stream: Any = None, warm_up: int | None = None, model: Any = None
) -> Captured:
    """Capture a step.

    Args:
        gpu: Where it runs.
        step: Makes the launches; or a graph that is captured already.
        stream: What it makes them in, where it is neither PyTorch's nor CuPy's.
        warm_up: How often it is called before; None: 3 times with PyTorch, else never.
        model: The model of PyTorch whose modules launches are told by; None: they are not.

    Raises:
        ArgumentError: `model` is none, or PyTorch does not capture the step.
        InputError: It is no step, or there is nothing to capture it by.
        GpuError: It does what cannot be captured.
    """
    if model is not None:
        require_model(model)
    if (handle := graph_handle(step)) is not None:
        _require_no(model)
        return Captured(handle, torch_memory(), lambda: None)
    if not callable(step):
        raise InputError(f"step must be callable, or a captured graph, not {step!r}")
    torch = sys.modules.get("torch")
    if stream is None and torch is not None and torch.cuda.is_initialized():
        return _by_torch(gpu, torch, step, TORCH_WARM_UP if warm_up is None else warm_up, model)
    _require_no(model)
    cupy = sys.modules.get("cupy")
    if stream is None and cupy is not None:
        own = cupy.cuda.Stream(non_blocking=True)
        with own:
            return _by_stream(gpu, step, own.ptr, warm_up or 0, own.synchronize)
    if stream is None:
        raise InputError(
            "neither PyTorch nor CuPy has used a GPU in this process: give the stream that the step works in,"
            " as `stream`"
        )
    return _by_stream(gpu, step, stream_handle(stream), warm_up or 0, lambda: None)


def _require_no(model: Any) -> None:
    if model is not None:
        raise ArgumentError("model", "tells the launches of a step that PyTorch captures; leave it out here")


def graph_handle(step: Any) -> int | None:
    """Return the handle of a graph that is captured already, None for anything else."""
    if isinstance(step, int) and not isinstance(step, bool):
        return step
    raw = getattr(step, "raw_cuda_graph", None)
    if raw is None:
        return None
    try:
        return int(raw())
    except RuntimeError as error:
        raise InputError(f"{error}: make it as torch.cuda.CUDAGraph(keep_graph=True)") from error


def stream_handle(stream: Any) -> int:
    """Return the handle of a stream: a number, or an object of PyTorch, CuPy, Numba or cuda.core."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value))
    raise InputError(f"stream must be the handle of a CUDA stream, or a stream, not {stream!r}")


def torch_memory() -> list[tuple[int, int]]:
    """Return the tensors' memory of this GPU, as PyTorch's allocator has it; without PyTorch nothing."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return allocated(torch.cuda.memory_snapshot(), torch.cuda.current_device())


def allocated(segments: Sequence[dict[str, Any]], device: int) -> list[tuple[int, int]]:
    """Return address and size of what is in use, blocks that follow each other as one.

    Args:
        segments: What torch.cuda.memory_snapshot() returns.
        device: Number of the GPU, as PyTorch counts.
    """
    found = []
    for segment in segments:
        if segment["device"] != device:
            continue
        address = segment["address"]
        for is_used, blocks in groupby(segment["blocks"], lambda one: one["state"] == "active_allocated"):
            size = sum(block["size"] for block in blocks)
            if is_used:
                found.append((address, size))
            address += size
    return found


def _by_torch(gpu: CudaGpu, torch: Any, step: Callable[[], object], warm_up: int, model: Any) -> Captured:
    """Capture as torch.cuda.graph does; tensors that were there before have then what they had."""
    cuda = torch.cuda
    cuda.synchronize()
    random_state = cuda.get_rng_state()
    saved = gpu.save(torch_memory())
    try:
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            for _ in range(warm_up):
                step()
        cuda.current_stream().wait_stream(stream)
        graph = cuda.CUDAGraph(keep_graph=True)
        with warnings.catch_warnings():
            # A step that launches nothing is refused with a line that says so.
            warnings.filterwarnings("ignore", "The CUDA Graph is empty")
            with cuda.graph(graph, stream=stream):
                if model is None:
                    modules, kept = [], step()
                else:
                    with marked(model, lambda: gpu.captured_nodes(stream.cuda_stream)) as modules:
                        kept = step()
        graph.instantiate()
        # Once as PyTorch does it: that writes the seeds of random numbers, and what is computed on the way.
        graph.replay()
        cuda.synchronize()
        saved.restore()
        cuda.synchronize()
    finally:
        saved.close()

    def release(_: object = kept) -> None:
        graph.reset()
        cuda.set_rng_state(random_state)

    return Captured(int(graph.raw_cuda_graph()), torch_memory(), release, modules)


def _by_stream(
    gpu: CudaGpu,
    step: Callable[[], object],
    stream: int,
    warm_up: int,
    synchronize: Callable[[], object],
) -> Captured:
    for _ in range(warm_up):
        step()
    synchronize()
    kept: list[object] = []
    graph = gpu.captured(stream, lambda: kept.append(step()))
    # What it returns may own memory that the graph works on.
    return Captured(int(graph), torch_memory(), kept.clear)
