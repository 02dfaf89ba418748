"""NVIDIA GPUs through NVML: what a GPU is, its state now, and which power sources answer.

Only `SettableDevice` changes settings of a GPU, and only `ptxbench.devices.settings` uses it.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from typing import Any

from ptxbench.core.errors import GpuError
from ptxbench.core.gpu_settings import ClockChoice, GpuSettings, LocksMissingError, SettingChoices
from ptxbench.sensors.base import LOST_CODES, POWER_SOURCES, Reader, SourceName
from ptxbench.sensors.core_voltage import core_voltage_mv
from ptxbench.sensors.kernel_run import Telemetry
from ptxbench.sensors.meters.live import is_named
from ptxbench.sensors.sources import nvml_sources, source_of

try:
    import pynvml
except ImportError as missing:
    raise GpuError(
        "the Python package nvidia-ml-py is missing, so no GPU can be read: run 'pip install nvidia-ml-py'"
    ) from missing

if not hasattr(pynvml, "NVML_FI_DEV_POWER_INSTANT"):
    _others = set(packages_distributions().get("pynvml", ())) - {"nvidia-ml-py"}
    _away = f"'pip uninstall {' '.join(sorted(_others))}' and " if _others else ""
    raise GpuError(
        f"{pynvml.__file__} is imported for nvidia-ml-py, and it is too old to read power:"
        f" run {_away}'pip install --upgrade --force-reinstall nvidia-ml-py'"
    )

_MILLI = 1000
_UNKNOWN = "unknown"
_LOOK = "compare with `nvidia-smi`"
_PARTITIONED = (
    "split into MIG instances, and NVML reads the power of whole boards only: run `nvidia-smi -mig 0` as root"
)
# What to do, by nvmlReturn_t.
_CURES = {
    4: "run as a user who may open /dev/nvidia*",
    9: "load the NVIDIA driver (`nvidia-smi` must work), or try `ptxbench table --gpu simulated`",
    12: "install the NVIDIA driver, which brings libnvidia-ml.so.1, or try `ptxbench table --gpu simulated`",
    15: "reset the GPU or restart the machine",
    16: "reset the GPU or restart the machine",
    18: "the driver was updated while it was loaded: restart the machine",
}
_NO_PERMISSION = 4
# Not supported, no permission, no such function: asking again changes nothing.
_NO_QUERY = 13
# What NVML says of a function that the board, or the driver, does not have.
_MISSING_CODES = (3, 13)
_LOCK_SM, _LOCK_MEMORY = "nvmlDeviceSetGpuLockedClocks", "nvmlDeviceSetMemoryLockedClocks"
_UNLOCK_SM, _UNLOCK_MEMORY = "nvmlDeviceResetGpuLockedClocks", "nvmlDeviceResetMemoryLockedClocks"
_LASTING_CODES = {*_MISSING_CODES, _NO_PERMISSION}
# A failed read or two must not lose a source; chosen.
_OPENING_READS = 3


@dataclass(frozen=True)
class DeviceEntry:
    """One board of this machine.

    Attributes:
        index: NVML index.
        name: Marketing name, "" where the board does not tell it.
        uuid: UUID, "" where the board does not tell it.
        bus: PCI domain, bus and device; None where NVML does not tell.
        fault: Why the board cannot be measured, with NVML's code; "" for nothing.
        is_forbidden: Whether this user may not open it. CUDA does not count such a board.
    """

    index: int
    name: str
    uuid: str
    bus: tuple[int, int, int] | None = None
    fault: str = ""
    is_forbidden: bool = False

    @property
    def title(self) -> str:
        """Index and name, such as "GPU 0 (NVIDIA H200)"."""
        return f"GPU {self.index} ({self.name})" if self.name else f"GPU {self.index}"

    @property
    def spec(self) -> int | str:
        """What `NvmlDevice` opens it by: the UUID, or the index of a board that does not tell it."""
        return self.uuid or self.index

    @property
    def uuid_hash(self) -> str:
        """First 12 hex digits of the UUID's SHA-256."""
        return hash_uuid(self.uuid)


def hash_uuid(uuid: str) -> str:
    """Return the first 12 hex digits of the SHA-256 of `uuid`."""
    return hashlib.sha256(uuid.encode()).hexdigest()[:12]


def _said(error: Any) -> str:
    return f"NVML says {str(error)!r} (code {error.value}); {_CURES.get(error.value, _LOOK)}"


def _gpu_error(thing: str, error: Any) -> GpuError:
    return GpuError(f"{thing}: {_said(error)}")


def _start(library: Any) -> None:
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise _gpu_error("NVML cannot start", error) from error


def list_devices(library: Any = pynvml) -> tuple[DeviceEntry, ...]:
    """Return the boards that NVML counts, in the order of their index, those that do not work among them.

    Raises:
        GpuError: No driver, or NVML does not tell how many there are.
    """
    _start(library)
    try:
        return tuple(_entry(library, index) for index in range(library.nvmlDeviceGetCount()))
    except library.NVMLError as error:
        raise _gpu_error("the GPUs cannot be listed", error) from error
    finally:
        library.nvmlShutdown()


def _entry(library: Any, index: int) -> DeviceEntry:
    name = ""
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
        name = library.nvmlDeviceGetName(handle)
        uuid = library.nvmlDeviceGetUUID(handle)
    except library.NVMLError as error:
        return DeviceEntry(index, name, "", None, _said(error), error.value == _NO_PERMISSION)
    try:
        pci = library.nvmlDeviceGetPciInfo(handle)
        bus = (pci.domain, pci.bus, pci.device)
    except library.NVMLError:
        bus = None
    try:
        is_partitioned = bool(library.nvmlDeviceGetMigMode(handle)[0])
    except library.NVMLError:
        is_partitioned = False
    return DeviceEntry(index, name, uuid, bus, f"it is {_PARTITIONED}" if is_partitioned else "")


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
        self._which = which
        self._refused: dict[str, int] = {}
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
    def title(self) -> str:
        """Index and name, such as "GPU 0 (NVIDIA H200)"."""
        return f"GPU {self.index} ({self.name})"

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
    def dram_bytes_per_s(self) -> float:
        """Peak bandwidth of DRAM, two transfers a clock; NaN where NVML does not tell its clock or bus."""
        clock_mhz = float(self._optional(math.nan, "nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_MEM))
        bits = float(self._optional(math.nan, "nvmlDeviceGetMemoryBusWidth"))
        known = clock_mhz > 0 and bits > 0
        return 2 * clock_mhz * 1e6 * bits / 8 if known else math.nan

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

    def require_whole(self) -> None:
        """Refuse a GPU that is split into MIG instances.

        Raises:
            GpuError: It is.
        """
        if self.is_partitioned:
            raise GpuError(f"{self.title} is {_PARTITIONED}")

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

    @property
    def is_persistent(self) -> bool | None:
        """Whether the driver stays loaded while no program uses the GPU; None where NVML does not tell."""
        mode = self._optional(None, "nvmlDeviceGetPersistenceMode")
        return None if mode is None else bool(mode)

    @property
    def has_ecc(self) -> bool | None:
        """Whether errors of memory are corrected; None where NVML does not tell, or the board cannot."""
        modes = self._optional(None, "nvmlDeviceGetEccMode")
        return None if modes is None else bool(modes[0])

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
                    f"GPU {which!r} is not on this machine (NVML code {error.value}): choose one that"
                    " `ptxbench gpus` lists"
                ) from error
            raise _gpu_error(f"GPU {which!r} cannot be opened", error) from error
        if count == 0:
            raise GpuError(f"GPU {which} does not exist: NVML sees no GPU here; use `gpu` simulated")
        raise GpuError(
            f"GPU {which} does not exist: this machine has {count}, indices 0 to {count - 1};"
            " choose one that `ptxbench gpus` lists"
        )

    def _must(self, function: str) -> Any:
        try:
            return getattr(self._nvml, function)(self._handle)
        except self._nvml.NVMLError as error:
            raise _gpu_error(f"GPU {self._which} does not answer", error) from error

    def _optional(self, default: Any, function: str, *arguments: Any) -> Any:
        query = getattr(self._nvml, function, None)
        if query is None:
            self._refused[function] = _NO_QUERY
            return default
        try:
            return query(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in LOST_CODES:
                raise _gpu_error(f"{self.title} stopped answering", error) from error
            self._refused[function] = error.value
            return default

    def _library_value(self, function: str, default: Any) -> Any:
        try:
            return getattr(self._nvml, function)()
        except self._nvml.NVMLError:
            return default


class _MissingError(GpuError):
    """The board or its driver does not have a function."""


class SettableDevice(NvmlDevice):
    """One GPU whose clocks and power limit can be set."""

    _has_locks = True

    @property
    def locks_clocks(self) -> bool:
        """Whether NVML can lock clocks, and this board has not said that it cannot."""
        return self._has_locks and hasattr(self._nvml, _LOCK_SM)

    def settings(self) -> GpuSettings:
        """Read what is set now; None where NVML does not tell."""
        nvml = self._nvml
        return GpuSettings(
            self._optional(None, "nvmlDeviceGetApplicationsClock", nvml.NVML_CLOCK_SM),
            self._optional(None, "nvmlDeviceGetApplicationsClock", nvml.NVML_CLOCK_MEM),
            self._optional(None, "nvmlDeviceGetPowerManagementLimit"),
        )

    def core_voltage_mv(self) -> float:
        """Read the core voltage, mV; NaN where it is not told."""
        return core_voltage_mv(self.uuid)

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

    def refusals(self) -> str:
        """Return which queries NVML has refused since the GPU was opened, for the end of a sentence."""
        return _coded(self._refused.items())

    def set_clocks(self, sm_clock_mhz: int, memory_clock_mhz: int) -> None:
        """Set the application clocks.

        Raises:
            GpuError: NVML refuses.
        """
        self._set("nvmlDeviceSetApplicationsClocks", memory_clock_mhz, sm_clock_mhz)

    def lock_clocks(self, sm_clock_mhz: int | None, memory_clock_mhz: int | None) -> None:
        """Lock clocks at one value each; None is left alone.

        Raises:
            LocksMissingError: The board or its driver has no such lock.
            GpuError: NVML refuses.
        """
        try:
            for function, mhz in ((_LOCK_SM, sm_clock_mhz), (_LOCK_MEMORY, memory_clock_mhz)):
                if mhz is not None:
                    self._set(function, mhz, mhz)
        except _MissingError as error:
            self.unlock_clocks(memory=False)
            self._has_locks = False
            raise LocksMissingError(str(error)) from error

    def unlock_clocks(self, *, memory: bool) -> None:
        """End the lock of the SM clock, and of the memory clock if wanted; without any, nothing ends.

        Raises:
            GpuError: NVML refuses.
        """
        for function in (_UNLOCK_SM, *([_UNLOCK_MEMORY] if memory else [])):
            with suppress(_MissingError):
                self._set(function)

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
        except AttributeError as error:
            raise _MissingError(f"this nvidia-ml-py has no {function}; no clock can be set by it") from error
        except self._nvml.NVMLError as error:
            kind = _MissingError if error.value in _MISSING_CODES else GpuError
            cure = "run as root, or ask the owner of the machine" if error.value == _NO_PERMISSION else _LOOK
            raise kind(
                f"{self.title} refuses {function}: NVML says {str(error)!r} (code {error.value}); {cure}"
            ) from error


def available_sources(device: NvmlDevice) -> tuple[Reader, ...]:
    """Return the power sources that answer on this GPU and driver, in the order of `SourceName`.

    Each is read once, and again where the failure may pass. The driver's buffer is emptied by that, so
    that the first reading of `samples` in a recording is not seconds old.
    """
    sources = (device.source(name) for name in _sources_here())
    return tuple(source for source in sources if _code(source) == 0)


def silent_sources(device: NvmlDevice) -> dict[SourceName, int]:
    """Return the power sources that do not answer, each with its nvmlReturn_t."""
    codes = {name: _code(device.source(name)) for name in _sources_here()}
    return {name: code for name, code in codes.items() if code}


def _sources_here() -> tuple[SourceName, ...]:
    return POWER_SOURCES if is_named() else nvml_sources()


def no_source_error(device: NvmlDevice) -> GpuError:
    """Return the error of a GPU whose power cannot be read at all."""
    codes = _coded(silent_sources(device).items())
    return GpuError(f"{device.title}: no power source of NVML answers{codes}; nothing to measure")


def _coded(codes: Iterable[tuple[str, int]]) -> str:
    """Return what NVML refused, for the end of a sentence; "" for nothing."""
    told = ", ".join(f"{name} {code}" for name, code in codes)
    return f" (NVML codes: {told})" if told else ""


def _code(source: Reader) -> int:
    """Return 0 if a source can be read, else its nvmlReturn_t; one failed read must not lose it."""
    code = 0
    for _ in range(_OPENING_READS):
        code = max((reading.code for reading in source.read()), default=0)
        if code == 0 or code in _LASTING_CODES:
            break
    return code
