"""The whole pipeline against the hidden truth of the simulated GPU, which is read only to compare."""

import statistics

import pytest
from fakes.measuring import asked

from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.catalogue.starters import STARTERS
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import OptLevel
from ptxbench.core.status import Status
from ptxbench.core.target import find_target
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.ground_truth import instruction_energy_pj
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop import find_loop
from ptxbench.storage.run_folder import RunFolder

SLOW_SENSOR = find_profile("slow-sensor")


def truth_pj(folder, row, profile):
    """The hidden energy of the very machine code that the run kept."""
    instruction = find_instruction(row.instruction)
    form = instruction.forms(row.opt_level)[-1]
    ptx = render_module(instruction, find_target(profile.chip.target), form, row.lanes)
    kernels = parse_listing(folder.kernels.sass(folder.kernels.find(ptx, row.opt_level)))
    loops = (find_loop(kernels[role]) for role in ("target", "overhead"))
    return instruction_energy_pj(*loops, instruction.copies, row.operands, profile, row.lanes)


def errors_of(profile, path, what, gain=1.0, seed=0):
    """Relative error of every row, and that every row is valid."""
    # The sensors' own refresh sets what is seen; polling less often only takes less time.
    gpu = SimulatedGpu(profile, seed, poll_interval_s=0.02)
    with start_run(gpu, what, path) as folder:
        rows = measure_table(gpu, folder)
        assert {row.instruction: row.reason for row in rows if row.status is not Status.OK} == {}
        return {
            (row.instruction, row.operands_text): row.dynamic_pj / gain / truth_pj(folder, row, profile) - 1
            for row in rows
        }


def beyond(errors, limit):
    return {key: f"{error:+.2%}" for key, error in errors.items() if not abs(error) < limit}


@pytest.mark.parametrize(("level", "names"), [(OptLevel.O3, STARTERS[1::2]), (OptLevel.O0, STARTERS[::2])])
def test_starters_come_back_within_a_percent(tmp_path, level, names):
    what = asked(*names, opt_levels=(level,), min_repeats=3, max_repeats=5, window_s=2.0)
    errors = errors_of(H200, tmp_path / "run", what)
    assert len(errors) == len(names)
    assert beyond(errors, 0.01) == {}


def test_rows_are_those_of_one_mean_level_where_the_supply_steps(tmp_path):
    """The mean level of a run is its own; what is left beside it is not the 1% between two levels."""
    names = (
        "fma.rn.f32",
        "add.f32",
        "mul.f32",
        "mad.lo.u32",
        "lop3.b32",
        "min.s32",
        "div.u32",
        "mul.wide.u32",
    )
    what = asked(*names, precision=0.004, min_repeats=4, max_repeats=6)
    profile = find_profile("h200-steps")
    # The first level of seed 0 outlives the run.
    errors = errors_of(profile, tmp_path / "run", what, seed=1).values()
    common = statistics.median(errors)
    assert abs(common) < 0.015
    # With the steps left in, two of the eight are off by about 1%.
    assert max(abs(error - common) for error in errors) < 0.006


def test_how_late_steps_of_the_energy_counter_are_seen_is_in_the_interval(tmp_path):
    """Polls that were regular, of kernels in step with the counter, put all off by 0.4%, four intervals."""
    profile = find_profile("rtx4090")
    names = ("fma.rn.f32", "add.f32", "mul.f32", "popc.b32", "mad.lo.u32", "xor.b32")
    gpu = SimulatedGpu(profile, seed=2, poll_interval_s=0.007)
    what = asked(*names, min_repeats=3, max_repeats=6)
    with start_run(gpu, what, tmp_path / "run") as folder:
        rows = measure_table(gpu, folder)
        # The counter's own gain is not the protocol's to know.
        gain = profile.sensors[0].gain
        off = [(row.dynamic_pj / gain / truth_pj(folder, row, profile) - 1) for row in rows]
    widths = [row.dynamic_ci95_pj / row.dynamic_pj for row in rows]
    assert sum(abs(error) <= width for error, width in zip(off, widths, strict=True)) >= 5
    assert max(widths) < 0.03


def test_a_slow_noisy_sensor_that_is_off_in_gain_costs_the_gain_and_no_more(tmp_path):
    sensor = SLOW_SENSOR.sensors[0]
    assert (sensor.refresh_s, sensor.averaging_s, sensor.gain) == (0.1, 1.0, 0.97)
    assert sensor.noise_w > 0
    what = asked("fma.rn.f32", "mad.lo.u32", "fma.rn.f64", min_repeats=3, max_repeats=3)
    assert beyond(errors_of(SLOW_SENSOR, tmp_path / "run", what, gain=0.97), 0.01) == {}


def test_zeros_cost_what_zeros_cost(tmp_path):
    what = asked("fma.rn.f32", patterns=("zeros", "random"), min_repeats=3, max_repeats=3)
    errors = errors_of(H200, tmp_path / "run", what)
    assert {pattern for _, pattern in errors} == {"zeros", "random"}
    assert beyond(errors, 0.01) == {}


def test_lanes_cost_what_they_cost_and_a_part_that_is_the_warps(tmp_path):
    lanes = (32, 16, 1)
    what = asked("fma.rn.f32", "popc.b32", lanes=lanes, min_repeats=3, max_repeats=3)
    assert beyond(errors_of(H200, tmp_path / "run", what), 0.015) == {}
    with RunFolder.open(tmp_path / "run") as folder:
        energies_pj = {(row.instruction, row.lanes): row.dynamic_pj * row.lanes for row in folder.rows()}
    assert len(energies_pj) == 6
    for name in ("fma.rn.f32", "popc.b32"):
        whole_pj, half_pj, one_pj = (energies_pj[name, n] for n in lanes)
        assert one_pj > 0.2 * whole_pj, "a warp instruction costs much of its energy whatever its lanes do"
        each_pj = (half_pj - one_pj) / 15
        assert whole_pj > half_pj + 1.2 * 16 * each_pj, "what the second half of a warp changes comes on top"


def test_operands_by_lane_cost_what_they_cost(tmp_path):
    what = asked("fma.rn.f32", patterns=("still:hamming:1", "halves", "random"), min_repeats=3, max_repeats=3)
    errors = errors_of(H200, tmp_path / "run", what)
    assert {pattern for _, pattern in errors} == {"still:hamming:1", "halves", "random"}
    assert beyond(errors, 0.01) == {}


def test_rows_of_the_whole_catalogue_come_back_within_half_a_percent(tmp_path):
    """Both levels, short windows and shared overhead loops, as a full table is measured."""
    target = find_target("sm_90a")
    known = [row for row in load_catalogue() if not row.refused and row.exists_on(target)]
    measurable = [
        row.name
        for row in known
        if not any(row.refusal(level, target.name, row.forms(level)[-1]) for level in OptLevel)
    ]
    names = measurable[::120]
    gpu = SimulatedGpu(H200, poll_interval_s=0.02)
    what = asked(*names, opt_levels=tuple(OptLevel), min_repeats=3, max_repeats=8)
    with start_run(gpu, what, tmp_path / "run") as folder:
        rows = measure_table(gpu, folder)
        assert {row.instruction: row.reason for row in rows if row.status is not Status.OK} == {}
        pairs = [(row, truth_pj(folder, row, H200)) for row in rows]
        assert folder.manifest.part.cost.rows == len(rows) == 2 * len(names)
    threads = [find_instruction(row.instruction).unit.threads for row, _ in pairs]
    errors = [abs(row.dynamic_pj / (pj * n) - 1) for (row, pj), n in zip(pairs, threads, strict=True)]
    held = [
        abs(row.dynamic_pj - pj * n) < row.dynamic_ci95_pj
        for (row, pj), n in zip(pairs, threads, strict=True)
    ]
    known = [
        error for error, row in zip(errors, rows, strict=True) if row.dynamic_ci95_pj < 0.01 * row.dynamic_pj
    ]
    assert len(known) >= 0.9 * len(rows)
    # 95% of them are asked to be right.
    assert sum(error > 0.005 for error in known) <= 1
    # So few rows cannot tell 95% from 90%: benchmarks/interval_coverage.py measures that.
    assert held.count(False) <= len(held) // 6


@pytest.mark.parametrize("name", ["a100", "b200"])
def test_another_generation_with_other_sensors(tmp_path, name):
    what = asked("fma.rn.f32", min_repeats=3, max_repeats=3)
    profile = find_profile(name)
    errors = errors_of(profile, tmp_path / "run", what, gain=profile.sensors[0].gain)
    assert beyond(errors, 0.01) == {}
