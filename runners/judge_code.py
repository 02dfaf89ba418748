"""Judge estimates from code alone by own kernels, whose code is kept: counts, time and energy.

    python runners/judge_code.py --validation results/nvidia-h200/suite --table h200 [--counts-of FOLDER]
    python runners/judge_code.py --operators

Needs nvcc of the assembler's CUDA version, and no GPU. The second form estimates one operator of CUDA on each
element of an array, and three kernels of a training step, as a user does who knows the launch alone, and
writes studies/model/fit.md's table of them (code_split.toml, results/GPU/code).

In the first form each kernel of the instruction suite is compiled for the table's GPU and
counted by its code, with the passes of its outer loops as its launch has them: `rounds`, which nvcc splits
among an unrolled loop and those for what is left, and the loop that fills a block's tile. How far nvcc
unrolled is what comes nearest to ncu's count; nothing else is taken from it. Kernels with a loop whose passes
depend on data are left out. Time is modelled.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fit_model import PAGE, ROOT, RUNS
from model_validation import conditions_of, session_static
from page_blocks import table as markdown_table
from page_blocks import write_blocks
from spread_code import Profiled, profiled
from suite_split import CODE, SuiteKernel, read_split, source_of
from validation_file import Purpose, measured_kernels, read_session

import ptxbench
from ptxbench.core.errors import PtxbenchError
from ptxbench.model.addresses import Launch
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.model.code_work import CodeWork, KernelCode, read_kernel, static_work
from ptxbench.model.control_flow import find_loops
from ptxbench.model.estimate import Machine, estimate
from ptxbench.storage.shipped import SHIPPED

_TILE = 1024
_UNROLLED = (1, 2, 4, 8, 16)
_NEAR = 0.03


@dataclass(frozen=True)
class Judged:
    """One case: ratios of what code tells to what was counted or measured; `timed` knows the time."""

    case: Profiled
    counts: float
    time: float
    energy: float
    timed: float


def work_of(code: KernelCode, one: SuiteKernel, table: Atlas, executions: float) -> CodeWork:
    """Return what a kernel executes by its code, with the unrolling of its main loop that fits best.

    Args:
        code: Its machine code.
        one: The kernel.
        table: The table.
        executions: What ncu counted: it tells the unrolling, and nothing else.
    """
    launch = Launch.of(one.blocks_per_sm * table.gpu.sm_count, one.threads, table.gpu.target)
    barrier = next((i.address for i in code.kernel.instructions if i.base == "BAR"), 0)
    outer = [loop for loop in find_loops(code.kernel) if loop.trips is None and loop.depth == 0]
    tile = {str(loop.index): float(_TILE // one.threads) for loop in outer if max(loop.members) < barrier}
    rest = [str(loop.index) for loop in outer if str(loop.index) not in tile]
    works = []
    for unrolled in _UNROLLED:
        factors = [unrolled, *([min(4, unrolled)] * (len(rest) - 2)), 1][: len(rest)]
        passes, left = dict(tile), one.rounds
        for loop, factor in zip(rest, factors, strict=True):
            passes[loop], left = float(left // factor), left % factor
        works.append(static_work(code, launch, passes, math.nan, table))
    return min(works, key=lambda work: abs(math.log(work.work.executions / executions)))


def judge(cases: Sequence[Profiled], machine: Machine, works: dict[str, CodeWork]) -> list[Judged]:
    """Return the ratios of cases whose code could be counted."""
    found = []
    for one in cases:
        code = works.get(one.measured.case.name)
        if code is None:
            continue
        static = replace(machine, static=session_static(one.session))
        how = conditions_of(one.measured.case, machine.terms, one.measured.temperature_c, math.nan)
        conditions = replace(how, steady_time=False)
        answer = estimate(code.work, static, conditions)
        times = code.work.time_s / one.work.time_s
        counts = code.work.executions / one.work.executions
        timed = estimate(replace(code.work, time_s=one.measured.time_s), static, how)
        measured_j = one.measured.energy_j
        found.append(Judged(one, counts, times, answer.energy_j / measured_j, timed.energy_j / measured_j))
    return found


def compiled(folder: Path, table: Atlas, executions: Mapping[str, float]) -> dict[str, CodeWork]:
    """Return the work of each kernel of the suite by its case, as its code tells; says which could not be."""
    works = {}
    for one in read_split():
        cubin = cubin_of(folder, one, table.gpu.target)
        try:
            code = read_kernel(cubin, one.name, table)
            works[one.case] = work_of(code, one, table, executions[one.case])
        except PtxbenchError as error:
            print(f"{one.case} is left out: {error}")
    return works


@dataclass(frozen=True)
class Alone:
    """One kernel by its code and launch alone.

    Attributes:
        case: Its name.
        measured_j: Measured energy.
        measured_s: Measured time.
        found: What `ptxbench.estimate_kernel` says.
    """

    case: str
    measured_j: float
    measured_s: float
    found: ptxbench.KernelEstimate

    @property
    def error_pct(self) -> float:
        """100 (estimated / measured - 1)."""
        return 100 * (self.found.energy_j / self.measured_j - 1)

    @property
    def time_error_pct(self) -> float:
        """The same of the time."""
        return 100 * (self.found.time_s / self.measured_s - 1)

    @property
    def inside(self) -> bool:
        """Whether the 95% interval holds the measured energy."""
        return self.found.low_j <= self.measured_j <= self.found.high_j


def estimate_alone(gpu: str, families: Collection[str] = ()) -> list[Alone]:
    """Return the kernels of code_split.toml, estimated by a table from code and launch alone.

    Args:
        gpu: Name of the table; results of its GPU have what was measured.
        families: Which families; (): all.
    """
    folder = ROOT / "results" / SHIPPED[gpu].name / CODE
    measured = {one.case.name: one for one in measured_kernels(read_session(folder))}
    table, found = ptxbench.load_table(gpu), []
    sms = open_atlas(gpu).gpu.sm_count
    with tempfile.TemporaryDirectory() as scratch:
        for one in read_split(CODE):
            if families and one.family not in families:
                continue
            cubin = cubin_of(Path(scratch), one, open_atlas(gpu).gpu.target)
            seen = measured[one.case]
            grid = one.blocks_per_sm * sms
            by_code = ptxbench.estimate_kernel(
                cubin, entry=one.name, table=table, grid=grid, block=one.threads
            )
            found.append(Alone(one.case, seen.energy_j, seen.time_s, by_code))
    return found


def _write_alone() -> None:
    """Write the table of code_split.toml into studies/model/fit.md, and print it."""
    gpus = [gpu for gpu in RUNS if (ROOT / "results" / SHIPPED[gpu].name / CODE).exists()]
    by_gpu = {gpu: estimate_alone(gpu) for gpu in gpus}
    rows = []
    for number, first in enumerate(by_gpu[gpus[0]]):
        cells = []
        for found in by_gpu.values():
            one = found[number]
            cells += [f"{one.measured_j:.4f}", f"{one.found.energy_j:.4f}", f"{one.error_pct:+.1f}%"]
            cells += [f"{one.found.low_j:.3f} to {one.found.high_j:.3f}", f"{one.time_error_pct:+.0f}%"]
        rows.append([first.case.partition("/")[2], *cells])
    means = ["mean of absolute errors"]
    for found in by_gpu.values():
        errors = [abs(one.error_pct) for one in found]
        slow = np.mean([abs(one.time_error_pct) for one in found])
        held = f"holds {sum(one.inside for one in found)} of {len(found)}"
        means += ["", "", f"{np.mean(errors):.1f}%", held, f"{slow:.0f}%"]
    head = ["kernel"]
    for gpu in gpus:
        head += [f"{gpu.upper()}, measured J", "estimated J", "off by", "95%", "time off by"]
    block = markdown_table(head, [*rows, means])
    print(block)
    write_blocks(PAGE, {"operators": block})


def cubin_of(folder: Path, one: SuiteKernel, target: str) -> Path:
    """Return the machine code of a kernel's family, compiled once for a target into a folder."""
    cubin = folder / f"{one.family}.cubin"
    if not cubin.exists():
        source = folder / f"{one.family}.cu"
        source.write_text(source_of(one.code))
        # CuPy, which compiled what was measured, flushes denormal numbers to zero.
        options = [f"-arch={target}", "--std=c++17", "-ftz=true", "-diag-suppress=177", "-cubin"]
        subprocess.run(["nvcc", *options, "-o", str(cubin), str(source)], check=True)  # noqa: S607 (the one on PATH)
    return cubin


def main() -> int:
    """Print each kernel and the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--validation", type=Path)
    chosen.add_argument("--operators", action="store_true")
    parser.add_argument("--counts-of", type=Path)
    parser.add_argument("--table", default="h200")
    options = parser.parse_args()
    try:
        if options.operators:
            _write_alone()
            return 0
        table = open_atlas(options.table)
        cases = {
            purpose: profiled(options.validation, purpose, options.counts_of)
            for purpose in (Purpose.FIT, Purpose.JUDGED)
        }
        counted = {one.measured.case.name: one.work.executions for some in cases.values() for one in some}
        with tempfile.TemporaryDirectory() as folder:
            works = compiled(Path(folder), table, counted)
        for purpose, some in cases.items():
            found = judge(some, table.machine, works)
            for one in found:
                case = one.case.measured.case
                ratios = f"counts {one.counts:6.3f} time {one.time:5.2f} energy {one.energy:5.2f}"
                print(f"{case.name:28} {case.operands:9} {ratios}")
            off = np.abs([one.energy - 1 for one in found])
            timed = np.abs([one.timed - 1 for one in found])
            slow = np.abs([one.time - 1 for one in found])
            near = {one.case.measured.case.name: abs(one.counts - 1) <= _NEAR for one in found}
            print(
                f"{purpose}: {len(found)} cases; energy {off.mean():.1%} (median {np.median(off):.1%}),"
                f" {timed.mean():.1%} with the measured time; time {slow.mean():.1%};"
                f" {sum(near.values())} of {len(near)} kernels counted within {_NEAR:.0%}"
            )
    except (PtxbenchError, OSError, subprocess.CalledProcessError) as error:
        print(f"judge_code: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
