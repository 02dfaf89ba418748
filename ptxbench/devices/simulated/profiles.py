"""The named profiles, after real generations of GPUs; figures are of their kind, not of one board."""

from __future__ import annotations

from dataclasses import replace

from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.chance import hashed_unit
from ptxbench.devices.simulated.profile import (
    Board,
    Chip,
    Memory,
    Profile,
    Regulator,
    SensorSpec,
    ThermalVoltageSteps,
    TimedVoltageSteps,
)
from ptxbench.sensors.base import SourceName

# After a board with driver 580.159.04: what each source was seen to do under square-wave loads.
_HOPPER_SENSORS = (
    # Readings 20 ms apart within steady kernels scattered by 0.35 W at 120 W to 0.5 W at 500 W; no other
    # generation's were measured, and they are given the same.
    SensorSpec(SourceName.SAMPLES, refresh_s=0.020, averaging_s=0.016, lag_s=0.004, noise_w=0.5),
    SensorSpec(SourceName.COUNTER, refresh_s=0.100, lag_s=0.004, gain=1.001, offset=250_000.0),
    SensorSpec(SourceName.INSTANT, refresh_s=0.100, averaging_s=0.025, lag_s=0.004, noise_w=1.5),
    SensorSpec(SourceName.AVERAGE, refresh_s=0.100, averaging_s=1.0, lag_s=0.004, noise_w=0.5),
    SensorSpec(SourceName.USAGE, refresh_s=0.100, averaging_s=1.0, lag_s=0.004, noise_w=0.5),
    # Memory power follows the board's from afar: 43 W idle, some 55 W under arithmetic load.
    SensorSpec(
        SourceName.MEMORY, refresh_s=0.100, averaging_s=1.0, lag_s=0.004, gain=0.03, offset=39.2, noise_w=0.1
    ),
)

# As kernels at the limit of H100s drew (results/nvidia-h100/roofline, 700 W): 820 to 940 W for a tenth of a
# second, 770 to 790 W until 0.7 to 0.8 s, then 490 to 530 W for 0.2 s, and 720 to 770 W at 1.2 s.
_HOPPER_REGULATORS = (
    Regulator(limit_ratio=1.115, mean_s=0.08, gain=2.0),
    Regulator(limit_ratio=1.0, mean_s=0.8, gain=3.5),
)

H200 = Profile(
    name="h200",
    title="NVIDIA H200",
    chip=Chip(
        target="sm_90a",
        sm_count=132,
        max_threads_per_sm=2048,
        max_blocks_per_sm=32,
        fp32_cycles=1.0,
        fp64_cycles=2.0,
        clock_mhz=1980.0,
        clock_floor_mhz=345.0,
        memory_clock_mhz=3201.0,
        l2_bytes=50 * 1024**2,
        dram_bytes_per_s=4.8e12,
        shared_per_sm_bytes=228 * 1024,
    ),
    board=Board(
        power_cap_w=700.0,
        static_w=125.5,
        static_at_c=40.0,
        static_slope_w_per_k=0.35,
        coolant_c=32.5,
        thermal_resistance_k_per_w=0.06,
        time_constant_s=20.0,
        regulators=_HOPPER_REGULATORS,
    ),
    sensors=_HOPPER_SENSORS,
)

# The bandwidths are about those of its data sheet, the energies of a byte made up.
_MEMORY = Memory(
    dram_bytes_per_s=4.2e12,
    l2_bytes_per_s=9e12,
    sm_bytes_per_cycle=64.0,
    dram_pj_per_byte=87.0,
    l2_pj_per_byte=31.0,
    l1_bytes=128 * 1024,
    l1_bytes_per_cycle=128.0,
    l1_pj_per_byte=5.0,
)
H200_MEMORY = replace(
    H200, name="h200-memory", title="NVIDIA H200 with a memory of limited bandwidth", memory=_MEMORY
)

SLOW_SENSOR = replace(
    H200,
    name="slow-sensor",
    title="NVIDIA H200 with a slow sensor",
    sensors=(
        SensorSpec(
            SourceName.USAGE,
            refresh_s=0.100,
            averaging_s=1.0,
            lag_s=0.010,
            gain=0.97,
            quantum=0.1,
            noise_w=3.0,
        ),
    ),
)

# After the trials of results/nvidia-h200/full. Board: what heats within a kernel, by a fit of one time
# constant to the temperatures of 2604 trials (0.6 C rms) and of a line to the power of 188 sleeping ones; the
# slow warming of what lies around it is left out. Steps: about what was seen on H200s in the runs since; a
# dip of the clock lowers the mean of a kernel of 0.22 s by some 2 MHz.
H200_STEPS = replace(
    H200,
    name="h200-steps",
    title="NVIDIA H200 with steps of the supply voltage",
    board=replace(
        H200.board,
        static_w=121.0,
        static_slope_w_per_k=0.345,
        coolant_c=30.3,
        thermal_resistance_k_per_w=0.042,
        time_constant_s=0.21,
    ),
    voltage_steps=TimedVoltageSteps(
        factors=(1.015, 1.005, 0.995, 0.985), hold_s=3.5, change_s=0.010, change_mhz=45.0
    ),
)

# As the steps of fourteen H200s (studies/h200/power.md): up some 4 degrees higher than down, by 1.5 to 3 more
# or less.
H200_WARM = replace(
    H200_STEPS,
    name="h200-warm",
    title="NVIDIA H200 with steps of the supply voltage by temperature",
    voltage_steps=ThermalVoltageSteps(
        factors=(0.994, 1.006),
        up_c=(50.0, 2.7),
        down_c=(46.5, 1.5),
        look_s=0.1,
        change_s=0.010,
        change_mhz=45.0,
    ),
)

A100 = Profile(
    name="a100",
    title="NVIDIA A100",
    chip=Chip(
        target="sm_80",
        sm_count=108,
        max_threads_per_sm=2048,
        max_blocks_per_sm=32,
        fp32_cycles=2.0,
        fp64_cycles=4.0,
        clock_mhz=1410.0,
        clock_floor_mhz=210.0,
        memory_clock_mhz=1593.0,
        l2_bytes=40 * 1024**2,
        dram_bytes_per_s=2.039e12,
        shared_per_sm_bytes=164 * 1024,
        energy_scale=0.9,
    ),
    board=Board(
        power_cap_w=400.0,
        static_w=85.0,
        static_at_c=40.0,
        static_slope_w_per_k=0.25,
        coolant_c=30.0,
        thermal_resistance_k_per_w=0.1,
        time_constant_s=25.0,
    ),
    sensors=(
        SensorSpec(SourceName.SAMPLES, refresh_s=0.020, averaging_s=0.020, lag_s=0.002, noise_w=0.5),
        SensorSpec(SourceName.COUNTER, refresh_s=0.100, gain=0.99, offset=80_000.0),
        # This generation's plain reading covers a quarter of the time.
        SensorSpec(SourceName.USAGE, refresh_s=0.100, averaging_s=0.025, gain=0.99, noise_w=1.0),
    ),
)

RTX2080TI = Profile(
    name="rtx2080ti",
    title="NVIDIA GeForce RTX 2080 Ti",
    chip=Chip(
        target="sm_75",
        sm_count=68,
        max_threads_per_sm=1024,
        max_blocks_per_sm=16,
        fp32_cycles=2.0,
        fp64_cycles=64.0,
        clock_mhz=1545.0,
        clock_floor_mhz=300.0,
        memory_clock_mhz=7000.0,
        l2_bytes=5632 * 1024,
        dram_bytes_per_s=616e9,
        shared_per_sm_bytes=64 * 1024,
    ),
    board=Board(
        power_cap_w=300.0,
        static_w=58.0,
        static_at_c=45.0,
        static_slope_w_per_k=0.15,
        coolant_c=28.0,
        thermal_resistance_k_per_w=0.18,
        time_constant_s=40.0,
    ),
    sensors=(
        SensorSpec(SourceName.COUNTER, refresh_s=0.100, gain=1.02, offset=12_000.0),
        SensorSpec(SourceName.USAGE, refresh_s=0.100, gain=1.02, quantum=0.01, noise_w=1.0),
    ),
)

RTX3090 = Profile(
    name="rtx3090",
    title="NVIDIA GeForce RTX 3090",
    chip=Chip(
        target="sm_86",
        sm_count=82,
        max_threads_per_sm=1536,
        max_blocks_per_sm=16,
        fp32_cycles=1.0,
        fp64_cycles=64.0,
        clock_mhz=1695.0,
        clock_floor_mhz=210.0,
        memory_clock_mhz=9751.0,
        l2_bytes=6 * 1024**2,
        dram_bytes_per_s=936e9,
        energy_scale=0.9,
    ),
    board=Board(
        power_cap_w=350.0,
        static_w=70.0,
        static_at_c=45.0,
        static_slope_w_per_k=0.2,
        coolant_c=30.0,
        thermal_resistance_k_per_w=0.11,
        time_constant_s=35.0,
    ),
    sensors=(
        SensorSpec(
            SourceName.USAGE,
            refresh_s=0.100,
            averaging_s=1.0,
            lag_s=0.005,
            gain=1.03,
            quantum=0.01,
            noise_w=2.0,
        ),
    ),
)

# Bandwidths and energies of a byte are made up; the sizes are its own.
RTX3090_MEMORY = replace(
    RTX3090,
    name="rtx3090-memory",
    title="NVIDIA GeForce RTX 3090 with a memory of limited bandwidth",
    memory=Memory(
        dram_bytes_per_s=0.85e12,
        l2_bytes_per_s=2.6e12,
        sm_bytes_per_cycle=64.0,
        dram_pj_per_byte=150.0,
        l2_pj_per_byte=28.0,
        l1_bytes=96 * 1024,
        l1_bytes_per_cycle=128.0,
        l1_pj_per_byte=6.0,
    ),
)

RTX4090 = Profile(
    name="rtx4090",
    title="NVIDIA GeForce RTX 4090",
    chip=Chip(
        target="sm_89",
        sm_count=128,
        max_threads_per_sm=1536,
        max_blocks_per_sm=24,
        fp32_cycles=1.0,
        fp64_cycles=64.0,
        clock_mhz=2520.0,
        clock_floor_mhz=210.0,
        memory_clock_mhz=10501.0,
        l2_bytes=72 * 1024**2,
        dram_bytes_per_s=1008e9,
        energy_scale=0.55,
    ),
    board=Board(
        power_cap_w=450.0,
        static_w=62.0,
        static_at_c=40.0,
        static_slope_w_per_k=0.2,
        coolant_c=28.0,
        thermal_resistance_k_per_w=0.08,
        time_constant_s=45.0,
    ),
    sensors=(
        SensorSpec(SourceName.COUNTER, refresh_s=0.100, gain=0.98, offset=40_000.0),
        SensorSpec(
            SourceName.INSTANT, refresh_s=0.100, averaging_s=0.020, gain=0.98, quantum=0.01, noise_w=1.5
        ),
        SensorSpec(
            SourceName.AVERAGE, refresh_s=0.100, averaging_s=1.0, gain=0.98, quantum=0.01, noise_w=0.5
        ),
        SensorSpec(SourceName.USAGE, refresh_s=0.100, averaging_s=1.0, gain=0.98, quantum=0.01, noise_w=0.5),
    ),
)

# As the RTX 4090 but for what is its own; no board was at hand.
RTX5090 = replace(
    RTX4090,
    name="rtx5090",
    title="NVIDIA GeForce RTX 5090",
    chip=replace(
        RTX4090.chip,
        target="sm_120a",
        sm_count=170,
        clock_mhz=2407.0,
        memory_clock_mhz=14001.0,
        l2_bytes=96 * 1024**2,
        dram_bytes_per_s=1792e9,
    ),
    board=replace(RTX4090.board, power_cap_w=575.0),
    memory=Memory(
        dram_bytes_per_s=1.6e12,
        l2_bytes_per_s=6e12,
        sm_bytes_per_cycle=64.0,
        dram_pj_per_byte=110.0,
        l2_pj_per_byte=22.0,
        l1_bytes=96 * 1024,
        l1_bytes_per_cycle=128.0,
        l1_pj_per_byte=4.0,
    ),
)

B200 = Profile(
    name="b200",
    title="NVIDIA B200",
    chip=Chip(
        target="sm_100a",
        sm_count=148,
        max_threads_per_sm=2048,
        max_blocks_per_sm=32,
        fp32_cycles=1.0,
        fp64_cycles=2.0,
        clock_mhz=1965.0,
        clock_floor_mhz=120.0,
        memory_clock_mhz=3996.0,
        l2_bytes=126 * 1024**2,
        dram_bytes_per_s=8e12,
        shared_per_sm_bytes=228 * 1024,
        energy_scale=0.9,
    ),
    board=Board(
        power_cap_w=1000.0,
        static_w=190.0,
        static_at_c=40.0,
        static_slope_w_per_k=0.5,
        coolant_c=30.0,
        thermal_resistance_k_per_w=0.045,
        time_constant_s=15.0,
    ),
    sensors=_HOPPER_SENSORS,
)

# The board that is lost after some launches, and the number that it counts as.
_LOST, _LOST_BOARD, _LOST_AFTER = "lost", 999_999, 12

# An H200 whose voltage stays below 1200 MHz, for `ptxbench ridge`.
H200_RIDGE = replace(H200, name="h200-ridge", chip=replace(H200.chip, ridge_mhz=1200.0))

# An H200 of which every clock matters: such a voltage, a memory of limited bandwidth, and memory clocks.
H200_CLOCKS = replace(
    H200_MEMORY,
    name="h200-clocks",
    title="NVIDIA H200 with settable clocks",
    chip=H200_RIDGE.chip,
    memory=replace(_MEMORY, clocks_mhz=(1593.0, 2619.0), clock_w=20.0),
)

PROFILES = {
    p.name: p
    for p in (
        *(H200, A100, RTX2080TI, RTX3090, RTX3090_MEMORY, RTX4090, RTX5090, B200),
        *(SLOW_SENSOR, H200_STEPS, H200_WARM, H200_RIDGE, H200_MEMORY, H200_CLOCKS),
    )
}


def find_profile(name: str) -> Profile:
    """Return the profile that `name` stands for.

    Raises:
        InputError: There is none of that name.
    """
    if name not in PROFILES:
        raise InputError(f"no simulated GPU is called {name!r}; there are {', '.join(PROFILES)}")
    return PROFILES[name]


def find_board(name: str) -> tuple[Profile, int]:
    """Return the profile that a name such as "h200@3" stands for, and the number of its board.

    Board 0, which a name without "@" is, is the profile itself; every other has energies, static power and
    cooling a little of its own. Sixteen H200s and two H100s lie within some 4% of each other by one factor
    (docs/accuracy.md); that is the spread of the factors here. Board "lost" stops answering in the middle of
    its first rows, to see what a run makes of that.

    Raises:
        InputError: There is no such profile, or no such board.
    """
    profile_name, _, board = name.partition("@")
    profile = find_profile(profile_name)
    if board == _LOST:
        return replace(profile, fails_after=_LOST_AFTER), _LOST_BOARD
    if board and not board.isdecimal():
        raise InputError(f"{board!r} is no board of a simulated GPU: give a number, or {_LOST!r}")
    number = int(board or 0)
    return (_board(profile, number) if number else profile), number


def _board(profile: Profile, number: int) -> Profile:
    def near_one(what: str, spread: float) -> float:
        return 1 + spread * (2 * hashed_unit("board", profile.name, str(number), what) - 1)

    board = replace(
        profile.board,
        static_w=profile.board.static_w * near_one("static", 0.03),
        coolant_c=profile.board.coolant_c * near_one("coolant", 0.1),
    )
    chip = replace(profile.chip, energy_scale=profile.chip.energy_scale * near_one("energy", 0.04))
    return replace(profile, board=board, chip=chip)
