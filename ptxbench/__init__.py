"""ptxbench: the energy of every PTX instruction on an NVIDIA GPU.

    import ptxbench

    print(ptxbench.cost("fma.rn.f32"))
    with ptxbench.open_gpu("simulated") as gpu:
        print(ptxbench.measure(gpu, "fma.rn.f32"))

The names in `__all__` are the public interface (docs/reference/api.md). They are imported when they are first
used: `import ptxbench` loads neither numpy nor pandas, CUDA or NVML.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxbench import kernel_tuner as kernel_tuner
    from ptxbench import torch as torch
    from ptxbench import triton as triton
    from ptxbench.api.benching import bench, compare
    from ptxbench.api.calibrating import calibrate
    from ptxbench.api.counting import count
    from ptxbench.api.gpu import Gpu, open_gpu
    from ptxbench.api.kernel import estimate_kernel
    from ptxbench.api.measurement import Measurement
    from ptxbench.api.measuring import measure, measure_table
    from ptxbench.api.monitor import EnergyMonitor, Window
    from ptxbench.api.table import Table, cost, load_run, load_table
    from ptxbench.api.tuning import TunedKernel, TunedVariant, tune_kernel
    from ptxbench.api.tuning_functions import Configured, TunedFunction, tune_function
    from ptxbench.api.window_energy import GpuEnergy, GpuLostError, WindowEnergy
    from ptxbench.attribute.replay.profile import Profile, ProfileRow
    from ptxbench.attribute.replay.profiling import profile
    from ptxbench.core.errors import GpuError, InputError, PtxbenchError
    from ptxbench.experiment.calls.result import Bench, Comparison
    from ptxbench.model.calibration import Calibration
    from ptxbench.model.estimate import KernelEstimate

    __version__: str

_HOMES = {
    "Bench": "experiment.calls.result",
    "Calibration": "model.calibration",
    "Comparison": "experiment.calls.result",
    "Configured": "api.tuning_functions",
    "EnergyMonitor": "api.monitor",
    "Gpu": "api.gpu",
    "GpuEnergy": "api.window_energy",
    "GpuError": "core.errors",
    "GpuLostError": "api.window_energy",
    "InputError": "core.errors",
    "KernelEstimate": "model.estimate",
    "Measurement": "api.measurement",
    "Profile": "attribute.replay.profile",
    "ProfileRow": "attribute.replay.profile",
    "PtxbenchError": "core.errors",
    "Table": "api.table",
    "TunedFunction": "api.tuning_functions",
    "TunedKernel": "api.tuning",
    "TunedVariant": "api.tuning",
    "Window": "api.monitor",
    "WindowEnergy": "api.window_energy",
    "bench": "api.benching",
    "calibrate": "api.calibrating",
    "compare": "api.benching",
    "count": "api.counting",
    "cost": "api.table",
    "estimate_kernel": "api.kernel",
    "load_run": "api.table",
    "load_table": "api.table",
    "measure": "api.measuring",
    "measure_table": "api.measuring",
    "open_gpu": "api.gpu",
    "profile": "attribute.replay.profiling",
    "tune_function": "api.tuning_functions",
    "tune_kernel": "api.tuning",
}
# Modules beside them, for what other libraries have.
_MODULES = ("kernel_tuner", "torch", "triton")

__all__ = [
    "Bench",
    "Calibration",
    "Comparison",
    "Configured",
    "EnergyMonitor",
    "Gpu",
    "GpuEnergy",
    "GpuError",
    "GpuLostError",
    "InputError",
    "KernelEstimate",
    "Measurement",
    "Profile",
    "ProfileRow",
    "PtxbenchError",
    "Table",
    "TunedFunction",
    "TunedKernel",
    "TunedVariant",
    "Window",
    "WindowEnergy",
    "__version__",
    "bench",
    "calibrate",
    "compare",
    "cost",
    "count",
    "estimate_kernel",
    "load_run",
    "load_table",
    "measure",
    "measure_table",
    "open_gpu",
    "profile",
    "tune_function",
    "tune_kernel",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used (PEP 562)."""
        if name == "__version__":
            value = import_module(f"{__name__}.core.version").VERSION
        elif name in _HOMES:
            value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        elif name in _MODULES:
            value = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Return what is there and what can be imported."""
        return sorted({*globals(), *__all__, *_MODULES})
