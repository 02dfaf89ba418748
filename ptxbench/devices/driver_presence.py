"""Whether this machine has an NVIDIA driver at all, working or not, and whether it should have one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path

# The driver's libraries of CUDA and NVML; a CUDA toolkit alone has neither under this name.
_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
_MISSING = "no such file"
# What a scheduler sets in each of its jobs. JOB_ID alone is of anyone.
_JOBS = {
    "Slurm": ("SLURM_JOB_ID",),
    "PBS": ("PBS_JOBID",),
    "LSF": ("LSB_JOBID",),
    "Grid Engine": ("JOB_ID", "SGE_ROOT"),
    "Kubernetes": ("KUBERNETES_SERVICE_HOST", "NVIDIA_VISIBLE_DEVICES"),
}
# What the NVIDIA container runtime takes for no GPU.
_NONE = ("", "void", "none")


def driver_traces(
    devices: Path = Path("/dev"), load: Callable[[str], object] = ctypes.CDLL
) -> tuple[str, ...]:
    """Return what this machine has of an NVIDIA driver: its libraries and its device files.

    A library that is there and cannot be loaded counts: the driver is broken, not absent.

    Args:
        devices: Folder of the device files.
        load: Loads a shared library by name, or raises OSError.
    """
    libraries = (name for name in _LIBRARIES if _is_there(name, load))
    return (*libraries, *sorted(str(path) for path in devices.glob("nvidia*")))


def _is_there(library: str, load: Callable[[str], object]) -> bool:
    try:
        load(library)
    except OSError as error:
        return _MISSING not in str(error).lower()
    return True


def wants_gpus(environment: Mapping[str, str]) -> str:
    """Return what of an environment says that there should be GPUs, "" for nothing.

    That is CUDA_VISIBLE_DEVICES, or a scheduler's job: who forgot to ask it for a GPU wants no simulation
    either. A pod of Kubernetes is one if it was given GPUs, for services and editors run in pods too.
    """
    if environment.get("CUDA_VISIBLE_DEVICES"):
        return f"CUDA_VISIBLE_DEVICES is {environment['CUDA_VISIBLE_DEVICES']!r}"
    for scheduler, names in _JOBS.items():
        if all(environment.get(name, "") not in _NONE for name in names):
            return f"this is a job of {scheduler} ({', '.join(names)} set)"
    return ""
