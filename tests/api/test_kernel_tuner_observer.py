"""The observer for Kernel Tuner, driven as Kernel Tuner's own loop drives it, on a simulated GPU."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace

import pytest
from fakes.loads import LoadedGpu

core = pytest.importorskip("kernel_tuner.core")

from ptxbench.api.board import open_boards  # noqa: E402
from ptxbench.core.errors import InputError  # noqa: E402
from ptxbench.kernel_tuner import EnergyObserver  # noqa: E402

# Time of a launch, and what it draws above the static power of about 125 W.
LAUNCH_S, POWER_W, STATIC_W = 2e-3, 250.0, 125.6


class Backend:
    """A backend of Kernel Tuner whose launches draw power, and end before they return."""

    def __init__(self, made):
        self.made = made

    def run_kernel(self, func, gpu_args, threads, grid):
        self.made.load(LAUNCH_S, POWER_W)

    def synchronize(self):
        pass

    start_event = stop_event = synchronize

    def kernel_finished(self):
        return True


def benchmarked(duration_s=1.0, limit_w=None, reasons=None, time_ms=1e3 * LAUNCH_S):
    """Return the results of one configuration, by `benchmark_continuous` of Kernel Tuner itself."""
    made = LoadedGpu(seed=2)
    (board,) = open_boards(made.gpu)
    board = replace(board, limit_w=limit_w or board.limit_w, throttle_reasons=reasons)
    observer = EnergyObserver(board, duration_s)
    backend = Backend(made)
    observer.register_device(backend)
    interface = core.DeviceInterface.__new__(core.DeviceInterface)
    interface.dev, interface.continuous_observers = backend, [observer.continuous_observer]
    result = {"time": time_ms}
    observer.continuous_observer.results = result
    interface.benchmark_continuous(None, (), (1,), (1,), result, duration_s)
    assert "run_kernel" not in vars(backend)
    assert observer.get_results() == {}
    return result


def test_a_configuration_gets_its_energy_with_an_interval():
    found = benchmarked()
    assert found["energy_j"] == pytest.approx((POWER_W + STATIC_W) * LAUNCH_S, rel=0.01)
    assert 0 < found["energy_ci95_j"] < 0.02 * found["energy_j"]
    assert found["power_w"] == pytest.approx(POWER_W + STATIC_W, rel=0.01)
    assert found["clock_mhz"] == pytest.approx(1980)
    assert found["settled"]
    assert not found["at_limit"]


def test_launches_are_counted_whatever_kernel_tuner_took_one_to_last():
    assert benchmarked(time_ms=3e3 * LAUNCH_S)["energy_j"] == pytest.approx(
        benchmarked()["energy_j"], rel=0.01
    )


def test_at_the_power_limit_a_second_has_not_settled():
    found = benchmarked(limit_w=380.0, reasons=lambda: 0x4)
    assert found["at_limit"]
    assert not found["settled"]
    assert "power limit" in found["energy_note"]
    assert math.isfinite(found["energy_j"])


def test_what_is_not_known_is_never_the_best():
    found = benchmarked(duration_s=0.1, time_ms=40.0)
    assert found["energy_j"] == math.inf
    assert found["energy_note"]
    with pytest.raises(InputError, match="duration_s must be"):
        EnergyObserver(open_boards(LoadedGpu().gpu)[0], 0.0)


def test_kernel_tuner_finds_the_continuous_part_by_this_name():
    assert 'hasattr(obs, "continuous_observer")' in inspect.getsource(core.DeviceInterface)
