"""Run every catalogue row on a GPU and compare what it computes with a reference in numpy.

    python runners/check_catalogue.py --gpu 0 --out results/nvidia-h200/catalogue-check.csv

Each row, at each level and in each form, is assembled and checked by the loop check. It is launched small
(target and overhead, whose outputs are compared, and a module that says how many passes each loop makes) and
on every SM, by one of several processes. A kernel that breaks its process, or does not end, fails its own row
and no other. The CSV grows row by row; a JSON file beside it says where and when. With --memcheck the
processes run under compute-sanitizer. Exit codes: 0 all is
well, 1 something failed, 2 and 3 as `ptxbench`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.select import named_instructions
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import InputError, LaunchError, PtxbenchError, RefusedModuleError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.target import find_target
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_gpu
from ptxbench.experiment.numeric_check import Computed, check_launch, expect_module
from ptxbench.sass.module import build_module
from ptxbench.storage.atomic import write_text
from ptxbench.storage.commit import made_by

# Items that one process is given at once: enough that opening the GPU does not count.
_SHARE = 32
# Passes of the loop of a launch on every SM.
_MANY_ITERATIONS = 100
_MEMCHECK = ("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", "--print-limit", "2")


@dataclass(frozen=True)
class Item:
    """One module to check."""

    instruction: str
    opt_level: OptLevel
    form: Form

    def __str__(self) -> str:
        return f"{self.instruction} {self.opt_level} {self.form}"


_NOTHING_COMPUTED = Computed("unchecked", "unchecked", "a simulated GPU computes nothing")


@dataclass(frozen=True)
class Checked:
    """What one row's module did on a GPU at one optimization level and in one form.

    Attributes:
        instruction: Catalogue name.
        category: Its category.
        opt_level: Optimization level.
        form: Latency or throughput form.
        gate: Verdict of the loop check, or "" where nothing was assembled.
        launched: Whether its kernels ended: small on a real GPU, and on every SM.
        result: As in `Computed`.
        detail: What failed, or why it is not checked.
        elapsed_ms: Time of the launch on every SM.
        passes: As in `Computed`.
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
    passes: str = "unchecked"

    @property
    def failed(self) -> bool:
        """Whether anything is wrong with it."""
        wrong = Computed(self.result, self.passes, self.detail).is_wrong
        return not self.launched or self.gate in ("", "refused") or wrong


def check_row(gpu: Gpu, row: Instruction, opt_level: OptLevel, form: Form) -> Checked:
    """Assemble, check and launch one module, small (compared with the reference) and on every SM.

    Args:
        gpu: What runs it.
        row: Catalogue row; the GPU's target has it.
        opt_level: Optimization level.
        form: Latency or throughput form.

    Raises:
        GpuError: The GPU stopped answering, and with it this process.
        ToolError: nvdisasm is missing.
    """
    lost = Checked(row.name, row.category, opt_level, form, "", False, "unchecked", "", 0.0)
    try:
        module = build_module(row, find_target(gpu.info.target), opt_level, form, gpu.assemble)
        expected = expect_module(gpu, module) if gpu.info.kind is GpuKind.REAL else None
    except (InputError, RefusedModuleError) as error:
        return replace(lost, detail=str(error))
    lost = replace(lost, gate=module.loop_check.verdict)
    try:
        computed = expected.computed(gpu) if expected else _NOTHING_COMPUTED
        large = check_launch(module, gpu.info.sm_count, _MANY_ITERATIONS)
        elapsed_ms = round(1e3 * gpu.run(large).window.elapsed_s, 4)
    except LaunchError as error:
        return replace(lost, detail=str(error))
    return replace(
        lost,
        launched=True,
        result=computed.result,
        detail="; ".join(part for part in (module.loop_check.reason, computed.detail) if part),
        elapsed_ms=elapsed_ms,
        passes=computed.passes,
    )


def main() -> int:
    """Check, write, print, and return the exit code."""
    arguments = _arguments()
    if arguments.worker:
        return _work(arguments.gpu, sys.stdin, arguments.patience)
    rows = [
        row
        for row in named_instructions(arguments.instructions)
        if not arguments.category or row.category in arguments.category
    ]
    if not rows:
        raise InputError("no catalogue row is in " + ", ".join(arguments.category))
    gpu = open_gpu(arguments.gpu)
    info = gpu.info
    gpu.close()
    began = datetime.now(UTC)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    done = []
    with arguments.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([f.name for f in fields(Checked)])
        for checked in _check_all(_items(rows, info), arguments):
            writer.writerow(asdict(checked).values())
            file.flush()
            done.append(checked)
    _write_manifest(arguments, info, began, done)
    _print_summary(done)
    return int(any(c.failed for c in done))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instructions", nargs="*", help="catalogue names or globs (default: all)")
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, help="CSV file; it is written anew")
    parser.add_argument("--category", action="append", default=[], help="only rows of this category")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds that one module may take")
    parser.add_argument("--memcheck", action="store_true", help="run under compute-sanitizer's memcheck")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.out is None and not arguments.worker:
        parser.error("--out is missing: the CSV file to write")
    return arguments


def _items(rows: Sequence[Instruction], info: GpuInfo) -> list[Item]:
    """Return every module that the GPU's target has and the catalogue does not refuse."""
    target = find_target(info.target)
    return [
        Item(row.name, level, form)
        for row in rows
        for level in OptLevel
        for form in row.forms(level)
        if row.exists_on(target) and not row.refusal(level, target.name, form)
    ]


def _check_all(items: list[Item], arguments: argparse.Namespace) -> Iterator[Checked]:
    """Check every item, several processes at once; yield as shares of them are done."""
    # The checker's exit code is all that tells of some errors: then every module has its own process.
    size = 1 if arguments.memcheck else _SHARE
    shares = [items[i : i + size] for i in range(0, len(items), size)]
    command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
    command += ["--gpu", arguments.gpu, "--patience", str(arguments.patience)]
    if arguments.memcheck:
        command = [*_MEMCHECK, *command]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for future in as_completed([pool.submit(_check_share, share, command) for share in shares]):
            yield from future.result()


def _check_share(items: list[Item], command: list[str]) -> list[Checked]:
    """Check some items in a process of their own, and in another what a broken one leaves over."""
    done: list[Checked] = []
    while len(done) < len(items):
        left = items[len(done) :]
        text = "\n".join(f"{item.instruction}\t{item.opt_level}\t{item.form}" for item in left)
        worker = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        lines = [line for line in worker.stdout.splitlines() if line.startswith("{")]
        done += [Checked(**json.loads(line)) for line in lines]
        if len(done) < len(items):
            done.append(_broken(items[len(done)], worker))
        elif worker.returncode:
            done[-1] = _broken(items[-1], worker)
    return done


def _broken(item: Item, worker: subprocess.CompletedProcess[str]) -> Checked:
    """Return the row of the item that a process broke on."""
    said = [line for line in worker.stdout.splitlines() if line.startswith("========= ")]
    errors = [line.removeprefix("========= ").strip() for line in said if "rror" in line or "nvalid" in line]
    last = worker.stderr.strip().splitlines()[-1:] or [f"the process ended with {worker.returncode}"]
    row = find_instruction(item.instruction)
    detail = "; ".join([*errors[:1], *last])
    return Checked(row.name, row.category, item.opt_level, item.form, "", False, "unchecked", detail, 0.0)


def _work(which: str, items: IO[str], patience_s: float) -> int:
    """Check the items that a file names, one a line, and print each as JSON."""
    gpu = open_gpu(which)
    try:
        for line in items.read().splitlines():
            name, level, form = line.split("\t")
            item = Item(name, OptLevel(level), Form(form))
            with _watched(item, patience_s):
                checked = check_row(gpu, find_instruction(name), item.opt_level, item.form)
            print(json.dumps(asdict(checked)), flush=True)
    finally:
        gpu.close()
    return 0


@contextmanager
def _watched(item: Item, patience_s: float) -> Iterator[None]:
    """End the process where a kernel hangs: nothing else would end it."""

    def give_up() -> None:
        print(f"{item} did not end within {patience_s:g} s", file=sys.stderr, flush=True)
        os._exit(3)

    timer = threading.Timer(patience_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _write_manifest(
    arguments: argparse.Namespace, info: GpuInfo, began: datetime, done: Sequence[Checked]
) -> None:
    manifest = {
        "gpu": asdict(info),
        **made_by(Path(__file__).parents[1], began),
        "arguments": {**vars(arguments), "out": arguments.out.name},
        "rows": len(done),
        "failed": sum(c.failed for c in done),
    }
    text = json.dumps(manifest, indent=2, default=str)
    write_text(arguments.out.with_suffix(".json"), text + "\n")


def _print_summary(done: Sequence[Checked]) -> None:
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
    print(f"passes of the loop: {dict(Counter(c.passes for c in done))}")
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
