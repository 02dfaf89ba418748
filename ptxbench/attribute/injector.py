"""The library that writes down kernel launches: built once, and loaded into a program by its environment."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ptxbench.api.window_log import FOLDER_VARIABLE
from ptxbench.attribute.injector_source import (
    NotBuiltError,
    compiled,
    library_name,
    shipped_library,
    source,
)
from ptxbench.attribute.replay.kinds import COMMUNICATES
from ptxbench.core.cache import Cache
from ptxbench.core.errors import ToolError
from ptxbench.core.new_file import file_in_place_of
from ptxbench.devices.cuda_step import own_kernels

MAX_RATE_VARIABLE = "PTXBENCH_MAX_LAUNCH_RATE"
_CUPTI_VARIABLE, _EVENTS_VARIABLE = "PTXBENCH_CUPTI", "PTXBENCH_TIMER_EVENTS"
_REPLAY_VARIABLE, _WAITING_VARIABLE = "PTXBENCH_REPLAY", "PTXBENCH_REPLAY_NOT"
_OWN_VARIABLES = (
    *(MAX_RATE_VARIABLE, _CUPTI_VARIABLE, _EVENTS_VARIABLE),
    *(FOLDER_VARIABLE, _REPLAY_VARIABLE, _WAITING_VARIABLE),
)
# The oldest GPU that a thread can sleep on; the driver compiles it for newer ones.
_OWN_TARGET, _OWN_FILE = "sm_75", "own.ptx"
_PATH_VARIABLES = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
_IS_INJECTOR = re.compile(r"/injector-[0-9a-f]{16}\.so$")
_CACHE = Cache("")
# The loader takes what these stand in apart, or expands it.
_SEPARATES = re.compile(r"[\s:$]")
_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - a folder of its own is made there
# Where CUPTI of CUDA 13 and 12 lies beside a Python package folder.
_IN_WHEELS = ("nvidia/cu13/lib/libcupti.so.13", "nvidia/cuda_cupti/lib/libcupti.so.12")
_IN_TOOLKITS = ("extras/CUPTI/lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib64")


@dataclass(frozen=True)
class ReplayPlan:
    """For how long a program's kernels are launched again.

    Attributes:
        window_s: For each kind.
        limit_s: For all kinds; those that took the most time come first.
        hang_s: How much longer than expected it may last before it counts as hanging.
        after: After how many launches of kernels and graphs of a process; 0: at its end.
    """

    window_s: float
    limit_s: float = 300.0
    hang_s: float = 10.0
    after: int = 0


def build_injector(compiler: str = "cc") -> Path:
    """Return the injector: the one that came with the wheel, else built the first time.

    Its path is one that LD_PRELOAD can hold.

    Args:
        compiler: The C compiler.

    Raises:
        ToolError: There is none and no compiler, it refused the source, or no file can be written.
    """
    text = source()
    name = library_name(text)
    shipped = shipped_library(name)
    if shipped is not None and not _SEPARATES.search(str(shipped)):
        return shipped
    library = _CACHE.get(name)
    if library is None:
        try:
            library = compiled(text, compiler) if shipped is None else shipped.read_bytes()
        except NotBuiltError as error:
            raise ToolError(str(error)) from error
        _CACHE.put(name, library)
    path = _CACHE.path(name)
    if path is not None and not _SEPARATES.search(str(path)):
        return path
    try:
        path = _own_folder() / name
        with file_in_place_of(path, 0o600) as file:
            file.write(library)
    except OSError as error:
        raise ToolError(f"the injector cannot be kept for this run: {error}") from error
    return path


@cache
def _own_folder() -> Path:
    """Return a new folder of this process, for an injector that the cache cannot hold.

    Raises:
        OSError: There is no place for it.
    """
    places = [one for one in (tempfile.gettempdir(), *_PLACES) if not _SEPARATES.search(one)]
    folder = tempfile.mkdtemp(prefix="ptxbench-", dir=places[0])
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def find_cupti(command: str, driver_major: int, roots: Sequence[Path] | None = None) -> tuple[Path, ...]:
    """Return the libcupti that the injector may load, best first.

    A program that brings its own, as PyTorch does, is preferred by the injector itself.

    Args:
        command: The first word of the command: of a Python, its packages are looked through.
        driver_major: CUDA major version that the driver implements; newer libraries are left out.
        roots: CUDA toolkits (None: CUDA_HOME, /usr/local/cuda*, /opt/cuda*).
    """
    found: list[Path] = []
    for packages in _package_folders(command):
        found += [packages / one for one in _IN_WHEELS]
    for root in _toolkits() if roots is None else roots:
        for part in _IN_TOOLKITS:
            found += sorted((root / part).glob("libcupti.so.1[0-9]"), reverse=True)
    present = [path for path in dict.fromkeys(found) if path.exists()]
    usable = [path for path in present if int(path.name.rpartition(".")[2]) <= driver_major]
    return tuple(sorted(usable, key=lambda path: -int(path.name.rpartition(".")[2])))


def without_injector(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what an outer `ptxbench run` has set."""
    kept = {name: value for name, value in environment.items() if name not in _OWN_VARIABLES}
    for name in _PATH_VARIABLES:
        if _IS_INJECTOR.search(kept.get(name, "")):
            del kept[name]
    preloaded = [one for one in kept.pop("LD_PRELOAD", "").split() if not _IS_INJECTOR.search(one)]
    return {**kept, "LD_PRELOAD": " ".join(preloaded)} if preloaded else kept


def other_tool(environment: Mapping[str, str]) -> str | None:
    """Return the library that another tool, such as nsys, has CUDA load into the program; None without."""
    path = environment.get("CUDA_INJECTION64_PATH", "")
    return None if not path or _IS_INJECTOR.search(path) else path


def injected(
    environment: Mapping[str, str], library: Path, cupti: Sequence[Path], folder: Path
) -> dict[str, str]:
    """Return an environment in which the driver loads the injector.

    Args:
        environment: What the program would have had.
        library: The injector.
        cupti: Where libcupti is.
        folder: Where launches are written.
    """
    return {
        **timed(environment, library, folder),
        "CUDA_INJECTION64_PATH": str(library),
        _CUPTI_VARIABLE: ":".join(map(str, cupti)),
    }


def timed(
    environment: Mapping[str, str], library: Path, folder: Path, *, forced: bool = True
) -> dict[str, str]:
    """Return an environment in which the injector is preloaded and NVTX finds it, and CUPTI is left alone.

    Args:
        environment: What the program would have had.
        library: The injector.
        folder: Where launches are written.
        forced: Whether a CUPTI that the program brings is left alone, too.
    """
    return {
        **environment,
        "LD_PRELOAD": " ".join(filter(None, (str(library), environment.get("LD_PRELOAD", "")))),
        # Of another tool for NVTX, such as nsys, the choice stands.
        "NVTX_INJECTION64_PATH": environment.get("NVTX_INJECTION64_PATH") or str(library),
        _EVENTS_VARIABLE: "1" if forced else "",
        # A program may change its working directory.
        FOLDER_VARIABLE: str(folder.absolute()),
    }


def replaying(environment: Mapping[str, str], folder: Path, plan: ReplayPlan) -> dict[str, str]:
    """Return an environment in which the injector launches the program's kernels again at its end.

    Args:
        environment: In which the injector is loaded.
        folder: Where launches are written; it gets the kernels that are launched beside the program's.
        plan: For how long.
    """
    (folder / _OWN_FILE).write_text(own_kernels(_OWN_TARGET))
    return {
        **environment,
        _REPLAY_VARIABLE: f"{plan.window_s * 1e3:.0f} {plan.limit_s:.0f} {plan.hang_s:g} {plan.after}",
        _WAITING_VARIABLE: COMMUNICATES,
    }


def _package_folders(command: str) -> list[Path]:
    """Return the site-packages of the command's own Python (its shebang aside), and of this one."""
    found = []
    path = shutil.which(command)
    if path is not None:
        for bin_folder in dict.fromkeys((Path(path).parent, Path(path).resolve().parent)):
            found += sorted((bin_folder.parent / "lib").glob("python3*/*-packages"))
    return [*found, *(Path(entry) for entry in sys.path if entry.endswith("-packages"))]


def _toolkits() -> list[Path]:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    standard = [*Path("/usr/local").glob("cuda*"), *Path("/opt").glob("cuda*")]
    return ([Path(home)] if home else []) + sorted(standard, reverse=True)
