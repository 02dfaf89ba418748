from dataclasses import replace

import pytest
from fakes.measuring import SMS, WatchedGpu, asked, opened_bench, prepared

from ptxbench.core.errors import LaunchError
from ptxbench.core.status import Status
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.experiment.session import resume_run, start_run
from ptxbench.experiment.trial import Bench
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role


@pytest.fixture
def gpu():
    return WatchedGpu()


@pytest.fixture
def bench(gpu, tmp_path):
    bench, folder = opened_bench(gpu, tmp_path / "run")
    with folder:
        yield bench


def kernel(role=Role.TARGET, iterations=1_000_000):
    return replace(prepared().kernel(role, SMS, 1024), iterations=iterations)


def test_a_trial_is_kept_with_its_trace_before_it_is_told(gpu, tmp_path):
    seen = []

    def on_trial(record):
        with RunFolder.open(tmp_path / "run") as reader:
            seen.append((record.trial_id, reader.record(record.trial_id)))

    with start_run(gpu, asked("fma.rn.f32"), tmp_path / "run") as folder:
        record = Bench(gpu, folder, choose_sensor(gpu, None), on_trial).trial(kernel(), 0)
        trace = folder.trace(record.trial_id)
    assert seen == [("fma.rn.f32/O3/dynamic/random/target/0", record)]
    assert record.status is Status.OK
    assert record.source == "samples"
    assert len(trace.series) == len(gpu.sensors) + 1


def test_a_held_trial_is_not_run_again(bench, gpu):
    told = []
    first = bench.trial(kernel(), 0)
    again = Bench(gpu, bench.folder, bench.sensor, told.append)
    assert again.trial(kernel(iterations=5), 0) == first
    assert gpu.trials == [first.trial_id]
    assert told == []


def test_a_subject_is_warmed_up_once_and_only_before_a_trial_that_runs(bench, gpu):
    bench.calibrated(kernel(iterations=0), 0.5)
    assert gpu.warm_ups == []  # the short trials need none
    bench.trial(kernel(), 0)
    bench.trial(kernel(Role.OVERHEAD), 0)
    bench.trial(kernel(), 1)
    assert gpu.warm_ups == ["fma.rn.f32/O3/dynamic/random/warm-up"]
    assert gpu.launched[-4].trial_id == gpu.warm_ups[0]
    assert gpu.launched[-4].iterations == gpu.launched[-3].iterations

    resumed = Bench(gpu, bench.folder, bench.sensor)
    resumed.trial(kernel(), 0)
    assert len(gpu.warm_ups) == 1  # held: nothing to warm for
    resumed.trial(kernel(), 2)
    assert len(gpu.warm_ups) == 2
    assert bench.folder.record(gpu.warm_ups[0]) is None


@pytest.mark.parametrize("role", [Role.TARGET, Role.OVERHEAD])
@pytest.mark.parametrize("window_s", [0.02, 1.5])
def test_calibration_fills_the_window(bench, role, window_s):
    found = bench.calibrated(kernel(role, 0), window_s)
    assert bench.trial(found, 0).elapsed_s == pytest.approx(window_s, rel=0.02)
    assert all(record.repeat < 0 for record in bench.folder.records()[:-1])


class SlowHostGpu(WatchedGpu):
    """A GPU whose driver takes a while for each launch, and much longer for its first ones."""

    slow_launches = 1

    def run(self, launch):
        run = super().run(launch)
        extra_s = 1e-4 if len(self.launched) > self.slow_launches else 0.05
        window = replace(run.window, elapsed_s=run.window.elapsed_s + extra_s)
        return replace(run, window=window)


@pytest.mark.parametrize("slow_launches", [1, 2, 3])
def test_what_a_launch_takes_beside_its_loop_does_not_shorten_the_window(tmp_path, slow_launches):
    gpu = SlowHostGpu()
    gpu.slow_launches = slow_launches
    bench, folder = opened_bench(gpu, tmp_path / "run")
    with folder:
        found = bench.calibrated(kernel(iterations=0), 0.34)
        assert bench.trial(found, 0).elapsed_s == pytest.approx(0.34, rel=0.03)


def test_calibration_of_a_later_attempt_does_not_take_the_first_ones_trials(bench, gpu):
    half = replace(kernel(iterations=0), grid=1)
    first = bench.calibrated(kernel(iterations=0), 0.5)
    runs = len(gpu.trials)
    second = bench.calibrated(half, 0.5, first=1000)
    assert len(gpu.trials) > runs
    assert {r.repeat for r in bench.folder.records() if r.grid == 1} <= set(range(-1006, -1000))
    assert bench.trial(replace(second, grid=1), 1000).grid == 1
    assert first.iterations == bench.calibrated(kernel(iterations=0), 0.5).iterations


def test_calibration_ends_the_same_way_from_held_trials(bench, gpu):
    found = bench.calibrated(kernel(iterations=0), 0.5)
    runs = list(gpu.launched)
    assert bench.calibrated(kernel(iterations=0), 0.5).iterations == found.iterations
    assert gpu.launched == runs


def test_a_kernel_that_cannot_run_is_a_trial_with_a_reason(bench, gpu):
    gpu.fails = lambda launch: launch.kernel == "overhead"
    record = bench.trial(kernel(Role.OVERHEAD), 0)
    assert record.status is Status.LAUNCH_FAILED
    assert "ILLEGAL_ADDRESS" in record.reason
    assert bench.folder.record(record.trial_id) == record
    assert bench.trial(kernel(), 0).status is Status.OK


def test_calibration_of_a_kernel_that_cannot_run_gives_up_at_once(bench, gpu):
    gpu.fails = lambda _: True
    with pytest.raises(LaunchError, match="ILLEGAL_ADDRESS"):
        bench.calibrated(kernel(iterations=0), 0.5)
    assert len(gpu.launched) == 1


def test_a_resumed_bench_goes_on_counting(gpu, tmp_path):
    bench, folder = opened_bench(gpu, tmp_path / "run")
    with folder:
        bench.trial(kernel(), 0)
    with resume_run(gpu, asked(), tmp_path / "run", allow_other_board=False) as folder:
        bench = Bench(gpu, folder, choose_sensor(gpu, None))
        assert bench.trial(kernel(), 0).order == 0
        assert bench.trial(kernel(), 1).order == 1
