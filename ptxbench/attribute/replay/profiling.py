"""`ptxbench.profile`: the joules of every kernel of a step."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ptxbench.attribute.replay.capture import capture
from ptxbench.attribute.replay.kinds import kinds_of, require_alone
from ptxbench.attribute.replay.measure import StepMeasurement
from ptxbench.attribute.replay.plan import SETTINGS, ReplaySettings
from ptxbench.attribute.replay.profile import Profile, profile_of
from ptxbench.attribute.replay.replayed import ProfileFolder, ReplayedStep
from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.devices.calling import CallingGpu
from ptxbench.devices.cuda_step import CudaStep


def profile(
    step: Callable[[], object] | Any,
    *,
    per: Mapping[str, float] | None = None,
    out: Path | str | None = None,
    stream: Any = None,
    warm_up: int | None = None,
    model: Any = None,
    progress: bool = False,
) -> Profile:
    """Measure the energy of every kernel of a step, by launching each kind of kernel again and again.

        import torch, ptxbench

        model = torch.nn.Linear(4096, 4096, device="cuda")
        x = torch.randn(64, 4096, device="cuda")
        print(ptxbench.profile(lambda: model(x), per={"row": 64}))

    The step is captured as a CUDA graph. Launches of one function, shape and attributes are a kind. Each kind
    is launched for about a second with all that it has in the step, in its order, and its power is read. The
    step itself, idle and the gaps between launches are measured as well: the rows must add up to the step.
    The memory that the step works on is saved before, restored before each kind and at the end, and compared.

    Args:
        step: What makes the launches, such as one decoding step or one training step, with static shapes, and
            without a wait for the GPU; or a `torch.cuda.CUDAGraph(keep_graph=True)` that is captured already,
            or the handle of a CUDA graph.
        per: How many of a unit one step makes, such as {"token": 16}.
        out: Folder for the run, new or empty; `ptxbench report` shows it. None: nothing is kept.
        stream: The stream that the step works in, where it uses neither PyTorch nor CuPy.
        warm_up: How often it is called before it is captured; None: 3 times with PyTorch, else never.
        model: A `torch.nn.Module`, for flame graph and JSON to tell which of its modules makes which launches
            while its `forward` runs.
        progress: Whether what is measured now is said on standard error.

    Raises:
        GpuError: There is no GPU that can be read, or the step does what cannot be captured.
        InputError: It cannot be launched again, or its memory cannot be saved; or `out` holds something.
    """
    from ptxbench.devices.cuda import CudaGpu, current_gpu

    _check_units(per or {})
    if out is not None:
        from ptxbench.core.gpu_info import GpuKind
        from ptxbench.storage.location import require_free

        require_free(Path(out), GpuKind.REAL)
    with ExitStack() as stack:
        gpu = CudaGpu(current_gpu())
        stack.callback(gpu.close)
        captured = capture(gpu, step, stream, warm_up, model)
        stack.callback(captured.release)
        opened = gpu.open_step(captured.graph, captured.memory)
        stack.callback(opened.close)
        say = _said if progress else lambda _: None
        return measure_step(gpu, opened, out, per or {}, say=say, modules=captured.modules)


def measure_step(
    gpu: CallingGpu,
    step: CudaStep,
    out: Path | str | None,
    units: Mapping[str, float],
    settings: ReplaySettings = SETTINGS,
    say: Callable[[str], None] = lambda _: None,
    modules: Sequence[str] = (),
) -> Profile:
    """Measure a captured step.

    Args:
        gpu: Where it runs.
        step: The step, with its memory saved.
        out: Folder for the run; None: nothing is kept.
        units: How many of a unit one step makes.
        settings: How long, and how.
        say: Is told what is measured now.
        modules: The module of each node as they were captured, "" for none; none: they are not known.

    Raises:
        GpuError: A launch failed, or the GPU stopped answering; what was measured is in `out`.
        InputError: The step has no launch, or one that waits for another GPU; `out` cannot be written.
    """
    kinds = kinds_of(step.nodes)
    if not kinds:
        raise InputError(
            "the step launches nothing: it must make its launches in the stream that is captured"
        )
    require_alone(kinds)
    known = tuple(modules[at] if at < len(modules) else "" for at in step.created) if any(modules) else ()
    begun = ReplayedStep(kinds, saved_bytes=step.saved_bytes, units=units, modules=known)
    with ExitStack() as stack:
        if out is None:
            out = stack.enter_context(tempfile.TemporaryDirectory(prefix="ptxbench-profile-"))
        folder = ProfileFolder.create(Path(out), gpu.info, gpu.clock, gpu.sensors, begun)
        stack.enter_context(folder.recordings)
        StepMeasurement(gpu, step, folder, settings, say).run()
        return profile_of(folder)


def _check_units(per: Mapping[str, float]) -> None:
    for unit, count in per.items():
        if not count > 0:
            raise ArgumentError("per", f"must say how many of {unit!r} a step makes, not {count!r}")


def _said(what: str) -> None:
    print(f"ptxbench: {what}", file=sys.stderr, flush=True)
