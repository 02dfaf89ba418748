"""Which rank of a job this process is, as torchrun, mpirun or srun say in the environment."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxbench.core.printable import printable

_PREFIX = "rank-"
# The first number of SLURM_STEP_TASKS_PER_NODE, such as 4(x2),3: nodes differ seldom.
_TASKS = re.compile(r"^[0-9]{1,9}")
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Rank:
    """One process of a job of several, each measured by a ptxbench of its own.

    Attributes:
        number: Its rank, from 0.
        size: Ranks of the job.
        local: Its number on its host, from 0; -1 where it is not known.
        local_size: Ranks on its host; 0 where it is not known.
        host: Name of its host.
        launcher: What started it.
    """

    number: int
    size: int
    local: int
    local_size: int
    host: str
    launcher: str

    @property
    def folder(self) -> str:
        """Name of its folder in that of the job."""
        return f"{_PREFIX}{self.number}"


@dataclass(frozen=True)
class _Launcher:
    """The variables by which a launcher names rank, size, rank on the host and ranks on the host."""

    name: str
    number: str
    size: str
    local: str
    local_size: str


# The innermost first: torchrun may be started by srun, and mpirun within a job of Slurm. Variables of a step
# of Slurm are set by srun alone; a batch script has none of them.
_LAUNCHERS = (
    _Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    _Launcher(
        "Open MPI",
        *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        *("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ),
    _Launcher("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)


def rank_of(environment: Mapping[str, str], host: str | None = None) -> Rank | None:
    """Return which rank of a job this process is; None where it is no part of one, or the only one.

    Args:
        environment: Its environment.
        host: Name of its host (None: that of this one).
    """
    for launcher in _LAUNCHERS:
        number, size = (_number(environment.get(name, "")) for name in (launcher.number, launcher.size))
        if number is None or size is None or not number < size:
            continue
        if size == 1:
            return None
        local = _number(environment.get(launcher.local, ""))
        tasks = _TASKS.match(environment.get(launcher.local_size, ""))
        named = printable(socket.gethostname() if host is None else host)
        return Rank(
            number, size, -1 if local is None else local, int(tasks[0]) if tasks else 0, named, launcher.name
        )
    return None


def own_gpus(rank: Rank, seen: Sequence[str]) -> list[str] | None:
    """Return which of the GPUs that a rank can see are its own, None for all.

    Where several ranks of a host see the same GPUs, each works on the one of its number there.

    Args:
        rank: The rank.
        seen: The GPUs, in CUDA's order.
    """
    if rank.local < 0 or rank.local_size == 1 or len(seen) < 2:
        return None
    return [seen[rank.local % len(seen)]]


def rank_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of the ranks of a job, in their order; none where it is no folder of a job."""
    found = (
        (int(path.name[len(_PREFIX) :]), path)
        for path in folder.glob(f"{_PREFIX}*")
        if _NUMBER.fullmatch(path.name[len(_PREFIX) :]) and path.is_dir()
    )
    return tuple(path for _, path in sorted(found))


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
