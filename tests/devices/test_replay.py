from dataclasses import replace

import numpy as np
import pytest
from fakes import run as fake

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import InputError, LaunchError, ReplayError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.core.target import find_target
from ptxbench.devices.base import Gpu, Launch
from ptxbench.devices.replay import ReplayGpu
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.storage.kernels import KernelFiles
from ptxbench.storage.run_folder import RunFolder


@pytest.fixture(params=["partial", "finished"])
def gpu(tmp_path, request):
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        folder.add_kernels([KernelFiles("fma", fake.PTX, fake.SASS, fake.CUBIN)])
        for number in range(3):
            folder.append(fake.record(number), fake.trace(number))
        failed = replace(fake.record(3), status=Status.LAUNCH_FAILED, reason="out of resources")
        folder.append(failed, fake.trace(3))
        if request.param == "finished":
            folder.finish([], fake.END)
    gpu = ReplayGpu(RunFolder.open(tmp_path / "run"))
    yield gpu
    gpu.close()


def launch(number, **change):
    record = fake.record(number)
    asked = Launch(
        trial_id=record.trial_id,
        cubin=fake.CUBIN,
        kernel=record.kernel,
        grid=record.grid,
        block=record.block,
        iterations=record.iterations,
        operands=(np.zeros(8, np.uint8),),
        pattern=record.operands,
    )
    return replace(asked, **change)


def test_info_is_the_recorded_gpu_marked_as_replayed(gpu):
    protocol: Gpu = gpu
    assert repr(protocol.info) == repr(replace(fake.GPU, kind=GpuKind.REPLAYED, index=-1))
    assert gpu.sensors == fake.SENSORS


def test_run_gives_the_recorded_data(gpu):
    for number in (0, 1):
        run = gpu.run(launch(number))
        record = fake.record(number)
        assert isinstance(run, KernelRun)
        assert fake.same_trace(run.trace, fake.trace(number))
        window = run.window
        assert (window.start_ns, window.end_ns, window.elapsed_s, window.cycles, window.globaltimer_ns) == (
            record.start_ns,
            record.end_ns,
            record.elapsed_s,
            record.cycles,
            record.globaltimer_ns,
        )
        assert (run.before.temperature_c, run.after.temperature_c) == (39.0, 47.0 + number)
        assert run.throttle_reasons == run.after.throttle_reasons == 1 << 5
        assert run.after.other_processes == -1
        assert np.isnan(run.after.memory_clock_mhz)


def test_telemetry_and_clock_follow_the_last_run(gpu):
    assert gpu.telemetry().temperature_c == 39.0
    assert gpu.clock.now_ns() == fake.record(0).record_begin_ns
    run = gpu.run(launch(2))
    assert repr(gpu.telemetry()) == repr(run.after)
    assert gpu.telemetry().temperature_c == 49.0
    assert gpu.clock.now_ns() == fake.record(2).record_end_ns
    gpu.run(launch(0))
    assert gpu.clock.now_ns() == fake.record(2).record_end_ns  # a clock never goes back


def test_assemble_gives_the_machine_code_that_ran(gpu):
    assert gpu.assemble(fake.PTX, OptLevel.O3) == fake.CUBIN


def test_ptx_that_never_ran_is_refused(gpu):
    with pytest.raises(ReplayError, match=r"holds no kernel of this PTX at -O0"):
        gpu.assemble(fake.PTX, OptLevel.O0)
    with pytest.raises(ReplayError, match=r"holds no kernel of this PTX at -O3"):
        gpu.assemble(fake.PTX + "\n.visible .entry other() { ret; }", OptLevel.O3)


def test_the_same_code_in_another_layout_is_what_ran(gpu):
    assert gpu.assemble(f"// again\n\n{fake.PTX}  // the same\n", OptLevel.O3) == fake.CUBIN


def test_the_same_loop_with_other_stamps_is_what_ran(tmp_path):
    hopper, row = find_target("sm_90a"), find_instruction("fma.rn.f32")
    every_block, block_0 = (
        render_module(row, replace(hopper, every_block=every), Form.LATENCY) for every in (True, False)
    )
    assert every_block != block_0
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        folder.add_kernels([KernelFiles("fma", block_0, fake.SASS, fake.CUBIN)])
        gpu = ReplayGpu(folder)
        assert gpu.assemble(every_block, OptLevel.O3) == fake.CUBIN
        with pytest.raises(ReplayError, match="holds no kernel of this PTX"):
            gpu.assemble(every_block.replace("fma.rn.f32", "fma.rz.f32"), OptLevel.O3)


def test_blocks_per_sm_is_what_was_launched(gpu):
    assert gpu.blocks_per_sm(fake.CUBIN, "target", 1024) == 2
    for cubin, kernel, block in (
        (replace(fake.CUBIN, image=b""), "target", 1024),
        (fake.CUBIN, "overhead", 1024),
        (fake.CUBIN, "target", 512),
    ):
        with pytest.raises(ReplayError, match=f"no launch of {kernel} with {block} threads"):
            gpu.blocks_per_sm(cubin, kernel, block)


def test_a_kernel_that_ran_in_smaller_blocks_does_not_fit_in_larger_ones(gpu):
    assert gpu.blocks_per_sm(fake.CUBIN, "target", 2048) == 0


def test_single_block_is_one_block_per_sm(tmp_path):
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        folder.append(replace(fake.record(0), grid=1, block=1), fake.trace(0))
        assert ReplayGpu(folder).blocks_per_sm(fake.CUBIN, "target", 1) == 1


def test_trial_that_was_not_recorded_is_named(gpu):
    with pytest.raises(ReplayError, match=r"holds no trial add\.f32/"):
        gpu.run(launch(0, trial_id="add.f32/O3/dynamic/random/target/0"))


@pytest.mark.parametrize(
    "change",
    [
        {"grid": 1},
        {"block": 32},
        {"iterations": 5},
        {"kernel": "overhead"},
        {"pattern": "zeros"},
        {"cubin": replace(fake.CUBIN, image=b"other")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_launch_under_a_recorded_id_is_refused(gpu, change):
    called = next(iter(change)).replace("pattern", "operands")
    with pytest.raises(ReplayError, match=rf"trial {fake.record(0).trial_id} was recorded with {called}"):
        gpu.run(launch(0, **change))


def test_failed_launch_fails_again(gpu):
    with pytest.raises(LaunchError, match="out of resources"):
        gpu.run(launch(3))


def test_run_without_trials(tmp_path):
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        gpu = ReplayGpu(folder)
        assert np.isnan(gpu.telemetry().temperature_c)
        assert gpu.telemetry().other_processes == -1
        assert gpu.clock.now_ns() == 0


def test_lost_readings_are_an_input_error(gpu, tmp_path):
    for path in (tmp_path / "run").rglob("*traces*/*.parquet"):
        path.unlink()
    (tmp_path / "run" / "traces.parquet").unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"cannot read|without its readings .*archive_readings.py restore"):
        gpu.run(launch(0))


def test_sequence_is_refused_in_one_line(gpu):
    with pytest.raises(ReplayError, match="spans 2 launches") as error:
        gpu.run_sequence([launch(0), launch(1)], [0.1])
    assert "\n" not in str(error.value)


def test_a_recorded_run_launches_nothing(gpu):
    for ask in (gpu.time_s, gpu.compute):
        with pytest.raises(ReplayError, match="is a recorded run and cannot launch"):
            ask(launch(0))
