"""Tuning on the simulated GPU, from the search to the folder."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tune.fakes_tune import SMALL, TINY, VARIANT, ComputingGpu, FlatModel

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.ground_truth import opcode_energy_pj
from ptxbench.devices.simulated.load import H200
from ptxbench.tune.check import Correct
from ptxbench.tune.folder import VARIANTS, TuningFolder, tuning_manifest
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.kernel import Kernel, Refused, build_kernel
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.search import Evaluator, search_by_estimate
from ptxbench.tune.search_options import TuningOptions
from ptxbench.tune.space import load_axes, search_space
from ptxbench.tune.tuning import Tuning, tune, usual_strategy
from ptxbench.tune.variant import DType, Form, Problem, Variant
from ptxbench.tune.variant_runner import TrialOptions, VariantRunner

ENERGY = Goal(Objective.ENERGY)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    built = build_kernel(VARIANT, "sm_90a")
    assert isinstance(built, Kernel)
    return built


@pytest.mark.parametrize(
    ("variant", "opcode", "registers"),
    [
        (Variant(DType.F32, 16, 16, 128, 128, 8, 2, 32, 4, 2, 4, 1), "FFMA", 136),
        (Variant(DType.F64, 16, 16, 64, 64, 8, 4, 32, 2, 2, 2, 1), "DFMA", 128),
        (Variant(DType.F16, 16, 16, 128, 128, 32, 4, 16, 8, 4, 8, 1), "HMMA.16816.F32", 168),
    ],
    ids=lambda v: str(v)[:20],
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_kernel_executes_just_the_products(
    variant: Variant, opcode: str, registers: int, target: str
) -> None:
    built = build_kernel(variant, target)
    assert isinstance(built, Kernel)
    assert built.resources.registers <= registers
    problem = Problem(variant.dtype, 512, 512, 512)
    # A warp's HMMA.16816 does 16 x 8 x 16 products, which are 64 a thread.
    each = 64 if variant.dtype is DType.F16 else 1
    assert built.executed(problem)[opcode] * each == 512**3


def test_a_variant_that_spills_is_refused() -> None:
    tight = replace(VARIANT, blk_m=128, blk_n=128, min_blocks=5)
    built = build_kernel(tight, "sm_90a")
    assert isinstance(built, Refused)
    assert "spills" in built.reason


def test_a_right_kernel_is_timed_and_measured(kernel: Kernel) -> None:
    trial = VariantRunner(ComputingGpu(), Gemm(SMALL), TrialOptions(), FlatModel()).measure(kernel)
    assert trial.status is TrialStatus.OK, trial.reason
    assert trial.correct is Correct.YES
    assert trial.energy_j == pytest.approx(trial.power_w * trial.steady_s)
    assert trial.estimated_j == pytest.approx(
        sum(o.count for o in trial.executed) * 10e-12 + 100 * trial.time_s
    )


def test_energy_is_what_the_simulated_gpu_charges(kernel: Kernel) -> None:
    problem = Problem(DType.F32, 1024, 1024, 1024)
    trial = VariantRunner(SimulatedGpu(), Gemm(problem), TrialOptions(window_s=1.0), None).measure(kernel)
    dynamic_j = (
        sum(n * opcode_energy_pj(op, "random", H200) for op, n in kernel.executed(problem).items()) * 1e-12
    )
    static_w = 125.5 + 0.35 * (trial.temperature_c - 40)
    assert trial.energy_j == pytest.approx(dynamic_j + static_w * trial.steady_s, rel=0.02)


def test_wrong_results_are_never_timed(kernel: Kernel) -> None:
    gpu = ComputingGpu()
    gpu.factor = 1 + 1e-4
    trial = VariantRunner(gpu, Gemm(SMALL), TrialOptions(), FlatModel()).measure(kernel)
    assert trial.status is TrialStatus.WRONG
    assert trial.correct is Correct.NO
    assert "results are wrong, first C[" in trial.reason
    assert math.isnan(trial.time_s)
    assert math.isnan(trial.energy_j)


def test_one_element_at_the_edge_of_an_updated_product_is_found() -> None:
    problem = Problem(DType.F32, 250, 212, 190, beta=0.5)
    tunable, gpu = Gemm(problem), ComputingGpu()
    built = tunable.build(replace(VARIANT, vector=2), "sm_90a")
    assert isinstance(built, Kernel)
    assert built.form == Form(beta=0.5, edge_m=True, edge_n=True, edge_k=True)
    gpu.beta = 0.5
    assert tunable.check(gpu, built) == (Correct.YES, "")
    gpu.off = 1.0
    correct, why = tunable.check(gpu, built)
    assert correct is Correct.NO
    assert why.startswith("1 of ")


def test_power_of_a_pruned_variant_is_not_measured(kernel: Kernel) -> None:
    trial = VariantRunner(ComputingGpu(), Gemm(SMALL), TrialOptions(), FlatModel()).measure(
        kernel, objection=lambda _: "too dear"
    )
    assert (trial.status, trial.reason) == (TrialStatus.PRUNED, "too dear")
    assert trial.time_s > 0
    assert math.isnan(trial.energy_j)


def test_a_kernel_that_does_not_launch_ends_only_its_trial(kernel: Kernel) -> None:
    gpu = ComputingGpu()
    gpu.refuses = True
    trial = VariantRunner(gpu, Gemm(SMALL), TrialOptions(), None).measure(kernel)
    assert trial.status is TrialStatus.LAUNCH_FAILED
    assert "OUT_OF_RESOURCES" in trial.reason


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("space") / "tiny.toml"
    file.write_text(TINY)
    return file


def tuning(tiny: Path, budget: int, **change: object) -> Tuning:
    plain = Tuning(SMALL, ENERGY, TrialOptions(window_s=0.1), budget=budget, jobs=2, space=tiny)
    return replace(plain, **change)


def test_what_was_stopped_goes_on_where_it_was(tmp_path: Path, tiny: Path) -> None:
    at = tmp_path / "t"
    first = tune(SimulatedGpu(), tuning(tiny, 2), at)
    # As if the process had died within a line.
    (at / "trials.jsonl").write_bytes((at / "trials.jsonl").read_bytes() + b'{"variant": {"dty')
    again = tune(SimulatedGpu(), tuning(tiny, 4), resume=at)
    assert again.trials[:2] == first.trials
    assert len(again.trials) == 4
    # Searching from the start tries the same variants.
    whole = tune(SimulatedGpu(), tuning(tiny, 4), tmp_path / "whole")
    assert [t.variant for t in whole.trials] == [t.variant for t in again.trials]
    with (at / VARIANTS).open() as file:
        rows = list(csv.DictReader(file))
    assert [r["variant"] for r in rows] == [t.variant.name for t in again.trials]
    assert {r["correct"] for r in rows} == {"unchecked"}
    assert [t.variant for t in TuningFolder.read(at).trials.values()] == [t.variant for t in again.trials]


def test_a_folder_of_something_else_is_not_gone_on_with(tmp_path: Path, tiny: Path) -> None:
    tune(SimulatedGpu(), tuning(tiny, 1), tmp_path / "t")
    other = tuning(tiny, 2, problem=Problem(DType.F32, 512, 512, 512))
    with pytest.raises(InputError, match="measured with problem"):
        tune(SimulatedGpu(), other, resume=tmp_path / "t")
    with pytest.raises(InputError, match="measured with board"):
        tune(SimulatedGpu(seed=5), tuning(tiny, 2), resume=tmp_path / "t")
    with pytest.raises(InputError, match="already holds a run"):
        tune(SimulatedGpu(), tuning(tiny, 2), tmp_path / "t")


def test_simulated_tuning_stays_out_of_results(tmp_path: Path, tiny: Path) -> None:
    with pytest.raises(InputError, match="for real GPUs"):
        tune(SimulatedGpu(), tuning(tiny, 1), tmp_path / "results" / "t")


def test_settings_that_do_not_go_together(tmp_path: Path, tiny: Path) -> None:
    with pytest.raises(InputError, match="give `table`"):
        tune(SimulatedGpu(), tuning(tiny, 1, strategy="estimate"), tmp_path / "t")
    with pytest.raises(InputError, match="gives no energy"):
        tune(SimulatedGpu(), tuning(tiny, 1, options=TrialOptions(power=False)), tmp_path / "t")
    with pytest.raises(InputError, match="power_limit_w"):
        tune(SimulatedGpu(), tuning(tiny, 1, goal=Goal(Objective.POWER_LIMITED)), tmp_path / "t")
    with pytest.raises(InputError, match="no strategy is called 'annealing'"):
        tune(SimulatedGpu(), tuning(tiny, 1, strategy="annealing"), tmp_path / "u")


def test_the_estimator_s_order_is_the_order_of_trying(tmp_path: Path, tiny: Path) -> None:
    gpu, options = SimulatedGpu(), TrialOptions(power=False)
    runner = VariantRunner(gpu, Gemm(SMALL), options, FlatModel())
    folder = TuningFolder.create(tmp_path / "t", tuning_manifest(gpu, SMALL, options, "flat"))
    space = search_space(SMALL, "sm_90a", load_axes(DType.F32, tiny))
    search_by_estimate(space, Evaluator(runner, folder, 3, 2), ENERGY, 1, candidates=6)
    tried = list(folder.trials.values())
    folder.close()
    assert len(tried) == 3
    predicted = [runner.predict(build_kernel(t.variant, "sm_90a")).estimated_j for t in tried]
    assert predicted == sorted(predicted)


def test_all_are_timed_and_the_power_of_the_estimate_s_first_alone_is_measured(
    tmp_path: Path, tiny: Path
) -> None:
    gpu, options = SimulatedGpu(), TrialOptions(window_s=0.1)
    runner = VariantRunner(gpu, Gemm(SMALL), options, FlatModel())
    folder = TuningFolder.create(tmp_path / "t", tuning_manifest(gpu, SMALL, options, "flat"))
    space = search_space(SMALL, "sm_90a", load_axes(DType.F32, tiny))
    search_by_estimate(space, Evaluator(runner, folder, 7, 2), ENERGY, 1, candidates=8, sample=1, timed=True)
    held = list(folder.trials.values())
    folder.close()
    assert all(t.time_s > 0 and t.estimated_j > 0 for t in held)
    first = sorted(held, key=lambda t: t.estimated_j)[:5]
    drawn = [t for t in held if t.sampled]
    assert len(drawn) == 1
    measured = {t.name for t in held if t.energy_j > 0}
    assert measured == {t.name for t in (*first, *drawn)}
    assert {t.status for t in held if t.name not in measured} == {TrialStatus.PRUNED}
    # What is resumed measures nothing again.
    again = TuningFolder.reopen(tmp_path / "t")
    Evaluator(runner, again, 7, 2).measure_first(ENERGY)
    again.close()
    assert list(again.trials.values()) == held


def test_without_an_estimate_times_say_whose_power_is_measured(tmp_path: Path, tiny: Path) -> None:
    gpu, options = SimulatedGpu(), TrialOptions(window_s=0.1)
    runner = VariantRunner(gpu, Gemm(SMALL), options, None)
    folder = TuningFolder.create(tmp_path / "t", tuning_manifest(gpu, SMALL, options, ""))
    evaluator = Evaluator(runner, folder, 6, 2)
    variants = search_space(SMALL, "sm_90a", load_axes(DType.F32, tiny)).candidates[:6]
    times = {t.name: t.time_s for t in evaluator.trials(variants, timed_only=True)}
    evaluator.measure_first(ENERGY)
    (left,) = [t.name for t in folder.trials.values() if not t.energy_j > 0]
    assert times[left] == max(times.values())
    folder.close()


@pytest.mark.parametrize(
    ("change", "strategy"),
    [
        ({}, "random"),
        ({"table": Path("run")}, "timed"),
        ({"table": Path("run"), "prune": 1.1}, "estimate"),
        ({"table": Path("run"), "options": TrialOptions(power=False)}, "estimate"),
        ({"goal": Goal(Objective.TIME)}, "estimate"),
    ],
)
def test_the_strategy_where_none_is_named(tiny: Path, change: dict[str, object], strategy: str) -> None:
    assert usual_strategy(tuning(tiny, 1, **change)) == strategy


def test_timed_needs_a_table_and_power(tmp_path: Path, tiny: Path) -> None:
    with pytest.raises(InputError, match="timed needs a table"):
        tune(SimulatedGpu(), tuning(tiny, 1, strategy="timed"), tmp_path / "t")
    with pytest.raises(InputError, match="take estimate for times alone"):
        tune(SimulatedGpu(), tuning(tiny, 1, strategy="timed", goal=Goal(Objective.TIME)), tmp_path / "t")


def test_a_real_gpu_has_the_table_of_its_kind_and_another_has_none(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RealGpu(SimulatedGpu):
        @property
        def info(self) -> GpuInfo:
            return replace(super().info, kind=GpuKind.REAL, name=named)

    def opened(path: Path, *_: object) -> None:
        raise ValueError(path.name)

    monkeypatch.setattr("ptxbench.tune.tuning.open_model", opened)
    named = "NVIDIA H100 80GB HBM3"
    with pytest.raises(ValueError, match="nvidia-h100"):
        tune(RealGpu(), tuning(tiny, 1), tmp_path / "t")
    # One that is named, or a strategy that is, is what is done.
    with pytest.raises(ValueError, match="mine"):
        tune(RealGpu(), tuning(tiny, 1, table=Path("mine")), tmp_path / "t")
    with pytest.raises(InputError, match="estimate needs a table"):
        tune(RealGpu(), tuning(tiny, 1, strategy="estimate"), tmp_path / "t")


def test_every_strategy_of_kernel_tuner_finds_variants(tmp_path: Path, tiny: Path) -> None:
    pytest.importorskip("kernel_tuner", reason="the extra tune is not installed")
    for name in ("genetic_algorithm", "greedy_ils"):
        found = tune(
            SimulatedGpu(),
            tuning(tiny, 3, strategy=name, options=TrialOptions(power=False), goal=Goal(Objective.TIME)),
            tmp_path / name,
        )
        assert 1 <= len(found.trials) <= 3
        assert found.best


@pytest.mark.parametrize(("budget", "sample", "candidates"), [(2, 0, 32), (5, 1, 40), (50, 5, 256)])
def test_of_a_small_budget_most_is_left_to_the_estimate(budget: int, sample: int, candidates: int) -> None:
    tuning = TuningOptions(trials=budget, sample=5).tuning(SMALL)
    assert (tuning.sample, tuning.candidates) == (sample, candidates)
