"""The simulated GPU from PTX text to a trace, by the real assembler, disassembler and sampler."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError, LaunchError, ToolError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.base import Gpu, Launch
from ptxbench.devices.sequence import only_run
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.ground_truth import instruction_energy_pj, loop_energy_pj
from ptxbench.devices.simulated.load import H200, find_profile, profile_names
from ptxbench.devices.simulated.profile import Profile, SensorSpec
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop import find_loop
from ptxbench.sass.program import Loop, SassKernel
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.sensors.trace import Trace

SLOW_SENSOR = find_profile("slow-sensor")

_COPIES = 64
_EXACT = (SensorSpec(SourceName.COUNTER, refresh_s=0.001, quantum=1e-6),)


def _entry(name: str, body: str, loop: bool = True) -> str:
    begin, end = ('L:\n.pragma "nounroll";', "@%p bra L;") if loop else ("", "")
    return f"""
.visible .entry {name}(.param .u64 input, .param .u64 output, .param .u64 stamps, .param .u32 iterations)
{{
    .reg .u64 %rd<3>;
    .reg .f32 %f<9>;
    .reg .u32 %n;
    .reg .pred %p;
    ld.param.u64 %rd1, [input];
    ld.param.u64 %rd2, [output];
    ld.param.u32 %n, [iterations];
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd1+4];
    {begin}
    {body}
    sub.u32 %n, %n, 1;
    setp.ne.u32 %p, %n, 0;
    {end}
    st.global.f32 [%rd2], %f1;
    ret;
}}
"""


# An empty loop would be removed.
_RESIDUE = "mul.rn.f32 %f1, %f1, %f2;\n"
_PTX = (
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    + _entry("target", _RESIDUE + "fma.rn.f32 %f1, %f1, %f2, %f2;\n" * _COPIES)
    + _entry("overhead", _RESIDUE)
    + _entry("sleep", "nanosleep.u32 1000;")
    + _entry("straight", "", loop=False)
)


def _gpu(profile: Profile = H200, **overrides: object) -> SimulatedGpu:
    return SimulatedGpu(replace(profile, **overrides))


@cache
def _cubin(target: str, opt_level: OptLevel = OptLevel.O3) -> Cubin:
    return assemble_ptx(_PTX, target, opt_level)


def _launch(gpu: Gpu, kernel: str, cubin: Cubin | None = None, **overrides: object) -> Launch:
    launch = Launch(
        trial_id="t",
        cubin=cubin or _cubin(gpu.info.target),
        kernel=kernel,
        grid=8 * gpu.info.sm_count,
        block=256,
        iterations=1_000_000,
        operands=(np.zeros(64, dtype=np.uint8),),
        pattern="random",
    )
    return replace(launch, **overrides)


@cache
def _kernels(image: bytes) -> dict[str, SassKernel]:
    return parse_listing(disassemble(image))


def _loop_of(launch: Launch) -> Loop:
    return find_loop(_kernels(launch.cubin.image)[launch.kernel])


def _counted_j(run: KernelRun) -> float:
    """Energy of the window by an ideal counter that was read every millisecond."""
    counter = run.trace.of(SourceName.COUNTER)
    assert counter is not None
    edges_ns = [run.window.start_ns, run.window.end_ns]
    begin_j, end_j = np.interp(edges_ns, counter.end_ns, counter.value)
    return end_j - begin_j


def _values(trace: Trace) -> list[list[float]]:
    return [series.value.tolist() for series in trace.series]


def test_is_a_gpu_that_says_simulated() -> None:
    gpu: Gpu = SimulatedGpu()
    assert gpu.info.kind is GpuKind.SIMULATED
    assert "simulated" in gpu.info.slug
    assert gpu.info.target == "sm_90a"
    assert [sensor.source for sensor in gpu.sensors][:2] == [SourceName.SAMPLES, SourceName.COUNTER]
    assert SimulatedGpu(seed=1).info.uuid_hash != gpu.info.uuid_hash
    gpu.close()


@pytest.mark.parametrize("opt_level", OptLevel)
@pytest.mark.parametrize("profile", [*map(find_profile, profile_names())], ids=lambda profile: profile.name)
def test_every_profile_runs_what_its_assembler_makes(profile: Profile, opt_level: OptLevel) -> None:
    gpu = SimulatedGpu(profile)
    cubin = gpu.assemble(_PTX, opt_level)
    assert cubin.target == profile.chip.target
    run = gpu.run(_launch(gpu, "target", cubin, before_s=0.2, after_s=0.3))
    recorded = [series.source for series in run.trace.series]
    assert recorded == [*(sensor.source for sensor in gpu.sensors), SourceName.TEMPERATURE]
    assert all((series.code == 0).all() and len(series) > 5 for series in run.trace.series)
    # Steps of the supply voltage take up to a thousandth of the clock.
    allowed = 1e-6 if profile.voltage_steps is None else 1e-3
    assert run.window.clock_mhz == pytest.approx(profile.chip.clock_mhz, rel=allowed)
    assert run.throttle_reasons == 0


def test_the_window_lies_where_the_launch_says() -> None:
    gpu = SimulatedGpu()
    launch = _launch(gpu, "target", before_s=0.2, after_s=0.3)
    run = only_run(gpu.run_sequence((launch,), (), 0.01))
    loop = _loop_of(_launch(gpu, "target"))
    assert run.window.start_ns - run.trace.begin_ns == pytest.approx(0.2e9, abs=1e5)
    assert run.trace.end_ns - run.window.end_ns == pytest.approx(0.3e9, abs=1e5)
    # 16 warps a sub-partition issue every instruction of the loop once.
    assert run.window.cycles == 1_000_000 * 16 * len(loop.instructions)
    assert run.window.elapsed_s == pytest.approx(run.window.cycles / 1980e6, rel=1e-8)
    usage = run.trace.of(SourceName.USAGE)
    assert usage is not None
    assert set(np.diff(usage.begin_ns)) == {10_000_000}


def test_samples_carry_stamps_in_host_time() -> None:
    gpu = SimulatedGpu()
    run = only_run(gpu.run_sequence((_launch(gpu, "target", before_s=0.5),), (), 0.005))
    samples = run.trace.of(SourceName.SAMPLES)
    assert samples is not None
    age_ns = samples.end_ns - samples.stamp_ns
    assert age_ns.min() >= 0
    assert age_ns.max() <= 5_000_000
    assert set(np.diff(samples.stamp_ns)) == {20_000_000}


def test_nothing_is_read_between_launches() -> None:
    gpu = SimulatedGpu()
    gpu.run(_launch(gpu, "target"))
    gpu.clock.sleep_s(2.0)
    samples = gpu.run(_launch(gpu, "target")).trace.of(SourceName.SAMPLES)
    assert samples is not None
    # The driver's buffer of the pause comes with the first poll.
    assert (samples.begin_ns == samples.begin_ns[0]).sum() in (100, 101)
    assert (samples.stamp_ns < samples.begin_ns[0]).sum() in (100, 101)


@pytest.mark.parametrize("opt_level", OptLevel)
@pytest.mark.parametrize("pattern", ["random", "zeros"])
def test_the_trace_gives_back_the_hidden_energy(pattern: str, opt_level: OptLevel) -> None:
    board = replace(H200.board, static_slope_w_per_k=0.0)
    gpu = SimulatedGpu(replace(H200, sensors=_EXACT, board=board), poll_interval_s=0.001)
    cubin = _cubin(gpu.info.target, opt_level)
    dynamic_pj = {}
    loops = {}
    for kernel in ("target", "overhead"):
        launch = _launch(gpu, kernel, cubin, pattern=pattern, before_s=0.1, after_s=0.1)
        run = gpu.run(launch)
        dynamic_j = _counted_j(run) - board.static_w * run.window.elapsed_s
        dynamic_pj[kernel] = 1e12 * dynamic_j / (launch.grid * launch.block * launch.iterations)
        loops[kernel] = _loop_of(launch)
    measured_pj = (dynamic_pj["target"] - dynamic_pj["overhead"]) / _COPIES
    truth_pj = instruction_energy_pj(loops["target"], loops["overhead"], _COPIES, pattern, H200)
    assert measured_pj == pytest.approx(truth_pj, rel=0.005)
    assert loop_energy_pj(loops["target"], pattern, H200) > _COPIES * truth_pj


def test_zeros_draw_less_power_than_random_operands() -> None:
    gpu = SimulatedGpu(replace(H200, sensors=_EXACT), poll_interval_s=0.001)
    energies_j = [
        _counted_j(gpu.run(_launch(gpu, "target", pattern=pattern, before_s=0.1, after_s=0.1)))
        for pattern in ("random", "zeros")
    ]
    assert energies_j[1] < 0.7 * energies_j[0]


def test_a_sleeping_kernel_draws_static_power_alone() -> None:
    gpu = SimulatedGpu(replace(H200, sensors=_EXACT), poll_interval_s=0.001)
    run = gpu.run(_launch(gpu, "sleep", before_s=0.1, after_s=0.1))
    assert run.window.elapsed_s == pytest.approx(1.0, rel=0.02)
    assert _counted_j(run) / run.window.elapsed_s == pytest.approx(125.5, abs=0.1)


def test_dynamic_power_follows_how_much_of_the_chip_is_busy() -> None:
    board = replace(H200.board, static_slope_w_per_k=0.0)
    gpu = SimulatedGpu(replace(H200, sensors=_EXACT, board=board), poll_interval_s=0.001)
    dynamic_w = []
    for grid in (132, 33):
        # One block an SM, so that both take the same time; 33 blocks leave three quarters of the SMs empty.
        launch = _launch(gpu, "target", grid=grid, iterations=2_000_000, before_s=0.1, after_s=0.1)
        run = only_run(gpu.run_sequence((launch,), (), 0.001))
        dynamic_w.append(_counted_j(run) / run.window.elapsed_s - board.static_w)
    assert dynamic_w[0] > 50
    assert dynamic_w[0] == pytest.approx(4 * dynamic_w[1], rel=1e-3)


def test_an_idle_chip_cools() -> None:
    gpu = SimulatedGpu()
    run = gpu.run(_launch(gpu, "target", iterations=20_000_000))
    assert run.after.temperature_c > run.before.temperature_c + 5
    assert run.after.temperature_c == round(run.after.temperature_c)
    gpu.clock.sleep_s(200)
    assert gpu.telemetry().temperature_c == run.before.temperature_c


def test_a_power_cap_lengthens_the_kernel_and_is_reported() -> None:
    free = SimulatedGpu()
    capped = _gpu(board=replace(H200.board, power_cap_w=400))
    loose, tight = free.run(_launch(free, "target")), capped.run(_launch(capped, "target"))
    assert (loose.throttle_reasons, tight.throttle_reasons) == (0, 4)
    assert tight.window.elapsed_s > 1.1 * loose.window.elapsed_s
    assert tight.window.cycles == loose.window.cycles
    assert tight.window.clock_mhz < 0.9 * loose.window.clock_mhz
    assert capped.telemetry().throttle_reasons == 0
    assert capped.telemetry().sm_clock_mhz == 1980


def test_blocks_beyond_the_capacity_wait_for_a_wave() -> None:
    gpu = SimulatedGpu()
    one = gpu.run(_launch(gpu, "target"))
    three = gpu.run(_launch(gpu, "target", grid=3 * 8 * 132))
    assert three.window.elapsed_s == pytest.approx(3 * one.window.elapsed_s, rel=1e-6)
    assert three.window.cycles == one.window.cycles
    assert three.window.clock_mhz == pytest.approx(1980, rel=1e-6)


def test_a_seed_sets_the_readings_and_nothing_else() -> None:
    launches = [(gpu := SimulatedGpu(SLOW_SENSOR, seed), _launch(gpu, "target")) for seed in (3, 3, 4)]
    one, same, other = (gpu.run(launch) for gpu, launch in launches)
    assert _values(one.trace) == _values(same.trace)
    assert _values(one.trace) != _values(other.trace)
    assert one.window == other.window


def test_blocks_per_sm_come_from_registers_and_threads() -> None:
    gpu = SimulatedGpu()
    cubin = _cubin("sm_90a")
    assert gpu.blocks_per_sm(cubin, "target", 256) == 8
    assert gpu.blocks_per_sm(cubin, "target", 32) == 32
    registers = H200.chip.registers_per_sm // 4
    small = _gpu(chip=replace(H200.chip, registers_per_sm=registers))
    given = -(-_kernels(cubin.image)["target"].registers // 8) * 8
    assert small.blocks_per_sm(cubin, "target", 256) == min(8, registers // (256 * given))


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"kernel": "nowhere"}, "no kernel nowhere, only .*target"),
        ({"kernel": "straight"}, "straight cannot be simulated: no loop"),
        ({"block": 2048}, "cannot be launched with 1056 blocks of 2048 threads"),
        ({"grid": 0}, "cannot be launched with 0 blocks"),
        ({"iterations": 0}, "for 0 iterations"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(overrides: dict[str, object], complaint: str) -> None:
    gpu = SimulatedGpu()
    with pytest.raises(LaunchError, match=complaint):
        gpu.run(replace(_launch(gpu, "target"), **overrides))


def test_a_module_for_another_gpu_is_refused() -> None:
    cubin = _cubin(find_profile("a100").chip.target)
    gpu = SimulatedGpu()
    with pytest.raises(LaunchError, match="assembled for sm_80, and this GPU is sm_90a"):
        gpu.run(_launch(gpu, "target", cubin))


def test_bad_input_is_named() -> None:
    gpu = SimulatedGpu()
    with pytest.raises(InputError, match="'stripes'"):
        gpu.run(_launch(gpu, "target", pattern="stripes"))
    with pytest.raises(InputError, match=r"'h100'.*h200"):
        find_profile("h100")
    with pytest.raises(ToolError, match="ptxas"):
        gpu.assemble("this is no PTX", OptLevel.O0)
