"""Energies of a tuning that may be believed: settled at the power limit, true readings, no lucky winner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from fakes.called import drawing
from fakes.distorters import changed_in_time, distorted
from fakes.faults import Fault, FaultyGpu, LateGpu, Moment
from fakes.simulated_step import ReplayingGpu
from tune.fakes_kernel import write_spec
from tune.fakes_tune import VARIANT, CallableGpu, trial

from ptxbench.core.errors import ArgumentError
from ptxbench.devices.base import Launch
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.profile import Profile, Regulator
from ptxbench.energy.settled import SourceCheck
from ptxbench.sensors.base import Reading, SourceName
from ptxbench.sensors.kernel_run import SequenceRun, Telemetry
from ptxbench.tune.blocks.concurrent import ConcurrentRunner
from ptxbench.tune.blocks.search import block_variants, default_block
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.kernel import Kernel, build_kernel
from ptxbench.tune.library import Product, measure_library
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.outcome import Settled, TrialStatus
from ptxbench.tune.repeats import repeat_measurement
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.trial import Trial
from ptxbench.tune.tuning import Tuned, Tuning, tune
from ptxbench.tune.user_kernel import UserKernel
from ptxbench.tune.variant import DType, Problem
from ptxbench.tune.variant_runner import TrialOptions, VariantRunner, require_flush

# Its operands are drawn once for all tests.
GEMM = Gemm(Problem(DType.F32, 4096, 4096, 4096))
LIMIT_W = 350.0
CAPPED = replace(H200, board=replace(H200.board, power_cap_w=LIMIT_W))
# A loop so slow and so strong that power swings for ever.
RESTLESS = replace(
    H200, board=replace(H200.board, power_cap_w=450.0, regulators=(Regulator(1.0, 3.0, 40.0),))
)
SAMPLES = replace(H200, sensors=tuple(s for s in H200.sensors if s.source is SourceName.SAMPLES))
ENERGY = Goal(Objective.ENERGY)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    built = build_kernel(VARIANT, "sm_90a")
    assert isinstance(built, Kernel)
    return built


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> KernelSpec:
    return load_spec(write_spec(tmp_path_factory.mktemp("spec")), {"n": 1 << 22})


def tuned(gpu: SimulatedGpu, spec: KernelSpec, path: Path) -> Tuned:
    return tune(gpu, Tuning(spec, ENERGY, TrialOptions(window_s=0.4), jobs=2), path)


@pytest.fixture(scope="module")
def true_j(spec: KernelSpec, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    found = tuned(SimulatedGpu(SAMPLES), spec, tmp_path_factory.mktemp("true") / "t")
    return {one.name: one.energy_j for one in found.best}


def test_a_kernel_at_the_power_limit_is_measured_until_it_has_settled(kernel: Kernel) -> None:
    gpu = SimulatedGpu(CAPPED)
    runner = VariantRunner(gpu, GEMM, TrialOptions(), None)
    found = []
    for pause_s in (0.0, 0.2, 0.5, 1.0, 5.0):
        gpu.clock.sleep_s(pause_s)
        found.append(runner.measure(kernel))
    for one in found:
        assert (one.status, one.settled, one.at_limit) == (TrialStatus.OK, Settled.YES, "capped")
        assert one.power_w == pytest.approx(LIMIT_W, rel=0.005)
        assert one.note == "slowed down by SwPowerCap"
    energies_j = [one.energy_j for one in found]
    assert max(energies_j) < 1.01 * min(energies_j)
    # Over some more seconds it takes the same.
    times = round(20 / found[-1].steady_s)
    run = gpu.run(replace(GEMM.launch(kernel), times=times))
    assert run.window.elapsed_s / times == pytest.approx(found[-1].steady_s, rel=0.01)


def test_a_variant_is_heated_up_and_measured_as_often_as_that_is_wanted(kernel: Kernel) -> None:
    gpu = SimulatedGpu(SAMPLES)
    options = TrialOptions(window_s=0.2, measurements=3, heat_up_s=5.0)
    begun_s = gpu.clock.now_ns() * 1e-9
    found = VariantRunner(gpu, GEMM, options, None).measure(kernel)
    assert found.energy_j == sorted(found.energies_j)[1]
    assert len(found.energies_j) == 3
    assert 5.6 < gpu.clock.now_ns() * 1e-9 - begun_s < 10


class FlushingGpu(ReplayingGpu):
    """A simulated GPU whose L2 can be emptied; a kernel takes 1 ms and 200 W beside the static power."""

    def __init__(self, flush_s: float) -> None:
        super().__init__()
        self.flush_s = flush_s

    def l2_flush(self) -> MagicMock:
        return MagicMock(side_effect=drawing(self, 300.0, self.flush_s))

    def launching(self, launch: Launch) -> Callable[[], object]:
        return drawing(self, 200.0, 1e-3)


def test_what_emptying_l2_takes_is_taken_off(kernel: Kernel) -> None:
    options, small = TrialOptions(window_s=0.2, l2="flushed"), Problem(DType.F32, 128, 128, 128)
    short, long = (
        VariantRunner(FlushingGpu(flush_s), Gemm(small), options, None).measure(kernel)
        for flush_s in (2e-4, 1e-3)
    )
    assert (long.time_s, long.steady_s) == pytest.approx((1e-3, 1e-3), rel=0.01)
    assert long.power_w == pytest.approx(short.power_w, rel=0.01)
    assert long.energy_j == pytest.approx(long.power_w * long.steady_s)
    assert long.power_error_w > short.power_error_w
    with pytest.raises(ArgumentError, match="l2 must be warm on"):
        require_flush(SimulatedGpu(), "flushed", "")
    with pytest.raises(ArgumentError, match="does not go with `beside`"):
        require_flush(FlushingGpu(1e-3), "flushed", "cublas")


def test_a_launch_whose_energy_is_lost_beside_emptying_l2_has_none() -> None:
    whole = trial(0, 1e-3, 0.2, power_error_w=2.0)
    assert whole.without(5e-4, 0.1, 1e-3).energy_j == pytest.approx(0.1)
    for beside_j in (0.198, 0.21):
        lost = whole.without(9e-4, beside_j, 1e-3)
        assert lost.status is TrialStatus.NO_POWER
        assert math.isnan(lost.energy_j)
        assert "too little" in lost.reason


def test_what_does_not_settle_at_the_limit_has_a_status_of_its_own_and_is_not_ranked(
    kernel: Kernel, spec: KernelSpec, tmp_path: Path
) -> None:
    one = VariantRunner(SimulatedGpu(RESTLESS), GEMM, TrialOptions(), None).measure(kernel)
    assert (one.status, one.settled, one.at_limit) == (TrialStatus.NOT_SETTLED, Settled.NO, "not settled")
    assert "power" in one.reason
    found = tuned(SimulatedGpu(replace(RESTLESS, sensors=SAMPLES.sensors)), spec, tmp_path / "t")
    restless = {t.name for t in found.trials if t.status is TrialStatus.NOT_SETTLED}
    assert restless
    assert not restless & {t.name for t in found.best}


def test_kernels_at_once_and_a_library_settle_too(spec: KernelSpec) -> None:
    gpu = SimulatedGpu(replace(CAPPED, board=replace(CAPPED.board, power_cap_w=300.0)))
    user = UserKernel(spec)
    chosen = default_block(block_variants(user, "sm_90a", 2))
    both = ConcurrentRunner(gpu, [user, user], 0.4).measure([chosen, chosen])
    assert (both.status, both.at_limit) == (TrialStatus.OK, "capped")
    assert both.power_w == pytest.approx(300, rel=0.01)
    product = Product("a library", lambda: None, lambda: None)
    calling = CallableGpu(CAPPED)
    source = SourceCheck(calling.sensors[0], calling.sensors)
    library = measure_library(calling, product, lambda _: True, 0, 0.4, source)
    assert (library.at_limit, library.reason) == ("capped", "")
    assert library.power_w == pytest.approx(LIMIT_W, rel=0.005)


@pytest.mark.hostile
@pytest.mark.parametrize("late_s", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("profile", [H200, SAMPLES], ids=["with a counter", "without"])
def test_values_that_come_late_rank_no_variant(
    spec: KernelSpec, tmp_path: Path, late_s: float, profile: Profile, true_j: dict[str, float]
) -> None:
    found = tuned(LateGpu(late_s, profile), spec, tmp_path / "t")
    right = [one for one in found.best if one.energy_j == pytest.approx(true_j[one.name], rel=0.03)]
    assert len(right) == len(found.best)
    if not found.best:
        assert all(math.isnan(t.energy_j) for t in TuningFolder.read(tmp_path / "t").trials.values())


@pytest.mark.hostile
@pytest.mark.parametrize("gain", [0.6, 0.9, 1.1, 1.3])
def test_a_source_that_the_counter_contradicts_over_all_variants_ranks_none(
    spec: KernelSpec, tmp_path: Path, gain: float
) -> None:
    found = tuned(FaultyGpu(H200, distorted(lambda w: gain * w), 0.005), spec, tmp_path / "t")
    assert found.best == ()
    assert all("energy counter" in one.reason for one in found.trials)


def compressed(_: float, power_w: float) -> float:
    return min(power_w, 360.0) + 0.3 * max(power_w - 360.0, 0.0)


@pytest.mark.hostile
def test_a_source_that_is_compressed_at_the_top_ranks_none(spec: KernelSpec, tmp_path: Path) -> None:
    found = tuned(FaultyGpu(H200, changed_in_time(compressed), 0.005), spec, tmp_path / "t")
    assert found.best == ()


@pytest.mark.hostile
def test_a_few_wrong_readings_change_no_ranking_and_are_counted(
    spec: KernelSpec, tmp_path: Path, true_j: dict[str, float]
) -> None:
    given = 0

    def every_ninth(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        nonlocal given
        if moment.source is not SourceName.SAMPLES:
            return readings
        given += len(readings)
        return tuple(replace(r, value=0.0) if (given - n) % 9 == 0 else r for n, r in enumerate(readings))

    found = tuned(FaultyGpu(SAMPLES, every_ninth, 0.005), spec, tmp_path / "t")
    assert [one.name for one in found.best] == list(true_j)
    for one in found.best:
        assert one.energy_j == pytest.approx(true_j[one.name], rel=0.01)
        assert "zero or negative" in one.note


class Beside(SimulatedGpu):
    """A GPU on which another program runs."""

    def telemetry(self) -> Telemetry:
        return replace(super().telemetry(), other_processes=1)


def test_beside_another_program_no_variant_has_an_energy(spec: KernelSpec, tmp_path: Path) -> None:
    found = tuned(Beside(), spec, tmp_path / "t")
    assert found.best == ()
    assert {one.reason for one in found.trials} == {"1 other compute process(es) on the GPU"}


def lucky(recording: int, factor: float) -> Callable[[], Fault]:
    """One recording whose powers are all off, by less than what a single kernel's readings tell."""

    def made() -> Fault:
        begins: list[float] = []

        def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
            begun = round(moment.at_s - moment.since_s, 3)
            if begun not in begins:
                begins.append(begun)
            if moment.source is not SourceName.SAMPLES or begins.index(begun) != recording:
                return readings
            return tuple(replace(r, value=factor * r.value) for r in readings)

        return fault

    return made


@pytest.mark.parametrize("recording", range(5))
def test_a_lucky_reading_does_not_win(
    spec: KernelSpec, tmp_path: Path, true_j: dict[str, float], recording: int
) -> None:
    gpu = FaultyGpu(SAMPLES, lucky(recording, 0.6)(), 0.005)
    found = tuned(gpu, spec, tmp_path / "t")
    # The first two are alike.
    assert {one.name for one in found.best[:2]} == set(list(true_j)[:2])
    thrice = [one for one in found.best if len(one.energies_j) == 3]
    assert len(thrice) == 1
    assert min(thrice[0].energies_j) < 0.7 * thrice[0].energy_j
    for one in found.best:
        assert one.energy_j == pytest.approx(true_j[one.name], rel=0.01)


def once(energy_j: float, error_w: float = 0.1, **change: object) -> Trial:
    return trial(1, 1e-3, energy_j, power_error_w=error_w, **change)


def test_two_that_agree_are_their_mean_with_the_error_of_their_scatter() -> None:
    one = repeat_measurement(once(1.0), lambda _: once(1.004))
    assert one.energy_j == pytest.approx(1.002)
    assert one.energies_j == (1.0, 1.004)
    assert one.power_error_w * one.steady_s == pytest.approx(0.002)
    assert one.power_w * one.steady_s == pytest.approx(one.energy_j)


def test_two_that_contradict_are_decided_by_a_third() -> None:
    given = iter((once(1.0), once(1.01)))
    assert repeat_measurement(once(0.9), lambda _: next(given)).energies_j == (0.9, 1.0, 1.01)
    # Whose errors allow it, they do not contradict.
    found = repeat_measurement(once(0.9, 50.0), lambda _: once(1.0))
    assert found.energies_j == (0.9, 1.0)
    assert found.energy_j == pytest.approx(0.95)


def test_one_that_fails_when_it_is_measured_again_is_tried_once_more() -> None:
    bad = once(math.nan, status=TrialStatus.NOT_SETTLED, reason="why")
    given = iter((bad, once(1.0)))
    assert repeat_measurement(once(1.0), lambda _: next(given)).energies_j == (1.0, 1.0)
    failed = repeat_measurement(once(1.0), lambda _: bad)
    assert (failed.status, failed.reason) == (TrialStatus.NOT_SETTLED, "measured again: why")


def test_the_error_of_one_measurement_is_not_made_smaller_than_their_scatter_by_repeating() -> None:
    far = once(3.0, 0.1).repeated([once(1.0, 0.1), once(2.0, 0.1)])
    assert far.error_j == pytest.approx(1 / math.sqrt(3))
    near = once(1.0, 30.0).repeated([once(1.0, 30.0)])
    assert near.error_j == pytest.approx(0.03 / math.sqrt(2))


def test_launch_times_of_a_simulated_window_show_how_the_clock_settles(kernel: Kernel) -> None:
    run: SequenceRun = SimulatedGpu(CAPPED).run_sequence((replace(GEMM.launch(kernel), times=1500),), ())
    (window,) = run.windows
    times_s = window.launch_times_s
    assert len(times_s) == 16
    assert sum(times_s) / 16 == pytest.approx(window.elapsed_s / 1500, rel=0.01)
    # The clock is high at first, and then settles.
    assert min(times_s) == times_s[0] < 0.95 * times_s[-1]
    assert sum(times_s[8:12]) == pytest.approx(sum(times_s[12:]), rel=0.01)
