"""Set the energy roofline beside the instruction model and constant power, on judged kernels.

    python runners/compare_roofline.py --roofline RUN [--roofline RUN] --validation FOLDER --table RUN
        [--counts FOLDER] [--judged CSV] [--json FILE]
    python runners/compare_roofline.py --roofline RUN --fmm FOLDER
    python runners/compare_roofline.py --roofline RUN --elements

Needs no GPU. RUN are folders of `ptxbench roofline run`: each kind of flop and memory level has the energy of
the first of them that has it. FOLDER is what `validate_kernels.py` measured and counted. All models know the
measured time. The roofline knows besides it flops and bytes of DRAM (Eq. 4), or those of caches too (Eq. 10);
its energies come from its own kernels alone. The instruction model is that of `--judged`, a
kernel_validation.csv, or else the one of compare_suite.py. `--fmm` checks variants of an N-body kernel, as
section 5.3 of the paper does. `--elements` fits an energy of a flop for each number of different elements
that a kernel computes on.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from compare_suite import SuiteCase, chosen_share, judge, mean_power, read_cases
from fmm_cases import fmm_cases
from validation_file import COUNTS, Purpose, measured_kernels, read_session, read_works

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.threads import WARP
from ptxbench.experiment.roofline.point import open_folder
from ptxbench.experiment.roofline.regression import elements_of
from ptxbench.experiment.roofline.result import fitted_machine, work_out
from ptxbench.model.atlas import open_atlas
from ptxbench.model.opcode_energies import RANDOM
from ptxbench.model.roofline.equations import RooflineMachine
from ptxbench.model.roofline.fit import RoughTerm, fit_roofline
from ptxbench.model.roofline.kernels import (
    DRAM,
    L1,
    L2,
    SHARED,
    RooflineWork,
    roofline_work,
)
from ptxbench.model.solved import read_solved
from ptxbench.model.throughput import issue_cycles, modelled_time_s
from ptxbench.model.work import KernelWork
from ptxbench.storage import codec
from ptxbench.storage.manifest import read_run_manifest, with_part
from ptxbench.storage.shipped import SHIPPED

Floats = npt.NDArray[np.float64]
# What stands in for a kind of product that no roofline was measured for: the same cores, and as many bits.
_ALIKE = {"mma-bf16": "mma-f16"}
_CACHES = (DRAM, L2, L1, SHARED)
_NEGLIGIBLE = 0.01


@dataclass(frozen=True)
class Energies:
    """What rooflines say.

    Attributes:
        joules: J of a flop by kind, and of a byte of each memory level.
        machine: The first, with its constant power and that of its memory at work.
        slope_w_per_k: How it grows with the temperature.
        at_c: The temperature of the constant power.
        gpu: GPU of the first; None where it is not known.
    """

    joules: Mapping[str, float]
    machine: RooflineMachine
    slope_w_per_k: float
    at_c: float
    gpu: GpuInfo | None = None

    def static_at(self, temperature_c: float, work: RooflineWork, time_s: float) -> float:
        """Return the power that is paid by time at a temperature, W: constant, and of the memory at work."""
        share = min(1.0, work.bytes_moved.get(DRAM, 0.0) / time_s * self.machine.byte_s)
        at_work_w = self.machine.memory_w * self.machine.memory_form.share(share)
        return self.machine.constant_w + at_work_w + self.slope_w_per_k * (temperature_c - self.at_c)

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels that have an energy."""
        return tuple(level for level in _CACHES if level in self.joules)


def read_energies(runs: Sequence[Path]) -> Energies:
    """Return the energies of some rooflines, the first run that has one first.

    Raises:
        InputError: A folder is none, or gives no energies.
    """
    joules: dict[str, float] = {}
    results = [work_out(open_folder(path)) for path in runs]
    for result in results:
        for one in result.energies:
            if one.unit != "W":
                joules.setdefault(one.name, 1e-12 * one.value.value)
    for kind, alike in _ALIKE.items():
        if alike in joules:
            joules.setdefault(kind, joules[alike])
    first = results[0]
    found = next((one for one in first.machines if one.level == DRAM), first.machines[0])
    machine, _ = fitted_machine(first, found.kind, found.level)
    return Energies(joules, machine, first.slope_w_per_k, first.temperature_c, first.gpu)


@dataclass(frozen=True)
class Row:
    """One model against the judged cases: 100 (estimated / measured - 1), NaN where it says nothing."""

    name: str
    error_pct: Floats


def rooflines(cases: Sequence[SuiteCase], energies: Energies) -> list[Row]:
    """Return the errors of Eq. 4 and, where caches have energies, of Eq. 10, on each case."""
    forms: dict[str, tuple[str, ...]] = {"roofline: flops, DRAM, constant power (Eq. 4)": (DRAM,)}
    if len(energies.levels) > 1:
        forms[f"roofline with {', '.join(energies.levels[1:])} (Eq. 10)"] = energies.levels
    works = [roofline_work(one.work) for one in cases]
    return [
        Row(
            name,
            np.array(
                [
                    100 * (_roofline_j(work, one, energies, levels) / one.total_j - 1)
                    for one, work in zip(cases, works, strict=True)
                ]
            ),
        )
        for name, levels in forms.items()
    ]


def roofline_energy_j(
    work: RooflineWork,
    energies_j: Mapping[str, float],
    static_w: float,
    time_s: float,
    levels: tuple[str, ...] = (DRAM,),
) -> float:
    """Return the energy of a kernel by Eq. 4 or, with more levels, Eq. 10, J; NaN where a kind has no energy.

    A kind without an energy counts as none where it is less than 1% of the flops: HFMA2.MMA, for one, is also
    how Hopper writes a constant into a register.

    Args:
        work: What it does.
        energies_j: J of a flop of each kind, and of a byte of each level.
        static_w: Power that is paid by time, W: constant, and of the memory at work.
        time_s: Its measured time, s.
        levels: Levels whose bytes count.
    """
    least = _NEGLIGIBLE * sum(work.flops.values())
    flops_j = sum(
        count * energies_j.get(kind, math.nan)
        for kind, count in work.flops.items()
        if count > 0 and (kind in energies_j or count >= least)
    )
    bytes_j = sum(work.bytes_moved.get(level, 0.0) * energies_j[level] for level in levels)
    return flops_j + bytes_j + static_w * time_s


def _roofline_j(work: RooflineWork, one: SuiteCase, energies: Energies, levels: tuple[str, ...]) -> float:
    static_w = energies.static_at(energies.at_c, work, one.time_s)
    return roofline_energy_j(work, energies.joules, static_w, one.time_s, levels)


def judged_errors(path: Path, cases: Sequence[SuiteCase]) -> Floats:
    """Return the errors of a kernel_validation.csv on each case.

    Raises:
        InputError: A case is not in it.
    """
    with path.open(newline="") as file:
        known = {(row["kernel"], row["operands"]): float(row["error_pct"]) for row in csv.DictReader(file)}
    missing = [one.name for one in cases if (_kernel(one), one.kind) not in known]
    if missing:
        raise InputError(f"{path} does not have {missing[0]}")
    return np.array([known[_kernel(one), one.kind] for one in cases])


def _kernel(one: SuiteCase) -> str:
    return one.name.removesuffix(f" {one.kind}")


def compare(cases: Sequence[SuiteCase], energies: Energies, table: Path, judged: Path | None) -> list[Row]:
    """Return every model's errors on the judged cases."""
    chosen = [one for one in cases if one.judged]
    rows = rooflines(chosen, energies)
    if judged is not None:
        rows.append(Row("instruction model", judged_errors(judged, chosen)))
    else:
        opcodes = read_solved(table).opcode_energies
        kept = opcodes.drawn(chosen_share(cases, opcodes))
        rows.append(Row("instruction model", judge(cases, "", kept).error_pct))
    return [*rows, Row("constant power x time", mean_power(cases).error_pct)]


def print_table(cases: Sequence[SuiteCase], rows: Sequence[Row]) -> None:
    """Print mean absolute, median and worst errors: of cases with flops, on random data, and of all."""
    chosen = [one for one in cases if one.judged]
    flops = np.array([sum(roofline_work(one.work).flops.values()) for one in chosen])
    instructions = np.array([one.work.executions for one in chosen])
    random = np.array([one.kind == RANDOM for one in chosen])
    known = np.all([np.isfinite(row.error_pct) for row in rows], axis=0)
    groups = {
        "all": known,
        "random data": known & random,
        "random data, a flop for each three instructions or more": known
        & random
        & (flops > instructions / 3),
    }
    print(f"{known.sum()} of {len(chosen)} judged cases have an energy for each of their flops\n")
    for name, mask in groups.items():
        if not mask.any():
            continue
        print(f"| {name}: {mask.sum()} cases | mean, % | median, % | worst, % | too low |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for row in rows:
            off = row.error_pct[mask]
            size = np.abs(off)
            low = int((off < 0).sum())
            print(f"| {row.name} | {size.mean():.1f} | {np.median(size):.1f} | {size.max():.1f} | {low} |")
        print()


@cache
def _issue_cycles(title: str) -> Mapping[str, float]:
    """Return the issue intervals of a GPU that has a shipped table; none of another."""
    shipped = [name for name, home in SHIPPED.items() if read_run_manifest(home).gpu.title == title]
    return issue_cycles(row for name in shipped for row in open_atlas(name).rows)


def refined_peak(work: KernelWork, flops: float, gpu: GpuInfo) -> float:
    """Return the speed that a kernel's instruction mix allows, flop/s: section 5.4, with all pipes at once.

    Args:
        work: What it executes.
        flops: Its flops.
        gpu: The GPU, whose pipes and issue take the instructions at the full clock.
    """
    cycles = _issue_cycles(gpu.title)
    threads = WARP * gpu.sm_count
    counts = [(opcode, executions / threads) for opcode, executions in work.opcodes]
    time_s = modelled_time_s(
        counts, gpu.sm_count, WARP, gpu.sm_count, gpu.max_sm_clock_mhz, cycles, sm_facts(gpu.target)
    )
    return flops / time_s


def compare_fmm(folder: Path, energies: Energies) -> list[dict[str, object]]:
    """Return measured and estimated energy of each variant, before and after cache energy is counted.

    Raises:
        InputError: The folder has no counted case.
    """
    session = read_session(folder)
    alone = tuple(trial for trial in session.part.trials if not trial.other_processes)
    session = with_part(session, trials=alone)
    works, _ = read_works(folder / COUNTS, session)
    variants = {one.name: one for one in fmm_cases()}
    found: list[dict[str, object]] = []
    for one in measured_kernels(session):
        if one.case.purpose is Purpose.STATIC or one.case.number not in works:
            continue
        variant, counted = variants[one.case.name], roofline_work(works[one.case.number])
        paper = RooflineWork({"f32": variant.flops}, counted.bytes_moved)
        static_w = energies.static_at(one.temperature_c, counted, one.time_s)
        estimates = {
            "paper": (paper, (DRAM,)),
            "paper_caches": (paper, energies.levels),
            "counted": (counted, (DRAM,)),
            "counted_caches": (counted, energies.levels),
        }
        error_pct = {
            f"{name}_error_pct": 100
            * (roofline_energy_j(work, energies.joules, static_w, one.time_s, levels) / one.energy_j - 1)
            for name, (work, levels) in estimates.items()
        }
        flops_j = variant.flops * energies.joules["f32"]
        found.append(
            {
                "variant": one.case.name,
                "energy_j": one.energy_j,
                "time_s": one.time_s,
                "power_w": one.power_w,
                "capped": one.capped,
                "tflops": variant.flops / one.time_s / 1e12,
                "refined_tflops": _refined_tflops(works[one.case.number], variant.flops, energies.gpu),
                "flops_share": flops_j / one.energy_j,
                **{f"{level}_bytes": counted.bytes_moved.get(level, 0.0) for level in _CACHES},
                **error_pct,
            }
        )
    if not found:
        raise InputError(f"{folder} has no variant that was measured and counted")
    return found


def _refined_tflops(work: KernelWork, flops: float, gpu: GpuInfo | None) -> float:
    return math.nan if gpu is None else refined_peak(work, flops, gpu) / 1e12


def print_fmm(found: Sequence[Mapping[str, object]]) -> None:
    """Print the variants and the mean errors."""
    names = ("paper", "paper_caches", "counted", "counted_caches")
    print("| variant | Tflop/s | refined peak | W | flops' share, % | " + " | ".join(names) + " |")
    print("| --- |" + " ---: |" * (4 + len(names)))
    for one in found:
        errors = " | ".join(f"{one[f'{name}_error_pct']:+.1f}" for name in names)
        share = 100 * _number(one["flops_share"])
        speed = f"{one['tflops']:.1f} | {one['refined_tflops']:.1f}"
        print(f"| {one['variant']} | {speed} | {one['power_w']:.0f} | {share:.0f} | {errors} |")
    print()
    for name in names:
        off = np.array([_number(one[f"{name}_error_pct"]) for one in found])
        size = np.abs(off)
        print(f"{name}: mean {size.mean():.1f}%, median {np.median(size):.1f}%, worst {size.max():.1f}%")


def print_elements(path: Path) -> None:
    """Print the fit of a run in which a flop has an energy of its own for each number of elements."""
    result = work_out(open_folder(path))
    points = [
        replace(taken, kind=f"{point.kernel.kind} on {elements_of(point.kernel)}")
        for point, taken in zip(result.points, result.regression, strict=True)
    ]
    slope = RoughTerm("slope", result.slope_w_per_k, result.slope_error_w_per_k)
    fit = fit_roofline(points, [slope], result.fit.third)
    for name in sorted(fit.names):
        scale = 1.0 if name in ("constant", fit.third) else 1e12
        found = fit.coefficient(name).scaled(scale)
        print(f"{name}: {found.value:.4g} ± {found.uncertainty:.2g} {'W' if scale == 1 else 'pJ'}")
    print(f"residuals {100 * fit.residual:.2g}%; sleeping {result.sleeping_w:.4g} W")


def _number(value: object) -> float:
    return float(str(value))


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--roofline", type=Path, action="append", required=True, help="run of roofline")
    parser.add_argument("--validation", type=Path, help="what measure wrote")
    parser.add_argument("--counts", type=Path, help="what count wrote, where it is not in --validation")
    parser.add_argument("--table", type=Path, help="run folder of the same kind of GPU")
    parser.add_argument("--judged", type=Path, help="kernel_validation.csv of the instruction model")
    parser.add_argument("--fmm", type=Path, help="what `--suite fmm` measured and counted")
    parser.add_argument("--elements", action="store_true", help="energies by number of elements")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    arguments = parser.parse_args()
    if arguments.elements:
        for path in arguments.roofline:
            print(path)
            print_elements(path)
        return 0
    energies = read_energies(arguments.roofline)
    if arguments.fmm:
        found = compare_fmm(arguments.fmm, energies)
        print_fmm(found)
    elif arguments.validation is None or (arguments.table is None and arguments.judged is None):
        raise InputError("give --fmm, or --validation with --table or --judged")
    else:
        cases = read_cases(arguments.validation, arguments.counts or arguments.validation)
        rows = compare(cases, energies, arguments.table, arguments.judged)
        print_table(cases, rows)
        names = [one.name for one in cases if one.judged]
        found = [
            {"case": name, **{row.name: float(row.error_pct[n]) for row in rows}}
            for n, name in enumerate(names)
        ]
    if arguments.json:
        arguments.json.write_text(json.dumps(codec.encode(found), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_roofline: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
