"""A run compares what its modules compute with the reference before it measures them."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from fakes.computing import ComputingGpu
from fakes.measuring import WatchedGpu, asked, measured
from fakes.modules import built
from fakes.script import load_script

from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import Form, OptLevel, Pattern
from ptxbench.core.errors import GpuError
from ptxbench.core.status import Status
from ptxbench.devices.replay import ReplayGpu
from ptxbench.experiment.numeric_check import expect_module
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import resume_run
from ptxbench.storage.run_folder import RunFolder

pytestmark = pytest.mark.hostile

PAIR = asked("fma.rn.f32", "popc.b32")


def runs_in_place_of_fma(change, kernels=("target",)):
    """Put other PTX in the place of what these kernels of fma.rn.f32 are."""

    def changed(ptx):
        if "// fma.rn.f32:" not in ptx:
            return ptx
        first, *entries = re.split(r"(?=\.visible \.entry)", ptx)
        names = [re.match(r"\.visible \.entry (\w+)", entry)[1] for entry in entries]
        pairs = zip(names, entries, strict=True)
        return first + "".join(change(entry) if name in kernels else entry for name, entry in pairs)

    return changed


def other_addend(ptx):
    return re.sub(r"(fma\.rn\.f32 +%x\d+, %x\d+, %a\d+), %b\d+;", r"\1, %a0;", ptx)


def counts_by_two(ptx):
    return re.sub(r"(sub\.u32 +%i, %i,) 1;", r"\1 2;", ptx)


@pytest.fixture
def miscompiled():
    return ComputingGpu(runs_in_place_of_fma(other_addend))


def test_where_all_is_right_every_row_has_its_number(tmp_path):
    gpu = ComputingGpu()
    rows = measured(gpu, tmp_path / "run", PAIR)
    assert [(row.status, row.reason) for row in rows] == [(Status.OK, "")] * 2
    # Target and overhead once, and each of three and four kernels twice for its passes, before any trial.
    assert len(gpu.checks) == (2 + 3 * 2) + (2 + 4 * 2)
    assert max(map(gpu.launched.index, gpu.checks)) < gpu.launched.index(
        next(launch for launch in gpu.launched if launch.trial_id.endswith("/target/0"))
    )
    with RunFolder.open(tmp_path / "run") as folder:
        assert {record.trial_id for record in folder.records()} <= set(gpu.trials)


def test_a_module_that_computes_something_else_has_no_number_and_the_others_have(tmp_path, miscompiled):
    wrong, right = measured(miscompiled, tmp_path / "run", PAIR)
    assert wrong.status is Status.GATE_FAILED
    assert re.match(
        r"it does not do what the instruction does: target: \d+ of 512 threads differ; thread \d+ has 0x",
        wrong.reason,
    )
    assert math.isnan(wrong.dynamic_pj)
    assert wrong.sass == "FFMA"
    assert (right.status, right.dynamic_pj > 0) == (Status.OK, True)
    assert not [t for t in miscompiled.trials if t.startswith("fma.rn.f32/")]


def other_lanes_leave(ptx):
    return ptx.replace("@%idle ret;", "@!%idle ret;")


def nobody_leaves(ptx):
    return ptx.replace("@%idle ret;", "")


@pytest.mark.parametrize("lanes", [16, 1])
def test_idle_lanes_store_nothing_and_active_ones_compute_what_whole_warps_do(tmp_path, lanes):
    rows = measured(ComputingGpu(), tmp_path / "run", replace(PAIR, lanes=(lanes,)))
    assert [(row.status, row.reason, row.lanes) for row in rows] == [(Status.OK, "", lanes)] * 2


@pytest.mark.parametrize("change", [other_lanes_leave, nobody_leaves])
def test_a_gpu_on_which_other_lanes_are_active_gives_no_number(tmp_path, change):
    gpu = ComputingGpu(runs_in_place_of_fma(change))
    wrong, right = measured(gpu, tmp_path / "run", replace(PAIR, lanes=(16,)))
    assert (wrong.status, right.status) == (Status.GATE_FAILED, Status.OK)


@pytest.mark.parametrize("kernel", ["overhead", "target_2n"])
def test_a_kernel_of_another_number_of_passes_gives_no_number(tmp_path, kernel):
    gpu = ComputingGpu(runs_in_place_of_fma(counts_by_two, (kernel,)))
    wrong, right = measured(gpu, tmp_path / "run", PAIR)
    assert (wrong.status, right.status) == (Status.GATE_FAILED, Status.OK)
    assert f"{kernel}: 512 of 512 threads did not make 6 passes" in wrong.reason


def test_a_resumed_run_keeps_what_was_found_and_does_not_launch_it_again(tmp_path, miscompiled):
    def stops(launch):
        if launch.trial_id.endswith("/target/1"):
            raise GpuError("lost")
        return False

    miscompiled.fails = stops
    with pytest.raises(GpuError):
        measured(miscompiled, tmp_path / "run", PAIR)
    again = ComputingGpu()
    with resume_run(again, RunOptions(), tmp_path / "run") as folder:
        wrong, right = measure_table(again, folder)
    assert (wrong.status, right.status) == (Status.GATE_FAILED, Status.OK)
    assert "threads differ" in wrong.reason
    assert len(again.checks) == 2 + 4 * 2


def test_a_replayed_run_keeps_the_row(tmp_path, miscompiled):
    rows = measured(miscompiled, tmp_path / "run", PAIR)
    with RunFolder.open(tmp_path / "run") as recorded:
        replayed = measured(ReplayGpu(recorded), tmp_path / "again", RunOptions())
    assert [(row.status, row.reason) for row in replayed] == [(row.status, row.reason) for row in rows]


def test_machine_code_that_two_rows_share_is_launched_once(tmp_path):
    gpu = ComputingGpu()
    rows = measured(gpu, tmp_path / "run", asked("fma.rn.f32", patterns=(Pattern.RANDOM, Pattern.ZEROS)))
    assert len(rows) == 2
    assert len(gpu.checks) == 2 + 3 * 2


def test_a_kernel_that_breaks_when_it_is_compared_fails_its_own_row(tmp_path):
    gpu = ComputingGpu()
    gpu.fails = lambda launch: launch.result_bytes > 0 and len(gpu.checks) == 1
    first, second = measured(gpu, tmp_path / "run", PAIR)
    assert sorted((first.status, second.status)) == [Status.LAUNCH_FAILED, Status.OK]
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first.reason + second.reason


def test_a_kernel_that_ends_the_process_when_it_is_compared_is_passed_over(tmp_path):
    class DeadError(BaseException):
        pass

    def dies(launch):
        if launch.result_bytes:
            raise DeadError
        return False

    gpu = ComputingGpu()
    gpu.fails = dies
    with pytest.raises(DeadError):
        measured(gpu, tmp_path / "run", asked("fma.rn.f32"))
    blamed = RunFolder.blame_trial_in_progress(tmp_path / "run")
    assert blamed.startswith("fma.rn.f32/O3/dynamic/random/target/")
    with resume_run(ComputingGpu(), RunOptions(), tmp_path / "run") as folder:
        (row,) = measure_table(ComputingGpu(), folder)
    assert (row.status, row.reason) == (Status.LAUNCH_FAILED, "the process ended while this kernel ran")


def test_a_simulated_gpu_computes_nothing_and_launches_nothing_more(tmp_path):
    gpu = WatchedGpu()
    (row,) = measured(gpu, tmp_path / "run", asked("fma.rn.f32"))
    assert row.status is Status.OK
    assert not [launch for launch in gpu.launched if launch.result_bytes]


def test_a_row_without_a_reference_is_measured_unchecked(tmp_path):
    gpu = ComputingGpu()
    (row,) = measured(gpu, tmp_path / "run", asked("ld.global.u32"))
    assert (row.status, gpu.checks) == (Status.OK, [])


class NoisyGpu(ComputingGpu):
    """Gives another result in the first threads, as an error that a chain carries far."""

    def __init__(self, threads):
        super().__init__()
        self._threads = threads

    def compute(self, launch):
        output = super().compute(launch).copy()
        output.view(np.uint64)[: self._threads] = 0x40000000
        return output


@pytest.mark.parametrize(
    ("name", "threads", "result"),
    [
        ("ex2.approx.ftz.f32", 11, "match"),
        ("ex2.approx.ftz.f32", 100, "mismatch"),
        ("fma.rn.f32", 1, "mismatch"),
    ],
)
def test_few_threads_may_differ_where_a_function_is_approximate(name, threads, result):
    gpu, module = NoisyGpu(threads), built(name)
    module = replace(module, cubin=gpu.assemble(module.ptx, module.opt_level))
    assert expect_module(gpu, module).computed(gpu).result == result


def test_the_check_of_the_catalogue_is_the_same(miscompiled):
    checked = {
        name: load_script("runners/check_catalogue.py").check_row(
            miscompiled, find_instruction(name), OptLevel.O3, Form.LATENCY
        )
        for name in ("fma.rn.f32", "popc.b32")
    }
    assert [(c.result, c.passes, c.failed) for c in checked.values()] == [
        ("mismatch", "confirmed", True),
        ("match", "confirmed", False),
    ]
