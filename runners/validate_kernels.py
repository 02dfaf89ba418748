"""Judge the energy model by kernels that it was not made from, through PyTorch and CuPy.

    python runners/validate_kernels.py measure --out RUN/validation
    python runners/validate_kernels.py count --out RUN/validation
    python runners/validate_kernels.py estimate --out RUN/validation --table RUN

`measure` (four minutes on a GPU) keeps the energy and time of every kernel, `count` (two minutes; needs ncu)
what each executes. `estimate` needs no GPU: it works everything else out again from the two and a table.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.errors import PtxbenchError
from ptxbench.model.judge import judge
from ptxbench.model.judged_file import mean_absolute_error_pct, write_judged
from ptxbench.model.prices import prices_of
from ptxbench.model.terms import FILE, write_terms
from ptxbench.model.validation_file import (
    COUNTS,
    KernelCase,
    KernelSession,
    KernelTrial,
    Purpose,
    write_session,
)
from ptxbench.store.run_folder import RunFolder

_ROUNDS = {Purpose.JUDGED: 3, Purpose.FIT: 2}
# So many cases stand between two sleeping kernels.
_BETWEEN_SLEEPS = 12
_WARM_S = 0.25
_WINDOW_S = 0.6
_TARGET = "sm_90a"


def main() -> int:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    stages = parser.add_subparsers(dest="stage", required=True)
    for name in ("measure", "count"):
        stage = stages.add_parser(name)
        stage.add_argument("--out", type=Path, required=True)
        stage.add_argument("--budget-s", type=float, default={"measure": 270.0, "count": 130.0}[name])
        stage.add_argument("--only", action="append", default=[], help="cases whose name begins so")
    stage = stages.add_parser("estimate")
    stage.add_argument("--out", type=Path, required=True, help="what measure and count wrote")
    stage.add_argument("--table", type=Path, required=True, help="run folder of the same kind of GPU")
    stage.add_argument("--csv", type=Path, help="default: kernel_validation.csv in the run folder")
    stage.add_argument("--model", type=Path, help="default: model.json in the run folder")
    child = stages.add_parser("child")
    child.add_argument("numbers", nargs="+", type=int)
    arguments = parser.parse_args()
    if arguments.stage == "measure":
        return _measure(arguments.out, arguments.budget_s, arguments.only)
    if arguments.stage == "count":
        return _count(arguments.out, arguments.budget_s, arguments.only)
    if arguments.stage == "estimate":
        csv = arguments.csv or arguments.table / "kernel_validation.csv"
        return _estimate(arguments.out, arguments.table, csv, arguments.model or arguments.table / FILE)
    return _child(arguments.numbers)


def _estimate(out: Path, table: Path, csv: Path, model: Path) -> int:
    with RunFolder.open(table) as folder:
        found = judge(out, prices_of(folder))
    write_judged(csv, found.kernels)
    write_terms(model, found.terms)
    terms = found.terms
    print(f"fitted to {len(terms.kernels)} other kernels: gamma {terms.gamma:.2f} ± {terms.gamma_error:.2f},")
    print(f"  activity random {terms.random}, zeros {terms.zeros}, active {terms.active_w:.1f} W,")
    for byte in terms.bytes_pj:
        print(f"  {byte.level}: {byte.random_pj:.1f} pJ a byte on random data, {byte.zeros_pj:.1f} on zeros")
    for kind in terms.tensor:
        print(
            f"  {kind.kind}: {kind.random_pj:.3f} pJ a multiply-add on random data,"
            f" {kind.zeros_pj:.3f} on zeros"
        )
    print(
        f"  off by {100 * terms.error:.1f}% (one standard deviation) on the dynamic energy of those kernels"
    )
    for k in sorted(found.kernels, key=lambda k: abs(k.error_pct)):
        print(
            f"{k.kernel:26s} {k.operands:7s} {k.measured_j:9.4g} J ± {k.measured_ci95_j:.2g}, estimated"
            f" {k.estimated_j:9.4g} ({k.error_pct:+6.1f}%), by the limit {k.estimated_by_limit_j:9.4g},"
            f" {k.power_w:5.0f} W {k.clock_mhz:5.0f} MHz{' capped' if k.capped else ''}"
            f"{' (model: capped)' if k.estimated_capped else ''}, {100 * k.uncovered_share:.0f}% uncovered"
        )
    for sentence in found.missing:
        print(f"missing: {sentence}")
    for capped in (False, True):
        chosen = [k for k in found.kernels if k.capped is capped]
        worst = max((abs(k.error_pct) for k in chosen), default=0.0)
        print(
            f"{'capped' if capped else 'uncapped'}: {len(chosen)} kernels, MAPE"
            f" {mean_absolute_error_pct(chosen):.1f}%, worst {worst:.1f}%"
        )
    inside = sum(k.low_j <= k.measured_j <= k.high_j for k in found.kernels)
    print(
        f"all: {len(found.kernels)} kernels, MAPE {mean_absolute_error_pct(found.kernels):.1f}%,"
        f" {inside} of them within the estimate's 95% interval; {csv}, {model}"
    )
    return int(bool(found.missing))


def _measure(out: Path, budget_s: float, only: Sequence[str]) -> int:
    import cupy
    import torch
    from kernel_cases import all_cases
    from kernel_power import KernelMeter

    from ptxbench.power.nvml import NvmlDevice

    begun_s = time.monotonic()
    device = NvmlDevice(0)
    meter = KernelMeter(device, _TARGET, _WARM_S, _WINDOW_S)
    every = all_cases()
    cases = [KernelCase(i, c.name, c.operands, c.purpose) for i, c in enumerate(every)]
    chosen = [c for c in cases if c.purpose is Purpose.STATIC or _wanted(c.name, only)]
    trials: list[KernelTrial] = []
    calls: dict[int, object] = {}
    times_s: dict[int, float] = {}
    session = KernelSession(
        gpu=device.name,
        uuid_hash=device.uuid_hash,
        driver=device.driver,
        power_limit_w=device.power_limit_w,
        max_sm_clock_mhz=device.max_sm_clock_mhz,
        source=meter.source,
        libraries=(f"torch {torch.__version__}", f"cupy {cupy.__version__}", f"CUDA {torch.version.cuda}"),
        begun=datetime.now(UTC).isoformat(),
        cases=tuple(cases),
        trials=(),
    )
    out.mkdir(parents=True, exist_ok=True)

    def run(case: KernelCase, repeat: int) -> None:
        try:
            if case.number not in calls:
                calls[case.number] = every[case.number].prepare(case.operands)
                times_s[case.number] = meter.time_s(calls[case.number])
            trial = meter.measure(calls[case.number], times_s[case.number], case.number, repeat)
        except Exception as error:  # one kernel that fails must not end the sitting
            traceback.print_exc()
            cases[case.number] = replace(case, failure=f"{type(error).__name__}: {error}"[:300])
            return
        trials.append(trial)
        print(
            f"{repeat} {case.name} {case.operands}: {trial.energy_j:.5g} J, {trial.power_w:.1f} W,"
            f" {trial.time_s * 1e3:.4g} ms, {trial.sm_clock_mhz:.0f} MHz,"
            f" {trial.temperature_c:.0f} C {trial.reason}",
            file=sys.stderr,
            flush=True,
        )

    for repeat, case in _order(chosen):
        late = time.monotonic() - begun_s > budget_s
        if not cases[case.number].failure and not (late and repeat > 0):
            run(case, repeat)
            # What a large case holds is given back in its last round.
            if repeat + 1 >= _ROUNDS.get(case.purpose, 1 << 30):
                calls.pop(case.number, None)
        if len(trials) % _BETWEEN_SLEEPS == 0:
            write_session(out, replace(session, cases=tuple(cases), trials=tuple(trials)))
    write_session(out, replace(session, cases=tuple(cases), trials=tuple(trials)))
    failed = [c for c in cases if c.failure]
    print(
        f"{len(trials)} trials in {time.monotonic() - begun_s:.0f} s; {len(failed)} cases failed", flush=True
    )
    return int(bool(failed))


def _order(cases: Sequence[KernelCase]) -> list[tuple[int, KernelCase]]:
    """Return the trials in their order: round by round, a sleeping kernel now and then."""
    sleeps = [c for c in cases if c.purpose is Purpose.STATIC]
    order: list[tuple[int, KernelCase]] = []
    for repeat in range(max(_ROUNDS.values())):
        due = [c for c in cases if repeat < _ROUNDS.get(c.purpose, 0)]
        for i, case in enumerate(due):
            if i % _BETWEEN_SLEEPS == 0:
                order += [(repeat, c) for c in sleeps]
            order.append((repeat, case))
        order += [(repeat, c) for c in sleeps]
    return order


def _count(out: Path, budget_s: float, only: Sequence[str]) -> int:
    from kernel_cases import RANDOM, all_cases
    from kernel_counts import count

    # Data decide what a sort executes; the other kernels execute the same on zeros.
    numbers = [
        i
        for i, c in enumerate(all_cases())
        if c.purpose is not Purpose.STATIC
        and (c.operands == RANDOM or c.name.startswith("sort"))
        and _wanted(c.name, only)
    ]
    missing = count(Path(__file__).resolve(), numbers, out / COUNTS, budget_s)
    names = [all_cases()[i].name for i in missing]
    print(f"{len(numbers) - len(missing)} cases counted; missing: {', '.join(names) or 'none'}")
    return int(bool(missing))


def _child(numbers: Sequence[int]) -> int:
    """Run each case once between its marker and the end of profiling; for ncu."""
    import torch
    from kernel_cases import all_cases, marker

    every = all_cases()
    for number in numbers:
        try:
            call, mark = every[number].prepare(every[number].operands), marker(number)
            call()
            mark()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            mark()
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
        except Exception:  # the cases that follow are still to be counted
            traceback.print_exc()
        torch.cuda.empty_cache()
    return 0


def _wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(name.startswith(prefix) for prefix in only)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"validate_kernels: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
