"""A real NVIDIA GPU: run with `pytest -m gpu`. Nothing here needs ptxas, nor changes a setting of the GPU."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
from dataclasses import replace
from functools import cache
from statistics import median

import numpy as np
import pytest
from fakes.sample import STARTER_ROWS

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.operands import operand_bytes
from ptxbench.core.condition import DYNAMIC, Form, OptLevel, Pattern
from ptxbench.core.errors import GpuError, InputError, LaunchError, NotMeasurableError, RefusedModuleError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.core.target import find_target
from ptxbench.devices.base import Launch
from ptxbench.devices.cuda_order import cuda_order
from ptxbench.emulator.kernel import expected_output
from ptxbench.experiment.launch_configuration import BLOCK
from ptxbench.experiment.pass_check import counting_module, miscounted
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import start_run
from ptxbench.sass.module import build_module
from ptxbench.sensors.base import SourceName

pytestmark = pytest.mark.gpu

MS = 1_000_000


def opened(**options):
    """The first GPU; the module that needs CUDA is imported only where a test really runs."""
    from ptxbench.devices.cuda import CudaGpu

    return CudaGpu(0, **options)


@pytest.fixture(scope="module")
def gpu():
    gpu = opened()
    yield gpu
    gpu.close()


def test_another_process_tells_the_same_order_of_gpus_as_this_one(gpu):
    uuid, environment = gpu._nvml.uuid, dict(os.environ)
    assert uuid in cuda_order()
    assert cuda_order(environment) == cuda_order()
    assert cuda_order(environment | {"CUDA_VISIBLE_DEVICES": uuid}) == (uuid,)
    assert cuda_order(environment | {"CUDA_VISIBLE_DEVICES": "-1"}) == ()


@pytest.fixture(scope="module")
def module_of(gpu):
    """Rows as a measurement builds them, by the driver's JIT, each once; None for what cannot be measured."""

    @cache
    def module_of(name, level=OptLevel.O3, form=Form.LATENCY):
        try:
            return build_module(
                find_instruction(name), find_target(gpu.info.target), level, form, gpu.assemble
            )
        except NotMeasurableError:
            return None

    return module_of


def launch_of(module, kernel="target", grid=1, block=32, iterations=100, **change):
    threads = grid * block
    plain = Launch(
        trial_id="t",
        cubin=module.cubin,
        kernel=kernel,
        grid=grid,
        block=block,
        iterations=iterations,
        operands=(operand_bytes(module.instruction, Pattern.RANDOM, 5),),
        pattern="random",
        scratch_bytes=module.instruction.scratch * threads,
        result_bytes=8 * threads,
    )
    return replace(plain, **change)


def test_what_a_chase_loads_is_the_same_in_every_process(gpu, module_of):
    from ptxbench.devices.placed_buffer import PLACE

    launch = launch_of(module_of("ld.global.u32"))
    elsewhere = opened(scratch_place=PLACE + (1 << 30))
    low, other = (int(one.compute(launch)[:4].view(np.uint32)[0]) for one in (gpu, elsewhere))
    elsewhere.close()
    assert low == PLACE % (1 << 32)
    assert other == low + (1 << 30)


def lasting(gpu, launch, duration_s):
    """The launch with a loop count that takes about `duration_s`."""
    iterations = 2000
    gpu.run(replace(launch, iterations=iterations))
    run = gpu.run(replace(launch, iterations=iterations))
    return replace(launch, iterations=max(1, round(iterations * duration_s / run.window.elapsed_s)))


def results(gpu, launch):
    """The low four bytes of every thread's output."""
    return gpu.compute(launch).view(np.uint32)[::2]


def works(gpu, module_of):
    """Whether the GPU computes: one small kernel against its reference."""
    module = module_of("mad.lo.u32")
    launch = launch_of(module, grid=2, block=64, iterations=7)
    expected = expected_output(module.ptx, "target", launch.operands[0], 128, 7)
    return np.array_equal(results(gpu, launch), expected)


def test_the_gpu_says_what_it_is(gpu):
    info = gpu.info
    assert info.kind is GpuKind.REAL
    assert info.name
    assert re.fullmatch(r"[0-9a-f]{12}", info.uuid_hash)
    assert re.fullmatch(r"sm_\d+[af]?", info.target)
    assert 1 <= info.sm_count <= 1000
    assert info.max_threads_per_sm in (1024, 1536, 2048)
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", info.driver)
    assert re.fullmatch(r"\d+\.\d", info.cuda)
    assert math.isnan(info.power_limit_w) or 10 < info.power_limit_w < 3000
    assert math.isnan(info.max_sm_clock_mhz) or 300 < info.max_sm_clock_mhz < 5000


def test_its_state_is_sane(gpu):
    state = gpu.telemetry()
    assert 5 < state.temperature_c < 105
    assert 100 < state.sm_clock_mhz < 5000
    assert state.other_processes <= 0, "another process uses this GPU; nothing measured on it would be valid"


def test_it_has_power_sources_and_the_best_is_first(gpu):
    sources = [sensor.source for sensor in gpu.sensors]
    assert len(set(sources)) == len(sources) >= 1
    assert SourceName.TEMPERATURE not in sources
    if SourceName.SAMPLES in sources:
        assert sources[0] is SourceName.SAMPLES


@pytest.mark.parametrize("level", OptLevel)
def test_every_row_passes_the_gate_as_the_jit_assembles_it(gpu, module_of, level):
    refused, judged = {}, 0
    for row in STARTER_ROWS:
        for form in row.forms(level):
            module = module_of(row.name, level, form)
            if module is None:
                continue
            judged += 1
            assert module.cubin.opt_level is level
            assert module.cubin.image[:4] == b"\x7fELF"
            assert gpu.info.driver in module.cubin.assembler
            if not module.loop_check.passed:
                refused[row.name, form] = module.loop_check.reason
    assert refused == {}
    assert judged >= 12


@pytest.mark.parametrize("level", OptLevel)
def test_every_row_runs_on_the_whole_chip(gpu, module_of, level):
    for row in STARTER_ROWS:
        module = module_of(row.name, level, row.forms(level)[-1])
        if module is None:
            continue
        block = row.block or BLOCK
        for kernel in re.findall(r"\.entry (\w+)\(", module.ptx):
            assert gpu.blocks_per_sm(module.cubin, kernel, block) >= 1, (row.name, kernel)
            run = gpu.run(launch_of(module, kernel, gpu.info.sm_count, block, 3))
            assert run.window.cycles > 0, (row.name, kernel)
            assert run.window.end_ns > run.window.start_ns, (row.name, kernel)


@pytest.mark.parametrize("level", OptLevel)
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("name", ["add.u32", "mad.lo.u32", "xor.b32", "fma.rn.f32"])
@pytest.mark.parametrize("kernel", ["target", "target_2n"])
def test_kernels_compute_what_their_ptx_says(gpu, module_of, level, form, name, kernel):
    module = module_of(name, level, form)
    grid, block, iterations = gpu.info.sm_count, 256, 5
    found = results(gpu, launch_of(module, kernel, grid, block, iterations))
    expected = expected_output(
        module.ptx, kernel, operand_bytes(module.instruction, Pattern.RANDOM, 5), grid * block, iterations
    )
    if name == "fma.rn.f32":
        found, wanted = found.view(np.float32), expected.view(np.float32)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("pattern", [Pattern.HAMMING_4, Pattern.STILL, Pattern.STILL_HAMMING_1])
def test_chains_on_operands_that_are_alike_compute_what_their_ptx_says(gpu, module_of, pattern):
    module = module_of("xor.b32", OptLevel.O3, Form.THROUGHPUT)
    operands = operand_bytes(module.instruction, pattern, 5)
    grid, block, iterations = gpu.info.sm_count, 256, 5
    found = results(gpu, launch_of(module, "target", grid, block, iterations, operands=(operands,)))
    np.testing.assert_array_equal(
        found, expected_output(module.ptx, "target", operands, grid * block, iterations)
    )


def test_the_three_clocks_agree(gpu, module_of):
    launch = lasting(gpu, launch_of(module_of("fma.rn.f32"), grid=gpu.info.sm_count), 0.3)
    window = gpu.run(launch).window
    assert window.elapsed_s > 0.1
    assert window.globaltimer_ns == pytest.approx(window.elapsed_s * 1e9, rel=0.01)
    assert (window.end_ns - window.start_ns) == pytest.approx(window.elapsed_s * 1e9, rel=1e-6)
    assert 100 < window.clock_mhz < 5000
    if not math.isnan(gpu.info.max_sm_clock_mhz):
        assert window.clock_mhz < 1.02 * gpu.info.max_sm_clock_mhz


def test_the_recording_holds_the_window_and_what_is_around_it(gpu, module_of):
    launch = lasting(gpu, launch_of(module_of("fma.rn.f32"), grid=gpu.info.sm_count), 0.4)
    run = gpu.run(replace(launch, before_s=0.1, after_s=0.1))
    window, trace = run.window, run.trace
    assert trace.begin_ns <= window.start_ns - 95 * MS
    assert trace.end_ns >= window.end_ns + 95 * MS
    recorded = {series.source for series in trace.series}
    assert recorded == {sensor.source for sensor in gpu.sensors} | {SourceName.TEMPERATURE}
    for series in trace.series:
        assert (series.code == 0).all(), series.source
        assert np.isfinite(series.value).all(), series.source
        assert (series.value > 0).all(), series.source
        assert (np.diff(series.begin_ns) >= 0).all(), series.source
        if series.source is not SourceName.SAMPLES:
            assert series.end_ns[0] < window.start_ns, series.source
            assert series.begin_ns[-1] > window.end_ns, series.source
            inside = (series.begin_ns >= window.start_ns) & (series.end_ns <= window.end_ns)
            assert inside.sum() > 20, series.source
    samples = trace.of(SourceName.SAMPLES)
    if samples is not None:
        # The driver's own stamps, moved to the host's clock.
        inside = (samples.stamp_ns > window.start_ns) & (samples.stamp_ns < window.end_ns)
        assert inside.sum() >= 5
        assert (np.diff(samples.stamp_ns) > 0).all()


def test_reading_power_does_not_slow_the_kernel(gpu, module_of):
    launch = lasting(gpu, launch_of(module_of("fma.rn.f32"), grid=gpu.info.sm_count), 0.1)
    # Reads once before the launch and once after it.
    quiet = opened(poll_interval_s=60.0)
    times = {gpu: [], quiet: []}
    try:
        for repeat in range(12):
            for one in (gpu, quiet) if repeat % 2 else (quiet, gpu):
                times[one].append(one.run(launch).window.elapsed_s)
        assert len(quiet.run(launch).trace.of(SourceName.TEMPERATURE)) == 2
    finally:
        quiet.close()
    assert median(times[gpu]) == pytest.approx(median(times[quiet]), rel=0.005)


_ILLEGAL = """
.version 7.0
.target {target}
.address_size 64
.visible .entry target(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u32 e)
{{
    .reg .b64 %address;
    mov.u64 %address, 16;
    st.global.u32 [%address], 1;
    ret;
}}
"""


def test_a_launch_that_cannot_be_is_a_launch_error_and_the_gpu_works_again(gpu, module_of):
    launch = launch_of(module_of("mad.lo.u32"))
    for change in (
        {"kernel": "nonsense"},
        {"block": 4096},
        {"cubin": replace(launch.cubin, image=b"\0" * 64)},
    ):
        with pytest.raises(LaunchError, match="CUDA_ERROR_"):
            gpu.run(replace(launch, **change))
        assert works(gpu, module_of)


def test_ptx_that_the_jit_refuses_is_one_line(gpu):
    ptx = _ILLEGAL.format(target=gpu.info.target).replace("st.global.u32", "st.global.nonsense")
    with pytest.raises(RefusedModuleError, match=r"the driver's JIT failed: .*line") as refused:
        gpu.assemble(ptx, OptLevel.O3)
    assert "\n" not in str(refused.value)


def test_a_gpu_that_is_not_there_is_an_error_that_says_how_many_are(gpu):
    from ptxbench.devices.cuda import CudaGpu

    with pytest.raises(GpuError, match="GPU 9999 does not exist: this machine has"):
        CudaGpu(9999)
    with pytest.raises((GpuError, InputError), match="not on this machine"):
        CudaGpu("GPU-00000000-0000-0000-0000-000000000000")


def test_a_row_is_measured_from_end_to_end_and_no_setting_is_changed(gpu, tmp_path):
    pytest.importorskip("scipy")
    from ptxbench.sensors.nvml import NvmlDevice

    def settings():
        device = NvmlDevice(0)
        try:
            return repr((device.power_limit_w, device.max_sm_clock_mhz, device.clocks_locked))
        finally:
            device.close()

    before = settings()
    asked = RunOptions(
        instructions=("fma.rn.f32",),
        opt_levels=(OptLevel.O3,),
        protocols=(DYNAMIC,),
        min_repeats=2,
        max_repeats=2,
        seed=1,
    )
    with start_run(gpu, asked, tmp_path / "run") as folder:
        (row,) = measure_table(gpu, folder)
        assert folder.manifest.gpu.kind is GpuKind.REAL
    assert (row.status, row.reason) == (Status.OK, "")
    # On an H200 12.4 pJ; any GPU of the last ten years is within this.
    assert 2 < row.dynamic_pj < 60
    assert row.dynamic_ci95_pj < 0.5 * row.dynamic_pj
    assert row.static_w < row.power_w
    assert settings() == before


def break_the_context():
    """Write to an address that is not there: this process cannot use the GPU any more."""
    gpu = opened()
    target = find_target(gpu.info.target)
    row = build_module(find_instruction("mad.lo.u32"), target, OptLevel.O3, Form.LATENCY, gpu.assemble)
    ptx = _ILLEGAL.format(target=gpu.info.target).replace(".version 7.0", f".version {target.ptx_version}")
    broken = replace(launch_of(row), cubin=gpu.assemble(ptx, OptLevel.O3))
    with pytest.raises(LaunchError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        gpu.run(broken)
    with pytest.raises(GpuError, match="`resume`"):
        gpu.run(broken)


def test_a_kernel_that_breaks_is_a_launch_error_and_the_process_says_how_to_go_on():
    child = multiprocessing.get_context("spawn").Process(target=break_the_context)
    child.start()
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.parametrize("level", OptLevel)
@pytest.mark.parametrize("row", STARTER_ROWS, ids=lambda row: row.name)
def test_every_thread_makes_as_many_passes_as_requested(gpu, module_of, row, level):
    module = module_of(row.name, level)
    if module is None:
        pytest.skip(f"{row.name} is not measured here at -{level}")
    block = module.instruction.block or max(64, module.instruction.unit.threads)
    launch = launch_of(module, grid=2, block=block)
    counting = counting_module(gpu, module.ptx, launch.cubin)
    assert (counting.unlike, miscounted(gpu, counting, launch)) == ("", "")
