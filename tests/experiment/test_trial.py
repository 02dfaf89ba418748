from dataclasses import replace

import pytest
from fakes.measuring import SMS, WatchedGpu, asked, opened_runner, prepared

from ptxbench.core.errors import LaunchError
from ptxbench.core.status import Status
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.experiment.session import resume_run, start_run
from ptxbench.experiment.trial import Runner
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role


@pytest.fixture
def gpu():
    return WatchedGpu()


@pytest.fixture
def runner(gpu, tmp_path):
    runner, folder = opened_runner(gpu, tmp_path / "run")
    with folder:
        yield runner


def kernel(role=Role.TARGET, iterations=1_000_000):
    return replace(prepared().kernel(role, SMS, 1024), iterations=iterations)


def test_a_trial_is_kept_with_its_trace_before_it_is_told(gpu, tmp_path):
    seen = []

    def on_trial(record):
        with RunFolder.open(tmp_path / "run") as reader:
            seen.append((record.trial_id, reader.record(record.trial_id)))

    with start_run(gpu, asked("fma.rn.f32"), tmp_path / "run") as folder:
        record = Runner(gpu, folder, choose_sensor(gpu, None), on_trial).trial(kernel(), 0)
        trace = folder.trace(record.trial_id)
    assert seen == [("fma.rn.f32/O3/dynamic/random/target/0", record)]
    assert record.status is Status.OK
    assert record.source == "samples"
    assert len(trace.series) == len(gpu.sensors) + 1


def test_a_held_trial_is_not_run_again(runner, gpu):
    told = []
    first = runner.trial(kernel(), 0)
    again = Runner(gpu, runner.folder, runner.sensor, told.append)
    assert again.trial(kernel(iterations=5), 0) == first
    assert gpu.trials == [first.trial_id]
    assert told == []


def test_a_subject_is_warmed_up_once_and_only_before_a_trial_that_runs(runner, gpu):
    runner.calibrated(kernel(iterations=0), 0.5)
    assert gpu.warm_ups == []  # the short trials need none
    runner.trial(kernel(), 0)
    runner.trial(kernel(Role.OVERHEAD), 0)
    runner.trial(kernel(), 1)
    assert gpu.warm_ups == ["fma.rn.f32/O3/dynamic/random/warm-up"]
    assert gpu.launched[-4].trial_id == gpu.warm_ups[0]
    assert gpu.launched[-4].iterations == gpu.launched[-3].iterations

    resumed = Runner(gpu, runner.folder, runner.sensor)
    resumed.trial(kernel(), 0)
    assert len(gpu.warm_ups) == 1  # held: nothing to warm for
    resumed.trial(kernel(), 2)
    assert len(gpu.warm_ups) == 2
    assert runner.folder.record(gpu.warm_ups[0]) is None


@pytest.mark.parametrize("role", [Role.TARGET, Role.OVERHEAD])
@pytest.mark.parametrize("window_s", [0.02, 1.5])
def test_calibration_fills_the_window(runner, role, window_s):
    found = runner.calibrated(kernel(role, 0), window_s)
    assert runner.trial(found, 0).elapsed_s == pytest.approx(window_s, rel=0.02)
    assert all(record.repeat < 0 for record in runner.folder.records()[:-1])


class SlowSecondLaunchGpu(WatchedGpu):
    """A GPU whose host is busy at its second launch, by twice as long as an SM needs for blocks in turn."""

    def run(self, launch):
        run = super().run(launch)
        window = replace(run.window, elapsed_s=run.window.elapsed_s * (2 if len(self.launched) == 2 else 1))
        return replace(run, window=window)


def test_a_host_that_is_busy_at_one_launch_does_not_halve_the_window(tmp_path):
    runner, folder = opened_runner(SlowSecondLaunchGpu(), tmp_path / "run")
    two_blocks = replace(prepared().kernel(Role.TARGET, 2 * SMS, 1024), iterations=0)
    with folder:
        found = runner.calibrated(two_blocks, 0.28)
        assert runner.trial(found, 0).elapsed_s == pytest.approx(0.28, rel=0.1)


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
    runner, folder = opened_runner(gpu, tmp_path / "run")
    with folder:
        found = runner.calibrated(kernel(iterations=0), 0.34)
        assert runner.trial(found, 0).elapsed_s == pytest.approx(0.34, rel=0.03)


def test_calibration_of_a_later_attempt_does_not_take_the_first_ones_trials(runner, gpu):
    half = replace(kernel(iterations=0), grid=1)
    first = runner.calibrated(kernel(iterations=0), 0.5)
    runs = len(gpu.trials)
    second = runner.calibrated(half, 0.5, first=1000)
    assert len(gpu.trials) > runs
    assert {r.repeat for r in runner.folder.records() if r.grid == 1} <= set(range(-1006, -1000))
    assert runner.trial(replace(second, grid=1), 1000).grid == 1
    assert first.iterations == runner.calibrated(kernel(iterations=0), 0.5).iterations


def test_calibration_ends_the_same_way_from_held_trials(runner, gpu):
    found = runner.calibrated(kernel(iterations=0), 0.5)
    runs = list(gpu.launched)
    assert runner.calibrated(kernel(iterations=0), 0.5).iterations == found.iterations
    assert gpu.launched == runs


def test_a_kernel_that_cannot_run_is_a_trial_with_a_reason(runner, gpu):
    gpu.fails = lambda launch: launch.kernel == "overhead"
    record = runner.trial(kernel(Role.OVERHEAD), 0)
    assert record.status is Status.LAUNCH_FAILED
    assert "ILLEGAL_ADDRESS" in record.reason
    assert runner.folder.record(record.trial_id) == record
    assert runner.trial(kernel(), 0).status is Status.OK


def test_calibration_of_a_kernel_that_cannot_run_gives_up_at_once(runner, gpu):
    gpu.fails = lambda _: True
    with pytest.raises(LaunchError, match="ILLEGAL_ADDRESS"):
        runner.calibrated(kernel(iterations=0), 0.5)
    assert len(gpu.launched) == 1


def test_a_resumed_bench_goes_on_counting(gpu, tmp_path):
    runner, folder = opened_runner(gpu, tmp_path / "run")
    with folder:
        runner.trial(kernel(), 0)
    with resume_run(gpu, asked(), tmp_path / "run") as folder:
        runner = Runner(gpu, folder, choose_sensor(gpu, None))
        assert runner.trial(kernel(), 0).order == 0
        assert runner.trial(kernel(), 1).order == 1
