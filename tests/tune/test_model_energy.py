"""The estimator beside the sensor, on the simulated GPU, by a table that the suite measured there."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from fakes.measuring import asked
from tune.fakes_tune import SMALL, VARIANT

from ptxbench.analysis.static_power import StaticPower
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import find_profile
from ptxbench.experiment.clock_sweep import sweep_clocks
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.model.estimate import Machine
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.terms import UNFITTED, AccessEnergy, ByteEnergy
from ptxbench.model.work import Access, Level
from ptxbench.tune.clocks.ranking import rank_clocks
from ptxbench.tune.estimate import OpcodeCount, modelled_time_s, work_by_tiles
from ptxbench.tune.evaluate import ranking
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.kernel import Kernel, build_kernel
from ptxbench.tune.model_energy import ModelEnergy, open_model
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.space import search_space
from ptxbench.tune.trial import Trial
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.variant import DType, Problem, Variant
from ptxbench.tune.variant_runner import TrialOptions, VariantRunner

A100 = find_profile("a100")

# Rows whose SASS the kernels of f32 are mostly made of.
ROWS = ("fma.rn.f32", "add.u32", "ld.shared.v4.b32", "st.shared.b32", "ld.global.nc.v4.b32")

# The shape of VARIANT alone.
ONE_SPACE = """
[f32]
dim_m = [16]
dim_n = [16]
blk_m = [64]
blk_n = [64]
blk_k = [16]
a_k = [4]
b_n = [16]
vector = [4]
buffers = [1, 2]
pad = [4]
min_blocks = [1]
[f32.bounds]
min_occupancy = 0.1
min_fma_per_byte = 1.0
min_tile = 16
max_tile = 64
max_aspect = 4
max_unrolled = 512
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "run"
    gpu = SimulatedGpu(poll_interval_s=0.02)
    with start_run(gpu, asked(*ROWS, min_repeats=2, max_repeats=2), path) as folder:
        measure_table(gpu, folder)
    return path


def test_energies_are_predicted_and_ranked(table: Path) -> None:
    gpu = SimulatedGpu(seed=3)
    problem = Problem(DType.F32, 1024, 1024, 1024)
    runner = VariantRunner(gpu, Gemm(problem), TrialOptions(window_s=0.5), open_model(table, gpu.info))
    fast = [v for v in search_space(problem, "sm_90a").variants if v.vector == 4 and v.blk_k == 8]
    trials = [runner.measure(build_kernel(v, "sm_90a")) for v in random.Random(2).sample(fast, 8)]
    assert [t.reason for t in trials if not t.ok] == []
    found = ranking(trials)
    assert found is not None
    assert found.estimate > 0.95
    assert found.estimate_error < 0.03
    assert all(t.estimated_low_j < t.energy_j < t.estimated_high_j for t in trials)


@pytest.mark.parametrize(
    "search", ["nvidia-h200/gemm/f64", "nvidia-h200/gemm-best/f16", "nvidia-h100/tunings/gemm-f64-mma"]
)
def test_the_time_by_code_alone_is_that_of_the_fastest_and_of_the_slowest_kept_kernel(search: str) -> None:
    folder = TuningFolder.read(Path(__file__).parents[2] / "results" / search)
    problem = folder.manifest.part.problem
    assert isinstance(problem, Problem)
    kept = sorted((one for one in folder.trials.values() if one.ok), key=lambda one: one.time_s)
    for one in (kept[0], kept[-1]):
        assert isinstance(one.variant, Variant)
        kernel = build_kernel(one.variant, "sm_90a", one.variant.form(problem))
        assert isinstance(kernel, Kernel)
        assert 0.7 < modelled_time_s(kernel, problem, 132, 1980.0) / one.time_s < 1.35


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


@pytest.fixture(scope="module")
def clock_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Power of the load at clocks of the simulated GPU, as `ptxbench clocks ridge --samples` takes it."""
    folder = tmp_path_factory.mktemp("samples")
    gpu = SimulatedGpu(poll_interval_s=0.02)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        samples = sweep_clocks(gpu, gpu.settable, 10, lambda _: None, allowed=True)
    lines = [f"{one.clock_mhz},{one.power_w}" for one in samples]
    (folder / "samples.csv").write_text("\n".join(["clock_mhz,power_w", *lines]) + "\n")
    return folder / "samples.csv"


GEMM_1024 = Problem(DType.F32, 1024, 1024, 1024)


def measured_at(settings: GpuSettings, runner: VariantRunner) -> Trial:
    settable = runner.gpu.settable
    before = settable.settings()
    settable.set_clocks(settings.sm_clock_mhz or before.sm_clock_mhz, before.memory_clock_mhz)
    settable.set_power_limit(settings.power_limit_mw or before.power_limit_mw)
    try:
        return runner.measure(build_kernel(VARIANT, "sm_90a"), settings=settings)
    finally:
        settable.set_clocks(before.sm_clock_mhz, before.memory_clock_mhz)
        settable.set_power_limit(before.power_limit_mw)


@pytest.mark.parametrize(
    "settings", [GpuSettings(1980), GpuSettings(1500), GpuSettings(990), GpuSettings(None, None, 300_000)]
)
def test_energy_and_time_at_another_clock_come_from_the_voltage_curve(
    table: Path, clock_samples: Path, settings: GpuSettings
) -> None:
    gpu = SimulatedGpu(seed=3)
    model = open_model(table, gpu.info, samples=clock_samples)
    runner = VariantRunner(gpu, Gemm(GEMM_1024), TrialOptions(window_s=0.5), model)
    trial = measured_at(settings, runner)
    if settings.power_limit_mw is not None:
        assert trial.capped
        # The simulated GPU slows even the brief timing down, which a real one has no time to do.
        free_s = measured_at(GpuSettings(), runner).time_s
        trial = trial.estimated_by(model, GEMM_1024, free_s, trial.temperature_c)
    assert trial.estimated_j == pytest.approx(trial.energy_j, rel=0.04)
    assert trial.estimated_low_j < trial.energy_j < trial.estimated_high_j
    assert trial.estimated_s == pytest.approx(trial.steady_s, rel=0.04)


def test_without_a_voltage_curve_an_unseen_clock_widens_the_interval_and_one_above_is_refused(
    table: Path, clock_samples: Path
) -> None:
    gpu = SimulatedGpu()
    work = work_by_tiles(VARIANT, (OpcodeCount("FFMA", 10**12),), GEMM_1024)
    low = GpuSettings(990)
    by_law = open_model(table, gpu.info).energy_j(work, 0.01, 40.0, low)
    by_curve = open_model(table, gpu.info, samples=clock_samples).energy_j(work, 0.01, 40.0, low)
    assert by_law.high_j - by_law.low_j > 3 * (by_curve.high_j - by_curve.low_j)
    with pytest.raises(InputError, match="1980 MHz at most"):
        open_model(table, gpu.info).energy_j(work, 0.01, 40.0, GpuSettings(2100))


def test_pairs_are_ranked_without_a_run_and_the_first_is_near_the_best_of_a_sweep(
    table: Path, clock_samples: Path, tmp_path: Path
) -> None:
    class IdleGpu(SimulatedGpu):
        def run(self, launch: object) -> NoReturn:
            pytest.fail("nothing may run")

    file = tmp_path / "one.toml"
    file.write_text(ONE_SPACE)
    tuning = Tuning(GEMM_1024, Goal(Objective.ENERGY), table=table, samples=clock_samples, space=file)
    found = rank_clocks(IdleGpu(), tuning)
    assert found.clocks_mhz[0] == 345
    assert len(found.best) == found.predicted * len(found.clocks_mhz)
    assert [t.estimated_j for t in found.best] == sorted(t.estimated_j for t in found.best)
    runner = VariantRunner(SimulatedGpu(seed=3), Gemm(GEMM_1024), TrialOptions(window_s=0.3), None)
    predicted = next(t for t in found.best if t.variant == VARIANT).settings
    settings = [GpuSettings(mhz) for mhz in found.clocks_mhz[5::3]]
    least_j = min(measured_at(one, runner).energy_j for one in settings)
    assert measured_at(predicted, runner).energy_j < 1.05 * least_j
