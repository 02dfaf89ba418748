"""The estimator beside the sensor, on the simulated GPU, by a table that the suite measured there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fakes.measuring import asked

from ptxbench.errors import InputError
from ptxbench.gpu.simulated.gpu import SimulatedGpu
from ptxbench.gpu.simulated.profiles import A100
from ptxbench.measure.run import measure_table
from ptxbench.measure.start import start_run
from ptxbench.tune.bench import Asked, Bench
from ptxbench.tune.evaluate import quality
from ptxbench.tune.kernel import build_kernel
from ptxbench.tune.model_energy import open_model
from ptxbench.tune.space import search_space
from ptxbench.tune.variant import DType, Problem

# Rows whose SASS the kernels of f32 are mostly made of.
ROWS = ("fma.rn.f32", "add.u32", "ld.shared.v4.b32", "st.shared.b32", "ld.global.nc.v4.b32")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "run"
    gpu = SimulatedGpu(poll_interval_s=0.02)
    with start_run(gpu, asked(*ROWS, min_repeats=2, max_repeats=2), path) as folder:
        measure_table(gpu, folder)
    return path


def test_energies_are_foretold_and_ranked(table: Path) -> None:
    gpu = SimulatedGpu(seed=3)
    problem = Problem(DType.F32, 1024, 1024, 1024)
    bench = Bench(gpu, problem, Asked(window_s=0.5), open_model(table, gpu.info))
    fast = [v for v in search_space(problem, "sm_90a").variants if v.vector == 4 and v.blk_k == 8]
    trials = [bench.measure(build_kernel(v, "sm_90a")) for v in random.Random(2).sample(fast, 8)]
    assert [t.reason for t in trials if not t.ok] == []
    found = quality(trials)
    assert found.spearman > 0.95
    assert found.mean_error < 0.03
    assert all(t.estimated_low_j < t.energy_j < t.estimated_high_j for t in trials)


def test_a_table_of_another_gpu_is_refused(table: Path) -> None:
    with pytest.raises(InputError, match=r"is a table of NVIDIA H200 .*, and this GPU is NVIDIA A100"):
        open_model(table, SimulatedGpu(A100).info)
