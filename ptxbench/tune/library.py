"""cuBLAS beside the variants: the same product, by PyTorch or CuPy, measured in the same session."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.devices.base import Bytes
from ptxbench.devices.calling import Call, CallingGpu
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.settled_run import BoardLimits, launches_in, run_until_settled
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.tune.check import product_of
from ptxbench.tune.kernel import KINDS, operand_matrices
from ptxbench.tune.outcome import PowerOutcome, TrialStatus
from ptxbench.tune.variant import Op, Problem

CUBLAS = "cublas"
# Calls before the first is timed: the library chooses and loads its kernel then.
_FIRST_CALLS = 3
# Over which the time of a call is the mean; chosen.
_TIMED_CALLS = 5


@dataclass(frozen=True, kw_only=True)
class LibraryTrial(PowerOutcome):
    """A library's product, measured once; NaN where it was not.

    Attributes:
        name: Library, and through what it was called.
        after: Trials before it in the folder.
        correct: Whether its product is that of numpy on some rows, to a hundredth.
        time_s: Time of one call, timed briefly.
        steady_s: Time of one call while power was read.
        clock_mhz: SM clock after the calls.
        temperature_c: Temperature of the GPU.
    """

    _TIME: ClassVar[str] = "steady_s"

    name: str
    after: int
    correct: bool
    time_s: float
    steady_s: float = math.nan
    clock_mhz: float = math.nan
    temperature_c: float = math.nan
    status: TrialStatus = TrialStatus.OK

    @property
    def best_time_s(self) -> float:
        """Time at the power that goes with it, or else as it was timed briefly."""
        return self.time_s if math.isnan(self.steady_s) else self.steady_s


@dataclass(frozen=True)
class Product:
    """A library's product, ready to be called.

    Attributes:
        name: Library, and through what it is called.
        call: Computes it once.
        result: Returns what it computed, shape (m, n).
    """

    name: str
    call: Call
    result: Callable[[], Any]


def open_cublas(problem: Problem, ordinal: int, seed: int, pattern: str) -> Product:
    """Return cuBLAS's product of a problem, with the operands that the variants get.

    Args:
        problem: What is computed. C is of f16 where A and B are: the library rounds what it summed in f32.
        ordinal: Number of the GPU, as CUDA counts.
        seed: Of the operands.
        pattern: Operand pattern.

    Raises:
        InputError: Neither PyTorch nor CuPy is installed, or what is installed cannot compute it.
    """
    for name, make in (("torch", _by_torch), ("cupy", _by_cupy)):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return make(module, problem, ordinal, operand_matrices(problem, seed, pattern))
    raise InputError("`beside` cublas needs PyTorch or CuPy; run 'pip install torch' or 'pip install cupy'")


def measure_library(
    gpu: CallingGpu,
    product: Product,
    exact: Callable[[Any], bool],
    after: int,
    window_s: float,
    source: SourceCheck,
) -> LibraryTrial:
    """Time a library's product and measure its power, as a variant's.

    Args:
        gpu: Where it runs.
        product: The library's.
        exact: Whether a result is right.
        after: Trials before it.
        window_s: Length of the calls back to back over which power is read; NaN: only time is measured.
        source: Judges the power source by all that runs.

    Raises:
        LaunchError: A call failed.
        GpuError: The GPU stopped answering.
    """
    for _ in range(_FIRST_CALLS):
        product.call()
    time_s = gpu.time_calls_s(product.call, _TIMED_CALLS) / _TIMED_CALLS
    trial = LibraryTrial(name=product.name, after=after, correct=exact(product.result()), time_s=time_s)
    if math.isnan(window_s):
        return trial

    def attempt(length_s: float) -> tuple[KernelRun, int]:
        times = launches_in(length_s, time_s)
        return gpu.run_calls(product.call, times), times

    run, result = run_until_settled(attempt, window_s, source, BoardLimits.of(gpu.info))
    clock_mhz, temperature_c = run.after.sm_clock_mhz, run.after.temperature_c
    return replace(trial.with_power(result), clock_mhz=clock_mhz, temperature_c=temperature_c)


def is_right(problem: Problem, seed: int, pattern: str) -> Callable[[Any], bool]:
    """Return what tells whether a result has numpy's first and last rows, to a hundredth of their size."""
    rows = [0, problem.m // 2, problem.m - 1]
    right = product_of(problem, operand_matrices(problem, seed, pattern), rows)
    allowed = 0.01 * float(np.sqrt(np.mean(np.abs(right) ** 2)) or 1.0)

    def check(result: Any) -> bool:
        return bool((np.abs(np.asarray(result)[rows] - right) <= allowed).all())

    return check


def _by_torch(torch: Any, problem: Problem, ordinal: int, inputs: tuple[Bytes, ...]) -> Product:
    torch.backends.cuda.matmul.allow_tf32 = False
    device = f"cuda:{ordinal}"

    def on_gpu(data: Bytes, shape: tuple[int, int]) -> Any:
        return torch.from_numpy(data.view(KINDS[problem.dtype]).reshape(shape).copy()).to(device)

    a, b = (
        _as_op(on_gpu(data, shape), op)
        for data, shape, op in zip(inputs, problem.shapes, (problem.op_a, problem.op_b), strict=False)
    )
    c = torch.empty((problem.m, problem.n), dtype=a.dtype, device=device)
    name = f"cuBLAS {_cublas_version(torch)}(PyTorch {torch.__version__})"
    if not problem.beta:
        return Product(name, lambda: torch.matmul(a, b, out=c), lambda: c.cpu().numpy())
    if problem.dtype == "f16":
        raise InputError("`beside` cublas cannot update a C of f32 with A and B of f16; leave `beta` out")
    source = on_gpu(inputs[2], (problem.m, problem.n))
    update = lambda: torch.addmm(source, a, b, beta=problem.beta, out=c)  # noqa: E731
    return Product(name, update, lambda: c.cpu().numpy())


def _cublas_version(torch: Any) -> str:
    return f"of CUDA {torch.version.cuda} " if getattr(torch.version, "cuda", None) else ""


def _by_cupy(cupy: Any, problem: Problem, ordinal: int, inputs: tuple[Bytes, ...]) -> Product:
    if problem.beta:
        raise InputError("`beside` cublas updates C by PyTorch alone; run 'pip install torch'")
    with cupy.cuda.Device(ordinal):
        a, b = (
            _as_op(cupy.asarray(data.view(KINDS[problem.dtype]).reshape(shape)), op)
            for data, shape, op in zip(inputs, problem.shapes, (problem.op_a, problem.op_b), strict=False)
        )
        c = cupy.empty((problem.m, problem.n), a.dtype)
    return Product(
        f"cuBLAS (CuPy {cupy.__version__})", lambda: cupy.matmul(a, b, out=c), lambda: cupy.asnumpy(c)
    )


def _as_op(matrix: Any, op: Op) -> Any:
    """Return op of a matrix, as both libraries hand it to cuBLAS: not copied."""
    if op is Op.N:
        return matrix
    return matrix.T if op is Op.T else matrix.T.conj()
