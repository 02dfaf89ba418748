"""Judge the energy model by kernels that it was not made from, through PyTorch and CuPy.

    python runners/validate_kernels.py measure --out RUN/validation
    python runners/validate_kernels.py count --out RUN/validation
    python runners/validate_kernels.py estimate --out RUN/validation --table RUN [--also RUN/suite]

`measure` (five minutes on a GPU) keeps the energy and time of every kernel, `count` (two to three minutes;
needs ncu) what each executes. Both end with their budget, the most wanted cases first; `measure --resume` and
`count` once more do the rest, on the same board. `--suite` before the stage takes other kernels than those of
libraries: `instruction` those of suite_split.toml, which are bound by instructions; `field` those of
field_split.toml, from public programs; `code` those of code_split.toml, for estimates from code alone;
`move` those of move_cases.py, which need no counts and are read by compare_moves.py; `fmm` those of
fmm_cases.py, which compare_roofline.py reads. `estimate` needs no GPU: it works everything else out again
from the two and a table.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_session import ROUNDS, DeviceLostError, SessionRunner, require_same_cases, take_up
from model_validation import mean_absolute_error_pct, validate_model, write_validated
from suite_split import SPLITS
from validation_file import (
    COUNTS,
    MEASURED,
    KernelCase,
    Purpose,
    kernel_session,
    launches_by_case,
    read_session,
)

from ptxbench.core.errors import PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.model.atlas import open_atlas
from ptxbench.model.terms import FILE
from ptxbench.storage.document import write_beside

if TYPE_CHECKING:
    from kernel_cases import Case

_WARM_S = 0.25
_WINDOW_S = 0.6
_TARGET = "sm_90a"
# Each suite and its rounds.
LIBRARY, MOVE, FMM = "library", "move", "fmm"
_TWICE = {Purpose.JUDGED: 2, Purpose.FIT: 2}
_ROUNDS = {
    LIBRARY: ROUNDS,
    **dict.fromkeys(SPLITS, _TWICE),
    MOVE: {Purpose.FIT: 2},
    FMM: {Purpose.JUDGED: 2},
}


def main() -> int:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=tuple(_ROUNDS), default=LIBRARY, help="whose kernels")
    stages = parser.add_subparsers(dest="stage", required=True)
    for name in ("measure", "count"):
        stage = stages.add_parser(name)
        stage.add_argument("--out", type=Path, required=True)
        stage.add_argument("--budget-s", type=float, default={"measure": 270.0, "count": 130.0}[name])
        stage.add_argument("--only", action="append", default=[], help="cases whose name begins so")
        if name == "measure":
            stage.add_argument("--resume", action="store_true", help="continue the session that --out holds")
    stage = stages.add_parser("estimate")
    stage.add_argument("--out", type=Path, required=True, help="what measure and count wrote")
    stage.add_argument("--table", type=Path, required=True, help="run folder of the same kind of GPU")
    stage.add_argument(
        "--also",
        type=Path,
        action="append",
        default=[],
        help="another session of the same board or GPU, whose fit kernels the terms are fitted to, too",
    )
    stage.add_argument(
        "--counts-of", type=Path, help="results of a GPU of the same target, for sessions without counts"
    )
    stage.add_argument("--csv", type=Path, help="default: kernel_validation.csv in the run folder")
    stage.add_argument("--model", type=Path, help="default: model.json in the run folder")
    child = stages.add_parser("child")
    child.add_argument("numbers", nargs="+", type=int)
    arguments = parser.parse_args()
    if arguments.stage == "measure":
        return _measure(arguments.suite, arguments.out, arguments.budget_s, arguments.only, arguments.resume)
    if arguments.stage == "count":
        return _count(arguments.suite, arguments.out, arguments.budget_s, arguments.only)
    if arguments.stage == "estimate":
        csv = arguments.csv or arguments.table / "kernel_validation.csv"
        model = arguments.model or arguments.table / FILE
        sessions = _Sessions(arguments.out, tuple(arguments.also), arguments.counts_of)
        return _estimate(sessions, arguments.table, csv, model)
    return _child(arguments.suite, arguments.numbers)


@dataclass(frozen=True)
class _Sessions:
    """The session that judges, more to fit to, and results of a GPU that was counted in their place."""

    out: Path
    also: tuple[Path, ...]
    counts_of: Path | None


def _estimate(sessions: _Sessions, table: Path, csv: Path, model: Path) -> int:
    energies = open_atlas(table).opcode_energies
    found = validate_model(sessions.out, energies, sessions.also, sessions.counts_of)
    write_validated(csv, found.kernels)
    write_beside(model, found.terms)
    terms = found.terms
    print(f"fitted to {len(terms.kernels)} other kernels: gamma {terms.gamma:.2f} ± {terms.gamma_error:.2f},")
    print(f"  activity random {terms.random}, zeros {terms.zeros}, active {terms.active_w:.1f} W,")
    for byte in terms.bytes_pj:
        print(f"  {byte.level}: {byte.random_pj:.1f} pJ a byte on random data, {byte.zeros_pj:.1f} on zeros")
    for one in terms.accesses_pj:
        print(f"  {one.access}: {one.energy_pj:.1f} pJ each")
    print(f"  an opcode keeps {terms.opcode_share:.0%} of its own energy")
    for data in terms.kinds:
        print(f"  activity on {data.kind}: {data.data:.2f} ± {data.error:.2f}")
    for kind in terms.tensor:
        print(
            f"  {kind.kind}: {kind.random_pj:.3f} pJ a multiply-add on random data,"
            f" {kind.zeros_pj:.3f} on zeros"
        )
    print(
        f"  off by {100 * terms.error:.1f}% (one standard deviation) on the dynamic energy of those kernels;"
        f" each predicted from the others: {100 * terms.left_out_error:.1f}% of its energy (mean)"
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
    print(f"next: runners/spread_code.py, as {model} has no intervals for estimates by code alone")
    return int(bool(found.missing))


def _measure(suite: str, out: Path, budget_s: float, only: Sequence[str], resume: bool) -> int:
    begun_s = time.monotonic()
    import cupy
    import torch
    from kernel_power import KernelMeter

    from ptxbench.sensors.nvml import NvmlDevice

    device = NvmlDevice(0)
    meter = KernelMeter(device, _TARGET, _WARM_S, _WINDOW_S)
    every, cases = _cases(suite)
    gpu = GpuInfo.partly_known(
        device.name, device.uuid_hash, device.driver, device.power_limit_w, device.max_sm_clock_mhz
    )
    libraries = (f"torch {torch.__version__}", f"cupy {cupy.__version__}", f"CUDA {torch.version.cuda}")
    begun = kernel_session(gpu, meter.source, libraries, cases)
    runner = SessionRunner(
        out,
        take_up(out, begun, resume),
        meter,
        lambda case: every[case.number].prepare(case.operands),
        time.monotonic,
        _ROUNDS[suite],
    )
    chosen = [c.number for c in cases if c.purpose is Purpose.STATIC or _wanted(c.name, only)]
    try:
        session = runner.run(chosen, budget_s - (time.monotonic() - begun_s))
    except DeviceLostError as error:
        # Only a new process gets a new context.
        left_s = budget_s - (time.monotonic() - begun_s)
        print(
            f"measure: {error}; going on in a new process, {left_s:.0f} s left", file=sys.stderr, flush=True
        )
        resuming = ["--suite", suite, "measure", "--resume", "--out", str(out), "--budget-s", str(left_s)]
        resuming += [word for prefix in only for word in ("--only", prefix)]
        os.execv(sys.executable, [sys.executable, str(Path(__file__).resolve()), *resuming])  # noqa: S606
    seen = {trial.case for trial in session.part.trials}
    failed = [c for c in session.part.cases if c.failure]
    late = [c for c in session.part.cases if c.number in chosen and c.number not in seen and not c.failure]
    for case in failed:
        print(f"failed: {case.name} {case.operands}: {case.failure}")
    print(
        f"{len(session.part.trials)} trials in {time.monotonic() - begun_s:.0f} s; {len(failed)} cases failed"
        f"; not reached: {', '.join(f'{c.name} {c.operands}' for c in late) or 'none'}",
        flush=True,
    )
    return int(bool(failed or late))


def _all_cases(suite: str) -> Sequence[Case]:
    """Return every case of a suite, whose libraries are only needed then."""
    if suite in SPLITS:
        import suite_cases

        return suite_cases.all_cases(suite)
    if suite == MOVE:
        import move_cases

        return move_cases.all_cases()
    if suite == FMM:
        import fmm_cases

        return fmm_cases.all_cases()
    import kernel_cases

    return kernel_cases.all_cases()


def _cases(suite: str) -> tuple[Sequence[Case], tuple[KernelCase, ...]]:
    """Return every case, and as a session names it."""
    every = _all_cases(suite)
    return every, tuple(KernelCase(i, c.name, c.operands, c.purpose) for i, c in enumerate(every))


def _count(suite: str, out: Path, budget_s: float, only: Sequence[str]) -> int:
    from kernel_counts import count
    from kernel_operands import RANDOM

    every, cases = _cases(suite)
    if (out / MEASURED).exists():
        require_same_cases(out, read_session(out), cases)
    # Most kernels execute the same on all data.
    chosen = [
        c
        for c in cases
        if c.purpose is not Purpose.STATIC
        and (c.operands == RANDOM or every[c.number].data_decides)
        and _wanted(c.name, only)
    ]
    counted, _ = launches_by_case(out / COUNTS)
    numbers = [c.number for c in chosen if c.number not in counted]
    missing = count(Path(__file__).resolve(), numbers, out / COUNTS, budget_s, ("--suite", suite))
    names = [f"{c.name} {c.operands}" for c in cases if c.number in missing]
    print(f"{len(chosen) - len(missing)} cases counted; missing: {', '.join(names) or 'none'}")
    return int(bool(missing))


def _child(suite: str, numbers: Sequence[int]) -> int:
    """Run each case once between its marker and the end of profiling; for ncu."""
    import torch

    every = _all_cases(suite)
    for number in numbers:
        try:
            _run_once(every[number], number)
        except Exception:  # the cases that follow are still to be counted
            traceback.print_exc()
        torch.cuda.empty_cache()
    return 0


def _run_once(case: Case, number: int) -> None:
    import torch
    from kernel_cases import marker

    call, mark = case.prepare(case.operands), marker(number)
    call()
    mark()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    try:
        mark()
        call()
        torch.cuda.synchronize()
    finally:
        # Else what prepares the next case would be counted to this one.
        torch.cuda.cudart().cudaProfilerStop()


def _wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(name.startswith(prefix) for prefix in only)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"validate_kernels: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
