"""A real GPU through cuda-python's driver API; the only file that imports cuda."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from ptxbench.clock import Clock, HostClock
from ptxbench.errors import GpuError, LaunchError, RefusedModuleError
from ptxbench.gpu.buffers import KernelBuffers, Stamps
from ptxbench.gpu.call_buffers import CallBuffers
from ptxbench.gpu.calls import Bytes, CallRun, KernelCall
from ptxbench.gpu.placed_buffer import PLACE, PlacedBuffer
from ptxbench.gpu.protocol import (
    Cubin,
    GpuInfo,
    GpuKind,
    KernelRun,
    Launch,
    OptLevel,
    SequenceRun,
    Telemetry,
)
from ptxbench.gpu.sequence import only_run, play
from ptxbench.power.known_sensors import PREFERENCE, sensor_for
from ptxbench.power.nvml import NvmlDevice, available_sources
from ptxbench.power.sampler import Sampler, SamplerThread
from ptxbench.power.sensor import SensorDescription
from ptxbench.power.source import SourceName
from ptxbench.power.trace import KernelWindow, Trace
from ptxbench.ptx.target import target_for_capability

try:
    from cuda.bindings import driver
except ImportError as missing:
    raise GpuError(
        "the Python package cuda-bindings is missing, so no kernel can run: install ptxbench[cuda]"
    ) from missing

_LOG_BYTES = 8192
_CACHED_MODULES = 64
# Dynamic shared memory over this must be asked for.
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


def _window(timed: tuple[float, int], stamps: Stamps) -> KernelWindow:
    """Return a kernel's window from its duration, the host time of its end, and its blocks' own stamps.

    Blocks begin in the order of their numbers: where an SM runs several, one after the other, those of the
    later half ran while the power was settled, and their clock is the one that belongs to it.
    """
    elapsed_s, end_ns = timed
    window = KernelWindow(end_ns - round(elapsed_s * 1e9), end_ns, elapsed_s)
    later = stamps[len(stamps) // 2 :]
    if not len(later):
        return window
    timer_ns, cycles = (later[:, 2:] - later[:, :2]).mean(axis=0)
    return replace(window, cycles=round(cycles), globaltimer_ns=round(timer_ns))


class CudaGpu:
    """One NVIDIA GPU: kernels by the CUDA driver, power by NVML.

    Args:
        which: NVML index or UUID.
        poll_interval_s: Time between two polls of the power sources.
        scratch_place: Address of the memory that loads and stores work on, as far as the driver allows.

    Raises:
        GpuError: No driver, no permission, no such GPU, or one that ptxbench has no target for.
    """

    def __init__(self, which: int | str, poll_interval_s: float = 0.002, scratch_place: int = PLACE) -> None:
        self._nvml = NvmlDevice(which)
        self._clock = HostClock()
        self._poll_interval_s = poll_interval_s
        self._lost = ""
        self._modules: dict[str, Any] = {}
        try:
            _call("cuInit", 0)
            self._device = self._find_device()
            self._context = _call("cuDevicePrimaryCtxRetain", self._device)
        except LaunchError as error:
            raise GpuError(f"GPU {which}: {error}; compare with `nvidia-smi`") from error
        self._open_context(scratch_place)
        self._info = self._read_info()
        self._sources = sorted(available_sources(self._nvml), key=lambda s: PREFERENCE.index(s.name))
        if not self._sources:
            raise GpuError(
                f"GPU {which} ({self._nvml.name}): no power source of NVML answers; nothing to measure"
            )
        self._recorded = [*self._sources, self._nvml.source(SourceName.TEMPERATURE)]
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
        self._require_context()
        # What is current is so for one thread.
        _call("cuCtxSetCurrent", self._context)
        option = driver.CUjit_option
        log = bytearray(_LOG_BYTES)
        options = [
            option.CU_JIT_OPTIMIZATION_LEVEL,
            option.CU_JIT_ERROR_LOG_BUFFER,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ]
        state = _call("cuLinkCreate", len(options), options, [opt_level.number, log, _LOG_BYTES])
        try:
            source = ptx.encode() + b"\0"
            kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
            _call("cuLinkAddData", state, kind, source, len(source), b"module.ptx", 0, [], [])
            address, size = _call("cuLinkComplete", state)
            image = ctypes.string_at(int(address), size)
        except LaunchError as error:
            complaint = bytes(log).split(b"\0")[0].decode(errors="replace").strip().splitlines()
            raise RefusedModuleError(
                f"the driver's JIT failed: {complaint[0] if complaint else error}"
            ) from error
        finally:
            _call("cuLinkDestroy", state)
        assembler = f"driver JIT {self._info.driver} (CUDA {self._info.cuda})"
        return Cubin(image, self._info.target, opt_level, assembler)

    def blocks_per_sm(self, cubin: Cubin, kernel: str, block: int) -> int:
        """Ask the driver how many blocks of `block` threads one SM holds."""
        self._require_context()
        function = self._function(cubin, kernel)
        return int(_call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, block, 0))

    def run(self, launch: Launch) -> KernelRun:
        """Launch once while the sampler thread records.

        The window's end is the host time at which the end event was seen, or the time just after the
        launch plus the events' own duration, whichever is earlier: the kernel had ended by both, and a
        thread that waits for Python's lock (while modules are made ready) sees one of them late. Its start
        is that less the duration, so both are good to about 20 us.

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
        with self._watched():
            return self._run(launches, gaps_s, poll_interval_s)

    def compute(self, call: KernelCall) -> Bytes | None:
        """Launch once into a cleared output and return it.

        Raises:
            LaunchError: The kernel could not be loaded, or ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._watched():
            function, arguments = self._prepared(call)
            self._call_buffers.clear(call.output_bytes)
            self._timed_calls(call, function, arguments, 1)
            return self._call_buffers.output(call.output_bytes)

    def time_calls(self, call: KernelCall, launches: int) -> float:
        """Time launches back to back, in s.

        Raises:
            LaunchError: The kernel could not be loaded, or ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._watched():
            return self._timed_calls(call, *self._prepared(call), launches)[0]

    def record_calls(self, call: KernelCall, launches: int) -> CallRun:
        """Launch back to back while the sampler thread records; see `run` for the window.

        Raises:
            LaunchError: The kernel could not be loaded, or ended in an error.
            GpuError: The GPU stopped answering, or an earlier kernel broke the CUDA context.
        """
        with self._watched():
            function, arguments = self._prepared(call)
            before = self.telemetry()
            (elapsed_s, end_ns), sampler, trace = self._sampled(
                lambda: self._timed_calls(call, function, arguments, launches)
            )
            window = KernelWindow(end_ns - round(elapsed_s * 1e9), end_ns, elapsed_s)
            reasons = sampler.throttle_reasons(window)
            return CallRun(window, launches, trace, before, self.telemetry(), reasons)

    def telemetry(self) -> Telemetry:
        """Read temperature, clocks, throttle reasons and foreign processes."""
        return self._nvml.telemetry()

    def close(self) -> None:
        """Release memory, context and NVML."""
        if not self._lost:
            self._buffers.release()
            self._call_buffers.release()
            _call("cuDevicePrimaryCtxRelease", self._device)
        self._nvml.close()

    def _run(
        self, launches: Sequence[Launch], gaps_s: Sequence[float], poll_interval_s: float | None
    ) -> SequenceRun:
        functions = [self._function(launch.cubin, launch.kernel) for launch in launches]
        prepared = iter(zip(functions, self._buffers.prepare(launches), strict=True))
        before = self.telemetry()

        def run() -> tuple[tuple[float, int], ...]:
            timed = play(launches, gaps_s, self._clock, lambda launch: self._launch(launch, *next(prepared)))
            self._clock.sleep_s(launches[-1].after_s)
            return timed

        timed, sampler, trace = self._sampled(run, poll_interval_s)
        windows = tuple(map(_window, timed, self._buffers.stamps(launches)))
        return SequenceRun(
            windows,
            trace,
            before,
            self.telemetry(),
            tuple(sampler.throttle_reasons(window) for window in windows),
            self._buffers.output(launches[-1].output_bytes),
        )

    def _sampled(
        self, run: Callable[[], T], poll_interval_s: float | None = None
    ) -> tuple[T, Sampler, Trace]:
        """Record power while `run` runs."""
        mean_s, throttle_poll = self._poll_interval_s, self._nvml.throttle_reasons
        sampler = Sampler(self._recorded, self._clock, mean_s, throttle_poll, exactly_s=poll_interval_s)
        thread = SamplerThread(sampler)
        thread.start()
        try:
            result = run()
        finally:
            trace = thread.stop()
        return result, sampler, trace

    def _launch(self, launch: Launch, function: Any, arguments: Any) -> tuple[float, int]:
        """Return the kernel's duration in s and the host time of its end in ns."""
        self._buffers.upload(launch.operands)
        shape = (launch.grid, 1, 1, launch.block, 1, 1)
        return self._timed(lambda: _call("cuLaunchKernel", function, *shape, 0, 0, arguments, 0))

    def _prepared(self, call: KernelCall) -> tuple[Any, Any]:
        """Return the function and the parameters of a call."""
        function = self._function(call.cubin, call.kernel)
        if call.shared_bytes > _PLAIN_SHARED_BYTES:
            allowed = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _call("cuFuncSetAttribute", function, allowed, call.shared_bytes)
        return function, self._call_buffers.prepare(call)

    def _timed_calls(
        self, call: KernelCall, function: Any, arguments: Any, launches: int
    ) -> tuple[float, int]:
        """Return the duration of launches back to back in s and the host time of their end in ns."""
        shape = (*call.grid, 1, call.block, 1, 1, call.shared_bytes)

        def launch() -> None:
            for _ in range(launches):
                _call("cuLaunchKernel", function, *shape, 0, arguments, 0)

        return self._timed(launch)

    def _timed(self, launch: Callable[[], object]) -> tuple[float, int]:
        """Return the duration of what `launch` launches in s and the host time of its end in ns."""
        _call("cuEventRecord", self._start, 0)
        launch()
        _call("cuEventRecord", self._stop, 0)
        launched_ns = self._clock.now_ns()
        _call("cuEventSynchronize", self._stop)
        seen_ns = self._clock.now_ns()
        elapsed_s = float(_call("cuEventElapsedTime", self._start, self._stop)) * 1e-3
        return elapsed_s, min(seen_ns, launched_ns + round(elapsed_s * 1e9))

    def _function(self, cubin: Cubin, kernel: str) -> Any:
        if cubin.sha256 not in self._modules:
            if len(self._modules) >= _CACHED_MODULES:
                _call("cuModuleUnload", self._modules.pop(next(iter(self._modules))))
            self._modules[cubin.sha256] = _call("cuModuleLoadData", cubin.image)
        return _call("cuModuleGetFunction", self._modules[cubin.sha256], kernel.encode())

    def _open_context(self, scratch_place: int) -> None:
        _call("cuCtxSetCurrent", self._context)
        scratch = PlacedBuffer(_call, driver=driver, device=int(self._device), place=scratch_place)
        self._buffers = KernelBuffers(_call, scratch)
        self._call_buffers = CallBuffers(_call)
        self._start, self._stop = (_call("cuEventCreate", 0) for _ in range(2))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Refuse where the context is lost, and find out whether a launch that fails has lost it."""
        self._require_context()
        try:
            yield
        except LaunchError:
            self._check_context()
            raise

    def _check_context(self) -> None:
        """See whether the context outlived a failed launch.

        A launch that the driver refuses leaves it whole. A kernel that breaks (an illegal address) makes
        every later call of this process fail, and a reset of the context does not mend that.
        """
        try:
            _call("cuCtxSynchronize")
        except LaunchError as error:
            self._lost = str(error)

    def _require_context(self) -> None:
        if self._lost:
            raise GpuError(
                f"a kernel broke the CUDA context of this process ({self._lost}); "
                "what was measured is kept: go on with --resume"
            )

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
        )
