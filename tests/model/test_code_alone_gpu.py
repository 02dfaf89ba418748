"""Estimates from code alone beside a real GPU: `pytest -m gpu -s` prints what was measured of each kernel."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import ptxbench
from ptxbench.core.condition import OptLevel
from ptxbench.devices.base import Launch, Parameter
from ptxbench.model.default_table import default_table

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parent / "kernels"
WINDOW_S = 2.0
COLUMNS = 4096


def number(value, kind="i32"):
    return Parameter(kind=kind, value=value)


def arrays(*written):
    return tuple(Parameter(place, flag) for place, flag in enumerate(written))


@dataclass(frozen=True)
class Case:
    """A kernel that memory bounds: its launch, words of its arrays, parameters, and passes of its loops."""

    file: str
    entry: str
    grid: int
    block: int
    words: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    trips: dict[int, float]


PASSES, ROWS, COUNT = 512, 16384, 2**26
ALL = 1056 * 256 * PASSES
RATES = tuple(number(value, "f32") for value in (1e-3, 0.9, 0.999, 0.01, 1e-8, 1.0, 1.0))
CASES = (
    Case("elementwise", "kernel", 1056, 256, (ALL, ALL), (*arrays(False, True), number(PASSES)), {0: PASSES}),
    Case(
        *("library", "softmax", ROWS, 256, (ROWS * COLUMNS,) * 2, (*arrays(False, True), number(COLUMNS))),
        {0: 16, 1: 16, 2: 16},
    ),
    Case(
        *("library", "layer_norm", ROWS, 32, (ROWS * COLUMNS, COLUMNS, COLUMNS, ROWS * COLUMNS)),
        (*arrays(False, False, False, True), number(COLUMNS)),
        {0: 0, 1: 8, 2: 0, 3: 32},
    ),
    Case(
        *("library", "adamw", COUNT // 256, 256, (COUNT,) * 4),
        (*arrays(True, False, True, True), number(COUNT), *RATES),
        {},
    ),
)


@pytest.fixture(scope="module")
def gpu():
    from ptxbench.devices.cuda import CudaGpu

    gpu = CudaGpu(0)
    yield gpu
    gpu.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.entry)
def test_the_interval_holds_what_is_measured_and_the_time_is_near(gpu, case):
    ptx, rng = (KERNELS / f"{case.file}.ptx").read_text(), np.random.default_rng(1)
    operands = tuple(rng.standard_normal(n, np.float32).view(np.uint8) for n in case.words)
    launch = Launch(
        *("t", gpu.assemble(ptx, OptLevel.O3), case.entry, case.grid, case.block, 1, operands, "random"),
        scalars=(),
        parameters=case.parameters,
    )
    once_s = gpu.time_s(launch)
    times = max(round(WINDOW_S / once_s), 1)
    with ptxbench.EnergyMonitor(gpus=[0]) as monitor:
        monitor.begin_window(case.entry)
        run = gpu.run(replace(launch, times=times))
        window = monitor.end_window(case.entry)
    time_s = run.window.elapsed_s / times
    energy_j = window.energy_j / window.time_s * time_s
    words = {"entry": case.entry, "grid": case.grid, "block": case.block, "trips": case.trips}
    found = ptxbench.estimate_kernel(ptx, table=default_table()[0], **words)
    off, slow = (100 * (a / b - 1) for a, b in ((found.energy_j, energy_j), (found.time_s, time_s)))
    print(
        f"\n{case.entry}: {energy_j:.4g} J measured in {1e3 * time_s:.4g} ms, {energy_j / time_s:.0f} W;",
        end=" ",
    )
    print(f"estimated {found} in {1e3 * found.time_s:.4g} ms: energy {off:+.1f}%, time {slow:+.1f}%")
    assert found.low_j < energy_j < found.high_j
    assert found.time_s == pytest.approx(time_s, rel=0.5)
