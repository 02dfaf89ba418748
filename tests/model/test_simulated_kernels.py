"""Whole kernels of five kinds on the simulated GPU: estimated from a table that the suite measured there."""

from pathlib import Path

import numpy as np
import pytest
from fakes.measuring import asked

from ptxbench.core.condition import OptLevel
from ptxbench.devices.base import Launch
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.model import addresses
from ptxbench.model.atlas import open_atlas
from ptxbench.model.code_work import read_kernel, static_work
from ptxbench.model.estimate import Conditions, estimate
from ptxbench.model.work import Activity

KERNELS = Path(__file__).parent / "kernels"
# Rows whose SASS the five kernels are made of.
ROWS = (
    "fma.rn.f32", "add.f32", "add.u64", "mul.wide.u32", "setp.ls.u32",
    "ld.global.b32", "ld.global.v4.b32", "st.global.b32", "ld.shared.v4.b32",
)  # fmt: skip
TRIPS = 50_000


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "run"
    gpu = SimulatedGpu(poll_interval_s=0.02)
    what = asked(
        *ROWS, patterns=("random", "zeros"), opt_levels=tuple(OptLevel), min_repeats=3, max_repeats=3
    )
    with start_run(gpu, what, path) as folder:
        rows = measure_table(gpu, folder)
    assert {row.instruction: row.reason for row in rows if row.status != "ok"} == {}
    return open_atlas(path)


def true_energy_j(name, pattern, table):
    """What the simulated GPU draws from the first to the last instruction, and how long that takes."""
    gpu = SimulatedGpu(seed=5, poll_interval_s=0.02)
    cubin = gpu.assemble((KERNELS / f"{name}.ptx").read_text(), OptLevel.O3)
    grid, block = 8 * gpu.info.sm_count, 256
    operands = (np.zeros(8, np.uint8),)
    launch = Launch(
        "t", cubin, "kernel", grid, block, TRIPS, operands, pattern, scalars=(TRIPS,), result_bytes=8
    )
    window = gpu.run(launch).window
    # The truth is what is drawn, not what a sensor says of it.
    joules = gpu._physics.energy_j(window.end_ns) - gpu._physics.energy_j(window.start_ns)
    return (
        joules,
        window.elapsed_s,
        addresses.Launch.of(grid, block, gpu.info.target),
        gpu._physics.temperature_c(window.end_ns),
    )


@pytest.mark.parametrize("pattern", ["random", "zeros"])
@pytest.mark.parametrize("name", ["elementwise", "gather", "gemm", "reduction", "stencil"])
def test_within_two_percent_of_the_truth(table, name, pattern):
    truth_j, time_s, shape, temperature_c = true_energy_j(name, pattern, table)
    code = read_kernel(KERNELS / f"{name}.ptx", None, table)
    work = static_work(code, shape, {"0": TRIPS}, time_s, table).work
    share = 1.0 if pattern == "random" else 0.0
    found = estimate(work, table.machine, Conditions(Activity(share, share), temperature_c))
    assert found.energy_j == pytest.approx(truth_j, rel=0.02)
    assert found.low_j < truth_j < found.high_j
    # Nor is it static power alone that comes out right.
    static_j = next(part.energy_j for part in found.parts if part.name == "static")
    assert found.energy_j - static_j == pytest.approx(truth_j - static_j, rel=0.05)
    assert static_j < 0.9 * truth_j
