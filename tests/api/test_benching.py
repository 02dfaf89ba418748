"""`ptxbench.bench` and `ptxbench.compare` on a simulated GPU that draws what functions take."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.called import drawing
from fakes.simulated_step import ReplayingGpu

import ptxbench
from ptxbench.api.benching import BenchOptions, _settings
from ptxbench.api.comparing_commands import compare_commands
from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.core.status import Status
from ptxbench.experiment.calls.result import scaled
from ptxbench.experiment.calls.window import mean_of

FLUSH_S, FLUSH_W = 2e-3, 150.0
# Of a call of 5 ms that adds 300 W to the static power of 125.6 W.
ENERGY_J = 5e-3 * (300 + 125.6)


class FlushingGpu(ReplayingGpu):
    closed = 0

    def l2_flush(self):
        gpu, draw = self, drawing(self, FLUSH_W, FLUSH_S)

        class Flush:
            def __call__(self):
                draw()

            def close(self):
                gpu.closed += 1

        return Flush()


@pytest.fixture(scope="module")
def benched():
    gpu = ReplayingGpu(2)
    return gpu, ptxbench.bench(drawing(gpu, 300.0), budget=4.0, gpu=gpu, quantiles=(0.2, 0.8))


def test_a_call_is_measured(benched):
    _, found = benched
    assert found.energy_j == pytest.approx(ENERGY_J, rel=0.01)
    low_j, high_j = found.interval_j
    assert low_j < found.energy_j < high_j
    assert high_j - low_j < 0.02 * found.energy_j
    assert found.time_s == pytest.approx(5e-3, rel=1e-3)
    assert found.power_w == pytest.approx(found.energy_j / found.time_s, rel=1e-3)
    assert found.clock_mhz == pytest.approx(1980)
    assert not found.at_limit
    assert found.status is Status.OK
    least_j, most_j = found.quantiles
    assert min(one.energy_j for one in found.windows) < least_j < most_j
    assert most_j < max(one.energy_j for one in found.windows)
    assert found.is_simulated


def test_it_is_printed_with_its_intervals(benched):
    text = str(benched[1])
    assert text.startswith(f"call: {benched[1].energy_j:.4g} J (")
    assert "1980 MHz" in text
    assert scaled(mean_of([1.0, 3.0]), "W") == "2 W (0 to 14.71)"
    document = benched[1].document()
    assert document["energy_j"] == benched[1].energy_j
    assert len(document["windows"]) == len(benched[1].windows)


def test_what_empties_l2_is_taken_off():
    gpu = FlushingGpu(2)
    found = ptxbench.bench(drawing(gpu, 300.0), budget=4.0, gpu=gpu, l2="flushed")
    assert found.time_s == pytest.approx(5e-3, rel=0.01)
    assert found.energy_j == pytest.approx(ENERGY_J, rel=0.02)
    assert gpu.closed == 1
    with pytest.raises(ArgumentError, match="l2 cannot be emptied"):
        ptxbench.bench(drawing(gpu, 300.0), gpu=ReplayingGpu(), l2="flushed")


def test_gradients_are_set_to_none_before_each_call():
    gpu, tensor, seen = ReplayingGpu(), SimpleNamespace(grad=1.0), set()
    draw = drawing(gpu, 300.0)

    def step():
        seen.add(tensor.grad)
        tensor.grad = 2.0
        draw()

    ptxbench.bench(step, rep=500, gpu=gpu, grad_to_none=[tensor])
    assert seen == {None}


@pytest.mark.parametrize(("rep", "budget_s"), [(3000, 3.0), (20, 0.5)])
def test_the_milliseconds_of_do_bench_are_the_budget_and_half_a_second_at_least(rep, budget_s):
    assert _settings(BenchOptions(print, rep=rep)).budget_s == budget_s


def test_the_first_is_what_others_are_compared_with():
    gpu = ReplayingGpu(4)
    less, more = drawing(gpu, 200.0), drawing(gpu, 400.0)
    first = drawing(gpu, 300.0)
    found = ptxbench.compare(first, less, more, gpu=gpu, budget=8.0, names=("a", "b", "c"))
    assert found.less_energy == "yes, no"
    assert found.takes_more
    assert [one.name for one in found.benches] == ["a", "b", "c"]
    assert "b: less energy: yes" in str(found)
    assert "results were not compared" in str(found)


def test_a_wrong_result_is_never_ranked():
    gpu = ReplayingGpu(4)
    draw, cheap = drawing(gpu, 300.0), drawing(gpu, 30.0)

    def right(x):
        draw()
        return x**2

    def wrong(x):
        cheap()
        return x**2 * 1.1

    found = ptxbench.compare(
        right, wrong, gpu=gpu, budget=2.0, inputs=lambda seed: np.random.default_rng(seed).random(5)
    )
    assert found.less_energy == "wrong"
    assert found.takes_more
    assert "differ" in str(found)
    assert math.isnan(found.others[0].bench.energy_j)
    assert not any("not compared" in note for note in found.notes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": 0.1}, "budget must be from 0.5"),
        ({"l2": "cold"}, "l2 must be one of"),
        ({"rep": 0}, "rep must be"),
        ({"gpu": 3}, "gpu must be an open real GPU"),
        ({"names": ("a",)}, "names must name 2 functions"),
        ({"names": "ab"}, "names must be a list of texts, not 'ab'"),
        ({"inputs": 3}, "inputs must be a function, not 3"),
        ({"grad_to_none": 5}, "grad_to_none must be a list of tensors, not 5"),
    ],
)
def test_bad_input_is_one_line(given, message):
    with pytest.raises(InputError, match=message):
        ptxbench.compare(lambda: None, lambda: None, **{"gpu": ReplayingGpu(), **given})


def test_what_cannot_be_called_or_compared_is_said():
    with pytest.raises(ArgumentError, match=r"quantiles must be a list of numbers, not 0\.5"):
        ptxbench.bench(lambda: None, quantiles=0.5, gpu=ReplayingGpu())
    with pytest.raises(InputError, match="must be callable"):
        ptxbench.bench(3, gpu=ReplayingGpu())
    with pytest.raises(InputError, match=r"a function must be callable, not 'torch\.sum'"):
        ptxbench.compare(lambda: None, "torch.sum", gpu=ReplayingGpu())
    with pytest.raises(InputError, match="at least two"):
        ptxbench.compare(lambda: None)
    with (
        ptxbench.open_gpu("simulated") as gpu,
        pytest.raises(ArgumentError, match="runs no function of another library"),
    ):
        ptxbench.bench(lambda: None, gpu=gpu)


class Monitor:
    """What measures windows: each takes the energy of the command that ran in it."""

    def __init__(self, energies_j, resolved=True):
        self.energies_j, self.at, self.names = energies_j, 0, []
        self.resolved, self.random = resolved, np.random.default_rng(0)

    def window(self, name):
        from contextlib import contextmanager

        @contextmanager
        def window():
            self.names.append(name)
            yield SimpleNamespace(result=self.result)

        return window()

    def result(self):
        mean_j = self.energies_j[self.ran] * (1 + 0.003 * self.random.standard_normal())
        return SimpleNamespace(
            energy_j=mean_j,
            time_s=2.0,
            mean_power_w=mean_j / 2,
            interval_j=(0.99 * mean_j, 1.01 * mean_j),
            is_resolved=self.resolved,
            notes=() if self.resolved else ("too short",),
            gpus=(SimpleNamespace(gpu="H100 (0)"),),
        )


def commands_compared(energies_j, repeats=5, code=0, **more):
    monitor = Monitor(energies_j, **more)
    ran = []

    def run(words):
        ran.append(words)
        monitor.ran = "ab".index(words[-1])
        return code

    return compare_commands(["work 'a'", "work b"], repeats, monitor, run=run), ran


def test_commands_run_in_random_order_after_a_first_time():
    found, ran = commands_compared((100.0, 90.0))
    assert found.less_energy == "yes"
    assert found.others[0].judged.energy.value == pytest.approx(0.9, rel=0.01)
    assert len(ran) == 2 * 6
    assert sorted(map(tuple, ran[:2])) == [("work", "a"), ("work", "b")]
    assert len(found.first.windows) == 5
    assert 0 < sum(words[-1] == "a" for words in ran[::2]) < 6


def test_a_command_that_fails_or_is_too_short_gives_no_verdict():
    with pytest.raises(InputError, match="ended with exit code 3"):
        commands_compared((100.0, 90.0), code=3)
    found, _ = commands_compared((100.0, 90.0), resolved=False)
    assert found.less_energy == "undecided"
    assert "too short" in str(found)
    with pytest.raises(InputError, match="cannot be split"):
        compare_commands(["a 'b", "c"], 3, Monitor(()))
    with pytest.raises(InputError, match="cannot be started"):
        compare_commands(["/no/such/thing", "c"], 3, Monitor(()))
