"""The energy of windows against the truth of the simulated GPU, and what happens when a GPU goes wrong."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from fakes.loads import LoadedGpu, TimedDevice
from fakes.loads import board as nvml_board
from fakes.nvml import FakeDevice, FakeNvml

import ptxbench
from ptxbench.api.board import open_boards
from ptxbench.api.window_energy import GpuLostError
from ptxbench.core.clock import HostClock, VirtualClock
from ptxbench.core.errors import GpuError, InputError
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.known_sensors import sensor_for

SAMPLES, COUNTER, INSTANT, USAGE = (
    SourceName.SAMPLES,
    SourceName.COUNTER,
    SourceName.INSTANT,
    SourceName.USAGE,
)


def windows(sources, length_s, gap_s, count=16, seeds=(1, 2, 3), documented=False):
    """Return the results of many windows of square loads on one monitor a seed, each with the true energy.

    Where `documented`, the monitor knows of the sensors what it would of a GPU that nobody characterized.
    """
    found = []
    for seed in seeds:
        made = LoadedGpu(*sources, seed=seed)
        (board,) = open_boards(made.gpu)
        if documented:
            board = replace(board, sensors=tuple(sensor_for(s.name, "sm_100") for s in board.sources))
        with ptxbench.EnergyMonitor([board]) as monitor:
            truths = []
            for _ in range(count):
                before_j = made.energy_j()
                with monitor.window("step"):
                    made.load(made.about(length_s))
                truths.append(made.energy_j() - before_j)
                made.gpu.sleep(made.about(gap_s))
        found += list(zip(monitor.measured, truths, strict=True))
    return found


@pytest.mark.parametrize(
    ("sources", "length_s", "gap_s", "half_width"),
    [
        ((SAMPLES, COUNTER), 2.0, 0.5, 0.002),
        ((SAMPLES, COUNTER), 1.0, 0.0, 0.002),
        ((SAMPLES,), 0.3, 0.3, 0.01),
        ((SAMPLES,), 0.1, 0.02, 0.3),
        ((COUNTER,), 2.0, 0.5, 0.01),
        ((COUNTER,), 0.4, 0.3, 0.05),
        ((INSTANT,), 2.0, 0.5, 0.04),
        ((USAGE,), 2.0, 2.0, 0.1),
    ],
)
def test_the_true_energy_of_square_loads_is_within_the_interval(sources, length_s, gap_s, half_width):
    found = windows(sources, length_s, gap_s)
    inside = [one.interval_j[0] <= true_j <= one.interval_j[1] for one, true_j in found]
    assert np.mean(inside) >= 0.89
    widths = [(one.interval_j[1] - one.interval_j[0]) / (2 * true_j) for one, true_j in found]
    assert np.median(widths) < half_width
    errors = [one.energy_j / true_j - 1 for one, true_j in found]
    assert abs(np.median(errors)) < half_width


@pytest.mark.parametrize(("length_s", "gap_s"), [(5.0, 2.0), (1.0, 0.0), (0.3, 0.3), (0.1, 0.02)])
@pytest.mark.parametrize("sources", [(SAMPLES, COUNTER), (COUNTER,), (INSTANT,), (USAGE,)])
def test_documents_that_are_wrong_about_the_sensor_make_no_false_interval(sources, length_s, gap_s):
    found = windows(sources, length_s, gap_s, count=8, documented=True)
    inside = [one.interval_j[0] <= true_j <= one.interval_j[1] for one, true_j in found]
    assert np.mean(inside) >= 0.9


def test_windows_overlap_nest_and_end_in_any_order():
    made = LoadedGpu()
    truth = {}
    with ptxbench.EnergyMonitor(made.gpu) as monitor:
        for name in ("whole", "first"):
            monitor.begin_window(name)
            truth[name] = -made.energy_j()
        made.load(1.0, 300.0)
        with monitor.window("inner") as inner:
            truth["inner"] = -made.energy_j()
            made.load(0.5, 100.0)
            truth["inner"] += made.energy_j()
        truth["first"] += made.energy_j()
        found = {"first": monitor.end_window("first")}
        made.load(0.5, 200.0)
        truth["whole"] += made.energy_j()
        found |= {"whole": monitor.end_window("whole"), "inner": inner.result()}
    for name, one in found.items():
        assert one.interval_j[0] <= truth[name] <= one.interval_j[1]
        assert one.energy_j == pytest.approx(truth[name], rel=0.01)
        assert one.mean_power_w == pytest.approx(one.energy_j / one.time_s)
    assert sorted(one.name for one in monitor.measured) == ["first", "inner", "whole"]


@pytest.mark.parametrize("sources", [(COUNTER,), (INSTANT,), (USAGE,), (SAMPLES, COUNTER)])
def test_a_window_too_short_for_the_sensor_says_so_and_has_a_wide_interval(sources):
    made = LoadedGpu(*sources)
    with ptxbench.EnergyMonitor(made.gpu) as monitor:
        made.load(1.0, 400.0)
        before_j = made.energy_j()
        monitor.begin_window("brief")
        made.load(0.002, 400.0)
        true_j = made.energy_j() - before_j
        brief = monitor.end_window("brief")
    assert not brief.is_resolved
    assert "too short" in brief.notes[0]
    assert "too short" in str(brief)
    low_j, high_j = brief.interval_j
    assert low_j <= true_j <= high_j
    assert high_j - low_j > 0.5 * true_j


def test_readings_that_no_window_needs_are_forgotten():
    made = LoadedGpu()
    with ptxbench.EnergyMonitor(made.gpu) as monitor:
        made.gpu.sleep(120)
        with monitor.window("late") as late:
            made.load(1.0, 300.0)
        made.gpu.sleep(60)
        log = monitor._recordings[0]._sampler._logs[0]
        assert len(log.value) < 1000
        assert late.result().is_resolved


def test_several_gpus_add_up_and_each_is_told():
    clock = VirtualClock(10**12)
    devices = [TimedDevice(clock, watt, uuid=f"GPU-{watt}") for watt in (300.0, 200.0)]
    library = FakeNvml(*devices)
    with ptxbench.EnergyMonitor([nvml_board(one, library) for one in devices]) as monitor:
        monitor.begin_window("both")
        clock.sleep_s(2.0)
        both = monitor.end_window("both")
    assert [gpu.energy_j for gpu in both.gpus] == pytest.approx([600, 400], rel=0.01)
    assert both.energy_j == pytest.approx(1000, rel=0.01)
    assert both.interval_j[0] <= 1000 <= both.interval_j[1]
    assert library.open_count == 0


def test_a_gpu_that_is_lost_is_one_clear_error_and_what_was_measured_is_kept():
    clock = VirtualClock(10**12)
    devices = [TimedDevice(clock, 300.0, uuid="GPU-a"), TimedDevice(clock, 200.0, uuid="GPU-b")]
    library = FakeNvml(*devices)
    with ptxbench.EnergyMonitor([nvml_board(one, library) for one in devices]) as monitor:
        with monitor.window("before"):
            clock.sleep_s(2.0)
        devices[1].lost_at_s = devices[1].now_s + 1.0
        monitor.begin_window("during")
        clock.sleep_s(2.0)
        with pytest.raises(GpuLostError, match=r"GPU 1 .* stopped answering .*code 15") as caught:
            monitor.end_window("during")
    assert caught.value.measured.gpus[0].energy_j == pytest.approx(600, rel=0.01)
    assert math.isnan(caught.value.measured.gpus[1].energy_j)
    before, during = monitor.measured
    assert before.energy_j == pytest.approx(1000, rel=0.01)
    assert math.isnan(during.energy_j)


def test_the_work_of_the_gpu_is_waited_for_at_both_ends():
    made = LoadedGpu()
    calls = []
    with ptxbench.EnergyMonitor(made.gpu, sync=lambda: calls.append(1)) as monitor, monitor.window("step"):
        assert len(calls) == 1
    assert len(calls) == 2


def test_the_thread_ends_with_its_monitor_also_by_an_exception():
    device = FakeDevice()
    spec = nvml_board(TimedDevice(VirtualClock(10**12)), FakeNvml(device))
    real = replace(spec, clock=HostClock())

    def threads():
        return [t for t in threading.enumerate() if t.name == "ptxbench-sampler"]

    monitor = ptxbench.EnergyMonitor(real)
    assert threads()
    with pytest.raises(ZeroDivisionError), monitor, monitor.window("step"):
        raise ZeroDivisionError
    assert not threads()
    with pytest.raises(InputError, match="closed"):
        monitor.begin_window("again")
    dropped = ptxbench.EnergyMonitor(real)
    assert threads()
    del dropped
    assert not threads()


def test_windows_are_named_where_they_are_misused():
    with ptxbench.EnergyMonitor(LoadedGpu().gpu) as monitor:
        with pytest.raises(InputError, match="no window 'a' is open"):
            monitor.end_window("a")
        with monitor.window("a") as a:
            with pytest.raises(InputError, match="'a' is open already"):
                monitor.begin_window("a")
            with pytest.raises(InputError, match="'a' is still open"):
                a.result()


@pytest.mark.parametrize(
    ("visible", "gpus", "names"),
    [
        (None, None, ["GPU 0", "GPU 1", "GPU 2"]),
        ("2,0", None, ["GPU 2", "GPU 0"]),
        ("2,0", 0, ["GPU 2"]),
        ("GPU-bb", None, ["GPU 1"]),
        ("1,7,0", None, ["GPU 1"]),
        (None, [2, 0], ["GPU 2", "GPU 0"]),
        (None, "GPU-cccc", ["GPU 2"]),
    ],
)
def test_gpus_are_those_that_the_process_may_use(visible, gpus, names):
    library = FakeNvml(*(FakeDevice(uuid=f"GPU-{c * 4}", name=c) for c in "abc"))
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    environment |= {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    boards = open_boards(gpus, library, environment)
    assert [one.name.partition(" (")[0] for one in boards] == names
    assert boards[0].sensors[0].source == "samples"
    assert library.open_count == len(boards)


@pytest.mark.parametrize(
    ("visible", "gpus", "error", "said"),
    [
        ("MIG-1234", None, GpuError, "MIG"),
        ("", None, GpuError, "shows none"),
        ("9", None, GpuError, "shows none"),
        ("0", 1, GpuError, "not among the 1 GPUs"),
        (None, [0, 0], InputError, "twice"),
        (None, [], InputError, "no GPU"),
        (None, 1.5, InputError, "gpus"),
        (None, "GPU-zz", GpuError, "not on this machine"),
    ],
)
def test_a_gpu_that_cannot_be_had_is_named(visible, gpus, error, said):
    library = FakeNvml(FakeDevice(uuid="GPU-a"), FakeDevice(uuid="GPU-b"))
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    environment |= {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    with pytest.raises(error, match=said):
        open_boards(gpus, library, environment)


LOST_BOARD = {"errors": {"nvmlDeviceGetHandleByIndex": 15, "nvmlDeviceGetHandleByUUID": 15}}


@pytest.mark.parametrize("gpus", [None, 0, [0], "GPU-a"])
def test_a_gpu_is_read_beside_one_that_is_lost(gpus, caplog):
    library = FakeNvml(FakeDevice(uuid="GPU-a"), FakeDevice(uuid="GPU-b", **LOST_BOARD))
    (board,) = open_boards(gpus, library, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert board.name == "GPU 0 (NVIDIA H200)"
    named = [
        "ptxbench: GPU 1 left out: NVML says 'error text 15' (code 15); reset the GPU or restart the machine"
    ]
    assert caplog.messages == (named if gpus != "GPU-a" else [])


def test_a_lost_gpu_that_is_named_is_refused_with_its_reason(caplog):
    library = FakeNvml(FakeDevice(uuid="GPU-a"), FakeDevice(uuid="GPU-b", **LOST_BOARD))
    for gpus in (1, [0, 1], "GPU-b"):
        with pytest.raises(GpuError, match=r"GPU .* cannot be opened: NVML says .*code 15"):
            open_boards(gpus, library, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert library.open_count == 0
    assert caplog.messages == []


def test_a_gpu_that_tells_no_power_is_left_out_where_nobody_named_it(caplog):
    silent = FakeDevice(uuid="GPU-a", field_errors=dict.fromkeys(FakeDevice().fields_mw, 4))
    calls = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetSamples", "nvmlDeviceGetTotalEnergyConsumption")
    silent.errors |= dict.fromkeys(calls, 4)
    library = FakeNvml(silent, FakeDevice(uuid="GPU-b"))
    (board,) = open_boards(None, library, {})
    assert board.uuid == "GPU-b"
    (line,) = caplog.messages
    assert line.startswith("ptxbench: left out: GPU 0 (NVIDIA H200): no power source of NVML answers")
    with pytest.raises(GpuError, match="no power source"):
        open_boards("GPU-a", library, {})
    with pytest.raises(GpuError, match="no power source"):
        open_boards(None, FakeNvml(silent), {})
    assert library.open_count == 1


def test_numbers_of_unlike_gpus_are_those_of_cuda(monkeypatch):
    library = FakeNvml(FakeDevice(uuid="GPU-a", name="NVIDIA L4"), FakeDevice(uuid="GPU-b"))
    monkeypatch.setattr("ptxbench.devices.visible.cuda_order", lambda _environment: ("GPU-b", "GPU-a"))
    (first,) = open_boards(0, library, {})
    assert first.uuid == "GPU-b"
    (shown,) = open_boards([1], library, {})
    assert shown.uuid == "GPU-a"


def test_a_gpu_in_mig_mode_and_one_without_power_are_refused():
    with pytest.raises(GpuError, match="MIG"):
        open_boards(0, FakeNvml(FakeDevice(is_partitioned=True)), {})
    silent = FakeDevice(errors=dict.fromkeys(("nvmlDeviceGetPowerUsage", "nvmlDeviceGetSamples"), 3))
    silent.errors["nvmlDeviceGetTotalEnergyConsumption"] = silent.errors["nvmlDeviceGetFieldValues"] = 3
    library = FakeNvml(silent)
    with pytest.raises(GpuError, match=r"no power source of NVML answers .*counter 3"):
        open_boards(0, library, {})
    assert library.open_count == 0


def test_sources_that_a_gpu_lacks_are_done_without():
    lacking = FakeDevice(errors={"nvmlDeviceGetSamples": 3, "nvmlDeviceGetTotalEnergyConsumption": 3})
    (found,) = open_boards(0, FakeNvml(lacking), {})
    assert [sensor.source for sensor in found.sensors] == ["instant", "usage", "average"]
