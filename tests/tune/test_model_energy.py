"""The estimator beside the sensor, on the simulated GPU, by a table that the suite measured there."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.measuring import asked
from tune.fakes_tune import SMALL, VARIANT

from ptxbench.analysis.static_power import StaticPower
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.profiles import A100
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.model.estimate import Machine
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.terms import UNFITTED, AccessEnergy, ByteEnergy
from ptxbench.model.work import Access, Level
from ptxbench.tune.bench import Bench, BenchOptions
from ptxbench.tune.estimate import OpcodeCount, work_by_tiles
from ptxbench.tune.evaluate import quality
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.kernel import build_kernel
from ptxbench.tune.model_energy import ModelEnergy, open_model
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.space import search_space
from ptxbench.tune.tuning import Tuning, tune
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
    bench = Bench(gpu, Gemm(problem), BenchOptions(window_s=0.5), open_model(table, gpu.info))
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


def test_a_table_of_another_gpu_is_refused_before_anything_is_solved(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("solved")

    # Solving a whole table takes a minute, which this one does not keep.
    (tmp_path / "manifest.json").write_bytes((table / "manifest.json").read_bytes())
    monkeypatch.setattr("ptxbench.model.solve_run.solve_run", refuse)
    with pytest.raises(InputError, match="this GPU is NVIDIA A100"):
        tune(SimulatedGpu(A100), Tuning(SMALL, Goal(Objective.ENERGY), table=tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bank_conflicts_cost_what_the_fitted_byte_of_shared_memory_costs() -> None:
    terms = replace(UNFITTED, bytes_pj=(ByteEnergy(Level.SHARED, 5.0, 1.0, 0.0),))
    machine = Machine(
        OpcodeEnergies({"FFMA": Known(10.0, 0.1)}, {}), terms, StaticPower(40, 100, 0, 0, 0), 700.0
    )
    executed = (OpcodeCount("FFMA", 256**3),)

    def energy_j(pad: int, pattern: str) -> float:
        work = work_by_tiles(replace(VARIANT, pad=pad), executed, SMALL)
        return ModelEnergy(machine, pattern).energy_j(work, 1e-4, 40.0).energy_j

    # A warp puts its 4 rows of A in 16 wavefronts without padding, and in 8 with it.
    more = 16 * 16 * 8 * (16 - 8) * 128
    assert energy_j(0, "random") - energy_j(4, "random") == pytest.approx(more * 5e-12)
    assert energy_j(0, "zeros") - energy_j(4, "zeros") == pytest.approx(more * 1e-12)


def test_what_asks_l2_for_short_pieces_costs_by_its_requests() -> None:
    terms = replace(UNFITTED, accesses_pj=(AccessEnergy(Access.L2_REQUEST, 500.0, 0.0),))
    machine = Machine(
        OpcodeEnergies({"FFMA": Known(10.0, 0.1)}, {}), terms, StaticPower(40, 100, 0, 0, 0), 700.0
    )

    def of(a_k: int) -> tuple[float, float]:
        work = work_by_tiles(replace(VARIANT, a_k=a_k), (OpcodeCount("FFMA", 1),), SMALL)
        return work.read_requests, ModelEnergy(machine).energy_j(work, 1e-4, 40.0).energy_j

    (few, cheap), (many, dear) = of(2), of(1)
    assert many > few
    assert dear - cheap == pytest.approx((many - few) * 500e-12)


def test_each_level_gets_the_bytes_that_pass_it() -> None:
    work = work_by_tiles(VARIANT, (), SMALL)
    # 16 blocks read 64 rows and 64 columns of 256 elements each.
    assert work.read_bytes == 16 * 128 * 256 * 4
    assert work.written_bytes == 256 * 256 * 4
    assert work.dram_bytes == 3 * 256 * 256 * 4
