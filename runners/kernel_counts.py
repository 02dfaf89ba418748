"""Executed opcodes and bytes by memory level of the validation's kernels, by Nsight Compute."""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ptxbench.storage.atomic import write_text

OPCODES = "sass__inst_executed_per_opcode"
BYTES = (
    "gpu__time_duration.sum",
    "l1tex__t_bytes.sum",
    "lts__t_bytes.sum",
    "dram__bytes.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__m_l1tex2xbar_write_bytes.sum",
    "smsp__inst_executed.sum",
    "sm__cycles_elapsed.max",
)
# What accesses that do not take whole lines do more of: passes of L1's tag and data stages, requests and tag
# lookups of L2, sectors between its halves. On a GH100 these need no pass beyond the three of BYTES
# (l1tex__t_requests would need four more); sectors of L1, of L2 and of DRAM are bytes / 32.
ACCESSES = (
    "l1tex__t_output_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "lts__t_requests.sum",
    "lts__t_requests_srcunit_tex.sum",
    "lts__t_tag_requests.sum",
    "lts__t_tag_requests_miss.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum",
)
_RICHEST = (
    f"{OPCODES}_with_modifier_all",
    OPCODES,
    "sass__thread_inst_executed_true_per_opcode_with_modifier_all",
    *BYTES,
)
# The richest first: an older ncu does not know the later names.
_METRICS = (
    (*_RICHEST, *ACCESSES),
    _RICHEST,
    (f"{OPCODES}_with_modifier_all", OPCODES, "sass__thread_inst_executed_true_per_opcode", *BYTES),
    (f"{OPCODES}_with_modifier_all", *BYTES),
    (OPCODES, *BYTES[:7]),
)
_KEPT = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC")
# A process takes seconds to start; one that hangs takes its limit.
_BATCH = 10
_KERNEL_S = 60.0
_SINGLE_S = 40.0
# A process that the budget ends has this much longer, since what it counted is written at its end.
_GRACE_S = 20.0


def count(
    script: Path, numbers: Sequence[int], out: Path, budget_s: float, options: Sequence[str] = ()
) -> list[int]:
    """Profile one call of each case, a few cases a process; then those that failed, one a process.

    Args:
        script: The runner, which runs `[OPTIONS] child NUMBER...` under the profiler.
        numbers: Cases, the most wanted first.
        out: Folder of the CSV files; every file holds whole cases, each behind its marker kernel.
        budget_s: No process is started later than this, nor does one run on for long.
        options: Of the runner.

    Returns:
        The cases that have no counts.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        print("count: ncu is not on PATH, so nothing is counted", file=sys.stderr)
        return list(numbers)
    out.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + budget_s
    tier = 0
    missing = list(numbers)
    for size, limit_s in ((_BATCH, _KERNEL_S), (1, _SINGLE_S)):
        todo, missing = missing, []
        for i in range(0, len(todo), size):
            batch = todo[i : i + size]
            left_s = until_s - time.monotonic()
            if left_s < 0:
                missing += batch
                continue
            found, tier = _profile(
                ncu, (str(script), *options), batch, out, min(limit_s, left_s + _GRACE_S), tier
            )
            missing += [n for n in batch if n not in found]
            print(f"count: {batch}: {len(found)} of {len(batch)}", file=sys.stderr, flush=True)
    return missing


def _profile(
    ncu: str, script: Sequence[str], batch: Sequence[int], out: Path, limit_s: float, tier: int
) -> tuple[set[int], int]:
    """Profile one process; return the cases that it gave, and the metrics that this ncu knows."""
    for at in range(tier, len(_METRICS)):
        path = out / f"counts-{'-'.join(map(str, batch))}.csv"
        command = [
            ncu,
            *("--profile-from-start", "off", "--clock-control", "none", "--cache-control", "none"),
            *("--csv", "--page", "raw", "--print-units", "base", "--print-metric-instances", "details"),
            *("--metrics", ",".join(_METRICS[at]), "--force-overwrite", "--log-file", str(path)),
            *(sys.executable, *script, "child", *map(str, batch)),
        ]
        code = _run(command, path.with_suffix(".txt"), limit_s)
        text = path.read_text(errors="replace") if path.exists() else ""
        found = [n for n in batch if f"ptxbench_case_{n}(" in text or f'ptxbench_case_{n}"' in text]
        if code == 0 and found:
            keep_columns(path)
            return set(found), at
        print(f"count: exit code {code}, metrics {at}: {text[-300:]!r}", file=sys.stderr, flush=True)
        if found or "metric" not in text.lower():
            # The case at which a process stopped has its marker, but perhaps not all of its kernels.
            keep_columns(path, *found[-1:])
            return set(found[:-1]), at
    return set(), tier


def keep_columns(path: Path, broken: int | None = None) -> None:
    """Rewrite one of ncu's CSV files with what was wanted: nine tenths are attributes of the device.

    Args:
        path: The file; what is not a table of kernels is left as it is.
        broken: Number of the case, if any, that was not counted to its end; it is left out.
    """
    csv.field_size_limit(1 << 27)
    rows = [row for row in csv.reader(path.read_text(errors="replace").splitlines()) if row]
    head = next((i for i, row in enumerate(rows) if "Kernel Name" in row), None)
    if head is None:
        return
    requested = {name for metrics in _METRICS for name in metrics}
    wanted = [i for i, name in enumerate(rows[head]) if name in requested.union(_KEPT)]
    at = rows[head].index("Kernel Name")
    kept = [row for row in rows[head:] if len(row) == len(rows[head])]
    marks = [i for i, row in enumerate(kept) if row[at].partition("(")[0] == f"ptxbench_case_{broken}"]
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([row[i] for i in wanted] for row in kept[: marks[0] if marks else None])
    write_text(path, text.getvalue())


def _run(command: list[str], log: Path, limit_s: float) -> int | None:
    """Run a command in a process group of its own; return its exit code, None where it took too long."""
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None
