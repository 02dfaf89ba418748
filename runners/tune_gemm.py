"""Tune GEMM on a GPU, and see how good the estimator is: the worked example of tuning by the public API.

    python runners/tune_gemm.py --gpu 0 --table results/nvidia-h200/starters --out results/nvidia-h200/gemm

Measures time and power of variants of f32 and f64 drawn at random (about half a second each), and compares
what the estimator says of them. Each search is kept below --out as `ptxbench tune gemm` does, with a picture
of the front of time and energy and quality.json beside it. With PyTorch there, cuBLAS is timed too. With
--again FOLDER nothing is measured: a folder's trials are estimated anew by --table, and drawn by --plot.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_gpu
from ptxbench.report.pareto_plot import plot_front
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.tune.evaluate import Quality, estimated_again, quality
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.model_energy import open_model
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.trial import Trial
from ptxbench.tune.tuning import AT_RANDOM, BY_ESTIMATE, Tuned, Tuning, tune
from ptxbench.tune.variant import DType, Problem
from ptxbench.tune.variant_runner import TrialOptions

_CUBLAS_LAUNCHES = 10


@dataclass(frozen=True)
class Result:
    """What is written of one search.

    Attributes:
        dtype: Element type.
        size: m, n and k.
        quality: The estimator beside what was measured.
        best_gflops: GFLOP/s of the fastest variant.
        cublas_gflops: GFLOP/s of cuBLAS through PyTorch; NaN where it was not timed.
        wall_s: Host time of the whole search.
    """

    dtype: DType
    size: int
    quality: Quality
    best_gflops: float
    cublas_gflops: float
    wall_s: float


def main() -> int:
    """Measure, write, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument(
        "--dtype", action="append", choices=[d.value for d in DType], help="default: f32, f64"
    )
    parser.add_argument("--size", type=int, default=4096, help="m, n and k")
    parser.add_argument("--variants", type=int, default=200, help="variants of each type")
    parser.add_argument(
        "--strategy", default=AT_RANDOM, help=f"{AT_RANDOM}, or {BY_ESTIMATE} for good ones first"
    )
    parser.add_argument("--candidates", type=int, default=1000, help=f"variants predicted, for {BY_ESTIMATE}")
    parser.add_argument(
        "--window", type=float, default=0.4, help="seconds of launches that power is read over"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", type=Path, help="run by which energy is estimated")
    parser.add_argument(
        "--out", type=Path, help="holds one folder a type afterwards; one that is there goes on"
    )
    parser.add_argument("--again", type=Path, help="folder of a search to estimate anew")
    parser.add_argument("--plot", type=Path, help="with --again: picture of the front to write")
    arguments = parser.parse_args()
    if arguments.again:
        return again(arguments.again, arguments.table, arguments.plot)
    if arguments.out is None:
        raise InputError("give --out, or --again FOLDER")
    gpu = open_gpu(arguments.gpu)
    try:
        for dtype in arguments.dtype or ["f32", "f64"]:
            result = search(gpu, DType(dtype), arguments)
            print_result(result)
    finally:
        gpu.close()
    return 0


def search(gpu: Gpu, dtype: DType, arguments: argparse.Namespace) -> Result:
    """Measure the variants of one type, and write what came of it."""
    size = arguments.size
    problem = Problem(dtype, size, size, size)
    tuning = Tuning(
        problem=problem,
        goal=Goal(Objective.ENERGY),
        options=TrialOptions(window_s=arguments.window, seed=arguments.seed),
        strategy=arguments.strategy,
        budget=arguments.variants,
        candidates=arguments.candidates,
        table=arguments.table,
    )
    folder = arguments.out / dtype.value
    began_s = time.perf_counter()
    resume = (folder / "manifest.json").exists()
    tuned = tune(gpu, tuning, None if resume else folder, folder if resume else None, _say)
    wall_s = time.perf_counter() - began_s
    fastest = max((t.gflops(problem.flops) for t in tuned.trials if t.ok), default=math.nan)
    cublas = cublas_gflops(problem) if gpu.info.kind == "real" else math.nan
    result = Result(dtype, size, _quality(tuned.trials), fastest, cublas, wall_s)
    write_text(folder / "quality.json", codec.to_text(result))
    _draw(tuned)
    print_failures(tuned.trials)
    return result


def again(path: Path, table: Path | None, plot: Path | None) -> int:
    """Estimate a folder's trials anew, print how good the estimates are, and draw the front."""
    if table is None:
        raise InputError("--again needs --table RUN")
    folder = TuningFolder.read(path)
    model = open_model(table, folder.manifest.gpu, folder.manifest.part.options.pattern)
    found = _quality(estimated_again(tuple(folder.trials.values()), folder.manifest.part.problem, model))
    print(json.dumps(asdict(found), indent=1))
    if plot:
        plot_front(folder.manifest, folder.trials.values(), plot)
    return 0


def cublas_gflops(problem: Problem) -> float:
    """Return cuBLAS's GFLOP/s through PyTorch, in full f32; NaN where PyTorch is not installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return math.nan
    torch.backends.cuda.matmul.allow_tf32 = False
    kind = {DType.F32: torch.float32, DType.F64: torch.float64, DType.F16: torch.float16}[problem.dtype]
    a = torch.randn(problem.m, problem.k, device="cuda", dtype=kind)
    b = torch.randn(problem.k, problem.n, device="cuda", dtype=kind)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(_CUBLAS_LAUNCHES):
        torch.matmul(a, b)
    begin.record()
    for _ in range(_CUBLAS_LAUNCHES):
        torch.matmul(a, b)
    end.record()
    torch.cuda.synchronize()
    return float(problem.flops * _CUBLAS_LAUNCHES / begin.elapsed_time(end) * 1e-6)


def print_result(result: Result) -> None:
    """Print the figures of one search."""
    q = result.quality
    capped = f", {q.capped} of them slowed by the power cap" if q.capped else ""
    print(f"{result.dtype}, {result.size}: {q.variants} variants measured in {result.wall_s:.0f} s{capped}")
    print(f"  rank correlation of estimated and measured energy: {q.spearman:.3f}")
    print(f"  mean error of the estimates: {100 * q.mean_error:.1f}%")
    print(f"  estimator and ten measurements: {100 * q.chosen_loss:.2f}% over the best ({q.best_j:.4g} J)")
    print(f"  best {q.best}, chosen {q.chosen or '-'}, fastest {q.fastest}")
    print(f"  the fastest takes {100 * q.fastest_loss:.2f}% more energy than the best")
    print(
        f"  the best is {100 * (q.best_s / q.fastest_s - 1):.2f}% slower than the fastest; front of {q.front}"
    )
    print(
        f"  measuring power of every variant takes {q.speedup:.1f} times as long as short timings "
        f"({q.timing_wall_s:.1f} s, and {q.power_wall_s:.1f} s for power)"
    )
    print(f"  fastest variant: {result.best_gflops:.0f} GFLOP/s; cuBLAS: {result.cublas_gflops:.0f}")


def print_failures(trials: Sequence[Trial]) -> None:
    """Print what did not count, to standard error."""
    for trial in trials:
        if not trial.ok:
            print(f"{trial.variant.name}: {trial.status}: {trial.reason}", file=sys.stderr)


def _quality(trials: Sequence[Trial]) -> Quality:
    try:
        return quality(trials)
    except ValueError as error:
        raise InputError(f"nothing to compare: {error}") from error


def _draw(tuned: Tuned) -> None:
    try:
        plot_front(tuned.manifest, tuned.trials, tuned.path / "pareto.png")
    except InputError as error:
        print(f"no picture: {error}", file=sys.stderr)


def _say(done: int, total: int, name: str) -> None:
    if done % 20 == 0 or done == total:
        print(f"{done}/{total} {name}", file=sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"tune_gemm: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
