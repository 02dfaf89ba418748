"""Counters of Nsight Compute for each variant of a kept tuning, for `ptxbench tune report --counters`.

    python runners/tune_counters.py results/nvidia-h100/tunings/gemm-beast --gpu 0 --out counters.csv

Needs `ncu` on PATH, and the right to read the GPU's counters. Each variant that counts is built and launched
once, by a process that ncu watches; a kernel of your own needs its specification by --spec. The counters are
those of Anzt et al. (2015), section 3.6 and Figures 6 to 8, as far as today's GPUs have them. 25 variants of
a matrix product take a minute. Clocks stay as they are: ncu is told not to set them.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.printable import render_csv
from ptxbench.devices.select import open_gpu
from ptxbench.storage.atomic import write_text
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.kernel import Refused
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.trial import Trial
from ptxbench.tune.tunable_kernel import TunableKernel
from ptxbench.tune.user_kernel import UserKernel
from ptxbench.tune.variant import Problem

# What the report calls a counter, and ncu.
COUNTERS = {
    "DRAM read throughput": "dram__bytes_read.sum.per_second",
    "DRAM write throughput": "dram__bytes_write.sum.per_second",
    "L2 read throughput": "lts__t_sectors_op_read.sum.per_second",
    "L2 read hit rate": "lts__t_sector_op_read_hit_rate.pct",
    "L1 and texture throughput": "l1tex__t_bytes.sum.per_second",
    "L1 and texture hit rate": "l1tex__t_sector_hit_rate.pct",
    "instructions per cycle": "sm__inst_executed.avg.per_cycle_active",
    "instructions issued": "smsp__inst_issued.sum",
    "instructions executed": "smsp__inst_executed.sum",
    "achieved occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "stalled for no instruction": "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
    "stalled for memory": "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "stalled at a barrier": "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
}
_KERNEL = "Kernel Name"
_LIMIT_S = 540


def tunable_of(folder: TuningFolder, spec: Path | None) -> TunableKernel:
    """Return what a folder has tuned.

    Raises:
        InputError: It is a kernel of a user, and there is no specification, or that of another kernel.
    """
    problem = folder.manifest.part.problem
    if isinstance(problem, Problem):
        return Gemm(problem)
    if spec is None:
        raise InputError(f"{folder.path} is of {problem.kernel}: give its specification by --spec")
    kernel = UserKernel(load_spec(spec))
    if kernel.problem != problem:
        raise InputError(f"{spec} is not what {folder.path} was tuned by")
    return kernel


def counted(folder: TuningFolder) -> list[Trial]:
    """Return the trials of a folder that count, one of each variant, in its order."""
    return list({trial.variant.name: trial for trial in folder.trials.values() if trial.ok}.values())


def launch_all(gpu: str, folder: TuningFolder, spec: Path | None) -> list[str]:
    """Build and launch each variant once; return the names of the kernels."""
    opened, tunable = open_gpu(gpu), tunable_of(folder, spec)
    try:
        names = []
        for trial in counted(folder):
            built = tunable.build(trial.variant, opened.info.target)
            if isinstance(built, Refused):
                raise InputError(f"{trial.variant.name} cannot be built now: {built.reason}")
            launch = tunable.launch(built)
            opened.time_s(launch)
            names.append(launch.kernel)
        return names
    finally:
        opened.close()


def table(counters: Path, names: Sequence[str], kernels: Sequence[str]) -> str:
    """Return a CSV of counters by variant.

    Args:
        counters: What ncu wrote.
        names: Variants, in the order of their launches.
        kernels: Names of their kernels, in that order.

    Raises:
        InputError: ncu saw other launches, or had no such counter.
    """
    rows = list(csv.reader(counters.read_text(encoding="utf-8", errors="replace").splitlines()))
    at = next((n for n, row in enumerate(rows) if "ID" in row and _KERNEL in row), None)
    if at is None:
        said = next((row[0] for row in rows if row and "ERR" in row[0]), "nothing")
        raise InputError(f"{counters}: ncu wrote no counters; it says {said}")
    launches = [dict(zip(rows[at], row, strict=False)) for row in rows[at + 1 :] if row and row[0].strip()]
    launches = [one for one in launches if one.get(_KERNEL, "").split("(")[0] in kernels]
    if len(launches) != len(names):
        raise InputError(f"{counters}: ncu saw {len(launches)} launches of {len(names)} variants")
    known = {name: metric for name, metric in COUNTERS.items() if metric in rows[at]}
    table_rows: list[Sequence[object]] = [("variant", *known)]
    for name, launch in zip(names, launches, strict=True):
        cells = [launch[metric].replace(",", "") for metric in known.values()]
        table_rows.append((name, *(cell if cell and cell[0].isdigit() else "" for cell in cells)))
    return render_csv(table_rows)


def main() -> int:
    """Launch under ncu, write the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of `ptxbench tune gemm` or `tune kernel`")
    parser.add_argument("--gpu", default="0", help="index or UUID")
    parser.add_argument("--spec", type=Path, help="specification of a kernel of your own")
    parser.add_argument("--out", type=Path, help="CSV to write")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = TuningFolder.read(options.run)
    if options.launch:
        print("\n".join(launch_all(options.gpu, folder, options.spec)))
        return 0
    if options.out is None:
        parser.error("--out FILE.csv is missing")
    tunable_of(folder, options.spec)
    own = [sys.executable, __file__, str(options.run), "--gpu", options.gpu, "--launch"]
    if options.spec is not None:
        own += ["--spec", str(options.spec)]
    with TemporaryDirectory() as scratch:
        log = Path(scratch, "counters.csv")
        watch = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
        # By default ncu sets the clock, and empties the caches before each pass.
        watch += ["--clock-control", "none", "--cache-control", "none"]
        command = [*watch, "--metrics", ",".join(COUNTERS.values()), *own]
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=environment
        )
        if done.returncode:
            raise InputError(
                f"ncu ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"
            )
        names = [trial.variant.name for trial in counted(folder)]
        kernels = [line for line in done.stdout.splitlines() if line and not line.startswith("==")]
        write_text(options.out, table(log, names, kernels))
    print(f"tune_counters: wrote {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FileNotFoundError:
        print("tune_counters: there is no ncu on PATH", file=sys.stderr)
        sys.exit(2)
    except subprocess.TimeoutExpired:
        print(f"tune_counters: ncu was stopped after {_LIMIT_S} s", file=sys.stderr)
        sys.exit(1)
    except PtxbenchError as error:
        print(f"tune_counters: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
