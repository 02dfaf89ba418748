"""A step on the simulated GPU, whose launches have hidden energies: rows, closure, memory, its run."""

import json
import math
from dataclasses import replace

import pytest
from fakes.simulated_step import GAP_S, HiddenLaunch, ReplayingGpu, SimulatedStep

from ptxbench.attribute.replay.plan import ReplaySettings
from ptxbench.attribute.replay.profile import profile_of
from ptxbench.attribute.replay.profiling import measure_step
from ptxbench.attribute.replay.replayed import AFTER, STEP_FILE, ProfileFolder
from ptxbench.attribute.replay.shown import document, short_name, text
from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.status import Status
from ptxbench.devices.step import UNDO, NodeType, StepNode

# Readings every 20 ms serve for windows of half a second.
QUICK = ReplaySettings(window_s=0.5, step_s=0.5, warm_s=0.1, graph_s=0.02)


def kernel(name, grid=100):
    return StepNode(NodeType.KERNEL, name, grid=(grid, 1, 1))


COPY = StepNode(NodeType.COPY, "copy from device to device", size=1 << 20)
# A product that is at the limit of 700 W alone, and small launches around it.
LAUNCHES = (
    HiddenLaunch(kernel("norm"), 50e-6, 100),
    HiddenLaunch(kernel("gemm"), 1000e-6, 700),
    HiddenLaunch(kernel("norm"), 150e-6, 300),
    HiddenLaunch(COPY, 200e-6, 150),
    HiddenLaunch(kernel("norm", 7), 2500e-6, 50),
)


def step_of(launches=LAUNCHES, **more):
    return SimulatedStep(ReplayingGpu(), launches, **more)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    step = step_of(extra_gap_s=20e-6)
    folder = tmp_path_factory.mktemp("profile") / "run"
    return step, measure_step(step.gpu, step, folder, {"token": 4}, QUICK), folder


def row_of(profile, name, grid=100):
    return next(
        row
        for row in profile.rows
        if row.name == name and (row.kind is None or row.kind.node.grid[0] in (grid, 1))
    )


def static_w(step, row):
    """What the board draws beside its launches, at about the temperature of the step."""
    return step.gpu._physics._thermal.static_w(45)


@pytest.mark.parametrize(("name", "grid", "calls"), [("norm", 100, 2), ("gemm", 100, 1), ("norm", 7, 1)])
def test_each_kind_has_the_energy_that_its_launches_are_charged(measured, name, grid, calls):
    step, profile, _ = measured
    row = row_of(profile, name, grid)
    hidden = [one for one in LAUNCHES if one.node.name == name and one.node.grid[0] == grid]
    time_s = sum(one.time_s + GAP_S for one in hidden)
    energy_j = sum(one.energy_j for one in hidden) + static_w(step, row) * time_s
    assert row.calls == calls == len(hidden)
    assert row.time_s == pytest.approx(time_s, rel=0.01)
    assert row.energy_j == pytest.approx(energy_j, rel=0.015)
    assert row.status is Status.OK
    low_j, high_j = row.interval_j
    assert low_j < row.energy_j < high_j
    assert row.half_j < 0.02 * row.energy_j


def test_the_rows_add_up_to_the_step(measured):
    _, profile, _ = measured
    assert profile.is_closed
    assert profile.closure == pytest.approx(1, abs=0.01)
    assert sum(profile.share(row) for row in profile.rows) == pytest.approx(profile.closure)
    energies = [row.energy_j for row in profile.rows]
    assert energies == sorted(energies, reverse=True)


def test_gaps_and_copies_are_rows(measured):
    _, profile, _ = measured
    gaps = row_of(profile, "gaps")
    assert gaps.time_s == pytest.approx(5 * 20e-6, rel=0.1)
    assert gaps.power_w < 160
    assert row_of(profile, "copy from device to device, 1.05 MB").calls == 1


def test_a_kind_at_the_limit_gets_idle_time_and_runs_at_the_clock_of_the_step(measured):
    step, profile, _ = measured
    gemm = row_of(profile, "gemm")
    assert gemm.idle_share > 0.2
    assert gemm.clock_mhz == pytest.approx(profile.step.clock_mhz, rel=0.01)
    assert gemm.power_w > 1.1 * step.gpu.info.power_limit_w
    assert all(row.idle_share == 0 for row in profile.rows if row is not gemm)


def test_units_share_the_energy_of_the_step(measured):
    _, profile, _ = measured
    assert profile.per("token") == pytest.approx(profile.step.energy_j / 4)
    assert 0 < profile.above_idle_j < profile.step.energy_j
    assert profile.above_idle_j == pytest.approx(profile.step.energy_j - profile.idle_w * profile.step.time_s)


def test_the_run_on_disk_says_the_same(measured):
    _, profile, folder = measured
    with ProfileFolder.open(folder).recordings as recordings:
        again = profile_of(ProfileFolder.open(folder), QUICK)
        assert recordings.finished
    assert again == profile
    assert again.changed_bytes == 0
    assert again.saved_bytes == 8


def test_a_run_that_was_stopped_shows_what_it_has(measured, tmp_path):
    _, _profile, folder = measured
    opened = ProfileFolder.open(folder)
    runs = [run for run in opened.step.runs if run.name not in (AFTER, "kind 2")]
    opened.step = replace(opened.step, runs=tuple(runs))
    shown = profile_of(opened, QUICK)
    copy = row_of(shown, "copy from device to device, 1.05 MB")
    assert copy.status is Status.NOT_REACHED
    assert math.isnan(copy.energy_j)
    assert "gaps, and what was not measured" in {row.name for row in shown.rows}
    assert "stopped before" in text(shown, 80)
    opened.step = replace(opened.step, runs=())
    with pytest.raises(InputError, match="stopped before 'step before' was measured"):
        profile_of(opened, QUICK)


def test_the_text_names_what_people_look_for(measured):
    _, profile, _ = measured
    lines = text(profile, 120).splitlines()
    assert "SIMULATED" in lines[0]
    assert ": one step takes " in lines[0]
    assert "ms" in lines[0]
    unread = replace(profile, step=replace(profile.step, temperature_c=math.nan))
    assert (" 42 C" in text(profile, None), "nan" in text(unread, None)) == (True, False)
    assert "J per token" in text(profile, None)
    assert "tokens per J, idle power included" in text(profile, None)
    assert "8 bytes" in text(profile, None) or "as they were before, byte by byte" in text(profile, None)
    first = next(line for line in lines if line.startswith("gemm"))
    assert "ok" in first
    row = profile.rows[0]
    in_mj, half_mj = f"{1e3 * row.energy_j:,.4g}", f"{1e3 * row.half_j:,.2g}"
    assert f" {in_mj} " in first
    assert f"{half_mj} " in first
    assert f" {row.power_w:.4g} " in first
    assert all(len(line) <= 120 for line in lines)
    assert str(profile) == text(profile, None)


def test_at_any_width_the_name_comes_first_and_nothing_is_cut(measured):
    _, profile, _ = measured
    for width in (60, 80, 100, 140):
        lines = text(profile, width).splitlines()
        assert all(len(line) <= width for line in lines), width
        assert any(line.lstrip().startswith("gemm") for line in lines)


def test_the_interval_stays_longer_than_what_follows_from_other_columns(measured):
    _, profile, _ = measured
    narrow = next(line for line in text(profile, 72).splitlines() if line.startswith("kernel"))
    assert "±" in narrow
    assert "status" in narrow
    assert "grid x block" not in narrow


def test_the_document_is_json_and_whole(measured):
    _, profile, _ = measured
    plain = json.loads(json.dumps(document(profile)))
    assert plain["closure"] == pytest.approx(profile.closure)
    assert plain["is_closed"]
    assert plain["units"]["token"]["energy_j"] == pytest.approx(profile.per("token"))
    gemm = next(row for row in plain["rows"] if row["name"] == "gemm")
    assert gemm["grid"] == [100, 1, 1]
    assert gemm["low_j"] < gemm["energy_j"] < gemm["high_j"]
    assert plain["rows"][-1]["type"] in ("gaps", "kernel", "copy")


RUNAWAY = (
    HiddenLaunch(kernel("scale"), 100e-6, 300, growth=1e-4),
    HiddenLaunch(kernel("norm"), 2000e-6, 200),
)


@pytest.fixture(scope="module")
def runaway():
    step = step_of(RUNAWAY)
    return step, measure_step(step.gpu, step, None, {}, QUICK)


def test_memory_is_restored_before_each_kind_and_at_the_end(runaway):
    step, profile = runaway
    assert step.state == 0
    assert profile.changed_bytes == 0
    # `scale` alone runs 5,000 times: `norm` would draw two thirds after it, had nothing been restored.
    norm = row_of(profile, "norm")
    assert norm.energy_j == pytest.approx(2e-3 * (200 + static_w(step, norm)), rel=0.01)


def test_what_a_kind_changes_of_what_it_reads_is_written_back_and_taken_off(runaway):
    step, profile = runaway
    scale = row_of(profile, "scale")
    assert any(UNDO in order and 0 in order for order in step.orders)
    assert not any(UNDO in order and 1 in order for order in step.orders)
    assert scale.status is Status.OK
    assert scale.time_s == pytest.approx(101e-6, rel=0.01)
    assert scale.energy_j == pytest.approx(100e-6 * 300 + 101e-6 * static_w(step, scale), rel=0.02)


@pytest.mark.parametrize("trouble", ["cannot_look", "is_full"])
def test_where_it_cannot_be_undone_a_kind_whose_operands_run_away_is_no_measurement(trouble):
    step = step_of(RUNAWAY, **{trouble: True})
    scale = row_of(measure_step(step.gpu, step, None, {}, QUICK), "scale")
    assert scale.status is Status.IMPRECISE
    assert "changed by -" in scale.reason
    assert "too much memory to see, or to undo, what it changes" in scale.reason


def test_before_a_kind_all_that_comes_before_it_has_run(runaway):
    step, _ = runaway
    assert (0,) in step.orders


FILL = StepNode(NodeType.FILL, "fill of device memory", size=4)
COUNTING = HiddenLaunch(kernel("attention"), 500e-6, 400, counts=True)


def test_a_kernel_whose_counter_is_zeroed_before_it_is_launched_with_the_fill():
    launches = (HiddenLaunch(FILL, 20e-6, 10, zeroes=True), COUNTING, HiddenLaunch(kernel("norm"), 1e-3, 100))
    step = step_of(launches)
    profile = measure_step(step.gpu, step, None, {}, QUICK)
    row = row_of(profile, "attention")
    assert row.time_s == pytest.approx(501e-6, rel=0.01)
    assert row.energy_j == pytest.approx(500e-6 * 400 + 501e-6 * static_w(step, row), rel=0.02)
    assert row.status is Status.OK
    assert profile.is_closed


def test_a_counter_that_a_kernel_zeroes_is_written_back_before_each_launch():
    zeroing = HiddenLaunch(kernel("zero"), 200e-6, 10, zeroes=True)
    step = step_of((zeroing, COUNTING, HiddenLaunch(kernel("norm"), 1e-3, 100), zeroing, COUNTING))
    profile = measure_step(step.gpu, step, None, {}, QUICK)
    row = row_of(profile, "attention")
    assert row.calls == 2
    assert row.time_s == pytest.approx(2 * 501e-6, rel=0.01)
    assert row.status is Status.OK
    assert profile.is_closed


def test_a_kernel_that_ends_at_once_when_launched_again_is_no_measurement():
    zeroing = HiddenLaunch(kernel("zero"), 200e-6, 10, zeroes=True)
    step = step_of((zeroing, COUNTING, HiddenLaunch(kernel("norm"), 1e-3, 100)), cannot_look=True)
    row = row_of(measure_step(step.gpu, step, None, {}, QUICK), "attention")
    assert row.status is Status.IMPRECISE
    assert "took 501 us at first and 6 us when launched again" in row.reason


def test_rows_that_do_not_add_up_are_estimates():
    step = step_of(LAUNCHES[:1] + LAUNCHES[3:])
    whole = step.whole
    # In the step the launches take far more than by themselves: their operands come from further away.
    step.whole = lambda: Costly(whole(), step)
    profile = measure_step(step.gpu, step, None, {}, QUICK)
    assert not profile.is_closed
    assert {row.status for row in profile.rows if row.kind} == {Status.IMPRECISE}
    assert any("estimates, not measurements" in note for note in profile.notes)
    assert "estimated" in text(profile, None)


class Costly:
    """A step that draws 60% more than its launches do by themselves, in the same time."""

    def __init__(self, replay, step):
        self._replay, self._step = replay, step

    def __call__(self):
        launches = self._step.launches
        self._step.launches = [replace(one, power_w=one.power_w + 150) for one in launches]
        self._replay()
        self._step.launches = launches

    def close(self):
        self._replay.close()


def test_a_step_without_launches_is_refused():
    step = step_of(())
    with pytest.raises(InputError, match="launches nothing"):
        measure_step(step.gpu, step, None, {}, QUICK)


def test_what_was_measured_before_a_launch_failed_is_kept(tmp_path):
    step = step_of(LAUNCHES[:4])
    replay = step.replay
    step.replay = lambda order: _broken() if set(order) == {3} else replay(order)
    with pytest.raises(GpuError, match="illegal"):
        measure_step(step.gpu, step, tmp_path / "run", {}, QUICK)
    shown = profile_of(ProfileFolder.open(tmp_path / "run"), QUICK)
    assert [row.status for row in shown.rows].count(Status.NOT_REACHED) == 1
    assert (tmp_path / "run" / STEP_FILE).exists()


def _broken():
    raise GpuError("an illegal address")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::Add<float>, std::array<char*, 3ul> >"
         "(int, at::native::Add<float>, std::array<char*, 3ul>)", "vectorized_elementwise_kernel"),
        ("void at::native::elementwise_kernel<128, at::native::gpu_kernel_impl_nocast<"
         "at::native::BinaryFunctor<float, at::native::binary_internal::MulFunctor<float> > >"
         "(at::native::Binary<float> const&)::{lambda(int)#1}>(int)", "elementwise_kernel: MulFunctor"),
        ("void at::native::unrolled_elementwise_kernel<"
         "at::native::direct_copy_kernel_cuda(at::Iterator&)::{lambda()#3}::operator()() const"
         "::{lambda(float)#1}, std::array<char*, 2ul> >(int)", "unrolled_elementwise_kernel: direct_copy"),
        ("void at::native::reduce_kernel<512, at::native::ReduceOp<float, at::native::MeanOps<float> > >"
         "(at::native::ReduceOp<float>)", "reduce_kernel: MeanOps"),
        ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_tst_64x8_64x16_4x1_v_bz_TNT"),
        ("void (anonymous namespace)::softmax_warp<float, (int)4>(float*, int)", "softmax_warp"),
        ("void cutlass::Kernel2<cutlass_80_tensorop>(cutlass_80_tensorop::Params)", "Kernel2"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("a" * 80, "a" * 53 + "..."),
    ],
)  # fmt: skip
def test_names_are_short(name, short):
    assert short_name(name) == short


def test_a_step_of_long_kernels_is_the_mean_of_whole_steps():
    powers_w = {"idle": 20, "fast": 420, "slow": 130}
    launches = tuple(HiddenLaunch(kernel(name), 0.11, power_w) for name, power_w in powers_w.items())
    step = step_of(launches)
    profile = measure_step(step.gpu, step, None, {}, QUICK)
    assert profile.is_closed
    assert {row.status for row in profile.rows if row.kind} == {Status.OK}
    static_j = sum(row.time_s * static_w(step, row) for row in profile.rows)
    assert profile.step.energy_j == pytest.approx(0.11 * sum(powers_w.values()) + static_j, rel=0.01)
    assert profile.step.half_j < 0.03 * profile.step.energy_j
    # Times agree but for a fraction of a percent: nothing overlaps.
    assert not any("overlap" in note for note in profile.notes)
