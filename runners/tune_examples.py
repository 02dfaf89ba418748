"""The worked tunings on a GPU, in one command: GEMM in f16 and f64 beside cuBLAS, n-body, stencil, reduction.

    python runners/tune_examples.py --gpu 0 --out tunings --seconds 400 --table ptxbench/tables/nvidia-h200

First one variant of every form of the GEMM kernels is compared with numpy. Then each kernel is tuned: the
variants that the estimate puts first and some drawn at random, with the power of each read. What each way of
tuning (power, time, estimate) would have chosen, and what it loses, is worked out of the same readings. Last,
Kernel Tuner measures variants of the reduction, where it is installed.

Parts run in the order of their worth until the seconds are spent. --out gets three files, written after
every part: summary.json, summary.txt (the report of each search) and folders.tar.gz (the folders, as
`ptxbench tune` keeps them).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernel_tuner_beside import compare_kernel_tuner

from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.base import Gpu
from ptxbench.devices.calling import CallingGpu
from ptxbench.devices.select import open_gpu
from ptxbench.report.tuning_report import as_text, sections
from ptxbench.storage.atomic import write_text
from ptxbench.tune.analysis import analyse
from ptxbench.tune.evaluate import choices, ranking
from ptxbench.tune.filters import rejection
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.library import CUBLAS
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.space import Axes, load_axes
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.tuning import AT_RANDOM, BY_ESTIMATE, Tuning, tune, tune_sizes
from ptxbench.tune.variant import PARAMETERS, Core, DType, Op, Problem, Variant
from ptxbench.tune.variant_runner import TrialOptions, VariantRunner

EXAMPLES = Path(__file__).parents[1] / "examples" / "tune"
# The paper's fastest (64 x 96 x 16 of 16 x 16 threads, reads of 64 x 4 and 16 x 16), m and n changed places.
_PER_BLOCK = ("BLOCK", "VECTOR", "PER_THREAD")
PAPERS_BEST = "f64-16x16-96x64x16-a16-b64-v1-s1-p0-r1-i1"


class OutOfTimeError(Exception):
    """The seconds are spent; what was tried is kept."""


@dataclass
class Session:
    """One session on one GPU.

    Attributes:
        gpu: Where everything runs.
        out: Folder of the files.
        work: Folder of the folders of tuning.
        table: Run by which energy is estimated, or None.
        scale: What problems and budgets are multiplied by; under 1 for a trial run.
        until_s: When to stop.
        done: What is known, by part.
    """

    gpu: Gpu
    out: Path
    work: Path
    table: Path | None
    scale: float
    until_s: float
    done: dict[str, Any] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def show(self, *_: object) -> None:
        """Stop where the seconds are spent."""
        if time.monotonic() > self.until_s:
            raise OutOfTimeError

    def part(self, name: str, run: Callable[[Session], Any]) -> None:
        """Run one part, keep what it says, and write everything."""
        if time.monotonic() > self.until_s:
            self.done[name] = {"left_out": "the seconds were spent"}
            return
        began_s = time.monotonic()
        try:
            found = run(self)
        except OutOfTimeError:
            found = {"cut_off": True, **self.told(name)}
        except Exception as error:  # a part that fails must not end the session
            found = {"failed": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-2000:]}
        self.done[name] = {"wall_s": round(time.monotonic() - began_s, 1), **found}
        print(f"{name}: {self.done[name]['wall_s']} s {found.get('failed', '')}", flush=True)
        self.write()

    def write(self) -> None:
        """Write what is known."""
        write_text(self.out / "summary.json", json.dumps(_plain(self.done), indent=1) + "\n")
        write_text(self.out / "summary.txt", "\n\n".join(self.texts) + "\n")
        packed = self.out / "folders.tar.gz.new"
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(self.work, arcname="tunings")
        packed.replace(self.out / "folders.tar.gz")

    def tuned(self, name: str, tuning: Tuning) -> dict[str, Any]:
        """Search into the folder of a part, and say what came of it."""
        tune(self.gpu, tuning, self.work / name, None, self.show)
        return self.told(name)

    def told(self, name: str) -> dict[str, Any]:
        """Say what the folder of a part tells: winners with intervals, choices, ranking, cuBLAS."""
        if not (self.work / name / "manifest.json").exists():
            return {}
        folder = TuningFolder.read(self.work / name)
        trials, scale = folder.believed()
        found = analyse(trials, folder.manifest.part.problem, folder.beside)
        if found is None:
            return {"tried": len(trials), "reasons": sorted({t.reason for t in trials})[:5]}
        self.texts.append(as_text(sections(folder.manifest, trials, found, scale), None))
        ranked = ranking(trials)
        return {
            "problem": folder.manifest.part.problem.title,
            "tried": len(trials),
            "not_valid": sum(not t.ok for t in trials),
            "reasons": sorted({f"{t.status}: {t.reason[:100]}" for t in trials if not t.ok})[:5],
            "fastest": _figures(found.fastest),
            "least_energy": _figures(found.best),
            "told_apart": found.told_apart,
            "choices": [asdict(one) for one in choices(trials)],
            "ranking": asdict(ranked) if ranked else None,
            "beside": [asdict(one) for one in folder.beside],
        }

    def sized(self, whole: int, least: int = 1) -> int:
        """Return a size or a budget for this session."""
        return max(least, round(whole * self.scale))


def _figures(one: Any) -> dict[str, Any]:
    names = ("name", "time_s", "energy_j", "half_j", "power_w", "gflops", "gflops_per_w")
    return {name: getattr(one, name) for name in names}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: what is not a number becomes null."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def numerics(session: Session) -> dict[str, Any]:
    """Compare variants of every form of the GEMM kernels with numpy, on the GPU."""
    size, target = 512, session.gpu.info.target
    cases: list[tuple[DType, Core]] = [(dtype, Core.SIMT) for dtype in DType if dtype is not DType.F16]
    cases += [(DType.F64, Core.MMA), (DType.F16, Core.MMA), (DType.F16, Core.WGMMA)]
    forms = [("n", "n", 0.0, 0), ("t", "n", 0.0, 8), ("n", "t", -0.5, 24), ("t", "t", 1.5, 40)]
    wanted = []
    for dtype, core in cases:
        for op_a, op_b, beta, cut in [*forms, ("c", "c", 0.5, 0)] if dtype.complex else forms:
            if core is Core.WGMMA:
                op_a = op_b = "n"
            problem = Problem(dtype, size - cut, size + 128 - cut, 512 - cut, Op(op_a), Op(op_b), beta)
            variants = drawn(problem, target, load_axes(dtype, core=core), 2)
            wanted += [(Gemm(problem), variant) for variant in variants]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        built = list(pool.map(lambda one: one[0].build(one[1], target), wanted))
    rows = []
    for (tunable, variant), kernel in zip(wanted, built, strict=True):
        session.show()
        trial = VariantRunner(session.gpu, tunable, TrialOptions(power=False), None).measure(kernel)
        rows.append({"problem": tunable.problem.title, "variant": variant.name, "status": str(trial.status),
                     "correct": str(trial.correct), "reason": trial.reason[:150]})  # fmt: skip
    bad = [row for row in rows if row["correct"] != "yes" and row["status"] != "refused"]
    return {"compared": len(rows), "not_right": len(bad), "rows": rows}


def drawn(problem: Problem, target: str, axes: Axes, count: int) -> list[Variant]:
    """Return variants drawn at random, without walking through the whole space."""
    generator, found = random.Random(problem.title), []  # noqa: S311
    assert isinstance(axes.values, tuple)  # noqa: S101
    core = "" if axes.core is Core.usual(axes.dtype) else str(axes.core)
    for _ in range(100_000):
        chosen = dict(zip(PARAMETERS, map(generator.choice, axes.values), strict=True))
        variant = Variant(axes.dtype, **chosen, core=core)
        if not rejection(variant, problem, target, axes.bounds):
            found.append(variant)
            if len(found) == count:
                break
    return found


def gemm(dtype: DType, core: Core, budget: int, sample: int) -> Callable[[Session], dict[str, Any]]:
    """Return the part that tunes a product of 4096 cubed beside cuBLAS."""

    def run(session: Session) -> dict[str, Any]:
        size = session.sized(4096 // 256, 2) * 256
        tuning = Tuning(
            problem=Problem(dtype, size, size, size),
            goal=Goal(Objective.ENERGY),
            budget=session.sized(budget, 4),
            sample=session.sized(sample, 2),
            candidates=session.sized(256, 8),
            table=session.table,
            core=core,
            beside=CUBLAS if isinstance(session.gpu, CallingGpu) else "",
        )
        return session.tuned(f"gemm-{dtype}-{core}", tuning)

    return run


def papers(session: Session) -> dict[str, Any]:
    """Measure the paper's best kernel at the paper's size, and others of its space drawn at random."""
    size = session.sized(4096 // 256, 2) * 256
    problem = Problem(DType.F64, size, size, size)
    tuning = Tuning(problem, Goal(Objective.ENERGY), space="beast", variants=(PAPERS_BEST,))
    tune(session.gpu, tuning, session.work / "gemm-beast", None, session.show)
    more = replace(tuning, variants=(), budget=session.sized(24, 3), strategy=AT_RANDOM)
    tune(session.gpu, more, None, session.work / "gemm-beast", session.show)
    return session.told("gemm-beast")


def example(name: str, budget: int, **sizes: int) -> Callable[[Session], dict[str, Any]]:
    """Return the part that tunes an example by its specification."""

    def run(session: Session) -> dict[str, Any]:
        smaller = sizes if session.scale < 1 else {}
        spec = load_spec(EXAMPLES / f"{name}.toml", smaller)
        by = BY_ESTIMATE if session.table else AT_RANDOM
        tuning = Tuning(
            problem=spec,
            goal=Goal(Objective.ENERGY),
            budget=session.sized(budget, 3),
            sample=session.sized(budget // 2, 2),
            candidates=session.sized(256, 6),
            table=session.table,
            strategy=by,
        )
        return session.tuned(name, tuning)

    return run


def sweep(session: Session) -> dict[str, Any]:
    """Run the two best f16 kernels of the first part over sizes (Anzt et al. 2015, Figure 4)."""
    first = TuningFolder.read(session.work / "gemm-f16-mma")
    found = analyse(tuple(first.trials.values()), first.manifest.part.problem)
    if found is None:
        return {"left_out": "the first part found nothing"}
    tuning = Tuning(
        problem=Problem(DType.F16, 1024, 1024, 1024),
        goal=Goal(Objective.ENERGY),
        variants=tuple(dict.fromkeys((found.best.name, found.fastest.name))),
        beside=CUBLAS if isinstance(session.gpu, CallingGpu) else "",
    )
    sizes = (512, 1024) if session.scale < 1 else (512, 1024, 2048, 3072, 6144, 8192)
    tune_sizes(session.gpu, tuning, sizes, session.work / "gemm-f16-sizes", session.show)
    return {str(n): session.told(f"gemm-f16-sizes/{n:05d}") for n in sizes}


def kernel_tuner(session: Session) -> dict[str, Any]:
    """Let Kernel Tuner measure variants of the reduction, and measure the same ones here."""
    sizes = {"N": 4194304} if session.scale < 1 else {}
    spec = load_spec(EXAMPLES / "reduction.toml", sizes)
    tuning = Tuning(spec, Goal(Objective.ENERGY), budget=session.sized(20, 2), strategy=AT_RANDOM)
    began_s = time.monotonic()
    told = session.tuned("reduction-random", tuning)
    ours_s = time.monotonic() - began_s
    folder = TuningFolder.read(session.work / "reduction-random")
    left_s = max(5.0, session.until_s - time.monotonic())
    found = compare_kernel_tuner(spec, EXAMPLES, tuple(folder.trials.values()), _PER_BLOCK, left_s)
    return {"ours_wall_s": ours_s, "kernel_tuner": found, "ours": told}


PARTS: dict[str, Callable[[Session], dict[str, Any]]] = {
    "numerics": numerics,
    "gemm-f16-mma": gemm(DType.F16, Core.MMA, 40, 16),
    "gemm-f16-wgmma": gemm(DType.F16, Core.WGMMA, 30, 12),
    "gemm-f64-mma": gemm(DType.F64, Core.MMA, 32, 12),
    "nbody": example("nbody", 60, N=4096),
    "stencil": example("stencil", 40, NX=512, NY=512),
    "kernel-tuner": kernel_tuner,
    "reduction": example("reduction", 40, N=4194304),
    "gemm-beast": papers,
    "gemm-f16-sizes": sweep,
}


def main() -> int:
    """Run the parts, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, required=True, help="folder of the three files")
    parser.add_argument(
        "--seconds", type=float, default=300, help="after so many no part and no variant begins"
    )
    parser.add_argument("--table", type=Path, help="run by which energy is estimated, of this model of GPU")
    parser.add_argument(
        "--part", action="append", choices=list(PARTS), help="only this part (may be repeated)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="smaller problems and budgets, to try it out"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    gpu = open_gpu(arguments.gpu)
    try:
        with tempfile.TemporaryDirectory() as work:
            until_s = time.monotonic() + arguments.seconds
            session = Session(gpu, arguments.out, Path(work), arguments.table, arguments.scale, until_s)
            session.done["gpu"] = asdict(gpu.info)
            for name in arguments.part or PARTS:
                session.part(name, PARTS[name])
    finally:
        gpu.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"tune_examples: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
