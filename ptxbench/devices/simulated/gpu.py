"""The simulated GPU behind the one protocol of all GPUs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain

import numpy as np

from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.clock import Clock, VirtualClock
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import GpuError, LaunchError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.devices.base import Bytes, Launch
from ptxbench.devices.sequence import launch_times_s, only_run, run_sequence, stretches
from ptxbench.devices.simulated.concurrent_kernels import CountedKernel, plan_round
from ptxbench.devices.simulated.launch_log import CALL_SCATTER, kernel_power_w, launch_phases
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.physics import Phase, Physics
from ptxbench.devices.simulated.profile import Profile
from ptxbench.devices.simulated.sensor import clock_source, describe, open_source, temperature_source
from ptxbench.devices.simulated.settings import SimulatedSettings
from ptxbench.devices.simulated.timing import Grid, plan_phases, resident_blocks
from ptxbench.devices.simulated.whole_kernel import back_to_back, plan_counted_kernel, plan_whole_kernel
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop import LoopError, find_loop
from ptxbench.sass.program import SassKernel
from ptxbench.sass.resources import kernel_resources
from ptxbench.sensors.base import Reader
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import ConcurrentRun, KernelRun, SequenceRun, Telemetry
from ptxbench.sensors.sampler import Sampler
from ptxbench.sensors.trace import Int64s, KernelWindow

# Far from zero, so that no time stamp of the past is negative; the date is 2026-01-01.
_START_NS = 1_000_000_000_000
_EPOCH_OFFSET_NS = 1_767_225_600_000_000_000
_LAUNCH_OVERHEAD_S = 4e-6
# nvmlClocksEventReasonSwPowerCap
_SW_POWER_CAP = 0x4

# Phases of each stretch of launches back to back.
Stretches = tuple[tuple[Phase, ...], ...]


@lru_cache(maxsize=1024)
def _disassembled(image: bytes) -> Mapping[str, SassKernel]:
    return parse_listing(disassemble(image))


class SimulatedGpu:
    """A GPU that charges every SASS instruction of a kernel's loop a hidden energy, in virtual time."""

    def __init__(self, profile: Profile = H200, seed: int = 0, poll_interval_s: float = 0.005) -> None:
        """Make a GPU that has been waiting for a long time.

        Args:
            profile: What it is like.
            seed: Sets the noise and the phase of its sensors, and the steps of its voltage.
            poll_interval_s: Time between two polls of the sampler.
        """
        self._profile = profile
        self._seed = seed
        self._poll_interval_s = poll_interval_s
        self._clock = VirtualClock(_START_NS, _EPOCH_OFFSET_NS)
        self._physics = Physics(profile, _START_NS, seed)
        self._launches = 0
        self._plans: dict[Hashable, tuple[Phase, ...]] = {}
        self._sources = [*self.open_sources(), temperature_source(self._physics, self._clock)]

    @property
    def has_memory(self) -> bool:
        """Whether the bandwidth of its memory limits kernels."""
        return self._profile.memory is not None

    @property
    def info(self) -> GpuInfo:
        """What this GPU is."""
        profile = self._profile
        return GpuInfo(
            index=-1,
            kind=GpuKind.SIMULATED,
            name=f"{profile.title} (simulated)",
            uuid_hash=hashlib.sha256(f"simulated/{profile.name}/{self._seed}".encode()).hexdigest()[:12],
            target=profile.chip.target,
            sm_count=profile.chip.sm_count,
            max_threads_per_sm=profile.chip.max_threads_per_sm,
            power_limit_w=profile.board.power_cap_w,
            max_sm_clock_mhz=profile.chip.clock_mhz,
            driver="simulated",
            cuda="simulated",
            vbios="simulated",
            clocks_locked=False,
            l2_bytes=float(profile.chip.l2_bytes),
            dram_bytes_per_s=profile.chip.dram_bytes_per_s,
        )

    @property
    def settable(self) -> SimulatedSettings:
        """Its settings, as `ptxbench.devices.settings` takes them."""
        return SimulatedSettings(self.info, self._physics, self._profile)

    @property
    def clock(self) -> Clock:
        """The virtual clock; the chip cools while one sleeps by it."""
        return self._clock

    @property
    def sensors(self) -> tuple[SensorDescription, ...]:
        """The profile's power sources, best for steady power first."""
        return tuple(describe(spec) for spec in self._profile.sensors)

    def open_sources(self) -> tuple[Reader, ...]:
        """Return readers of its own power sources, best for steady power first, for a recording beside it."""
        return tuple(open_source(s, self._physics, self._clock, self._seed) for s in self._profile.sensors)

    def open_beside(self) -> tuple[Reader, ...]:
        """Return readers of its temperature and its clock."""
        return (temperature_source(self._physics, self._clock), clock_source(self._physics, self._clock))

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        """Assemble with ptxas for the chip that is simulated.

        Raises:
            ToolError: ptxas is missing or refused the module.
        """
        return assemble_ptx(ptx, self._profile.chip.target, opt_level)

    def blocks_per_sm(self, cubin: Cubin, kernel: str, block: int) -> int:
        """Return how many blocks of `block` threads one SM holds at once.

        Raises:
            LaunchError: The module is for another target, or has no such kernel.
        """
        return resident_blocks(self._kernel(cubin, kernel).registers, block, self._profile)

    def run(self, launch: Launch) -> KernelRun:
        """Run once in virtual time, with the sampler of a real run polling on the way.

        Raises:
            LaunchError: The kernel is not there, has no loop to charge, or does not fit.
            InputError: The simulated GPU does not know the operand pattern.
        """
        return only_run(self.run_sequence((launch,), ()))

    def run_sequence(
        self, launches: Sequence[Launch], gaps_s: Sequence[float], poll_interval_s: float | None = None
    ) -> SequenceRun:
        """Run one kernel after the other in virtual time.

        Raises:
            LaunchError: A kernel is not there, has no loop to charge, or does not fit.
            InputError: The simulated GPU does not know an operand pattern.
        """
        plans = {id(launch): back_to_back(self._plan(launch), launch.times) for launch in launches}
        return self._recorded(launches, gaps_s, lambda launch: plans[id(launch)], poll_interval_s)

    def _recorded(
        self,
        launches: Sequence[Launch],
        gaps_s: Sequence[float],
        plan: Callable[[Launch], Stretches],
        poll_interval_s: float | None = None,
    ) -> SequenceRun:
        """Let the stretches of launches pass, with the sampler polling on the way."""
        clock = self._clock
        sampler = self._sampler(poll_interval_s)
        before = self.telemetry()
        clock.start_ticker(sampler.poll, sampler.wait_s)
        try:
            windows = run_sequence(launches, gaps_s, clock, lambda launch: self._launch(launch, plan(launch)))
            after = self.telemetry()
            clock.sleep_s(launches[-1].after_s)
        finally:
            clock.stop_ticker(sampler.poll)
        return SequenceRun(
            windows,
            sampler.finish(),
            before,
            after,
            tuple(sampler.throttle_reasons(window) for window in windows),
        )

    def run_concurrently(self, launches: Sequence[Launch], rounds: int = 1) -> ConcurrentRun:
        """Run kernels at once in virtual time.

        Raises:
            LaunchError: A kernel is not there, does not fit, or is none with counted executions.
            InputError: The simulated GPU does not know an operand pattern.
        """
        planned = plan_round([self._counted(launch) for launch in launches], self._profile)
        (first,) = launches[:1]
        many, work = replace(first, times=rounds), back_to_back((planned.phase,), rounds)
        run = only_run(self._recorded((many,), (), lambda _: work))
        per_cycle_s = run.window.elapsed_s / (rounds * planned.phase.cycles)
        return ConcurrentRun(run, tuple(end * per_cycle_s for end in planned.end_cycles))

    def time_s(self, launch: Launch) -> float:
        """Let a launch pass in virtual time, and return how long it took, s.

        Raises:
            LaunchError: The kernel is not there, has no loop to charge, or does not fit.
        """
        return self._launch(launch, back_to_back(self._plan(launch), launch.times)).elapsed_s

    def draw_kernels(self, names: Sequence[str], start_ns: Int64s, end_ns: Int64s, length_ns: int) -> None:
        """Let kernels pass of which only names and times are known; each name draws a hidden power.

        Args:
            names: Name of each kernel.
            start_ns: Its begin from now on, shape (n,).
            end_ns: Its end, shape (n,).
            length_ns: How long to go on from now.
        """
        hidden_w = {name: kernel_power_w(name, self._seed, self._profile) for name in dict.fromkeys(names)}
        scatter = np.random.default_rng(self._seed).normal(1, CALL_SCATTER, len(names))
        power_w = np.array([hidden_w[name] for name in names], dtype=np.float64) * scatter
        phases = launch_phases(start_ns, end_ns, power_w, length_ns, self._profile.chip.clock_mhz)
        clock = self._clock
        ends_ns = self._physics.run(clock.now_ns(), phases)
        clock.sleep_s((ends_ns[-1] - clock.now_ns()) * 1e-9)

    def compute(self, launch: Launch) -> Bytes | None:
        """Launch once; nothing is computed, so that there is no result.

        Raises:
            LaunchError: The kernel is not there, has no loop to charge, or does not fit.
        """
        self.time_s(launch)
        return None

    def telemetry(self) -> Telemetry:
        """Read the state now; the temperature in whole degrees, as NVML gives it."""
        now_ns = self._clock.now_ns()
        return Telemetry(
            temperature_c=float(round(self._physics.temperature_c(now_ns))),
            sm_clock_mhz=self._physics.clock_mhz(now_ns),
            memory_clock_mhz=self._profile.chip.memory_clock_mhz * self._physics.memory_clock_ratio,
            throttle_reasons=self._throttle_reasons(),
            other_processes=0,
        )

    def close(self) -> None:
        """Release nothing: there is no device."""

    def _throttle_reasons(self) -> int:
        return _SW_POWER_CAP if self._physics.throttled(self._clock.now_ns()) else 0

    def _sampler(self, poll_interval_s: float | None = None) -> Sampler:
        """Return what polls the sources, at the requested interval or at the GPU's own."""
        mean_s, throttle_poll = self._poll_interval_s, self._throttle_reasons
        return Sampler(self._sources, self._clock, mean_s, throttle_poll, exactly_s=poll_interval_s)

    def _launch(self, launch: Launch, work: Stretches) -> KernelWindow:
        """Let the phases of launches back to back pass."""
        self._launches += 1
        if 0 < self._profile.fails_after < self._launches:
            raise GpuError(f"{self.info.name} stopped answering, as its profile says")
        clock = self._clock
        clock.sleep_s(_LAUNCH_OVERHEAD_S)
        start_ns = clock.now_ns()
        phases = tuple(chain.from_iterable(work))
        ends = self._physics.lay(start_ns, phases)
        end_ns = ends[-1].at_ns
        clock.sleep_s((end_ns - start_ns) * 1e-9)
        # Blocks of ptxbench's own kernels are stamped each by itself; those of the later half count.
        later = len(phases) // 2 if launch.scalars is None else 0
        began_ns = ends[later - 1].at_ns if later else start_ns
        waves = len(phases) - later
        last = accumulate(len(one) for one in work)
        return KernelWindow(
            start_ns=start_ns,
            end_ns=end_ns,
            elapsed_s=(end_ns - start_ns) * 1e-9,
            cycles=round(sum(end.cycles for end in ends[later:]) / waves),
            globaltimer_ns=round((end_ns - began_ns) / waves),
            launch_times_s=launch_times_s(
                stretches(launch.times), [(ends[n - 1].at_ns - start_ns) * 1e-9 for n in last]
            ),
        )

    def _plan(self, launch: Launch) -> tuple[Phase, ...]:
        """Return what one launch does to the chip; the same launch is planned once."""
        array_bytes = sum(data.nbytes for data in launch.operands)
        own, counted = launch.scalars is None, launch.parameters is not None
        shape = (launch.blocks, launch.threads, launch.iterations, launch.shared_bytes, launch.lanes)
        work = (launch.pattern, launch.executed, launch.result_bytes, array_bytes, own, counted)
        key = (launch.cubin.target, launch.cubin.image, launch.kernel, *shape, *work)
        if key not in self._plans:
            self._plans[key] = self._planned(launch, array_bytes)
        return self._plans[key]

    def _planned(self, launch: Launch, array_bytes: int) -> tuple[Phase, ...]:
        """Plan a launch.

        Of ptxbench's own kernels the loop is charged, of others every instruction.
        """
        kernel = self._kernel(launch.cubin, launch.kernel)
        grid, _, _ = self._grid(launch, kernel)
        trips, pattern, profile = launch.iterations, launch.pattern, self._profile
        if launch.parameters is not None:
            if not launch.executed:
                raise LaunchError(f"{launch.kernel} cannot be simulated: give the trip counts of its loops")
            executed = dict(launch.executed)
            return plan_counted_kernel(executed, grid, pattern, profile, array_bytes)
        try:
            if launch.scalars is not None:
                return plan_whole_kernel(kernel, grid, trips, pattern, profile, launch.result_bytes)
            return plan_phases(find_loop(kernel), grid, trips, pattern, profile, launch.lanes)
        except LoopError as error:
            raise LaunchError(f"{launch.kernel} cannot be simulated: {error}") from error

    def _counted(self, launch: Launch) -> CountedKernel:
        """Return a kernel that runs beside others."""
        grid, registers, shared_bytes = self._grid(launch, self._kernel(launch.cubin, launch.kernel))
        if not launch.executed:
            raise LaunchError(f"{launch.kernel} cannot be simulated beside others: give what it executes")
        return CountedKernel(
            launch.executed,
            launch.pattern,
            grid.blocks,
            grid.threads,
            grid.blocks_per_sm,
            registers,
            shared_bytes,
            sum(data.nbytes for data in launch.operands),
        )

    def _grid(self, launch: Launch, kernel: SassKernel) -> tuple[Grid, int, int]:
        """Return the shape of a launch, with registers of a thread and shared memory of a block.

        Raises:
            LaunchError: Not one block fits an SM, or there is none.
        """
        registers, shared_bytes = kernel.registers, launch.shared_bytes
        if launch.scalars is not None:
            resources = kernel_resources(launch.cubin.image)[launch.kernel]
            registers, shared_bytes = resources.registers, shared_bytes + resources.shared_bytes
        resident = resident_blocks(registers, launch.threads, self._profile, shared_bytes)
        if min(launch.blocks, launch.iterations, resident) < 1:
            raise LaunchError(
                f"{launch.kernel} cannot be launched with {launch.blocks} blocks of {launch.threads} "
                f"threads, {registers} registers each and {shared_bytes} bytes of shared memory, "
                f"for {launch.iterations} iterations"
            )
        return Grid(launch.blocks, launch.threads, resident), registers, shared_bytes

    def _kernel(self, cubin: Cubin, name: str) -> SassKernel:
        target = self._profile.chip.target
        if cubin.target != target:
            raise LaunchError(f"{name} is assembled for {cubin.target}, and this GPU is {target}")
        kernels = _disassembled(cubin.image)
        if name not in kernels:
            raise LaunchError(f"the module has no kernel {name}, only {', '.join(kernels)}")
        return kernels[name]
