"""Measure energy rooflines of a GPU of 132 SMs: memory levels, kinds of flop, zeros, and an N-body check.

    python runners/measure_rooflines.py --gpu 0 --out FOLDER --budget-s 300

The most wanted runs come first, and no kernel begins later than the budget. Each run is kept as it goes in
FOLDER/NAME; when it ends it becomes one file, FOLDER/NAME.tar. `fmm` needs PyTorch, CuPy and, for its counts,
ncu; without them, or on a simulated GPU, it is left out. No setting of the GPU is changed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_gpu
from ptxbench.experiment.roofline.measure import measure
from ptxbench.experiment.roofline.options import RooflineOptions
from ptxbench.experiment.roofline.result import write_result

_WIDE = (0.125, 0.5, 2.0, 8.0, 32.0, 128.0, 512.0)
_FEW = (0.125, 2.0, 32.0)
# At 64 flop/byte a kernel of f64 takes 4 to 6% less than its neighbours (studies/roofline/fit.md).
_AROUND = (0.125, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 45.25, 90.5, 181.0, 256.0)
_TENSOR = (1.0, 4.0, 16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)
_FMM = "fmm"
_FMM_MEASURE_S, _FMM_COUNT_S = 70.0, 45.0
# A run that could not fit this is not begun.
_LEAST_S = 15.0


@dataclass(frozen=True)
class Wanted:
    """One run; `options` is None for the kernels of fmm_cases.py."""

    name: str
    options: RooflineOptions | None


RUNS = (
    Wanted("f32-levels", RooflineOptions(("f32",), ("dram", "l2", "l1", "shared"), intensities=_WIDE)),
    Wanted(_FMM, None),
    # On all SMs most of these meet the power limit: smaller numbers tell constant power apart.
    Wanted("mma-f16", RooflineOptions(("mma-f16",), intensities=_TENSOR)),
    Wanted("f64", RooflineOptions(("f64",), intensities=_AROUND)),
    Wanted("f32-zeros", RooflineOptions(("f32",), operands=("zeros",), intensities=_WIDE)),
    Wanted("mma-tf32", RooflineOptions(("mma-tf32",), intensities=_TENSOR[:-1])),
    Wanted("mma-f64", RooflineOptions(("mma-f64",), intensities=_TENSOR[:-1])),
    Wanted("chase", RooflineOptions(("f32",), ("dram", "l2", "l1", "shared"), intensities=_FEW, chase=True)),
    Wanted("mma-f16-shared", RooflineOptions(("mma-f16",), ("shared",), intensities=_TENSOR)),
)


def main() -> int:
    """Run what fits the budget."""
    begun_s = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", required=True, help="as in `ptxbench --gpu`")
    parser.add_argument("--out", type=Path, required=True, help="folder of the files")
    parser.add_argument("--budget-s", type=float, default=300.0)
    parser.add_argument(
        "--only", action="append", choices=[one.name for one in RUNS], help="runs (default: all)"
    )
    parser.add_argument("--without-counts", action="store_true", help="fmm is not counted by ncu")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    until_s = begun_s + arguments.budget_s
    failed = 0
    for wanted in RUNS:
        left_s = until_s - time.monotonic()
        if left_s < _LEAST_S or wanted.name not in (arguments.only or [wanted.name]):
            print(f"{wanted.name}: left out", flush=True)
            continue
        try:
            folder = _run(wanted, arguments.gpu, arguments.out, left_s, counts=not arguments.without_counts)
        except (PtxbenchError, OSError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"{wanted.name}: {error}", flush=True)
            folder = arguments.out / wanted.name
        _pack(folder)
        print(f"{wanted.name}: {time.monotonic() - begun_s:.0f} s since the begin", flush=True)
    return int(failed > 0)


def _run(wanted: Wanted, spec: str, out: Path, left_s: float, *, counts: bool) -> Path:
    """Measure one run; return its folder."""
    folder = out / wanted.name
    if wanted.options is None:
        if spec.startswith("simulated"):
            raise InputError("the kernels of CUDA cannot run on a simulated GPU")
        return _fmm(folder, left_s, counts=counts)
    gpu = open_gpu(spec)
    try:
        return _roofline(gpu, wanted.options, folder, left_s)
    finally:
        gpu.close()


def _roofline(gpu: Gpu, options: RooflineOptions, folder: Path, left_s: float) -> Path:
    recorded = measure(gpu, options, folder, show=_show, budget_s=left_s)
    try:
        write_result(recorded, options.operands[0])
    except InputError as error:
        # The readings are kept, whatever can be made of them.
        print(f"{folder.name}: {error}", flush=True)
    return folder


def _show(done: int, count: int, name: str) -> None:
    print(f"{done}/{count} {name}", file=sys.stderr, flush=True)


def _fmm(folder: Path, left_s: float, *, counts: bool) -> Path:
    script = [sys.executable, str(Path(__file__).with_name("validate_kernels.py")), "--suite", _FMM]
    stages = (("measure", _FMM_MEASURE_S), ("count", _FMM_COUNT_S))
    for stage, most_s in stages if counts else stages[:1]:
        budget_s = min(most_s, left_s)
        subprocess.run(
            [*script, stage, "--out", str(folder), "--budget-s", f"{budget_s:.0f}"],
            timeout=budget_s + 60,
            check=False,
        )
        left_s -= budget_s
        if left_s < _LEAST_S:
            break
    return folder


def _pack(folder: Path) -> None:
    """Make one file of a folder."""
    if not folder.is_dir():
        return
    part = folder.with_suffix(".part")
    with tarfile.open(part, "w") as archive:
        archive.add(folder, folder.name)
    part.replace(folder.with_suffix(".tar"))
    shutil.rmtree(folder)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"measure_rooflines: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
