"""Several launches in one recording, and the device memory that they share."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from fakes.modules import built
from fakes.run import CUBIN

from ptxbench.core.clock import VirtualClock
from ptxbench.core.errors import LaunchError
from ptxbench.devices.base import Gpu, Launch
from ptxbench.devices.loop_buffers import LoopBuffers
from ptxbench.devices.sequence import run_sequence
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.sensors.base import SourceName

SLOW_SENSOR = find_profile("slow-sensor")


def launch(iterations=20_000, **change):
    base = Launch(
        trial_id="t",
        cubin=CUBIN,
        kernel="target",
        grid=132,
        block=1024,
        iterations=iterations,
        operands=(np.arange(64, dtype=np.uint8),),
        pattern="random",
    )
    return replace(base, **change)


def real_launch(iterations=20_000, **change):
    return launch(iterations, cubin=built("fma.rn.f32").cubin, **change)


def test_windows_follow_one_another_with_the_gaps_asked_for():
    gpu: Gpu = SimulatedGpu()
    first, second = real_launch(10_000, before_s=0.3), real_launch(40_000, after_s=0.2)
    run = gpu.run_sequence([first, second, second], [0.05, 0.004])
    starts = [w.start_ns for w in run.windows]
    ends = [w.end_ns for w in run.windows]
    assert [(s - e) * 1e-9 for s, e in zip(starts[1:], ends, strict=False)] == pytest.approx(
        [0.05, 0.004], abs=1e-5
    )
    assert (starts[0] - run.trace.begin_ns) * 1e-9 == pytest.approx(0.3, abs=1e-5)
    assert (run.trace.end_ns - ends[-1]) * 1e-9 == pytest.approx(0.2, abs=1e-5)
    assert run.windows[1].elapsed_s == pytest.approx(4 * run.windows[0].elapsed_s, rel=1e-3)
    assert len(run.throttle_reasons) == 3


def test_one_recording_holds_the_power_of_every_launch():
    gpu = SimulatedGpu()
    run = gpu.run_sequence([real_launch(600_000, after_s=0.1)] * 2, [0.3])
    samples = run.trace.of(SourceName.SAMPLES)
    for window in run.windows:
        hot = samples.value[(samples.time_ns > window.start_ns + 60e6) & (samples.time_ns < window.end_ns)]
        assert len(hot) >= 3
        assert hot.min() > 300
    between = (samples.time_ns > run.windows[0].end_ns + 60e6) & (samples.time_ns < run.windows[1].start_ns)
    assert samples.value[between].max() < 200


def test_a_run_is_a_sequence_of_one():
    alone = SimulatedGpu().run(real_launch(before_s=0.1, after_s=0.1))
    sequence = SimulatedGpu().run_sequence([real_launch(before_s=0.1, after_s=0.1)], [])
    assert sequence.windows == (alone.window,)
    assert (sequence.before, sequence.after) == (alone.before, alone.after)
    for one, other in zip(sequence.trace.series, alone.trace.series, strict=True):
        assert np.array_equal(one.value, other.value)


def test_poll_interval_is_the_one_asked_for():
    gpu = SimulatedGpu(SLOW_SENSOR)
    run = gpu.run_sequence([real_launch(after_s=0.5)], [], poll_interval_s=0.0037)
    usage = run.trace.of(SourceName.USAGE)
    assert np.all(np.diff(usage.begin_ns) == 3_700_000)


def test_throttled_launch_is_told_from_the_others():
    board = replace(H200.board, power_cap_w=300.0, regulators=())
    gpu = SimulatedGpu(replace(H200, board=board))
    small = real_launch(40_000, grid=13)
    run = gpu.run_sequence([small, real_launch(40_000), small], [0.1, 0.1], poll_interval_s=0.001)
    assert [bool(reasons) for reasons in run.throttle_reasons] == [False, True, False]


@pytest.mark.parametrize(("launches", "gaps"), [(0, 0), (2, 0), (2, 2), (1, 1)])
def test_gaps_that_do_not_fit_are_refused(launches, gaps):
    with pytest.raises(ValueError, match="gaps"):
        run_sequence([launch()] * launches, [0.1] * gaps, VirtualClock(), lambda _: None)


class Driver:
    """Device memory in this process; remembers every call."""

    def __init__(self):
        self.calls = []
        self.memory = {}

    def __call__(self, function, *arguments):
        self.calls.append(function)
        return getattr(self, function)(*arguments)

    def cuMemAlloc(self, size):  # noqa: N802
        buffer = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def cuMemFree(self, address):  # noqa: N802
        del self.memory[address]

    def cuMemcpyHtoD(self, to, source, size):  # noqa: N802
        ctypes.memmove(to, source, size)

    cuMemcpyDtoH = cuMemcpyHtoD  # noqa: N815

    def cuMemsetD8(self, at, value, size):  # noqa: N802
        ctypes.memset(at, value, size)


def test_each_block_of_each_launch_has_stamps_of_its_own():
    buffers = LoopBuffers(Driver())
    launches = [launch(grid=2, block=64), launch(iterations=6, grid=1, block=1), launch(iterations=7, grid=3)]
    prepared = buffers.prepare(launches)
    for number, (one, ((*_, stamps, iterations), types)) in enumerate(zip(launches, prepared, strict=True)):
        assert len(types) == 5
        assert iterations == one.iterations
        for block in range(one.grid):
            # As the kernel does it: a byte for each thread before the block's own.
            values = (ctypes.c_int64 * 4)(*(100 * number + 10 * block + k for k in range(4)))
            ctypes.memmove(stamps + block * one.block, values, 32)
    assert [found.tolist() for found in buffers.stamps(launches)] == [
        [[0, 1, 2, 3], [10, 11, 12, 13]],
        [[100, 101, 102, 103]],
        [[200, 201, 202, 203], [210, 211, 212, 213], [220, 221, 222, 223]],
    ]


def test_where_one_block_is_stamped_the_others_are_left_out():
    buffers = LoopBuffers(Driver())
    launches = [launch(grid=4, block=128)]
    ((*_, stamps, _), _), *_ = buffers.prepare(launches)
    ctypes.memmove(stamps, (ctypes.c_int64 * 4)(5, 6, 7, 8), 32)
    assert [found.tolist() for found in buffers.stamps(launches)] == [[[5, 6, 7, 8]]]
    # The next launches do not find what these left.
    buffers.prepare(launches)
    assert buffers.stamps(launches)[0].shape == (0, 4)


@pytest.mark.parametrize(("grid", "block"), [(1, 48), (4, 16), (132, 1000)])
def test_blocks_that_would_not_find_their_stamps_are_refused(grid, block):
    with pytest.raises(LaunchError, match="power of two"):
        LoopBuffers(Driver()).prepare([launch(grid=grid, block=block)])


def test_operands_are_copied_when_they_change_and_only_then():
    driver = Driver()
    buffers = LoopBuffers(driver)
    first, second = launch(), launch(operands=(np.full(128, 7, np.uint8),))
    ((address, *_), _), *_ = buffers.prepare([first, second])
    assert ctypes.string_at(address, 64) == first.operands[0].tobytes()
    buffers.upload(first.operands[0])
    assert driver.calls.count("cuMemcpyHtoD") == 1
    buffers.upload(second.operands[0])
    assert ctypes.string_at(address, 128) == second.operands[0].tobytes()
    # A new sequence uploads again: the caller may have written into the array.
    first.operands[0][:] = 9
    buffers.prepare([first])
    assert ctypes.string_at(address, 64) == bytes([9] * 64)


def test_buffers_grow_and_are_given_back():
    driver = Driver()
    buffers = LoopBuffers(driver)
    buffers.prepare([launch()])
    buffers.prepare([launch(grid=200), launch(scratch_bytes=4096)])
    assert len(driver.memory) == 4
    assert buffers.output(16).shape == (16,)
    buffers.release()
    assert not driver.memory
    buffers.release()
