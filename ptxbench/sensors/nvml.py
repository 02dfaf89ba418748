"""NVIDIA GPUs through NVML: what a GPU is, its state now, and which power sources answer.

Only `SettableDevice` changes settings of a GPU, and only `ptxbench.devices.settings` uses it.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from typing import Any

from ptxbench.core.errors import GpuError
from ptxbench.core.gpu_settings import ClockChoice, GpuSettings, SettingChoices
from ptxbench.sensors.base import POWER_SOURCES, Reader, SourceName
from ptxbench.sensors.kernel_run import Telemetry
from ptxbench.sensors.sources import source_of

try:
    import pynvml
except ImportError as missing:
    raise GpuError(
        "the Python package nvidia-ml-py is missing, so no GPU can be read: run 'pip install nvidia-ml-py'"
    ) from missing

_MILLI = 1000
_UNKNOWN = "unknown"
_LOOK = "compare with `nvidia-smi`"
# What to do, by nvmlReturn_t.
_CURES = {
    4: "run as a user who may open /dev/nvidia*",
    9: "load the NVIDIA driver (`nvidia-smi` must work), or use --gpu simulated",
    12: "install the NVIDIA driver, which brings libnvidia-ml.so.1, or use --gpu simulated",
    15: "reset the GPU or restart the machine",
    16: "reset the GPU or restart the machine",
    18: "the driver was updated while it was loaded: restart the machine",
}
_NO_PERMISSION = 4
_LOST_CODES = (15, 16)
# Not supported, no permission, no such function: asking again changes nothing.
_LASTING_CODES = {3, 4, 13}
_OPENING_READS = 3


@dataclass(frozen=True)
class DeviceEntry:
    """One line of the list of GPUs.

    Attributes:
        index: NVML index.
        name: Marketing name.
        uuid_hash: First 12 hex digits of the UUID's SHA-256.
    """

    index: int
    name: str
    uuid_hash: str


def hash_uuid(uuid: str) -> str:
    """Return the first 12 hex digits of the SHA-256 of `uuid`."""
    return hashlib.sha256(uuid.encode()).hexdigest()[:12]


def _gpu_error(thing: str, error: Any) -> GpuError:
    return GpuError(
        f"{thing}: NVML says {str(error)!r} (code {error.value}); {_CURES.get(error.value, _LOOK)}"
    )


def _start(library: Any) -> None:
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise _gpu_error("NVML cannot start", error) from error


def list_devices(library: Any = pynvml) -> tuple[DeviceEntry, ...]:
    """Return the GPUs that NVML sees, in the order of their index.

    Raises:
        GpuError: No driver, or no permission.
    """
    _start(library)
    try:
        entries = []
        for index in range(library.nvmlDeviceGetCount()):
            handle = library.nvmlDeviceGetHandleByIndex(index)
            uuid = library.nvmlDeviceGetUUID(handle)
            entries.append(DeviceEntry(index, library.nvmlDeviceGetName(handle), hash_uuid(uuid)))
        return tuple(entries)
    except library.NVMLError as error:
        raise _gpu_error("the GPUs cannot be listed", error) from error
    finally:
        library.nvmlShutdown()


class NvmlDevice:
    """One GPU, opened by NVML index or by UUID, read and never changed.

    Args:
        which: Index (from 0) or UUID ("GPU-...").
        library: pynvml, or what stands in for it.

    Raises:
        GpuError: No driver, no permission, no such GPU, or a GPU that does not answer.
    """

    def __init__(self, which: int | str, library: Any = pynvml) -> None:
        self._nvml = library
        _start(library)
        try:
            self._handle = self._open(which)
            self.index: int = self._must("nvmlDeviceGetIndex")
            self.name: str = self._must("nvmlDeviceGetName")
            self.uuid: str = self._must("nvmlDeviceGetUUID")
        except GpuError:
            library.nvmlShutdown()
            raise

    def close(self) -> None:
        """Release NVML."""
        self._nvml.nvmlShutdown()

    @property
    def uuid_hash(self) -> str:
        """First 12 hex digits of the UUID's SHA-256."""
        return hash_uuid(self.uuid)

    @property
    def driver(self) -> str:
        """Driver version, such as "580.159.04"."""
        return str(self._library_value("nvmlSystemGetDriverVersion", _UNKNOWN))

    @property
    def cuda(self) -> str:
        """CUDA version that the driver implements, such as "13.0"."""
        version = self._library_value("nvmlSystemGetCudaDriverVersion", None)
        return _UNKNOWN if version is None else f"{version // 1000}.{version % 1000 // 10}"

    @property
    def vbios(self) -> str:
        """VBIOS version."""
        return str(self._optional(_UNKNOWN, "nvmlDeviceGetVbiosVersion"))

    @property
    def power_limit_w(self) -> float:
        """Enforced power limit, NaN where NVML does not tell."""
        return float(self._optional(math.nan, "nvmlDeviceGetEnforcedPowerLimit")) / _MILLI

    @property
    def max_power_limit_w(self) -> float:
        """Highest power limit that can be set, NaN where NVML does not tell."""
        limits = self._optional(None, "nvmlDeviceGetPowerManagementLimitConstraints")
        return math.nan if limits is None else float(limits[1]) / _MILLI

    @property
    def max_sm_clock_mhz(self) -> float:
        """Highest SM clock, NaN where NVML does not tell."""
        return float(self._optional(math.nan, "nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM))

    @property
    def target(self) -> str:
        """SASS target by its compute capability, such as "sm_90"."""
        major, minor = self._must("nvmlDeviceGetCudaComputeCapability")
        return f"sm_{major}{minor}"

    @property
    def is_partitioned(self) -> bool:
        """Whether the GPU is split into MIG instances, which have no power reading of their own."""
        mode = self._optional(None, "nvmlDeviceGetMigMode")
        return mode is not None and bool(mode[0])

    @property
    def clocks_locked(self) -> bool | None:
        """Whether application clocks differ from their default; None where NVML does not tell.

        NVML has no query for clocks locked by `nvidia-smi --lock-gpu-clocks`.
        """
        for kind in (self._nvml.NVML_CLOCK_SM, self._nvml.NVML_CLOCK_MEM):
            now = self._optional(None, "nvmlDeviceGetApplicationsClock", kind)
            default = self._optional(None, "nvmlDeviceGetDefaultApplicationsClock", kind)
            if now is None or default is None:
                return None
            if now != default:
                return True
        return False

    def throttle_reasons(self) -> int:
        """Return the bit mask of clocks event reasons; 0 where NVML does not tell."""
        reasons = self._optional(None, "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            # The name of the same query in drivers before 535.
            reasons = self._optional(0, "nvmlDeviceGetCurrentClocksThrottleReasons")
        return int(reasons)

    def other_processes(self) -> int:
        """Count compute processes besides this one, -1 where NVML does not tell.

        NVML gives process ids of the host, so inside a PID namespace (most
        containers) this process itself looks like a foreign one.
        """
        processes = self._optional(None, "nvmlDeviceGetComputeRunningProcesses")
        if processes is None:
            return -1
        return len({process.pid for process in processes} - {os.getpid()})

    def telemetry(self) -> Telemetry:
        """Read the GPU's state now.

        Raises:
            GpuError: The GPU is lost.
        """
        nvml = self._nvml
        return Telemetry(
            temperature_c=self._temperature_c(),
            sm_clock_mhz=float(self._optional(math.nan, "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)),
            memory_clock_mhz=float(self._optional(math.nan, "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM)),
            throttle_reasons=self.throttle_reasons(),
            other_processes=self.other_processes(),
        )

    def source(self, name: SourceName) -> Reader:
        """Return the reader of `name`; whether it answers shows when it is read."""
        return source_of(name).reader(self._nvml, self._handle)

    def _temperature_c(self) -> float:
        sensor = self._nvml.NVML_TEMPERATURE_GPU
        celsius = self._optional(None, "nvmlDeviceGetTemperatureV", sensor)
        if celsius is None:
            # The only query in drivers before 565; NVML drops it with CUDA 14.
            celsius = self._optional(math.nan, "nvmlDeviceGetTemperature", sensor)
        return float(celsius)

    def _open(self, which: int | str) -> Any:
        nvml = self._nvml
        try:
            if isinstance(which, str):
                return nvml.nvmlDeviceGetHandleByUUID(which)
            count = nvml.nvmlDeviceGetCount()
            if 0 <= which < count:
                return nvml.nvmlDeviceGetHandleByIndex(which)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT):
                raise GpuError(
                    f"GPU {which!r} is not on this machine: choose one that `ptxbench gpus` lists"
                ) from error
            raise _gpu_error(f"GPU {which!r} cannot be opened", error) from error
        if count == 0:
            raise GpuError(f"GPU {which} does not exist: NVML sees no GPU here; use --gpu simulated")
        raise GpuError(
            f"GPU {which} does not exist: this machine has {count}, indices 0 to {count - 1};"
            " choose one that `ptxbench gpus` lists"
        )

    def _must(self, function: str) -> Any:
        try:
            return getattr(self._nvml, function)(self._handle)
        except self._nvml.NVMLError as error:
            raise _gpu_error("the GPU does not answer", error) from error

    def _optional(self, default: Any, function: str, *arguments: Any) -> Any:
        query = getattr(self._nvml, function, None)
        if query is None:
            return default
        try:
            return query(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in _LOST_CODES:
                raise _gpu_error(f"GPU {self.index} ({self.name}) stopped answering", error) from error
            return default

    def _library_value(self, function: str, default: Any) -> Any:
        try:
            return getattr(self._nvml, function)()
        except self._nvml.NVMLError:
            return default


class SettableDevice(NvmlDevice):
    """One GPU whose application clocks and power limit can be set.

    Clocks locked by `nvidia-smi --lock-gpu-clocks` have no query, so they could not be restored: application
    clocks are set instead.
    """

    def settings(self) -> GpuSettings:
        """Read what is set now; None where NVML does not tell."""
        nvml = self._nvml
        return GpuSettings(
            self._optional(None, "nvmlDeviceGetApplicationsClock", nvml.NVML_CLOCK_SM),
            self._optional(None, "nvmlDeviceGetApplicationsClock", nvml.NVML_CLOCK_MEM),
            self._optional(None, "nvmlDeviceGetPowerManagementLimit"),
        )

    def choices(self) -> SettingChoices:
        """Read what can be set."""
        limits = self._optional(None, "nvmlDeviceGetPowerManagementLimitConstraints")
        memory_clocks = self._optional([], "nvmlDeviceGetSupportedMemoryClocks")
        clocks = (
            ClockChoice(
                memory, tuple(sorted(self._optional([], "nvmlDeviceGetSupportedGraphicsClocks", memory)))
            )
            for memory in sorted(memory_clocks)
        )
        return SettingChoices(
            tuple(choice for choice in clocks if choice.sm_clocks_mhz),
            None if limits is None else (limits[0], limits[1]),
        )

    def set_clocks(self, sm_clock_mhz: int, memory_clock_mhz: int) -> None:
        """Set the application clocks.

        Raises:
            GpuError: NVML refuses.
        """
        self._set("nvmlDeviceSetApplicationsClocks", memory_clock_mhz, sm_clock_mhz)

    def set_power_limit(self, power_limit_mw: int) -> None:
        """Set the power limit.

        Raises:
            GpuError: NVML refuses.
        """
        self._set("nvmlDeviceSetPowerManagementLimit", power_limit_mw)

    def foreign_processes(self) -> int | None:
        """Count processes that compute or draw on the GPU besides this one, None where NVML does not tell."""
        pids: set[int] = set()
        for kind in ("Compute", "Graphics"):
            processes = self._optional(None, f"nvmlDeviceGet{kind}RunningProcesses")
            if processes is None:
                return None
            pids |= {process.pid for process in processes}
        return len(pids - {os.getpid()})

    def _set(self, function: str, *values: int) -> None:
        try:
            getattr(self._nvml, function)(self._handle, *values)
        except self._nvml.NVMLError as error:
            cure = "run as root, or ask the owner of the machine" if error.value == _NO_PERMISSION else _LOOK
            raise GpuError(
                f"GPU {self.index} ({self.name}) refuses {function}: NVML says {str(error)!r}"
                f" (code {error.value}); {cure}"
            ) from error


def available_sources(device: NvmlDevice) -> tuple[Reader, ...]:
    """Return the power sources that answer on this GPU and driver, in the order of `SourceName`.

    Each is read once, and again where the failure may pass. The driver's buffer is emptied by that, so
    that the first reading of `samples` in a recording is not seconds old.
    """
    sources = (device.source(name) for name in POWER_SOURCES)
    return tuple(source for source in sources if _answers(source))


def _answers(source: Reader) -> bool:
    """Tell whether a source can be read; one failed read must not lose it for the run."""
    for _ in range(_OPENING_READS):
        codes = {reading.code for reading in source.read()} - {0}
        if not codes:
            return True
        if codes & _LASTING_CODES:
            return False
    return False
