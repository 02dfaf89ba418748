"""Run every catalogue row on a GPU and compare what it computes with a reference in numpy.

    python runners/check_catalogue.py --gpu 0 --out results/nvidia-h200/catalogue-check.csv

Each row, at each level and in each form, is assembled, judged by the gate, launched small (target and
overhead, whose outputs are compared) and launched on every SM. The CSV grows row by row; a JSON file
beside it says where and when. Exit codes: 0 all is well, 1 something failed, 2 and 3 as `ptxbench`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import numpy as np

from ptxbench import __version__
from ptxbench.catalogue.model import Form, Instruction
from ptxbench.catalogue.select import named_instructions
from ptxbench.catalogue.types import TYPES
from ptxbench.errors import InputError, LaunchError, PtxbenchError, RefusedModuleError
from ptxbench.gpu.protocol import Cubin, Gpu, GpuKind, Launch, OptLevel
from ptxbench.gpu.select import open_gpu
from ptxbench.ptx.operands import Pattern, operand_bytes
from ptxbench.ptx.reference import expected_results
from ptxbench.ptx.reference_bits import Bits
from ptxbench.ptx.reference_compare import differing
from ptxbench.ptx.render import OVERHEAD, TARGET, render_module
from ptxbench.ptx.target import Target, find_target
from ptxbench.sass.gate import Judgement, judge
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.store.commit import git_commit

BLOCKS, ITERATIONS, MANY_ITERATIONS = 2, 3, 100
BLOCK = 256
SEED = 5
# Verdicts that may be under way while kernels are launched.
_AHEAD = 48


@dataclass(frozen=True)
class Checked:
    """One row of the CSV.

    Attributes:
        instruction: Catalogue name.
        category: Its category.
        opt_level: Assembler level.
        form: Latency or throughput form.
        gate: The gate's verdict, or "" where nothing was assembled.
        launched: Whether target and overhead ended, small and on every SM.
        result: match, mismatch or unchecked, target and overhead together.
        detail: What failed, or why it is not checked.
        elapsed_ms: Time of the launch on every SM.
    """

    instruction: str
    category: str
    opt_level: str
    form: str
    gate: str
    launched: bool
    result: str
    detail: str
    elapsed_ms: float

    @property
    def failed(self) -> bool:
        """Whether anything is wrong with it."""
        return not self.launched or self.gate in ("", "refused") or self.result == "mismatch"


def main() -> int:
    """Check, write, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instructions", nargs="*", help="catalogue names or globs (default: all)")
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, required=True, help="CSV file; it is written anew")
    parser.add_argument("--category", action="append", default=[], help="only rows of this category")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="disassemblers at once")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds that a launch may take")
    arguments = parser.parse_args()
    rows = [
        row
        for row in named_instructions(arguments.instructions)
        if not arguments.category or row.category in arguments.category
    ]
    if not rows:
        raise InputError("no catalogue row is in " + ", ".join(arguments.category))
    gpu = open_gpu(arguments.gpu)
    done: list[Checked] = []
    began = datetime.now(UTC)
    try:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        with arguments.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([f.name for f in fields(Checked)])
            for checked in check(gpu, rows, arguments.jobs, arguments.patience):
                writer.writerow(asdict(checked).values())
                file.flush()
                done.append(checked)
        manifest = {
            "gpu": asdict(gpu.info),
            "ptxbench": __version__,
            "commit": git_commit(Path(__file__).parents[1]),
            "began": began.isoformat(timespec="seconds"),
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "arguments": {**vars(arguments), "out": arguments.out.name},
            "rows": len(done),
            "failed": sum(c.failed for c in done),
        }
    finally:
        gpu.close()
    text = json.dumps(manifest, indent=2, default=str)
    arguments.out.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    _print_summary(done)
    return int(any(c.failed for c in done))


def check(gpu: Gpu, rows: list[Instruction], jobs: int, patience_s: float) -> Iterator[Checked]:
    """Check rows one after the other; only judging them goes on at the same time.

    Args:
        gpu: What runs them.
        rows: Catalogue rows; those that the GPU's target does not have are passed over.
        jobs: Disassemblers at once.
        patience_s: Where a launch takes longer, the process ends.

    Raises:
        GpuError: The GPU stopped answering.
    """
    target = find_target(gpu.info.target)
    waiting: deque[Callable[[], Checked]] = deque()
    with ThreadPoolExecutor(jobs) as pool:
        for row in rows:
            for level in OptLevel:
                for form in row.forms(level):
                    if row.exists_on(target) and not row.refusal(level, target.name, form):
                        waiting.append(_begin(gpu, row, target, level, form, pool, patience_s))
                    while len(waiting) > _AHEAD:
                        yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


def _begin(
    gpu: Gpu,
    row: Instruction,
    target: Target,
    level: OptLevel,
    form: Form,
    pool: ThreadPoolExecutor,
    patience_s: float,
) -> Callable[[], Checked]:
    """Assemble and launch one module; return what waits for its verdict."""
    try:
        ptx = render_module(row, target, form)
        cubin = gpu.assemble(ptx, level)
    except (InputError, RefusedModuleError) as error:
        lost = Checked(row.name, row.category, level, form, "", False, "unchecked", str(error), 0.0)
        return lambda: lost
    verdict = pool.submit(_judged, row, level, target, form, cubin)
    try:
        with _watched(f"{row.name} {level} {form}", patience_s):
            launched, result, detail, elapsed_s = True, *_run(gpu, row, ptx, cubin)
    except LaunchError as error:
        launched, result, detail, elapsed_s = False, "unchecked", str(error), 0.0

    def finish() -> Checked:
        gate, why = _verdict(verdict)
        text = "; ".join(part for part in (why, detail) if part)
        milliseconds = round(1e3 * elapsed_s, 4)
        return Checked(row.name, row.category, level, form, gate, launched, result, text, milliseconds)

    return finish


def _judged(row: Instruction, level: OptLevel, target: Target, form: Form, cubin: Cubin) -> Judgement:
    return judge(row, level, parse_listing(disassemble(cubin.image)), target.name, form)


def _verdict(future: Future[Judgement]) -> tuple[str, str]:
    try:
        judgement = future.result()
    except PtxbenchError as error:
        return "", str(error)
    return judgement.verdict, judgement.reason


def _run(gpu: Gpu, row: Instruction, ptx: str, cubin: Cubin) -> tuple[str, str, float]:
    """Launch small and large; return the result, its detail, and the large launch's time in s."""
    block = row.block or max(BLOCK, row.unit.threads)
    chip = gpu.info.sm_count
    launch = Launch(
        trial_id="check",
        cubin=cubin,
        kernel=TARGET,
        grid=BLOCKS,
        block=block,
        iterations=ITERATIONS,
        operands=operand_bytes(row, Pattern.RANDOM, SEED),
        pattern=Pattern.RANDOM,
        scratch_bytes=row.scratch * block * max(BLOCKS, chip),
        output_bytes=8 * block * BLOCKS,
    )
    outcomes = []
    for kernel in (TARGET, OVERHEAD):
        output = gpu.run(replace(launch, kernel=kernel)).output.view(np.uint64)
        outcomes.append(
            ("unchecked", "a simulated GPU computes nothing")
            if gpu.info.kind is not GpuKind.REAL
            else _compared(row, ptx, kernel, launch, output)
        )
    # The overhead kernel may be known where the target is not; the row is then not checked.
    result = "mismatch" if "mismatch" in dict(outcomes) else outcomes[0][0]
    detail = "; ".join(dict.fromkeys(text for what, text in outcomes if text and what == result))
    large = replace(launch, grid=chip, iterations=MANY_ITERATIONS, output_bytes=0)
    return result, detail, gpu.run(large).window.elapsed_s


@lru_cache(maxsize=512)
def _reference(name: str, ptx: str, kernel: str, block: int) -> Bits | str:
    """Return every thread's result, or the opcode that the reference does not know."""
    (row,) = named_instructions([name])
    try:
        operands = operand_bytes(row, Pattern.RANDOM, SEED)
        return expected_results(ptx, kernel, operands, BLOCKS * block, ITERATIONS, block)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return str(error)


def _compared(row: Instruction, ptx: str, kernel: str, launch: Launch, output: Bits) -> tuple[str, str]:
    expected = _reference(row.name, ptx, kernel, launch.block)
    if isinstance(expected, str):
        return "unchecked", f"no reference for {expected}"
    approximate = ".approx" in ptx or ".full" in ptx
    wrong = differing(output, expected, TYPES[row.type_of("x")], approximate=approximate)
    if not wrong.any():
        return "match", ""
    first = int(np.argmax(wrong))
    return "mismatch", (
        f"{kernel}: {int(wrong.sum())} of {wrong.size} threads differ; thread {first} has "
        f"{int(output[first]):#x}, the reference {int(expected[first]):#x}"
    )


@contextmanager
def _watched(label: str, patience_s: float) -> Iterator[None]:
    """End the process where a kernel hangs: nothing else would end it."""

    def give_up() -> None:
        print(f"check_catalogue: {label} did not end within {patience_s:g} s", file=sys.stderr, flush=True)
        os._exit(3)

    timer = threading.Timer(patience_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _print_summary(done: list[Checked]) -> None:
    """Print counts by category, and every failure."""
    print(
        f"{'category':<24} {'rows':>6} {'launched':>9} {'match':>6} "
        f"{'mismatch':>9} {'unchecked':>10} {'failed':>7}"
    )
    for category in [*dict.fromkeys(c.category for c in done), "all"]:
        of = [c for c in done if category in (c.category, "all")]
        results = Counter(c.result for c in of)
        print(
            f"{category:<24} {len(of):>6} {sum(c.launched for c in of):>9} {results['match']:>6} "
            f"{results['mismatch']:>9} {results['unchecked']:>10} {sum(c.failed for c in of):>7}"
        )
    for c in done:
        if c.failed:
            name = f"{c.instruction} {c.opt_level} {c.form}"
            print(f"FAILED {name}: gate {c.gate or 'none'}, {c.result}: {c.detail}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"check_catalogue: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
