"""Tuning a kernel from Python."""

import numpy as np
import pytest
from tune.fakes_kernel import KERNEL, AddingGpu

import ptxbench
from ptxbench.api.gpu import Gpu

N = 1 << 22
X = np.random.default_rng(1).standard_normal(N, np.float32)
# Without a template: one kernel for every block size.
CODE = (
    KERNEL.replace("{{ SPACE }}", "4")
    .replace("{{ BLOCK }}, %r2", "%r4, %r2")
    .replace("mov.u32 %r2", "mov.u32 %r4, %ntid.x;\n    mov.u32 %r2")
    .replace("{% for n in range(MORE) %}\n    fma.rn.f32 %f1, %f1, %f1, 0f3F800000;\n{% endfor %}\n", "")
)


def tuned(gpu="simulated", **change):
    plain = {
        "axes": {"BLOCK": [64, 128, 256]},
        "arguments": {"in": X, "out": np.zeros_like(X), "n": np.uint32(N)},
        "answer": {"out": 2 * X},
        "grid": f"{N} // BLOCK",
        "block": "BLOCK",
        "window_s": 0.1,
    }
    return ptxbench.tune_kernel(gpu, CODE, "twice", **(plain | change))


def test_the_best_comes_first_and_a_table_has_the_axes(tmp_path):
    found = tuned(Gpu(AddingGpu()), out=tmp_path / "t")
    assert len(found) == found.searched == 3
    assert found.best.correct == "yes"
    assert [v.energy_j for v in found] == sorted(v.energy_j for v in found)
    assert list(found.to_dataframe()["BLOCK"]) == [v.parameters["BLOCK"] for v in found]
    assert (tmp_path / "t" / "variants.csv").exists()


def test_the_arrays_that_are_given_are_those_that_are_compared():
    gpu = Gpu(AddingGpu())
    found = tuned(gpu, answer={"out": 2 * X + (np.arange(N) == 5)})
    with pytest.raises(ptxbench.InputError, match=r"no variant counts: 1 of 4194304 .* first out\[5\]"):
        found.best  # noqa: B018


@pytest.mark.gpu
def test_a_launch_that_finds_l2_empty_takes_more_on_a_real_gpu():
    warm, cold = (
        tuned("0", axes={"BLOCK": [256]}, window_s=0.4, l2=l2, trials=1).best for l2 in ("warm", "flushed")
    )
    assert cold.time_s > warm.time_s, (warm, cold)
    assert cold.energy_j > 1.1 * warm.energy_j, (warm, cold)


class Watching:
    """Counts what it saw; `told` is what it says in the end."""

    def __init__(self, told=None):
        self.calls, self._told = [], told

    def before(self):
        self.calls.append("before")

    def after(self):
        self.calls.append("after")
        return {"seen": len(self.calls)} if self._told is None else self._told


def test_observers_look_on_and_own_metrics_stand_beside_them(tmp_path):
    watching = Watching()
    own = {"edp": "energy_j * time_s", "lanes": "BLOCK // 32"}
    found = tuned(observers=[watching], metrics=own, out=tmp_path / "t")
    # The best are measured again.
    assert watching.calls == ["before", "after"] * (len(watching.calls) // 2)
    assert all(2 <= v.figures["seen"] <= len(watching.calls) for v in found)
    for one in found:
        assert one.figures["edp"] == pytest.approx(one.energy_j * one.time_s)
        assert one.figures["lanes"] == one.parameters["BLOCK"] / 32
    head, first, *_ = (tmp_path / "t" / "variants.csv").read_text().splitlines()
    assert head.endswith(",settled,note,seen,edp,lanes")
    assert len(first.split(",")) == len(head.split(","))
    assert {"seen", "edp", "lanes"} <= set(found.to_dataframe().columns)


@pytest.mark.parametrize("told", [{"a b": 1.0}, {"x": float("inf")}, ["x"], {"x": "many"}])
def test_what_an_observer_must_say_is_said(told):
    with pytest.raises(ptxbench.InputError, match=r"`after` must (give finite|return) numbers by name"):
        tuned(observers=[Watching(told)], axes={"BLOCK": [64]})


def test_simulated_results_are_unchecked():
    assert {v.correct for v in tuned()} == {"unchecked"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"axes": {}}, "at least one axis"),
        ({"axes": {"BLOCK": []}}, "is empty"),
        ({"grid": "__import__('os')"}, "may call only"),
        ({"arguments": {"in": [1, 2]}}, "must be a numpy array"),
        ({"arguments": {"in": X.astype(complex)}}, "complex128 are not supported"),
        ({"answer": {"out": X[:3]}}, r"the shape \(3,\)"),
        ({"answer": {}}, "nothing can be checked"),
        ({"answer": None}, "`answer` must be a dict by name, not NoneType"),
        ({"options": "-O1"}, "options must be a list of texts"),
        ({"objective": "speed"}, "objective"),
        ({"trials": 0}, "^trials must be from 1 to 100000, not 0$"),
        ({"strategy": "estimate"}, "^strategy estimate needs a table to estimate by; give `table`$"),
        ({"filters": ["WIDTH > 2"]}, "unknown name WIDTH"),
        ({"metrics": {"x": "WIDTH"}}, "unknown name WIDTH"),
        ({"metrics": {"time_s": "BLOCK"}}, "the name time_s is taken already"),
        ({"observers": [Watching()], "isolate": True}, "`observers` see no other process"),
    ],
)
def test_bad_input_is_one_line(change, words):
    with pytest.raises(ptxbench.InputError, match=words) as refused:
        tuned(**change)
    assert "\n" not in str(refused.value)


def test_isolated_another_process_searches_and_what_it_found_is_here(tmp_path):
    found = tuned(isolate=True, out=tmp_path / "t", seed=3)
    same = tuned(seed=3)
    assert [(v.parameters, v.energy_j) for v in found] == [(v.parameters, v.energy_j) for v in same]
    assert [v.parameters for v in found.front] == [v.parameters for v in same.front]
    assert found.searched == 3
    with pytest.raises(ptxbench.InputError, match="already holds a run"):
        tuned(isolate=True, out=tmp_path / "t")
    with pytest.raises(ptxbench.InputError, match="nonsense"):
        tuned("simulated:nonsense", isolate=True)
    with pytest.raises(ptxbench.InputError, match="not open"):
        tuned(Gpu(AddingGpu()), isolate=True)
