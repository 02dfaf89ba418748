"""Compare what the emulator computes with a GPU, bit by bit, on the kernels of the instruction suite.

    python runners/check_emulation.py compile --cubins FOLDER
    python runners/check_emulation.py compare --cubins FOLDER

`compile` needs nvcc and no GPU, `compare` a GPU of the same target, its driver and nvdisasm (two minutes).
Each kernel runs some rounds of its loop, on each kind of its data. Words of the blocks that the emulator ran
are compared. Kernels with special functions or tensor products may differ in their last bits, and are listed
with the largest relative difference. The exit code is 1 where another kernel differs in any bit.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from judge_code import cubin_of
from suite_data import input_words
from suite_split import SuiteKernel, read_split

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.base import Gpu, Launch, Parameter
from ptxbench.emulator.sass import launch as emulator
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.program import SassKernel

_TARGET = "sm_90a"
_ROUNDS, _BLOCKS, _SAMPLE = 40, 264, 2
# What the emulator works out within the hardware's error.
_LOOSE = ("MUFU", "HMMA", "IMMA")

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Compared:
    """One kernel on one kind of data.

    Attributes:
        name: Of the case and its data.
        words: How many were compared.
        differ: How many differ in any bit.
        off: Largest relative difference, as f32.
        loose: Whether last bits may differ.
    """

    name: str
    words: int
    differ: int
    off: float
    loose: bool


def compare(one: SuiteKernel, kind: str, image: bytes, kernel: SassKernel, gpu: Gpu) -> Compared | None:
    """Compare one kernel; None where the GPU computes nothing (a simulated one)."""
    words, size = input_words(kind, one.data_type), _BLOCKS * one.threads
    launch = Launch(
        trial_id=one.case,
        cubin=Cubin(image, _TARGET, OptLevel.O3, "nvcc"),
        kernel=one.name,
        grid=_BLOCKS,
        block=one.threads,
        iterations=1,
        operands=(words.view(np.uint8), np.zeros(4 * size, np.uint8)),
        pattern="random",
        scalars=(),
        result_bytes=4 * size,
        parameters=(Parameter(0), Parameter(1, True), Parameter(kind="i32", value=_ROUNDS)),
    )
    output = gpu.compute(launch)
    if output is None:
        return None
    found = emulator.emulate(
        emulator.Launch(
            image,
            kernel,
            (_BLOCKS, 1, 1),
            (one.threads, 1, 1),
            [words, np.zeros(size, np.uint32), np.int32(_ROUNDS)],
        ),
        _SAMPLE,
        passes=0,
        look=False,
    )
    ran = np.concatenate(
        [np.arange(x * one.threads, (x + 1) * one.threads) for x, _, _ in found.sample.blocks]
    )
    own, real = found.arrays[1][ran], output.view(np.uint32)[ran]
    differ = own != real
    loose = any(i.base in _LOOSE for i in kernel.instructions)
    return Compared(f"{one.case} {kind}", len(ran), int(differ.sum()), _relative(own, real), loose)


def _relative(own: Words, real: Words) -> float:
    with np.errstate(all="ignore"):
        x, y = (one.view(np.float32).astype(np.float64) for one in (own, real))
        return float(np.nan_to_num(np.abs(x - y) / np.maximum(np.abs(y), 1e-30)).max())


def main() -> int:
    """Compile, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=("compile", "compare"))
    parser.add_argument("--cubins", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.cubins.mkdir(parents=True, exist_ok=True)
    images = {one.case: cubin_of(arguments.cubins, one, _TARGET).read_bytes() for one in read_split()}
    if arguments.stage == "compile":
        print(f"{len(images)} kernels are in {arguments.cubins}")
        return 0
    from ptxbench.devices.cuda import CudaGpu

    gpu, wrong = CudaGpu(0), 0
    try:
        for one in read_split():
            kernel = parse_listing(disassemble(images[one.case]), one.name)[one.name]
            for kind in one.data:
                found = compare(one, kind, images[one.case], kernel, gpu)
                if found is None:
                    continue
                wrong += found.differ > 0 and not found.loose
                beside = f", off by {found.off:.1e} at most" if found.differ else ""
                print(f"{found.name}: {found.differ} of {found.words} words differ{beside}", flush=True)
    finally:
        gpu.close()
    print(f"{wrong} cases differ that should not")
    return int(wrong > 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"check_emulation: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
