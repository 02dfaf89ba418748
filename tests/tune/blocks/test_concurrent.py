"""Kernels at once, tuned on a simulated GPU: what is kept, what is chosen, and the command line."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.script import load_script
from tune.fakes_kernel import AddingGpu, write_spec

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.tune.blocks.concurrent import ConcurrentRunner
from ptxbench.tune.blocks.concurrent_search import ConcurrentTuning, tune_concurrently
from ptxbench.tune.blocks.search import block_variants, default_block
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.user_kernel import UserKernel
from ptxbench.tune.variant import DType, Problem
from ptxbench.tune.variant_runner import TrialOptions

SIZES = ("BLOCK = [64, 128]", "BLOCK = [32, 64, 96, 256, 1024]")
MORE = ('MORE = { from = 1, to = "BLOCK // 8", factor = 4 }', "MORE = [64]")
ANY = ('filters = ["BLOCK * MORE <= 4096"]', "filters = []")
REFERENCE = 'kernel = "other.ptx"\nname = "other"\ngrid = 1\nblock = 1'


def spec(folder: Path, more: int = 64, n: int = 300_000) -> Path:
    """A kernel of five block sizes."""
    changes = (SIZES, (MORE[0], f"MORE = [{more}]"), ANY, ("n = 262144", f"n = {n}"))
    return write_spec(folder, *changes)


@pytest.fixture
def tuning(tmp_path: Path) -> ConcurrentTuning:
    specs = load_spec(spec(tmp_path / "a")), load_spec(spec(tmp_path / "b", more=8))
    return ConcurrentTuning(specs, window_s=0.1, jobs=2)


def test_one_variant_stands_for_each_block_size_with_its_own_registers(tmp_path: Path) -> None:
    found = block_variants(UserKernel(load_spec(spec(tmp_path))), "sm_90a", 2)
    assert [one.threads for one in found] == [32, 64, 96, 256, 1024]
    # 32 blocks are the most: 32 threads fill half of an SM, 96 leave one warp out.
    assert [one.occupancy for one in found] == [0.5, 1.0, 63 / 64, 1.0, 1.0]
    assert default_block(found).threads == 256


def test_the_strategy_tries_sizes_of_high_occupancy_until_the_next_is_no_better(tmp_path: Path) -> None:
    plain = Tuning(load_spec(spec(tmp_path / "a")), Goal(Objective.ENERGY), TrialOptions(window_s=0.1))
    tuned = tune(AddingGpu(), replace(plain, strategy="guerreiro", jobs=2), tmp_path / "t")
    tried = [trial.variant.by_axis["BLOCK"] for trial in tuned.trials]
    assert tried == [1024, 256, 64, 96][: len(tried)]
    energies = [trial.energy_j for trial in tuned.trials]
    assert len(tried) >= 2
    assert all(later < before for before, later in itertools.pairwise(energies[:-1]))
    few = tune(AddingGpu(), replace(plain, strategy="guerreiro", budget=1, jobs=2), tmp_path / "few")
    assert [trial.variant.by_axis["BLOCK"] for trial in few.trials] == [1024]


CLOCKED = ("--gpu", "simulated:h200-clocks", "--allow-settings", "--window", "0.1")


def test_the_strategy_lowers_the_clock_while_that_pays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", "kernel", str(spec(tmp_path / "a")), "--strategy", "guerreiro", *CLOCKED]
    assert run([*words, "--clocks", "1980,1500,1005", "--out", str(tmp_path / "t")]) == 0
    trials = TuningFolder.read(tmp_path / "t").trials.values()
    energies_j = {(t.settings.sm_clock_mhz, t.variant.by_axis["BLOCK"]): t.energy_j for t in trials}
    # The clock first, with the first block, until the next is no better; then the blocks at the clock found.
    assert energies_j[1500, 1024] < min(energies_j[1980, 1024], energies_j[1005, 1024])
    assert {clock for clock, block in energies_j if block != 1024} == {1500}
    assert run([*words, "--power-limits", "500,600", "--out", str(tmp_path / "w")]) == 2
    assert "chooses block size and SM clock" in capsys.readouterr().err


def test_kernels_at_once_are_tuned_with_the_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "concurrent", str(spec(tmp_path / "a")), str(spec(tmp_path / "b", more=8)), *CLOCKED]
    out = ["--out", str(tmp_path / "t"), "--json"]
    assert run([*words, "--clocks", "1980,1500,1005", "--high-occupancy", "0.99", *out]) == 0
    found = json.loads(capsys.readouterr().out)
    lines = [json.loads(line) for line in (tmp_path / "t" / "trials.jsonl").read_text().splitlines()]
    assert {one["clock_mhz"] for one in lines} <= {1980, 1500, 1005}
    assert len({one["clock_mhz"] for one in lines}) >= 2
    # 96 threads have an occupancy of 63/64: three of five sizes are over 0.99.
    assert (found["high_occupancy"], found["possible"]) == (3 * 3 * 3, 3 * 25)
    assert found["chosen"]["energy_j"] < found["default"]["energy_j"]
    assert run([*words, "--clocks", "model"]) == 2


def test_the_strategy_is_none_for_matrix_products(tmp_path: Path) -> None:
    gemm = Tuning(Problem(DType.F32, 256, 256, 256), Goal(Objective.ENERGY), strategy="guerreiro")
    with pytest.raises(InputError, match="block size of a kernel that a specification describes"):
        tune(SimulatedGpu(), gemm, tmp_path / "t")


def test_a_round_costs_what_the_simulated_gpu_charges(tmp_path: Path, tuning: ConcurrentTuning) -> None:
    gpu = SimulatedGpu()
    kernels = [UserKernel(one) for one in tuning.specs]
    chosen = [default_block(block_variants(one, "sm_90a", 2)) for one in kernels]
    together = ConcurrentRunner(gpu, kernels, 0.5).measure(chosen)
    alone = [ConcurrentRunner(gpu, [k], 0.5).measure([one]) for k, one in zip(kernels, chosen, strict=True)]
    assert together.ok
    assert max(t.time_s for t in alone) < together.time_s < sum(t.time_s for t in alone)
    assert max(together.kernel_s) == pytest.approx(together.time_s)
    # Dynamic energy adds up, so that the time saved is saved at static power, some 130 W.
    saved_s = sum(t.time_s for t in alone) - together.time_s
    saved_j = sum(t.energy_j for t in alone) - together.energy_j
    assert saved_j / saved_s == pytest.approx(130, rel=0.15)


def test_every_run_is_kept_and_none_made_twice(tmp_path: Path, tuning: ConcurrentTuning) -> None:
    out = tmp_path / "runs"
    first = tune_concurrently(SimulatedGpu(), tuning, out)
    lines = (out / "trials.jsonl").read_text()
    kept = Counter(json.dumps(json.loads(line)["variants"]) for line in lines.splitlines())
    assert len(kept) == len(first.trials) >= first.iterations
    # The five best are made again at the end, and those that come to stand among them.
    assert 5 <= list(kept.values()).count(2) == sum(len(t.energies_j) == 2 for t in first.trials)
    assert len(first.chosen.energies_j) == 2
    again = tune_concurrently(SimulatedGpu(), tuning, resume=out)
    # The search walks by what it knows now; what it had is not made once more.
    assert (out / "trials.jsonl").read_text().startswith(lines)
    later = {t.name: t for t in again.trials}
    # Nothing is lost, and what was made again stands; one that comes to stand among the best is made again.
    assert later.keys() >= {t.name for t in first.trials}
    assert all(later[t.name] == t for t in first.trials if t.energies_j)
    changed = [later[t.name] for t in first.trials if later[t.name] != t]
    assert all(len(t.energies_j) == 2 for t in changed)
    every = tune_concurrently(SimulatedGpu(), replace(tuning, exhaustive=True), resume=out)
    assert len([t for t in every.trials if not t.alone]) == every.possible == 25
    assert every.best.energy_j <= every.chosen.energy_j
    assert every.chosen.energy_j <= 1.001 * every.default.energy_j
    with pytest.raises(InputError, match="measured with window_s"):
        tune_concurrently(SimulatedGpu(), replace(tuning, window_s=0.2), resume=out)
    with pytest.raises(InputError, match="already holds a run"):
        tune_concurrently(SimulatedGpu(), tuning, out)


class CostlyTogether(SimulatedGpu):
    """A GPU on which kernels at once take twice as long as in turn."""

    def run_concurrently(self, launches, rounds=1):
        many = [*launches, *launches, *launches] if len(launches) > 1 else launches
        found = super().run_concurrently(many, rounds)
        return replace(found, kernel_s=found.kernel_s[: len(launches)])


@pytest.mark.parametrize(("gpu", "how"), [(CostlyTogether, "in turn"), (SimulatedGpu, "at once")])
def test_the_best_of_all_runs_is_recommended_at_once_or_in_turn(
    tmp_path: Path, tuning: ConcurrentTuning, gpu: type[SimulatedGpu], how: str
) -> None:
    found = tune_concurrently(gpu(), tuning, tmp_path / "runs")
    assert (found.recommended is found.best) == (how == "at once")
    in_turn = found.in_turn
    assert found.recommended.energy_j == min(found.best.energy_j, in_turn.energy_j)
    assert found.best.energy_j <= min(found.chosen.energy_j, found.default.energy_j)
    assert in_turn.time_s == pytest.approx(sum(one.time_s for one in found.alone))
    assert [one.alone for one in found.alone] == [1, 2]
    assert all(len(one.energies_j) == 2 for one in found.alone)


def test_a_window_that_the_sensor_does_not_settle_in_is_refused_at_once(
    tmp_path: Path, tuning: ConcurrentTuning, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="window_s must be"):
        tune_concurrently(SimulatedGpu(), replace(tuning, window_s=0.01), tmp_path / "runs")
    words = ["tune", "kernel", str(spec(tmp_path / "c")), "--gpu", "simulated", "--window", "0.02"]
    assert run([*words, "--out", str(tmp_path / "t")]) == 2
    assert "--window must be" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()
    assert not (tmp_path / "runs").exists()


def test_a_wrong_kernel_is_named_and_never_run_beside_others(
    tmp_path: Path, tuning: ConcurrentTuning
) -> None:
    gpu = AddingGpu()
    gpu.wrong = 1
    found = tune_concurrently(gpu, tuning, tmp_path / "runs")
    assert {trial.status for trial in found.trials} == {TrialStatus.WRONG}
    assert found.chosen.reason.startswith("twice: ")


def test_the_table_compares_with_the_best_of_all_runs(tmp_path: Path, tuning: ConcurrentTuning) -> None:
    gpu = SimulatedGpu()
    kernels = [UserKernel(one) for one in tuning.specs]
    sizes = tuple(block_variants(one, "sm_90a", 2) for one in kernels)
    table = load_script("runners/block_table.py")
    case = table.BlockCase(("a", "b"), sizes, (0,), {})
    runner = ConcurrentRunner(gpu, kernels, 0.1)
    trials = [runner.measure(one) for one in case.combinations]
    rows = table.block_rows(replace(case, trials={one.name: one for one in trials}))
    assert [(row.algorithm, row.objective) for row in rows] == [(3, "time"), (3, "energy")]
    for row, cost in zip(rows, ("time_s", "energy_j"), strict=True):
        best = min(getattr(one, cost) for one in trials)
        assert row.gap == pytest.approx(getattr(row.chosen, cost) / best - 1)
        # 32 threads leave half of an SM empty: 4 of 5 sizes are tried.
        assert (row.tried, row.possible) == (16, 25)
        assert 2 < row.iterations < 16
    assert (rows[0].energy_saved, rows[0].slower) == (0, 0)


def test_the_command_prints_choice_default_and_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", "concurrent", str(spec(tmp_path / "a")), str(spec(tmp_path / "b", more=8))]
    out = tmp_path / "runs"
    words += ["--gpu", "simulated", "--window", "0.1", "--exhaustive"]
    assert run([*words, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "SIMULATED, no measurement" in text
    assert "16 combinations of high occupancy, 25 in all" in text
    assert all(
        one in text
        for one in (
            "chosen by Algorithm 3",
            "default",
            "best at once",
            "in turn",
            "recommended: ",
            "unchecked: ",
        )
    )
    picture = tmp_path / "path.svg"
    assert run([*words, "--out", str(out), "--resume", "--json", "--plot", str(picture)]) == 0
    assert "twice and twice at once" in picture.read_text()
    found = json.loads(capsys.readouterr().out)
    assert found["kernels"] == ["twice", "twice"]
    assert found["best"]["energy_j"] <= found["chosen"]["energy_j"]
    in_turn_j = sum(one["energy_j"] for one in found["in_turn"])
    assert found["recommended"] == ("in turn" if in_turn_j < found["best"]["energy_j"] else "at once")
    assert run([*words, "--resume"]) == 2


@pytest.mark.gpu
def test_kernels_run_at_once_on_a_real_gpu(tmp_path: Path) -> None:
    from ptxbench.devices.cuda import CudaGpu

    gpu = CudaGpu(0)
    try:
        target = gpu.info.target
        paths = [spec(tmp_path / name, more=8000, n=33 * 1024) for name in "ab"]
        for path in paths:
            template = path.parent / "twice.ptx.j2"
            # A loop that ends where it began, on a GPU that computes: x + 1/2 - 1/2.
            there_and_back = "\n".join(f"add.f32 %f1, %f1, {half};" for half in ("0f3F000000", "0fBF000000"))
            text = template.read_text().replace(".target sm_90a", f".target {target}")
            template.write_text(text.replace("fma.rn.f32 %f1, %f1, %f1, 0f3F800000;", there_and_back))
        kernels = [UserKernel(load_spec(path)) for path in paths]
        chosen = [default_block(block_variants(one, target, 4)) for one in kernels]
        alone = ConcurrentRunner(gpu, kernels[:1], 1.0).measure(chosen[:1])
        both = ConcurrentRunner(gpu, kernels, 1.0).measure(chosen)
        assert (alone.status, both.status) == (TrialStatus.OK, TrialStatus.OK), (alone.reason, both.reason)
        assert len(both.kernel_s) == 2
        # One block for each SM of either leaves room for the other.
        assert both.time_s < 1.7 * alone.time_s
    finally:
        gpu.close()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "twice"', 'name = "no"', "no block size of no compiles .*: the code has no kernel no"),
        (
            'function = "add"\narguments = ["in", "in"]',
            REFERENCE,
            "the reference other.ptx does not run: ptxas",
        ),
    ],
)
def test_a_kernel_or_reference_that_cannot_be_built_is_said_before_any_run(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    (tmp_path / "other.ptx").write_text(".version 8.0\n.target sm_90a\n.address_size 64\nnonsense")
    wrong = load_spec(write_spec(tmp_path, (old, new)))
    with pytest.raises(InputError, match=words):
        tune_concurrently(SimulatedGpu(), ConcurrentTuning((wrong,), jobs=1), tmp_path / "t")
    assert not (tmp_path / "t").exists()
