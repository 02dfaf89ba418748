"""A stand-in for pynvml whose GPUs each lack what a test wants them to lack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 3, 4, 6
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, LOST, RESET_REQUIRED = 9, 12, 13, 15, 16
DRIVER_MISMATCH = 18
INSTANT, AVERAGE, MEMORY = (186, 0), (185, 0), (185, 2)
UNSIGNED_INT, DOUBLE = 1, 0


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error text {value}")
        self.value = value


@dataclass
class FakeDevice:
    """`errors` maps a function to the code it fails with, `field_errors` a (field, scope)."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-0000"
    power_mw: int = 250_000
    energy_mj: int = 7_000_001
    fields_mw: dict[tuple[int, int], float] = field(
        default_factory=lambda: {INSTANT: 260_500, AVERAGE: 240_000, MEMORY: 43_000}
    )
    field_errors: dict[tuple[int, int], int] = field(default_factory=dict)
    field_type: int = UNSIGNED_INT
    samples: list[tuple[int, int]] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    drawing_pids: list[int] = field(default_factory=list)
    application_mhz: tuple[int, int] = (1980, 3201)
    limit_mw: int = 700_000
    # Whether clocks can be locked, and where: no query tells.
    locks: bool = False
    locked_mhz: int | None = None
    locked_memory_mhz: int | None = None
    # What is set in place of what was asked, as where a driver rounds.
    rounds_limit_to_mw: int = 1
    changed: Callable[[FakeDevice], None] = lambda _: None
    history: list[tuple[int, ...]] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    lost: bool = False
    is_partitioned: bool = False
    is_persistent: bool = True
    has_ecc: bool = True
    # PCI bus; None: as the GPU's index.
    bus: int | None = None


def use_nvml(monkeypatch: Any, *devices: FakeDevice, **faults: int) -> FakeNvml:
    """Let these be the GPUs of this machine, all of them visible; return its NVML."""
    from ptxbench.sensors import nvml

    library = FakeNvml(*devices, **faults)
    for function in (nvml.NvmlDevice.__init__, nvml.list_devices):
        monkeypatch.setattr(function, "__defaults__", (library,))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return library


class FakeNvml:
    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_TOTAL_POWER_SAMPLES = 0
    NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_FOUND = 2, NOT_FOUND
    NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT = 185, 186
    NVML_POWER_SCOPE_GPU, NVML_POWER_SCOPE_MEMORY = 0, 2

    def __init__(self, *devices: FakeDevice, init_error: int = 0, version_error: int = 0) -> None:
        self.devices = devices
        self.init_error = init_error
        self.version_error = version_error
        self.open_count = 0
        self.called: set[str] = set()

    def nvmlInit(self) -> None:  # noqa: N802
        if self.init_error:
            raise NvmlError(self.init_error)
        self.open_count += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open_count -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeDevice:  # noqa: N802
        return self._ask("nvmlDeviceGetHandleByIndex", self.devices[index], self.devices[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeDevice:  # noqa: N802
        for device in self.devices:
            if device.uuid == uuid:
                return self._ask("nvmlDeviceGetHandleByUUID", device, device)
        raise NvmlError(NOT_FOUND)

    def nvmlDeviceGetFieldValues(self, device: FakeDevice, ids: list[Any]) -> list[Any]:  # noqa: N802
        values = []
        for key in ids:
            code = device.field_errors.get(key, 0)
            # NVML leaves the value undefined where a field fails: make it look like power.
            value = SimpleNamespace(dVal=-1.0, uiVal=999_000, ulVal=-2, ullVal=-3, sllVal=-4, siVal=-5)
            if not code:
                setattr(value, "dVal" if device.field_type == DOUBLE else "uiVal", device.fields_mw[key])
            values.append(
                SimpleNamespace(nvmlReturn=code, valueType=device.field_type, value=value, timestamp=123)
            )
        return self._ask("nvmlDeviceGetFieldValues", device, values)

    def nvmlDeviceGetSamples(self, device: FakeDevice, kind: int, last_us: int) -> Any:  # noqa: N802
        assert kind == self.NVML_TOTAL_POWER_SAMPLES
        newer = [
            SimpleNamespace(timeStamp=us, sampleValue=SimpleNamespace(uiVal=mw))
            for us, mw in device.samples
            if us > last_us
        ]
        self._ask("nvmlDeviceGetSamples", device, None)
        if not newer:
            raise NvmlError(NOT_FOUND)
        return UNSIGNED_INT, newer

    def nvmlDeviceGetApplicationsClock(self, device: FakeDevice, kind: int) -> int:  # noqa: N802
        return self._ask("nvmlDeviceGetApplicationsClock", device, device.application_mhz[kind - 1])

    def nvmlDeviceSetApplicationsClocks(self, device: FakeDevice, memory: int, sm: int) -> None:  # noqa: N802
        self._ask("nvmlDeviceSetApplicationsClocks", device, None)
        device.application_mhz = (sm, memory)
        self._note(device, sm, memory)

    def nvmlDeviceSetPowerManagementLimit(self, device: FakeDevice, limit_mw: int) -> None:  # noqa: N802
        self._ask("nvmlDeviceSetPowerManagementLimit", device, None)
        device.limit_mw = limit_mw // device.rounds_limit_to_mw * device.rounds_limit_to_mw
        self._note(device, limit_mw)

    def _lock(self, function: str, device: FakeDevice, name: str, *range_mhz: int) -> None:
        self._ask(function, device, None)
        setattr(device, name, range_mhz[0] if range_mhz else None)
        self._note(device, *range_mhz[:1])

    def _note(self, device: FakeDevice, *values: int) -> None:
        device.history.append(values)
        device.changed(device)

    def _ask(self, function: str, device: FakeDevice, answer: Any) -> Any:
        self.called.add(function)
        if device.lost:
            raise NvmlError(LOST)
        if function in device.errors:
            raise NvmlError(device.errors[function])
        return answer

    def _version(self, answer: Any) -> Any:
        if self.version_error:
            raise NvmlError(self.version_error)
        return answer

    def __getattr__(self, function: str) -> Any:
        """Serve the plain queries: every argument after the device only selects."""
        locks = {
            "nvmlDeviceSetGpuLockedClocks": "locked_mhz",
            "nvmlDeviceResetGpuLockedClocks": "locked_mhz",
            "nvmlDeviceSetMemoryLockedClocks": "locked_memory_mhz",
            "nvmlDeviceResetMemoryLockedClocks": "locked_memory_mhz",
        }
        if function in locks and any(device.locks for device in self.devices):
            return lambda device, *values: self._lock(function, device, locks[function], *values)
        whole = {
            "nvmlDeviceGetCount": lambda: len(self.devices),
            "nvmlSystemGetDriverVersion": lambda: self._version("580.159.04"),
            "nvmlSystemGetCudaDriverVersion": lambda: self._version(13_010),
        }
        if function in whole:
            return whole[function]
        answers = {
            "nvmlDeviceGetIndex": lambda d: self.devices.index(d),
            "nvmlDeviceGetName": lambda d: d.name,
            "nvmlDeviceGetPciInfo": lambda d: SimpleNamespace(
                domain=0, bus=self.devices.index(d) if d.bus is None else d.bus, device=0
            ),
            "nvmlDeviceGetUUID": lambda d: d.uuid,
            "nvmlDeviceGetCudaComputeCapability": lambda d: (9, 0),
            "nvmlDeviceGetMigMode": lambda d: (int(d.is_partitioned), 0),
            "nvmlDeviceGetPersistenceMode": lambda d: int(d.is_persistent),
            "nvmlDeviceGetEccMode": lambda d: (int(d.has_ecc), int(d.has_ecc)),
            "nvmlDeviceGetVbiosVersion": lambda d: "96.00",
            "nvmlDeviceGetEnforcedPowerLimit": lambda d: d.limit_mw,
            "nvmlDeviceGetMaxClockInfo": lambda d, kind: {1: 1980, 2: 3201}[kind],
            "nvmlDeviceGetMemoryBusWidth": lambda d: 6144,
            "nvmlDeviceGetClockInfo": lambda d, kind: {1: 1755, 2: 3201}[kind],
            "nvmlDeviceGetDefaultApplicationsClock": lambda d, kind: {1: 1980, 2: 3201}[kind],
            "nvmlDeviceGetTemperatureV": lambda d, sensor: 41,
            "nvmlDeviceGetTemperature": lambda d, sensor: 40,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda d: 0x4,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda d: 0x8,
            "nvmlDeviceGetComputeRunningProcesses": lambda d: [SimpleNamespace(pid=p) for p in d.pids],
            "nvmlDeviceGetGraphicsRunningProcesses": lambda d: [
                SimpleNamespace(pid=p) for p in d.drawing_pids
            ],
            "nvmlDeviceGetSupportedMemoryClocks": lambda d: [3201, 2619],
            "nvmlDeviceGetSupportedGraphicsClocks": lambda d, memory: list(range(1980, 330, -15)),
            "nvmlDeviceGetPowerManagementLimitConstraints": lambda d: [200_000, 700_000],
            "nvmlDeviceGetPowerManagementLimit": lambda d: d.limit_mw,
            "nvmlDeviceGetPowerUsage": lambda d: d.power_mw,
            "nvmlDeviceGetTotalEnergyConsumption": lambda d: d.energy_mj,
        }
        if function not in answers:
            raise AttributeError(function)
        return lambda device, *select: self._ask(function, device, answers[function](device, *select))
