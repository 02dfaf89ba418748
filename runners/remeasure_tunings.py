"""Measures again what kept tunings found at the power limit, in windows too short to settle there.

    python runners/remeasure_tunings.py --list
    python runners/remeasure_tunings.py --gpu 0 --out again --seconds 185

Of each kept tuning of a matrix product these are the fastest variant, that of least energy, the next ones by
energy that are within 5% of it, and cuBLAS where it stood beside. Tunings of which none of these met the
limit are left out. The largest products come first: their readings were the furthest off. --out gets
again.json and again.txt, written after each measurement; none begins after --seconds. --list needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.base import Gpu
from ptxbench.devices.calling import CallingGpu
from ptxbench.devices.select import open_gpu
from ptxbench.report.text_table import Column, Kind, render_table
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.tune.analysis import Analysis, analyse
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.library import LibraryTrial, is_right, measure_library, open_cublas
from ptxbench.tune.outcome import Settled
from ptxbench.tune.trial import Trial
from ptxbench.tune.variant import Problem, Variant
from ptxbench.tune.variant_runner import TrialOptions, VariantRunner

KEPT = Path(__file__).parents[1] / "results" / "nvidia-h100" / "tunings"
_NEAR = 0.05
_MOST = 4


@dataclass(frozen=True)
class Kept:
    """What is measured again of one tuning.

    Attributes:
        name: Its folder below the others.
        problem: The product.
        trials: Variants, the least energy first.
        beside: cuBLAS as it was measured last, None where it was not.
        roles: What each variant is there, by its name.
    """

    name: str
    problem: Problem
    trials: tuple[Trial, ...]
    beside: LibraryTrial | None
    roles: dict[str, str]


@dataclass(frozen=True)
class Figures:
    """What one measurement says.

    Attributes:
        time_s: Time of a launch.
        power_w: Power.
        energy_j: Energy of a launch.
        error_j: Standard error of it, of the power's noise.
        gflops_per_w: Floating-point operations for each joule, 1e9.
        at_limit: What is to be said of it at the power limit.
        reason: Why it does not count, "" where it does.
    """

    time_s: float
    power_w: float
    energy_j: float
    error_j: float
    gflops_per_w: float
    at_limit: str
    reason: str

    @classmethod
    def of(cls, one: Trial | LibraryTrial, problem: Problem) -> Figures:
        """Return those of a variant or a library."""
        time_s, error_j = one.best_time_s, one.power_error_w * one.best_time_s
        per_w = problem.flops / one.energy_j * 1e-9
        return cls(time_s, one.power_w, one.energy_j, error_j, per_w, one.at_limit, one.reason)


@dataclass(frozen=True)
class Again:
    """A variant or a library as it was kept, and as it was measured again.

    Attributes:
        tuning: The tuning's name.
        name: Name of the variant or library.
        role: What it is there.
        kept: As it was kept.
        again: As it was measured again, None where it was not.
    """

    tuning: str
    name: str
    role: str
    kept: Figures
    again: Figures | None = None


def main() -> int:
    """List or measure, write, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--list", action="store_true", help="list what would be measured, and measure nothing"
    )
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, default=Path("again"), help="folder")
    parser.add_argument("--tunings", type=Path, default=KEPT, help="folder of kept tunings")
    parser.add_argument("--seconds", type=float, default=185.0, help="begin no measurement later than this")
    arguments = parser.parse_args()
    try:
        kept = sorted(affected(arguments.tunings), key=lambda one: -one.problem.m)
        if arguments.list:
            print(table([row for one in kept for row in _listed(one)]))
            return 0
        gpu = open_gpu(arguments.gpu)
        try:
            arguments.out.mkdir(parents=True, exist_ok=True)
            made: list[Again] = []
            for one in measured(gpu, kept, arguments.seconds):
                made.append(one)
                _write(gpu, arguments.out, made)
            print(table(made))
        finally:
            gpu.close()
    except PtxbenchError as error:
        print(f"remeasure_tunings: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def affected(tunings: Path) -> Iterator[Kept]:
    """Yield the tunings of which a winner, or what is compared with it, ran too shortly at the limit."""
    for trials_file in sorted(tunings.rglob("trials.jsonl")):
        folder = TuningFolder.read(trials_file.parent)
        problem = folder.manifest.part.problem
        found = analyse(tuple(folder.trials.values()), problem, folder.beside)
        if found is None or not isinstance(problem, Problem):
            continue
        roles = _roles(found)
        trials = tuple(f.trial for f in found.figures if f.name in roles)
        beside = folder.beside[-1] if folder.beside else None
        if any(one.settled_at_limit is Settled.UNTESTED for one in trials) or (
            beside is not None and beside.capped and beside.settled is Settled.UNTESTED
        ):
            yield Kept(str(trials_file.parent.relative_to(tunings)), problem, trials, beside, roles)


def _roles(found: Analysis) -> dict[str, str]:
    """Return the variants that are measured again, with what they are."""
    near = [f for f in found.figures if f.energy_j <= (1 + _NEAR) * found.best.energy_j]
    roles = {f.name: "near" for f in near[:_MOST]}
    roles[found.fastest.name] = "fastest"
    roles[found.best.name] = "least energy" if found.best is not found.fastest else "both"
    return roles


def _listed(kept: Kept) -> Iterator[Again]:
    """Yield what would be measured again."""
    for trial in kept.trials:
        yield Again(kept.name, trial.name, kept.roles[trial.name], Figures.of(trial, kept.problem))
    if kept.beside is not None:
        yield Again(kept.name, kept.beside.name, "beside", Figures.of(kept.beside, kept.problem))


def measured(gpu: Gpu, kept: Sequence[Kept], seconds: float) -> Iterator[Again]:
    """Yield what was kept with what it is now, until the seconds are spent."""
    began_s = time.monotonic()
    for one in kept:
        tunable = Gemm(one.problem)
        runner = VariantRunner(gpu, tunable, TrialOptions(), None)
        variants = {trial.name: trial.variant for trial in one.trials}
        for row in _listed(one):
            if time.monotonic() - began_s > seconds:
                return
            variant = variants.get(row.name)
            if isinstance(variant, Variant):
                trial: Trial | LibraryTrial = runner.measure(tunable.build(variant, gpu.info.target))
            elif isinstance(gpu, CallingGpu):
                trial = _library(gpu, one.problem, runner)
            else:
                continue
            yield replace(row, again=Figures.of(trial, one.problem))


def _library(gpu: CallingGpu, problem: Problem, runner: VariantRunner) -> LibraryTrial:
    options = TrialOptions()
    product = open_cublas(problem, gpu.ordinal, options.seed, options.pattern)
    right = is_right(problem, options.seed, options.pattern)
    return measure_library(gpu, product, right, 0, options.window_s, runner.source)


def _write(gpu: Gpu, out: Path, made: Sequence[Again]) -> None:
    document = {"gpu": asdict(gpu.info), "kept_and_again": [codec.encode(one) for one in made]}
    write_text(out / "again.json", json.dumps(document, indent=1) + "\n")
    write_text(out / "again.txt", f"{gpu.info.title}\n{table(made)}\n")


def table(made: Sequence[Again]) -> str:
    """Return two lines for each: as it was kept, and as it is now."""
    names = ("tuning", "which", "role", "when", "ms", "W", "J", "± J", "GFLOP/s/W", "power limit")
    texts = ("tuning", "which", "role", "when", "power limit")
    rows = []
    for one in made:
        for when, figures in (("kept", one.kept), ("now", one.again)):
            if figures is None:
                continue
            rows.append(
                (
                    *(one.tuning, one.name, one.role, when),
                    *(f"{1e3 * figures.time_s:.4g}", f"{figures.power_w:.1f}", f"{figures.energy_j:.4g}"),
                    *(f"{1.96 * figures.error_j:.2g}", f"{figures.gflops_per_w:.1f}"),
                    f"{figures.at_limit}{figures.reason and ': ' + figures.reason}",
                )
            )
    columns = [Column(name, Kind.TEXT if name in texts else Kind.NUMBER) for name in names]
    return render_table(columns, rows, None)


if __name__ == "__main__":
    sys.exit(main())
