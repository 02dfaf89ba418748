"""What the emulator computes beside a real GPU: the very same machine code, bit by bit."""

from pathlib import Path

import numpy as np
import pytest

from ptxbench.core.condition import OptLevel
from ptxbench.devices.base import Launch, Parameter
from ptxbench.emulator.sass import launch as emulator
from ptxbench.sass.listing import disassemble, parse_listing

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[2] / "model" / "kernels"
BLOCKS, THREADS = 8, 256
SIZE = BLOCKS * THREADS


@pytest.fixture(scope="module")
def gpu():
    # The module that needs CUDA is imported only where a test really runs.
    from ptxbench.devices.cuda import CudaGpu

    gpu = CudaGpu(0)
    yield gpu
    gpu.close()


@pytest.mark.parametrize(("entry", "dtype"), [("f_div", "f32"), ("f_fdividef", "f32"), ("d_div", "f64")])
def test_an_operator_gives_the_same_bits(gpu, entry, dtype):
    kind = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    values = np.random.default_rng(1).standard_normal(SIZE).astype(kind)
    cubin = gpu.assemble((KERNELS / "operators.ptx").read_text(), OptLevel.O3)
    launch = Launch(
        trial_id=entry,
        cubin=cubin,
        kernel=entry,
        grid=BLOCKS,
        block=THREADS,
        iterations=1,
        operands=(values.view(np.uint8),),
        pattern="random",
        scalars=(),
        result_bytes=values.nbytes,
        parameters=(Parameter(0, True), Parameter(kind=dtype, value=1.25)),
    )
    kernel = parse_listing(disassemble(cubin.image), entry)[entry]
    shape = (BLOCKS, 1, 1), (THREADS, 1, 1)
    own = emulator.emulate(
        emulator.Launch(cubin.image, kernel, *shape, [values, kind.type(1.25)]), blocks=BLOCKS, look=False
    )
    bits = np.dtype(f"u{kind.itemsize}")
    differ = own.arrays[0].view(bits) != gpu.compute(launch).view(bits)
    # An approximate reciprocal may differ in its last bit; what is rounded correctly may not.
    assert differ.mean() <= (0.5 if entry == "f_fdividef" else 0)
