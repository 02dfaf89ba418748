"""For PyTorch: modules with a row each in `ptxbench run`, and the profiler's traces with energy.

    import ptxbench.torch

    with ptxbench.torch.labelled(model):
        train(model)

`labelled` needs PyTorch, which it imports when a model is labelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from ptxbench.attribute.replay.profile import Profile

DEPTH = 2


@contextmanager
def labelled(
    model: Any, *, name: str = "model", depth: int = DEPTH, backward: bool = False, wait: bool = True
) -> Iterator[Any]:
    """Mark each call of a model's modules as an NVTX range while the block runs.

    A range is the time from the begin to the end of a module's `forward` on the host. Kernels run later than
    they are launched, so that each range waits for the GPU at its begin and its end; that takes time.

    Args:
        model: A `torch.nn.Module`.
        name: Name of the model; its modules follow after a dot, as in `model.encoder.layers`.
        depth: How deep modules are named: 1 is the model's own children; 0 the model alone.
        backward: Whether ranges "NAME backward" mark the backward pass too. PyTorch refuses this for modules
            whose output is changed in place.
        wait: Whether ranges wait for the GPU.

    Yields:
        The model.
    """
    import torch

    marks = _Marks(torch.cuda.nvtx, torch.cuda.synchronize if wait else lambda: None)
    with ExitStack() as hooks:
        for path, module in model.named_modules():
            if path.count(".") + bool(path) > depth:
                continue
            label = f"{name}.{path}" if path else name
            for handle in marks.hook(module, label, backward=backward):
                hooks.callback(handle.remove)
        try:
            yield model
        finally:
            marks.end_all()


def annotate(trace: Path | str, found: Profile | Path | str, out: Path | str) -> int:
    """Write a trace of the PyTorch profiler with the energy of each kernel among its arguments.

        with torch.profiler.profile() as profiler:
            step()
        profiler.export_chrome_trace("trace.json")
        found = ptxbench.profile(step)
        ptxbench.torch.annotate("trace.json", found, "energy.json.gz")

    Kernels of a profile are found by name and launch shape, and have the energy of one launch. Those of
    `ptxbench run` are found by name: they have its mean power, and the energy for their duration. Perfetto
    and Chrome show the arguments of a kernel when it is selected.

    Args:
        trace: What `export_chrome_trace` wrote; .gz is unpacked.
        found: What `ptxbench.profile` returned, the folder that it wrote, or that of `ptxbench run --out`.
        out: The new file; .gz packs it.

    Returns:
        How many kernels got an energy.

    Raises:
        InputError: A file cannot be read or written, or is none of these.
    """
    from ptxbench.attribute import annotation

    return annotation.annotate(trace, found, out)


class _Marks:
    """Ranges that are open.

    Args:
        nvtx: `torch.cuda.nvtx`.
        wait: Waits for the GPU.
    """

    def __init__(self, nvtx: Any, wait: Callable[[], object]) -> None:
        self._nvtx = nvtx
        self._wait = wait
        self._open: dict[str, list[Any]] = {}

    def hook(self, module: Any, label: str, *, backward: bool) -> Iterator[Any]:
        """Hook a module, and yield the handles by which the hooks are removed."""
        yield module.register_forward_pre_hook(lambda *_: self._begin(label))
        # A module that raises has an end as well.
        yield module.register_forward_hook(lambda *_: self._end(label), always_call=True)
        if backward:
            after = f"{label} backward"
            yield module.register_full_backward_pre_hook(lambda *_: self._begin(after))
            yield module.register_full_backward_hook(lambda *_: self._end(after))

    def end_all(self) -> None:
        """End what a module that never returned has left open."""
        for label, handles in self._open.items():
            while handles:
                self._end(label)

    def _begin(self, label: str) -> None:
        self._wait()
        self._open.setdefault(label, []).append(self._nvtx.range_start(label))

    def _end(self, label: str) -> None:
        handles = self._open.get(label)
        if handles:
            self._wait()
            self._nvtx.range_end(handles.pop())
