"""A real GPU through cuda-python's driver API; the only file that imports cuda."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from ptxbench.core.clock import Clock, HostClock
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import GpuError, LaunchError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.target import target_for_capability
from ptxbench.devices.base import Bytes, Launch
from ptxbench.devices.concurrent_streams import ConcurrentStreams
from ptxbench.devices.context import Context
from ptxbench.devices.cuda_step import NOTHING_KERNEL, SLEEP_KERNEL, CudaStep, Driver, own_kernels
from ptxbench.devices.device_buffer import L2Flush
from ptxbench.devices.jit import jit_assemble
from ptxbench.devices.kernel_timer import KernelTimer, with_stamps
from ptxbench.devices.launch_buffers import LaunchBuffers
from ptxbench.devices.placed_buffer import PLACE, PlacedBuffer
from ptxbench.devices.sequence import STRETCHES, only_run, run_sequence
from ptxbench.devices.step_memory import Range, SavedMemory
from ptxbench.sensors.base import Reader, SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import ConcurrentRun, KernelRun, SequenceRun, Telemetry
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.sensors.nvml import NvmlDevice, available_sources, no_source_error
from ptxbench.sensors.rate_limited import RateLimitedReader
from ptxbench.sensors.sampler import Sampler, SamplerThread
from ptxbench.sensors.sources import source_of
from ptxbench.sensors.trace import KernelWindow, Trace

try:
    from cuda.bindings import driver
except ImportError as missing:
    raise GpuError(
        "the Python package cuda-bindings is missing, so no kernel can run: run 'pip install cuda-bindings'"
    ) from missing

# Dynamic shared memory over this must be requested.
_PLAIN_SHARED_BYTES = 48 * 1024

T = TypeVar("T")


def _call(function: str, *arguments: Any) -> Any:
    """Call the driver and return its result (None, a value, or a tuple).

    Raises:
        LaunchError: The driver answered with an error; the text holds its name.
    """
    try:
        error, *results = getattr(driver, function)(*arguments)
    except RuntimeError as problem:
        raise GpuError(f"the CUDA driver is not usable: {problem}; compare with `nvidia-smi`") from problem
    if error != driver.CUresult.CUDA_SUCCESS:
        raise LaunchError(f"{function}: {error.name}")
    return results[0] if len(results) == 1 else tuple(results) or None


class CudaGpu:
    """One NVIDIA GPU: kernels by the CUDA driver, power by NVML.

    Args:
        which: NVML index or UUID.
        poll_interval_s: Time between two polls of the power sources.
        scratch_place: Address of the memory that loads and stores work on, as far as the driver allows.

    Raises:
        GpuError: No driver, no permission, no such GPU, one in MIG mode, or one without a target here.
    """

    def __init__(self, which: int | str, poll_interval_s: float = 0.002, scratch_place: int = PLACE) -> None:
        self._nvml = NvmlDevice(which)
        self._clock = HostClock()
        self._poll_interval_s = poll_interval_s
        self._nvml.require_whole()
        try:
            _call("cuInit", 0)
            self._device = self._find_device()
            self._context = Context(_call, self._device)
        except LaunchError as error:
            raise GpuError(f"GPU {which}: {error}; compare with `nvidia-smi`") from error
        self._context.make_current()
        scratch = PlacedBuffer(_call, driver=driver, device=int(self._device), place=scratch_place)
        self._buffers = LaunchBuffers(_call, scratch)
        self._timer = KernelTimer(_call, self._clock)
        self._streams = ConcurrentStreams(_call)
        self._info = self._read_info()
        self._sources = sorted(available_sources(self._nvml), key=lambda s: source_of(s.name).rank)
        if not self._sources:
            raise no_source_error(self._nvml)
        self._recorded = [*self._sources, self._nvml.source(SourceName.TEMPERATURE)]
        self._clock_reader = RateLimitedReader(self._nvml.source(SourceName.CLOCK), self._clock)
        self._sensors = tuple(sensor_for(s.name, self._info.target) for s in self._sources)

    @property
    def info(self) -> GpuInfo:
        """What this GPU is."""
        return self._info

    @property
    def clock(self) -> Clock:
        """The host's monotonic clock."""
        return self._clock

    @property
    def sensors(self) -> tuple[SensorDescription, ...]:
        """The sources that answer, best for steady power first."""
        return self._sensors

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        """Assemble a module by the driver's JIT at CU_JIT_OPTIMIZATION_LEVEL 0 or 3.

        Any thread may call this, also while another one runs kernels: the driver's calls are safe among
        threads, a link state belongs to its caller, and the context is made current for each thread.

        Raises:
            GpuError: An earlier kernel broke the CUDA context.
            RefusedModuleError: The JIT refused the module; the text is its first complaint.
        """
        self._context.require()
        # What is current is so for one thread.
        self._context.make_current()
        assembler = f"driver JIT {self._info.driver} (CUDA {self._info.cuda})"
        return jit_assemble(_call, driver, ptx, opt_level, self._info.target, assembler)

    def blocks_per_sm(self, cubin: Cubin, kernel: str, block: int) -> int:
        """Ask the driver how many blocks of `block` threads one SM holds."""
        self._context.require()
        function = self._context.function(cubin, kernel)
        return int(_call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, block, 0))

    def run(self, launch: Launch) -> KernelRun:
        """Launch once while the sampler thread records; `KernelTimer.timed` says how good its window is.

        Raises:
            LaunchError: The kernel could not be loaded, or ended in an error.
            GpuError: The GPU stopped answering.
        """
        return only_run(self.run_sequence((launch,), ()))

    def run_sequence(
        self, launches: Sequence[Launch], gaps_s: Sequence[float], poll_interval_s: float | None = None
    ) -> SequenceRun:
        """Launch one after the other while the sampler thread records; see `run` for the windows.

        Raises:
            LaunchError: A kernel could not be loaded, or ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            return self._run(launches, gaps_s, poll_interval_s)

    def run_concurrently(self, launches: Sequence[Launch], rounds: int = 1) -> ConcurrentRun:
        """Launch kernels at once, each in a stream of its own, while the sampler thread records.

        Raises:
            LaunchError: A kernel could not be loaded, or ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            prepared = self._prepared(launches)
            starts = [partial(_start, launch, *one) for launch, one in zip(launches, prepared, strict=True)]
            before = self.telemetry()
            window, sampler, trace = self._sampled(
                lambda: self._timer.timed(lambda: self._streams.play(starts), rounds, STRETCHES)
            )
            run = KernelRun(window, trace, before, self.telemetry(), sampler.throttle_reasons(window))
            return ConcurrentRun(run, self._streams.ends_s())

    def time_s(self, launch: Launch) -> float:
        """Launch without a recording and return how long it took, s.

        Raises:
            LaunchError: The kernel could not be loaded, or ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            return self._launch(launch, *self._prepared((launch,))[0], most=1).elapsed_s

    @property
    def ordinal(self) -> int:
        """Number of the GPU, as CUDA counts."""
        return int(self._device)

    def time_calls_s(self, call: Callable[[], object], times: int) -> float:
        """Return how long so many calls of another library took, s; it works in the default stream.

        Raises:
            LaunchError: A kernel ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            return self._called(call, times, most=1).elapsed_s

    def run_calls(self, call: Callable[[], object], times: int) -> KernelRun:
        """Call another library so often, back to back, while the sampler thread records.

        Raises:
            LaunchError: A kernel ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            before = self.telemetry()
            window, sampler, trace = self._sampled(
                lambda: self._called(call, times), recorded=[*self._recorded, self._clock_reader]
            )
            queued_s, reasons = self._timer.queued_s, sampler.throttle_reasons(window)
            return KernelRun(window, trace, before, self.telemetry(), reasons, queued_s)

    def l2_flush(self) -> L2Flush:
        """Return what empties L2 when it is called, in the default stream.

        Raises:
            GpuError: There is no memory for it, or an earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            self._context.make_current()
            return L2Flush(_call, self._attribute("L2_CACHE_SIZE"))

    def launching(self, launch: Launch) -> Callable[[], object]:
        """Return what launches a kernel once in the default stream, until another is prepared.

        Raises:
            LaunchError: The kernel could not be loaded.
            GpuError: An earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            (prepared,) = self._prepared((launch,))
            self._buffers.upload(launch)
            return partial(_start, launch, *prepared, 0)

    def captured(self, stream: int, call: Callable[[], object]) -> Any:
        """Return what a call puts into a stream as a CUDA graph, without that it runs; the caller keeps it.

        Args:
            stream: Handle of the stream; not that of the default one.
            call: Puts work into it, and into streams that wait for it.

        Raises:
            LaunchError: It does what cannot be captured, such as wait for the GPU.
        """
        self._context.require()
        # Allocations of the call are no work of its stream.
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        _call("cuStreamBeginCapture", stream, relaxed)
        try:
            call()
        finally:
            graph = _call("cuStreamEndCapture", stream)
        return graph

    def captured_nodes(self, stream: int) -> int:
        """Return how many nodes the graph has so far into which a stream is captured.

        Raises:
            LaunchError: Nothing is captured.
        """
        # Of CUDA 12 only the third version knows of launches that may begin early.
        third = "cuStreamGetCaptureInfo_v3"
        graph = _call(third if hasattr(driver, third) else "cuStreamGetCaptureInfo", stream)[2]
        return int(_call("cuGraphGetNodes", graph, 0)[-1])

    def save(self, memory: Sequence[tuple[int, int]]) -> SavedMemory:
        """Return a copy of device memory.

        Args:
            memory: Address and size of each part.

        Raises:
            InputError: There is no room for it.
            GpuError: An earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            return SavedMemory(_call, [Range(*one) for one in memory])

    def open_step(self, graph: int, memory: Sequence[tuple[int, int]] = ()) -> CudaStep:
        """Return a captured step, with a copy of the memory that it works on.

        Args:
            graph: Handle of its CUDA graph, which outlives what is returned.
            memory: Address and size of memory that the step may work on, beside what its launches name.

        Raises:
            InputError: The step cannot be replayed, or its memory cannot be saved.
            GpuError: An earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            self._context.make_current()
            _call("cuCtxSynchronize")
            own = self.assemble(own_kernels(self._info.target), OptLevel.O3)
            sleep, nothing = (self._context.function(own, name) for name in (SLEEP_KERNEL, NOTHING_KERNEL))
            reached = Driver(_call, driver, self.ordinal, sleep, nothing)
            return CudaStep(reached, driver.CUgraph(graph), memory)

    def _called(self, call: Callable[[], object], times: int, most: int = STRETCHES) -> KernelWindow:
        self._context.make_current()
        return self._timer.timed(call, times, most)

    def compute(self, launch: Launch) -> Bytes | None:
        """Launch once, without a recording, into a cleared output and return it.

        Raises:
            LaunchError: The kernel could not be loaded, or ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._context.watched():
            (prepared,) = self._prepared((launch,))
            self._buffers.clear(launch)
            self._launch(launch, *prepared, most=1)
            return self._buffers.output(launch, launch.result_bytes)

    def telemetry(self) -> Telemetry:
        """Read temperature, clocks, throttle reasons and foreign processes."""
        return self._nvml.telemetry()

    def close(self) -> None:
        """Release memory, context and NVML."""
        if not self._context.is_lost:
            self._buffers.release()
            self._context.release()
        self._nvml.close()

    def _run(
        self, launches: Sequence[Launch], gaps_s: Sequence[float], poll_interval_s: float | None
    ) -> SequenceRun:
        prepared = iter(self._prepared(launches))
        before = self.telemetry()

        def run() -> tuple[KernelWindow, ...]:
            timed = run_sequence(
                launches, gaps_s, self._clock, lambda launch: self._launch(launch, *next(prepared))
            )
            self._clock.sleep_s(launches[-1].after_s)
            return timed

        timed, sampler, trace = self._sampled(run, poll_interval_s)
        windows = tuple(map(with_stamps, timed, self._buffers.stamps(launches)))
        return SequenceRun(
            windows,
            trace,
            before,
            self.telemetry(),
            tuple(sampler.throttle_reasons(window) for window in windows),
        )

    def _sampled(
        self,
        run: Callable[[], T],
        poll_interval_s: float | None = None,
        recorded: Sequence[Reader] | None = None,
    ) -> tuple[T, Sampler, Trace]:
        """Record power while `run` runs."""
        mean_s, throttle_poll = self._poll_interval_s, self._nvml.throttle_reasons
        sampler = Sampler(
            recorded or self._recorded, self._clock, mean_s, throttle_poll, exactly_s=poll_interval_s
        )
        thread = SamplerThread(sampler)
        thread.start()
        try:
            result = run()
        finally:
            trace = thread.stop()
        return result, sampler, trace

    def _prepared(self, launches: Sequence[Launch]) -> list[tuple[Any, Any]]:
        """Return the function and the parameters of each launch."""
        functions = [self._function(launch) for launch in launches]
        return list(zip(functions, self._buffers.prepare(launches), strict=True))

    def _function(self, launch: Launch) -> Any:
        function = self._context.function(launch.cubin, launch.kernel)
        own = launch.parameters is None  # another kernel may have static shared memory besides
        if launch.shared_bytes > (_PLAIN_SHARED_BYTES if own else 0):
            allowed = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _call("cuFuncSetAttribute", function, allowed, launch.shared_bytes)
        return function

    def _launch(self, launch: Launch, function: Any, arguments: Any, most: int = STRETCHES) -> KernelWindow:
        """Launch with its own operands, back to back; return when all of it ran."""
        self._buffers.upload(launch)
        return self._timer.timed(lambda: _start(launch, function, arguments, 0), launch.times, most)

    def _find_device(self) -> Any:
        """Return the CUDA device of the NVML device: the two number GPUs differently."""
        for ordinal in range(_call("cuDeviceGetCount")):
            device = _call("cuDeviceGet", ordinal)
            digits = bytes(_call("cuDeviceGetUuid", device).bytes).hex()
            if self._nvml.uuid.removeprefix("GPU-").replace("-", "") == digits:
                return device
        raise GpuError(f"GPU {self._nvml.index} is hidden from CUDA; see CUDA_VISIBLE_DEVICES")

    def _attribute(self, name: str) -> int:
        attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_call("cuDeviceGetAttribute", attribute, self._device))

    def _read_info(self) -> GpuInfo:
        nvml = self._nvml
        major, minor = (self._attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        return GpuInfo(
            index=nvml.index,
            kind=GpuKind.REAL,
            name=nvml.name,
            uuid_hash=nvml.uuid_hash,
            target=target_for_capability(major, minor).name,
            sm_count=self._attribute("MULTIPROCESSOR_COUNT"),
            max_threads_per_sm=self._attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            power_limit_w=nvml.power_limit_w,
            max_sm_clock_mhz=nvml.max_sm_clock_mhz,
            driver=nvml.driver,
            cuda=nvml.cuda,
            vbios=nvml.vbios,
            clocks_locked=nvml.clocks_locked,
            max_power_limit_w=nvml.max_power_limit_w,
            l2_bytes=float(self._attribute("L2_CACHE_SIZE")) or math.nan,
            dram_bytes_per_s=nvml.dram_bytes_per_s,
        )


def _start(launch: Launch, function: Any, arguments: Any, stream: Any) -> None:
    """Launch a kernel once in a stream."""
    grid, block = (launch.grid, launch.grid_y, launch.grid_z), (launch.block, launch.block_y, launch.block_z)
    _call("cuLaunchKernel", function, *grid, *block, launch.shared_bytes, stream, arguments, 0)


def current_gpu() -> str:
    """Return the UUID of the GPU that this thread's CUDA context is on.

    Raises:
        GpuError: There is no context: the process has not used CUDA yet.
    """
    try:
        device = _call("cuCtxGetDevice")
    except LaunchError as error:
        raise GpuError(f"this thread has no CUDA context ({error}): let the step run once before") from error
    return f"GPU-{UUID(bytes=bytes(_call('cuDeviceGetUuid', device).bytes))}"


def synchronize_contexts() -> None:
    """Wait until the work that this process gave to CUDA is done; no context is made.

    Raises:
        GpuError: A kernel of the process failed.
    """
    for ordinal in range(_result("cuDeviceGetCount") or 0):
        state = _result("cuDevicePrimaryCtxGetState", ordinal)
        if state is not None and state[1]:
            context = _call("cuDevicePrimaryCtxRetain", ordinal)
            _call("cuCtxPushCurrent", context)
            try:
                _call("cuCtxSynchronize")
            finally:
                _call("cuCtxPopCurrent")
                _call("cuDevicePrimaryCtxRelease", ordinal)
    # A context that is not the primary one of its GPU.
    if int(_result("cuCtxGetCurrent") or 0):
        _call("cuCtxSynchronize")


def _result(function: str, *arguments: Any) -> Any:
    """Return what a query of the driver says, None where it fails: CUDA may not be initialized yet."""
    try:
        return _call(function, *arguments)
    except GpuError:
        return None
