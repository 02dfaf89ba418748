"""Prove by ncu's hit rates which level of memory the rows named after one reach.

    python studies/h200/prove_levels.py --gpu 0 --out results/nvidia-h200/levels.csv

Each row's target kernel is launched once in a process of its own, under ncu, without locking clocks
and apart from any measurement of energy. Exit codes: 0 all is proven, 1 some row is not, 2 and 3 as
`ptxbench` (3 too where ncu is missing or may not read the counters).
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.select import named_instructions
from ptxbench.core.errors import GpuError, InputError, PtxbenchError
from ptxbench.storage.atomic import write_text
from ptxbench.storage.commit import made_by

FAMILY = "level"
CHILD = Path(__file__).with_name("launch_row.py")
L1_HIT, L2_HIT = "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
METRICS = (L1_HIT, L2_HIT, READ, WRITTEN)
# A load kernel fills its region first: it moves the region so often that this no longer counts.
_TURNS = 40
_MIN_ITERATIONS = 400
# Hit rates in percent, and memory traffic as a share of what the kernel moved.
_HITS_PCT, _MISSES_PCT = 90.0, 10.0
_NO_TRAFFIC, _ALL_TRAFFIC = 0.05, 0.8


@dataclass(frozen=True)
class Proof:
    """One row of the CSV.

    Attributes:
        row: Catalogue name.
        level: The level that it is named after.
        l1_hit_pct: Hit rate of sectors in L1, the filling of the region included.
        l2_hit_pct: Hit rate of sectors in L2.
        dram_bytes: Read from memory by a load kernel, written to it by a store kernel.
        loaded_bytes: What the row's instruction loaded or stored.
        verdict: "proven", or what speaks against it.
    """

    row: str
    level: str
    l1_hit_pct: float
    l2_hit_pct: float
    dram_bytes: float
    loaded_bytes: int
    verdict: str


def main() -> int:
    """Profile, write, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "instructions", nargs="*", help="catalogue names or globs (default: all with a level)"
    )
    parser.add_argument("--gpu", default="0", help="index or UUID")
    parser.add_argument("--out", type=Path, required=True, help="CSV file; it is written anew")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that one row may take")
    arguments = parser.parse_args()
    rows = [row for row in named_instructions(arguments.instructions) if row.family == FAMILY]
    if not rows:
        raise InputError(f"none of {' '.join(arguments.instructions)} is a row of one level of memory")
    ncu = shutil.which("ncu")
    if ncu is None:
        raise GpuError("ncu is not on PATH: install NVIDIA Nsight Compute, or add its folder to PATH")
    began = datetime.now(UTC)
    done: list[Proof] = []
    said: dict[str, object] = {}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([f.name for f in fields(Proof)])
        for row in rows:
            proof, said = prove(row, ncu, arguments.gpu, arguments.timeout)
            writer.writerow(asdict(proof).values())
            file.flush()
            done.append(proof)
            print(
                f"{proof.row:<26} L1 {proof.l1_hit_pct:6.2f}%  L2 {proof.l2_hit_pct:6.2f}%  memory "
                f"{proof.dram_bytes / proof.loaded_bytes:6.3f} of the bytes  {proof.verdict}"
            )
    manifest = {
        "gpu": {key: said[key] for key in ("gpu", "gpu_kind", "uuid_hash")},
        **made_by(Path(__file__).parents[2], began),
        "metrics": METRICS,
    }
    text = json.dumps(manifest, indent=2) + "\n"
    write_text(arguments.out.with_suffix(".json"), text)
    return int(any(proof.verdict != "proven" for proof in done))


def prove(row: Instruction, ncu: str, gpu: str, timeout_s: float) -> tuple[Proof, dict[str, object]]:
    """Profile one launch of a row's target kernel.

    Returns:
        The proof, and what the launching process said of itself.

    Raises:
        GpuError: ncu or the launch failed; the text holds what ncu said last.
    """
    with tempfile.TemporaryDirectory(prefix="ptxbench-") as folder:
        log = Path(folder) / "ncu.csv"
        command = [ncu, "--clock-control", "none", "--metrics", ",".join(METRICS)]
        command += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
        command += [sys.executable, str(CHILD), row.name, "--gpu", gpu, "--iterations", str(_iterations(row))]
        try:
            child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise GpuError(f"{row.name}: ncu did not end within {timeout_s:g} s; raise --timeout") from error
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    try:
        said = json.loads(child.stdout.splitlines()[-1])
        metrics = read_metrics(text)
    except (IndexError, KeyError, ValueError) as error:
        last = " ".join((text + child.stderr).split())[-300:] or f"nothing (exit code {child.returncode})"
        raise GpuError(f"{row.name}: ncu gave no metrics; it said: {last}") from error
    level, stores = str(dict(row.params)["level"]), dict(row.params)["does"] == "store"
    dram_bytes = metrics[WRITTEN if stores else READ]
    judged = verdict(level, metrics[L1_HIT], metrics[L2_HIT], dram_bytes / said["bytes"], stores=stores)
    return Proof(row.name, level, metrics[L1_HIT], metrics[L2_HIT], dram_bytes, said["bytes"], judged), said


def verdict(level: str, l1_pct: float, l2_pct: float, traffic: float, *, stores: bool) -> str:
    """Return "proven", or what speaks against a level.

    Stores pass through L1 whatever it holds, and shared memory is neither cache: their rates there say
    nothing. At memory the hit rate of L2 is not asked for, since one miss may fetch its neighbours too.

    Args:
        level: l1, shared, l2 or hbm.
        l1_pct: Hit rate in L1.
        l2_pct: Hit rate in L2.
        traffic: Bytes of memory traffic over the bytes that the row moved.
        stores: Whether the row stores.
    """
    against = []
    if level == "l1" and l1_pct < _HITS_PCT:
        against.append(f"only {l1_pct:.1f}% hit L1")
    if level in ("l2", "hbm") and not stores and l1_pct > _MISSES_PCT:
        against.append(f"{l1_pct:.1f}% hit L1")
    if level == "l2" and l2_pct < _HITS_PCT:
        against.append(f"only {l2_pct:.1f}% hit L2")
    if level == "hbm" and traffic < _ALL_TRAFFIC:
        against.append(f"only {traffic:.0%} of the bytes came from or went to memory")
    if level != "hbm" and traffic > _NO_TRAFFIC:
        against.append(f"{traffic:.0%} of the bytes came from or went to memory")
    return "; ".join(against) or "proven"


def read_metrics(text: str) -> Mapping[str, float]:
    """Return the metrics of the one kernel in a CSV of ncu: names, units, values.

    Raises:
        KeyError: A metric is missing.
        ValueError: There is not one kernel, or a value is no number.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    names, _, *kernels = list(csv.reader(lines))
    if len(kernels) != 1:
        raise ValueError(f"{len(kernels)} kernels were profiled, not one")
    values = dict(zip(names, kernels[0], strict=True))
    return {metric: float(values[metric].replace(",", "")) for metric in METRICS}


def _iterations(row: Instruction) -> int:
    """Return passes enough for the region to be moved many times."""
    assert row.block is not None  # noqa: S101 (every row of the family has one)
    region = row.scratch * row.block // 2
    return max(_MIN_ITERATIONS, -(-_TURNS * region // (row.copies * row.block * row.bytes)))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"prove_levels: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
