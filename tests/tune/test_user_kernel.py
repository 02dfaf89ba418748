"""A user's kernel, from its specification to a folder of tuning, on the simulated GPU."""

from __future__ import annotations

import copy
import csv
import math
import shutil
import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tune.fakes_kernel import SPEC, AddingGpu, write_spec
from tune.fakes_tune import FlatModel

from ptxbench.core.errors import InputError, RefusedModuleError, ToolError
from ptxbench.core.toolchain import tool_path
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.ground_truth import opcode_energy_pj
from ptxbench.devices.simulated.load import H200
from ptxbench.tune.check import Correct
from ptxbench.tune.evaluate import ranking
from ptxbench.tune.folder import VARIANTS, TuningFolder, tuning_manifest
from ptxbench.tune.kernel import Refused
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.search import Evaluator, search_by_estimate
from ptxbench.tune.source import VariantSource
from ptxbench.tune.spec_file import load_spec, read_combinations, read_spec
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.user_kernel import BuiltKernel, UserKernel
from ptxbench.tune.variant_runner import TrialOptions, VariantRunner

ENERGY = Goal(Objective.ENERGY)
EXAMPLES = Path(__file__).parents[2] / "examples" / "tune"


def tuning(path: Path, **change: object) -> Tuning:
    plain = Tuning(load_spec(path), Goal(Objective.ENERGY), TrialOptions(window_s=0.1), budget=9, jobs=2)
    return replace(plain, **change)


def built(path: Path) -> tuple[UserKernel, BuiltKernel]:
    kernel = UserKernel(load_spec(path))
    made = kernel.build(kernel.space("sm_90a").variants[0], "sm_90a")
    assert isinstance(made, BuiltKernel), made
    return kernel, made


def test_ranges_may_depend_on_axes_before_them(tmp_path: Path) -> None:
    space = UserKernel(load_spec(write_spec(tmp_path))).space("sm_90a")
    assert [v.values for v in space.variants] == [
        *((64, 1, 4), (64, 4, 4)),
        *((128, 1, 4), (128, 4, 4), (128, 16, 4)),
    ]


def test_every_variant_is_checked_timed_and_kept(tmp_path: Path) -> None:
    tuned = tune(AddingGpu(), tuning(write_spec(tmp_path / "spec")), tmp_path / "t")
    assert len(tuned.trials) == 5
    assert {t.correct for t in tuned.trials} == {Correct.YES}
    assert tuned.best[0].energy_j == min(t.energy_j for t in tuned.trials)
    with (tmp_path / "t" / VARIANTS).open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["BLOCK"], row["MORE"]) for row in rows} >= {("64", "4"), ("128", "16")}
    assert all(float(row["gflops"]) > 0 for row in rows)
    assert [t.variant for t in TuningFolder.read(tmp_path / "t").trials.values()] == [
        t.variant for t in tuned.trials
    ]


def test_nothing_is_tried_twice(tmp_path: Path) -> None:
    path = write_spec(tmp_path / "spec")
    first = tune(AddingGpu(), tuning(path, budget=2), tmp_path / "t")
    again = tune(AddingGpu(), tuning(path), resume=tmp_path / "t")
    assert again.trials[:2] == first.trials
    assert len({t.variant for t in again.trials}) == len(again.trials) == 5


def test_a_changed_source_is_another_problem(tmp_path: Path) -> None:
    path = write_spec(tmp_path / "spec")
    tune(AddingGpu(), tuning(path, budget=1), tmp_path / "t")
    source = path.parent / "twice.ptx.j2"
    source.write_text(source.read_text() + "// changed\n")
    with pytest.raises(InputError, match=r"measured with problem digest [0-9a-f]+, this is [0-9a-f]+; start"):
        tune(AddingGpu(), tuning(path), resume=tmp_path / "t")


def test_one_element_off_is_wrong_and_never_timed(tmp_path: Path) -> None:
    gpu = AddingGpu()
    gpu.wrong = 1
    tuned = tune(gpu, tuning(write_spec(tmp_path / "spec")), tmp_path / "t")
    assert {t.status for t in tuned.trials} == {TrialStatus.WRONG}
    assert tuned.trials[0].reason.startswith("1 of 262144 results are wrong, first out[0] = ")
    assert math.isnan(tuned.trials[0].time_s)
    assert tuned.best == ()


def test_the_simulated_gpu_checks_nothing_and_says_so(tmp_path: Path) -> None:
    tuned = tune(SimulatedGpu(), tuning(write_spec(tmp_path / "spec")), tmp_path / "t")
    assert {t.correct for t in tuned.trials} == {Correct.UNCHECKED}


def test_a_variant_that_does_not_launch_ends_only_its_own_trial(tmp_path: Path) -> None:
    gpu = AddingGpu()
    gpu.refuses = "BLOCK=64"
    tuned = tune(gpu, tuning(write_spec(tmp_path / "spec")), tmp_path / "t")
    assert [t.status for t in tuned.trials].count(TrialStatus.LAUNCH_FAILED) == 2
    assert len(tuned.best) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("SPACE = [4]", "SPACE = [40000, 200000, 400000]")], "too much shared data"),
        ([('block = "BLOCK"', 'block = ["BLOCK", 16]')], "threads a block are over 1024"),
        ([('grid = "ceil_div(n, BLOCK)"', 'grid = [1, "n * 2"]')], "beyond what CUDA launches"),
        ([('block = "BLOCK"', 'block = "BLOCK"\nshared_bytes = 240000')], "does not fit an SM"),
        ([('value = "n"', 'value = "-BLOCK"')], "argument count is -128, which is no u32"),
        ([('value = "n"', 'value = "n / 3"')], "which is no u32"),
        ([("MORE = {", "OTHER = {"), ("BLOCK * MORE", "BLOCK"), ("n * MORE", "n")], "does not render"),
    ],
)
def test_a_variant_that_cannot_be_says_why(
    tmp_path: Path, changes: list[tuple[str, str]], words: str
) -> None:
    kernel = UserKernel(load_spec(write_spec(tmp_path, *changes)))
    refused = kernel.build(kernel.space("sm_90a").variants[-1], "sm_90a")
    assert isinstance(refused, Refused)
    assert words in refused.reason
    assert "\n" not in refused.reason


def test_energy_is_what_the_simulated_gpu_charges(tmp_path: Path) -> None:
    kernel, made = built(write_spec(tmp_path, ("n = 262144", "n = 16777216")))
    trial = VariantRunner(SimulatedGpu(), kernel, TrialOptions(window_s=1.0), FlatModel()).measure(made)
    dynamic_j = sum(o.count * opcode_energy_pj(o.opcode, "random", H200) for o in trial.executed) * 1e-12
    static_w = 125.5 + 0.35 * (trial.temperature_c - 40)
    assert trial.energy_j == pytest.approx(dynamic_j + static_w * trial.steady_s, rel=0.03)
    assert trial.dram_bytes == 8 * 16777216


@pytest.mark.parametrize("objective", [Objective.METRIC, Objective.GFLOPS_PER_W, Objective.EDP])
def test_objectives_rank_by_their_own_figure(tmp_path: Path, objective: Objective) -> None:
    path = write_spec(tmp_path / "spec")
    found = tune(AddingGpu(), tuning(path, goal=Goal(objective)), tmp_path / "t")
    figure = {
        Objective.METRIC: lambda t: t.energy_j * t.steady_s**2,
        Objective.GFLOPS_PER_W: lambda t: t.energy_j / t.flops,
        Objective.EDP: lambda t: t.energy_j * t.steady_s,
    }[objective]
    assert [figure(t) for t in found.best] == sorted(figure(t) for t in found.best)
    assert len(found.best) == 5


def test_a_strategy_of_kernel_tuner_takes_any_axes(tmp_path: Path) -> None:
    pytest.importorskip("kernel_tuner", reason="the extra tune is not installed")
    path = write_spec(tmp_path / "spec")
    found = tune(AddingGpu(), tuning(path, strategy="greedy_ils", budget=3), tmp_path / "t")
    assert 1 <= len(found.trials) <= 3


def test_a_cubin_is_tuned_by_its_launch_alone(tmp_path: Path) -> None:
    path = write_spec(tmp_path / "spec")
    _, made = built(path)
    (path.parent / "twice.cubin").write_bytes(made.cubin.image)
    path.write_text(path.read_text().replace("twice.ptx.j2", "twice.cubin"))
    tuned = tune(AddingGpu(), tuning(path, budget=2), tmp_path / "t")
    assert {t.status for t in tuned.trials} == {TrialStatus.OK}
    assert len({t.cubin_sha256 for t in tuned.trials}) == 1
    for other in ("sm_80", "sm_120"):
        with pytest.raises(RefusedModuleError, match=rf"twice\.cubin is assembled for sm_90, and .* {other}"):
            VariantSource("twice.cubin", made.cubin.image, other, ()).build()


def test_the_estimate_chooses_first_and_a_sample_tells_how_well(tmp_path: Path) -> None:
    kernel = UserKernel(load_spec(write_spec(tmp_path / "spec")))
    gpu, options = AddingGpu(), TrialOptions(window_s=0.1)
    runner = VariantRunner(gpu, kernel, options, FlatModel())
    folder = TuningFolder.create(tmp_path / "t", tuning_manifest(gpu, kernel.problem, options, "flat"))
    space = kernel.space("sm_90a")
    search_by_estimate(space, Evaluator(runner, folder, 5, 1), ENERGY, 1, candidates=5, sample=3)
    folder.close()
    trials = list(folder.trials.values())
    assert [t.sampled for t in trials] == [False, False, True, True, True]
    predicted = {v.name: runner.predict(kernel.build(v, "sm_90a")).estimated_j for v in space.variants}
    assert [t.variant.name for t in trials[:2]] == sorted(predicted, key=predicted.__getitem__)[:2]
    found = ranking(trials)
    assert found is not None
    assert (found.variants, found.sampled) == (3, True)
    assert found.constant_error >= 0


def test_bytes_on_the_way_to_l2_bound_the_modelled_time(tmp_path: Path) -> None:
    plain = 'dram_bytes = "8 * n"'
    kernel, made = built(write_spec(tmp_path / "a"))
    more, _ = built(write_spec(tmp_path / "b", (plain, f'{plain}\nl2_bytes = "8000 * n"')))
    info = SimulatedGpu().info
    assert more.predict(made, info).modelled_s == pytest.approx(
        8000 * 262144 / (32 * info.sm_count * info.max_sm_clock_mhz * 1e6)
    )
    assert more.predict(made, info).modelled_s > kernel.predict(made, info).modelled_s


def test_stored_results_are_a_reference(tmp_path: Path) -> None:
    path = write_spec(
        tmp_path / "spec", ('function = "add"\narguments = ["in", "in"]', 'files = { out = "out.npy" }')
    )
    np.save(path.parent / "out.npy", np.zeros(262144, np.float32))
    tuned = tune(AddingGpu(), tuning(path, budget=1), tmp_path / "t")
    assert "results are wrong" in tuned.trials[0].reason
    np.save(path.parent / "out.npy", np.zeros(3, np.float32))
    with pytest.raises(InputError, match=r"the shape \(3,\)"):
        tune(AddingGpu(), tuning(path, budget=1), tmp_path / "u")


def test_a_key_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\[\[arguments\]\] 3: name is missing"):
        load_spec(write_spec(tmp_path, ('name = "count"\n', "")))
    with pytest.raises(InputError, match="name must be text, not 7"):
        load_spec(write_spec(tmp_path, ('"count"', "7")))


def require_nvcc() -> None:
    try:
        tool_path("nvcc")
    except ToolError:
        pytest.skip("nvcc is not installed")
    if shutil.which("gcc") is None:
        pytest.skip("nvcc needs a C++ compiler")


def test_too_much_shared_memory_of_a_cuda_source_is_refused_in_one_line() -> None:
    require_nvcc()
    kernel = UserKernel(load_spec(Path(__file__).parent / "data" / "faults.toml"))
    variants = {v.by_axis["MODE"]: v for v in kernel.space("sm_90a").variants}
    made = {mode: kernel.build(variants[mode], "sm_90a") for mode in (0, 3)}
    assert isinstance(made[0], BuiltKernel)
    assert isinstance(made[3], Refused)
    assert "too much shared data" in made[3].reason


def test_what_was_compiled_once_is_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write_spec(tmp_path / "spec")
    _, first = built(path)
    (entry,) = (path for path in (tmp_path / "cache" / "ptxbench" / "cubins").rglob("*") if path.is_file())

    def refuse(*_: object) -> None:
        raise AssertionError("assembled again")

    with monkeypatch.context() as without:
        without.setattr("ptxbench.tune.source.assemble_ptx", refuse)
        assert built(path)[1].cubin.image == first.cubin.image
    # A damaged entry is made again.
    entry.write_bytes(entry.read_bytes()[:-1])
    assert built(path)[1].cubin.image == first.cubin.image


# Table II of Anzt et al. (2015): dim_m, dim_n, blk_m, blk_n, blk_k, m_a, m_b of its fourteen kernels.
TABLE_II = """
16 16 64 96 16 64 16   32 16 128 128 16 32 8   16 16 128 128 8 64 8   16 16 128 128 8 32 4
16 16 64 256 8 32 4   16 16 128 128 2 128 2   16 16 64 128 4 64 2   48 16 48 96 16 48 8
64 16 64 64 16 64 16   16 48 96 48 16 48 16   64 16 64 64 48 64 16   32 16 64 64 24 64 8
16 16 64 80 16 32 16   16 16 80 80 16 16 16
"""


def test_the_space_of_the_paper_holds_all_its_kernels_and_what_its_filters_refuse_is_not_there() -> None:
    kepler = {"BLOCK_SHARED": 49152, "SM_SHARED": 49152}
    space = UserKernel(load_spec(EXAMPLES / "beast_dgemm.toml", kepler)).space("sm_90a")
    assert len(space.variants) == 1446
    names = ("DIM_M", "DIM_N", "BLK_M", "BLK_N", "BLK_K", "M_A", "M_B")
    kept = {tuple(v.by_axis[name] for name in names) for v in space.variants}
    numbers = list(map(int, TABLE_II.split()))
    assert {tuple(numbers[n : n + 7]) for n in range(0, len(numbers), 7)} <= kept
    for dim_m, dim_n, blk_m, blk_n, *_ in kept:
        assert blk_m * blk_n >= 4 * 8 * (blk_m + blk_n)
        assert 65536 // (2 * blk_m * blk_n) * dim_m * dim_n >= 512


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ({"divisors": "12"}, (1, 2, 3, 4, 6, 12)),
        ({"from": 1, "to": 20, "next": "value + before"}, (1, 2, 3, 5, 8, 13)),
        ({"from": 1, "to": "2 * N", "factor": 2}, (1, 2, 4, 8)),
        ({"from": "N", "to": 9, "step": 3}, (4, 7)),
        (lambda values: range(2, values["N"]), (2, 3)),
    ],
)
def test_an_axis_is_computed_from_what_stands_before_it(axis: object, values: tuple[int, ...]) -> None:
    found = read_combinations({"axes": {"a": axis}}, "test", {"N": 4})
    assert tuple(one.values[0] for one, _ in found.all()) == values


@pytest.mark.parametrize(
    ("axis", "why"),
    [
        ({"divisors": "0"}, "must be a whole number from 1"),
        ({"from": 1, "to": 8, "factor": 1}, "must be a whole number from 2"),
        ({"from": 0, "to": 8, "factor": 2}, "must begin at 1 or above"),
        ({"from": 5, "to": 20, "next": "value - 1"}, "the next value after 5 is 4"),
        ({"from": 1, "to": 20, "next": "2 * value", "step": 1}, "one of step, factor and next"),
        (lambda _: ["no word"], "'no word' is neither a number nor a plain word"),
    ],
)
def test_an_axis_that_gives_no_values_is_named(axis: object, why: str) -> None:
    with pytest.raises(InputError, match=why):
        list(read_combinations({"axes": {"a": axis}}, "test", {}).all())


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), st.integers(1, 12))
def test_filters_that_are_checked_early_refuse_what_they_would_at_the_end(
    axis: list[int], bound: int
) -> None:
    document = {
        "kernel": {"name": "k", "source": "k.ptx", "code": "x"},
        "axes": {"a": axis, "b": axis, "c": {"from": "a", "to": "2 * a"}},
        "derived": {"twice": "2 * a", "sum": "twice + b"},
        "filters": [f"a <= {bound}", f"sum <= {bound}", "c % b == 0"],
        "launch": {"grid": 1, "block": 32},
        "arguments": [{"name": "o", "dtype": "f32", "shape": [1], "role": "output"}],
        "reference": {"function": "copy", "arguments": ["o"]},
    }
    spec = read_spec(document, Path(), "test")
    expected = [
        (a, b, c)
        for a in axis
        for b in axis
        for c in range(a, 2 * a + 1)
        if a <= bound and 2 * a + b <= bound and c % b == 0
    ]
    assert [v.values for v, refused in spec.variants() if refused is None] == expected


ODD = [
    *(None, True, 0, -1, 1.5, 10**30, math.inf, "", "x", "n", "1 +"),
    *([], [1], ["n"], {}, {"from": 1}, [[]], [{}]),
]


@pytest.mark.hostile
@given(st.data())
def test_whatever_stands_in_a_specification_it_is_read_or_refused(data: st.DataObject) -> None:
    document = tomllib.loads(SPEC.replace('"twice.ptx.j2"', '"twice.ptx.j2"\ncode = "x"'))
    for _ in range(data.draw(st.integers(1, 3))):
        at = document
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = data.draw(st.sampled_from(keys))
            if isinstance(at[key], dict | list) and at[key] and data.draw(st.booleans()):
                at = at[key]
                continue
            at[key] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
            break
        if not isinstance(document, dict):
            return
    with suppress(InputError):
        UserKernel(read_spec(document, Path(), "here")).space("sm_90a")


@pytest.mark.parametrize("name", ["stencil", "reduction", "nbody"])
def test_the_examples_compile_and_their_loops_are_known(name: str) -> None:
    require_nvcc()
    kernel = UserKernel(load_spec(EXAMPLES / f"{name}.toml"))
    space = kernel.space("sm_90a")
    for variant in (space.variants[0], space.variants[-1]):
        made = kernel.build(variant, "sm_90a")
        assert isinstance(made, BuiltKernel), made
        assert made.per_thread
