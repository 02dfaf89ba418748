"""Functions tuned, and Triton's autotuner fed, on a simulated GPU with hidden times and powers."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from fakes.called import drawing
from fakes.simulated_step import ReplayingGpu

import ptxbench
import ptxbench.triton
from ptxbench.api import tuning_functions
from ptxbench.api.tuning_functions import Configured
from ptxbench.core import toolchain
from ptxbench.core.errors import ArgumentError, InputError, ToolError

# Time and power of a call, by a value: the fastest is not the one of least energy.
HIDDEN = {64: (2.0e-3, 480.0), 128: (2.4e-3, 240.0), 256: (5e-3, 300.0)}


@pytest.fixture(scope="module")
def tuned():
    gpu = ReplayingGpu(1)

    def run(block, wrong):
        if block == 512:
            raise RuntimeError("out of resources\nand more")
        time_s, power_w = HIDDEN[block]
        drawing(gpu, power_w, time_s)()
        return np.full(4, 3.0 if wrong else 2.0)

    axes = {"block": [256, 64, 128, 512], "wrong": [False, True]}
    return ptxbench.tune_function(run, axes, check=lambda: np.full(4, 2.0), budget=6, gpu=gpu)


def test_the_fastest_is_not_the_one_of_least_energy(tuned):
    assert tuned.best.values == {"block": 128, "wrong": False}
    first, second, third = tuned.tried[:3]
    assert first.energy_j < second.energy_j < third.energy_j
    assert min(tuned.tried[:3], key=lambda one: one.time_s).values["block"] == 64
    assert str(tuned.judged.verdict) == "yes"
    assert "less energy than the first that was given: yes" in str(tuned)


def test_wrong_and_failing_configurations_are_last_and_never_measured(tuned):
    failed = [one for one in tuned if one.reason]
    assert len(tuned) == 8
    assert list(tuned)[3:] == failed
    assert {one.values["block"] for one in failed if "out of resources" in one.reason} == {512}
    assert sum("differ" in one.reason for one in failed) == 3
    assert all(one.bench is None and "\n" not in one.reason for one in failed)


def test_what_there_is_nothing_to_try_of_is_said():
    with pytest.raises(InputError, match="no combination"):
        ptxbench.tune_function(print, {"a": []}, gpu=ReplayingGpu())
    with pytest.raises(InputError, match="over 10000"):
        ptxbench.tune_function(print, {"a": range(101), "b": range(101)}, gpu=ReplayingGpu())
    for wrong, why in (
        ({"minimize": "joules"}, "minimize must be one of"),
        ({"trials": 3}, "trials are those of a `strategy`"),
        ({"check": "x"}, "check must be a function, not 'x'"),
        ({"check": lambda: 1 / 0}, "`check` failed, so that nothing can be compared: ZeroDivisionError"),
        ({"axes": {}}, "no combination to try"),
        ({"axes": {"a": 5}}, "axis a must be a list of values, not 5"),
        ({"axes": "ab"}, "axes must be a list of combinations, or a dict of lists, not 'ab'"),
        ({"axes": [1]}, "axes must be dicts of values by name, not 1"),
        ({"axes": {"a": [1, 1]}}, "written alike; give each once"),
        ({"function": None}, "function must be one, not None"),
    ):
        given = {"function": lambda a: a, "axes": {"a": [1]}, "gpu": ReplayingGpu(), **wrong}
        with pytest.raises(InputError, match=why):
            ptxbench.tune_function(**given)
    with pytest.raises(ArgumentError, match=r"configs must be triton\.Config objects or dicts, not 5"):
        ptxbench.triton.tune(None, [5], (1,), (), gpu=ReplayingGpu())
    assert Configured({"a": "\x1b[31m"}).name.isprintable()
    for gpu in (ReplayingGpu(), None):
        found = ptxbench.tune_function(lambda a: a / 0, {"a": [1, 2]}, gpu=gpu)
        assert len(found) == 2
        with pytest.raises(InputError, match="no configuration counts: failed: ZeroDivisionError"):
            _ = found.best


def test_without_a_gpu_each_configuration_is_compared_once(monkeypatch):
    gpu, resets = ReplayingGpu(1), []
    monkeypatch.setattr(tuning_functions, "opened_gpu", lambda given, stack: given or gpu)

    def run(block):
        if block == 512:
            raise RuntimeError("out of resources")
        drawing(gpu, 300.0)()

    axes = {"block": [512, 64, 128]}
    found = ptxbench.tune_function(run, axes, reset=lambda: resets.append(1), budget=1, minimize="time")
    assert len(resets) == 3
    assert [one.values["block"] for one in found if one.reason] == [512]


class Called:
    """A function with hidden times and powers, that counts its calls by block."""

    def __init__(self, gpu):
        self.gpu, self.blocks = gpu, []

    def __call__(self, block, name):
        self.blocks.append(block)
        time_s, power_w = HIDDEN[block]
        drawing(self.gpu, power_w, time_s * (1.0 if name == "plain" else 1.5))()
        return np.full(4, 3.0 if name == "wrong" else 2.0)


AXES = {"block": [256, 64, 128], "name": ["plain", "slow one", "wrong"]}


def search(gpu, path, **options):
    run = Called(gpu)
    given = {"check": lambda: np.full(4, 2.0), "budget": 4, "measure_first": 2, "gpu": gpu, "out": path}
    return run, ptxbench.tune_function(run, AXES, **{**given, **options})


def test_a_search_of_a_function_is_kept_goes_on_and_is_reported(tmp_path, capsys):
    from ptxbench.cli.main import run as command

    gpu, path = ReplayingGpu(4), tmp_path / "search"
    _, some = search(gpu, path, trials=4)
    assert len(some) == 4
    lines = (path / "trials.jsonl").read_text().splitlines()
    _, found = search(gpu, path, resume=True)
    assert (path / "trials.jsonl").read_text().splitlines()[: len(lines)] == lines
    assert len(found) == 9
    assert found.best.values == {"block": 128, "name": "plain"}
    assert {one.values["name"] for one in found if "differ" in one.reason} == {"wrong"}
    assert sum(one.bench is not None for one in found) == 3
    # Those that were not called in rounds have the energy that the search read.
    assert sum(math.isfinite(one.energy_j) for one in found) == 6
    assert command(["tune", "report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["least_energy"]["name"] == "block=128 name=plain"
    with pytest.raises(InputError, match="measured with problem"):
        ptxbench.tune_function(Called(gpu), {"block": [64]}, gpu=gpu, out=path, resume=True)


def test_of_many_all_are_timed_and_the_power_of_the_fastest_is_read(monkeypatch):
    def missing(tool):
        raise ToolError(f"{tool} is not there")

    # A function brings its own compiler.
    monkeypatch.setattr(toolchain, "tool_path", missing)
    gpu = ReplayingGpu(4)
    _, found = search(gpu, None, strategy="timed", measure_first=1)
    counted = [one for one in found if not one.reason]
    assert found.best.values == {"block": 128, "name": "plain"}
    assert len(counted) == 6
    (slowest,) = [one for one in counted if math.isnan(one.energy_j)]
    assert slowest.time_s == max(one.time_s for one in counted)


def test_clocks_are_tried_by_consent_alone_and_put_back():
    gpu = ReplayingGpu(4)
    before = gpu.settable.settings()
    given = {"strategy": "race-to-idle+clocks", "clocks": np.array([1980, 990]), "trials": 20}
    with pytest.raises(InputError, match="add `allow_settings`"):
        search(gpu, None, **given)
    _, found = search(gpu, None, **given, allow_settings=True)
    assert {one.values["sm_clock_mhz"] for one in found} == {1980, 990}
    assert found.best.values["block"] == 64
    assert len(found) == 10
    assert gpu.settable.settings() == before


@pytest.mark.hostile
@pytest.mark.parametrize("given", [990, [], ["990"], [990.5], [-5], [True], "990"])
@pytest.mark.parametrize("name", ["clocks", "power_limits"])
def test_settings_that_are_no_whole_numbers_are_refused_before_anything_is_called(name, given):
    with pytest.raises(ArgumentError, match=f"^{name} must be "):
        ptxbench.tune_function(lambda block: 1 / 0, {"block": [1]}, **{name: given}, allow_settings=True)


def test_a_strategy_of_kernel_tuner_chooses_for_a_function(tmp_path):
    pytest.importorskip("kernel_tuner", reason="the extra tune is not installed")
    gpu = ReplayingGpu(5)
    run, found = search(gpu, None, strategy="greedy_mls", trials=6, check=None)
    assert len(found) <= 6
    assert set(run.blocks) >= {one.values["block"] for one in found}
    assert found.best.energy_j <= 1.02 * min(one.energy_j for one in found)
    with pytest.raises(ArgumentError, match="estimate needs the code of a kernel"):
        search(gpu, None, strategy="estimate")
    with pytest.raises(InputError, match="no strategy is called 'quick'; there are timed, "):
        search(gpu, None, strategy="quick")
    with pytest.raises(ArgumentError, match="resume needs `out`"):
        search(gpu, None, resume=True)


class Kernel:
    """A function of triton.jit: a launch takes what its block takes, and writes twice its input."""

    def __init__(self, gpu):
        self.gpu, self.launches = gpu, []

    def __getitem__(self, grid):
        def launch(y, x, **values):
            self.launches.append((grid, values))
            time_s, power_w = HIDDEN[values["BLOCK"]]
            drawing(self.gpu, power_w, time_s)()
            y[:] = 2 * x

        return launch


def autotuned(configs, do_bench, kernel, y, x):
    """Choose as triton.runtime.Autotuner does."""
    timings = {}
    for config in configs:
        call = lambda config=config: kernel[(1,)](y, x, **config.kwargs)  # noqa: E731
        timings[config.kwargs["BLOCK"]] = do_bench(call, quantiles=(0.5, 0.2, 0.8))
    return min(timings, key=timings.get), timings


@pytest.fixture(scope="module")
def triton_configs():
    return [SimpleNamespace(kwargs={"BLOCK": one}, num_warps=4, num_stages=None) for one in (64, 128, 256)]


def test_the_autotuner_of_triton_chooses_by_energy_or_time(triton_configs):
    gpu, y, x = ReplayingGpu(2), np.zeros(4), np.ones(4)
    kernel = Kernel(gpu)
    by_energy = ptxbench.triton.do_bench(minimize="energy", gpu=gpu)
    by_time = ptxbench.triton.do_bench(minimize="time", budget=0.6, gpu=gpu)
    chosen, timings = autotuned(triton_configs, by_energy, kernel, y, x)
    assert chosen == 128
    assert all(low <= middle <= high for middle, low, high in timings.values())
    fastest, times_ms = autotuned(triton_configs, by_time, kernel, y, x)
    assert fastest == 64
    assert times_ms[64][0] == pytest.approx(2.0, rel=0.01)
    with pytest.raises(ArgumentError, match="minimize"):
        ptxbench.triton.do_bench(minimize="power")


def test_a_kernel_of_triton_is_tuned_in_ten_lines(triton_configs):
    gpu, y, x = ReplayingGpu(3), np.zeros(4), np.ones(4)
    kernel = Kernel(gpu)
    found = ptxbench.triton.tune(
        kernel, triton_configs, (1,), (y, x), check=lambda y, x: (2 * x, x), budget=4, gpu=gpu
    )
    assert found.best.values == {"BLOCK": 128, "num_warps": 4}
    assert found.checked
    assert ((1,), {"BLOCK": 64, "num_warps": 4}) in kernel.launches


def test_a_kernel_that_writes_nothing_does_not_inherit_what_another_wrote(triton_configs):
    gpu, y, x = ReplayingGpu(3), np.zeros(4), np.ones(4)

    class Lazy(Kernel):
        def __getitem__(self, grid):
            right = super().__getitem__(grid)
            return lambda y, x, BLOCK, **_: BLOCK == 128 or right(y, x, BLOCK=BLOCK)  # noqa: N803

    found = ptxbench.triton.tune(
        Lazy(gpu), triton_configs, (1,), (y, x), check=lambda y, x: (2 * x, x), budget=3, gpu=gpu
    )
    assert [one.values["BLOCK"] for one in found if "differ" in one.reason] == [128]


def test_a_call_that_gives_no_power_is_never_the_best():
    gpu = ReplayingGpu(1)
    found = ptxbench.triton.do_bench(gpu=gpu, budget=0.5)(drawing(gpu, 300.0))
    assert math.isfinite(found)


def test_each_call_of_a_search_finds_l2_as_those_of_the_rounds_do():
    class Flushing(ReplayingGpu):
        def launching(self, launch):
            raise NotImplementedError

        def l2_flush(self):
            return MagicMock(side_effect=drawing(self, 300.0, 2e-3))

    gpu = Flushing(1)
    run = Called(gpu)
    found = ptxbench.tune_function(
        run, {"block": [64, 128], "name": ["plain"]}, strategy="random", l2="flushed", budget=4, gpu=gpu
    )
    searched = {one.values["block"]: one.searched_j for one in found}
    for one in found:
        assert one.bench.energy_j == pytest.approx(searched[one.values["block"]], rel=0.02)
        assert one.time_s == pytest.approx(HIDDEN[one.values["block"]][0], rel=0.02)
    with pytest.raises(ArgumentError, match=r"l2 must be warm on .*, whose L2 cannot"):
        ptxbench.tune_function(run, AXES, l2="flushed", gpu=ReplayingGpu())
