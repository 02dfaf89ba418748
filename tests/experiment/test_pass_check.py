"""The number of passes of a loop, told by a module that stores its counter."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.modules import built

from ptxbench.codegen.operands import operand_bytes
from ptxbench.core.condition import Pattern
from ptxbench.core.errors import InputError
from ptxbench.devices.base import Launch
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.emulator.kernel import expected_output
from ptxbench.experiment.pass_check import anchors, counting_module, miscounted, storing_anchor
from ptxbench.sass.listing import parse_listing

pytestmark = pytest.mark.hostile

THREADS = 64


@pytest.fixture(scope="module")
def module():
    return built("fma.rn.f32")


class CountingGpu(SimulatedGpu):
    """Stores what a loop stores whose counter has the values that `counter` gives for so many passes."""

    def __init__(self, counter):
        super().__init__()
        self._counter = counter

    def compute(self, launch):
        stored = anchors(THREADS, 0)
        for value in self._counter(launch.iterations):
            stored ^= np.uint64(value)
        return stored.view(np.uint8)


def passes_of(module, counter):
    gpu = CountingGpu(counter)
    cubin = gpu.assemble(module.ptx, module.opt_level)
    operands = operand_bytes(module.instruction, Pattern.RANDOM, 5)
    launch = Launch("t", cubin, "target", 2, THREADS // 2, 1, (operands,), "random")
    counting = counting_module(gpu, module.ptx, launch.cubin)
    return counting.unlike or miscounted(gpu, counting, launch)


def test_the_reference_stores_what_is_expected_of_each_thread(module):
    operands = operand_bytes(module.instruction, Pattern.RANDOM, 5)
    for kernel in ("target", "overhead"):
        for passes in (1, 6, 7):
            stored = expected_output(storing_anchor(module.ptx), kernel, operands, THREADS, passes)
            assert (stored == anchors(THREADS, passes)).all()


def test_a_loop_that_makes_as_many_passes_as_requested_is_confirmed(module):
    assert passes_of(module, lambda n: range(n, 0, -1)) == ""


def test_a_routine_that_the_driver_lists_beside_the_kernels_is_none_of_them(module, monkeypatch):
    def with_routine(listing):
        kernels = parse_listing(listing)
        straight = replace(
            kernels["target"], name="slowpath", instructions=kernels["target"].instructions[:1]
        )
        return {"slowpath": straight, **kernels}

    monkeypatch.setattr("ptxbench.experiment.pass_check.parse_listing", with_routine)
    assert passes_of(module, lambda n: range(n, 0, -1)) == ""


@pytest.mark.parametrize(
    "counter",
    [
        lambda n: range(n, 0, -2),
        lambda n: range(n, 1, -1),
        lambda n: range(n - 1, 0, -1),
        lambda n: (n,),
        lambda n: range(2 * n, 0, -1),
        lambda n: (),
    ],
    ids=["by two", "ends early", "starts late", "once", "twice as long", "never"],
)
def test_a_loop_of_another_number_of_passes_is_said(module, counter):
    assert "threads did not make" in passes_of(module, counter)


def test_a_module_without_the_loop_is_refused():
    with pytest.raises(InputError, match="no loop of the measuring kernels"):
        storing_anchor(".version 7.0")
