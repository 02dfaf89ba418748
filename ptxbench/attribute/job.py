"""A job of several ranks, each with a run of its own below one folder: summed up, and compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ptxbench.api.window_energy import energy_text
from ptxbench.attribute.attribution import NO_KERNEL, is_whole_run
from ptxbench.attribute.baseline import read_energy
from ptxbench.attribute.program import energy_of
from ptxbench.attribute.rank import Rank, rank_folders
from ptxbench.attribute.recorded import RUN, ProgramManifest, load
from ptxbench.attribute.report import document as program_document
from ptxbench.attribute.unfinished import BEGUN, load_unfinished
from ptxbench.core.demangle import distinct_names
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import finite
from ptxbench.core.printable import number, printable
from ptxbench.report.text_table import Column, Kind, render_table
from ptxbench.storage import folder_kind
from ptxbench.storage.manifest import read_manifest

_REPORT = "energy.json"
# A rank that takes so much more or less than the one in the middle is named.
_UNLIKE = 0.05
# Beyond the largest machines: a size above it is a damaged one.
_MOST_RANKS = 1_000_000
_RANK_HEAD = (
    Column("rank", Kind.NUMBER),
    Column("host"),
    *(Column(heading, Kind.NUMBER) for heading in ("J", "J (95% interval)", "mean W", "s", "in kernels")),
    Column("beside the middle", Kind.NUMBER),
    Column("GPU"),
)
_KERNEL_HEAD = (
    Column("kernel"),
    *(Column(heading, Kind.NUMBER) for heading in ("J", "share", "J by rank", "s", "calls", "ranks")),
)


@dataclass(frozen=True)
class RankEnergy:
    """What one rank took.

    Attributes:
        rank: Which one.
        uuids: The GPUs that it read.
        report: What its `energy.json` holds.
        is_whole: Whether it was kept to its end.
    """

    rank: Rank
    uuids: tuple[str, ...]
    report: Mapping[str, Any]
    is_whole: bool

    @property
    def energy_j(self) -> float:
        """Energy of its GPUs, J; NaN where it is not known."""
        return _joules(self.report["energy_j"])

    @property
    def interval_j(self) -> tuple[float, float]:
        """Its 95% interval, J: the sum of those of its GPUs."""
        ends = [gpu["interval_j"] for gpu in self.report["gpus"]]
        low_j, high_j = (sum(_joules(one[i]) for one in ends) for i in (0, 1))
        return low_j, high_j

    @property
    def time_s(self) -> float:
        """How long it ran, s."""
        return float(self.report["time_s"])

    @property
    def in_kernels(self) -> float:
        """Share of its energy while kernels ran; NaN where it is not known."""
        rows = self.report["kernels"]
        if any(is_whole_run(row["kernels"]) for row in rows):
            return math.nan
        idle_j = sum(_joules(row["energy_j"]) for row in rows if row["kernels"] == [NO_KERNEL])
        return 1 - idle_j / self.energy_j if rows and self.energy_j > 0 else math.nan


@dataclass(frozen=True)
class KernelOfRanks:
    """What a kernel took of a job.

    Attributes:
        name: Its name.
        by_rank_j: Its energy in each rank that ran it, J; NaN where it is not known.
        time_s: Its time in all of them, s.
        calls: How often it ran in all of them; None where that in one is not known.
    """

    name: str
    by_rank_j: Mapping[int, float]
    time_s: float
    calls: int | None

    @property
    def energy_j(self) -> float:
        """Its energy in all ranks, J; NaN where that in one is not known."""
        return sum(self.by_rank_j.values())


@dataclass(frozen=True)
class Job:
    """What the ranks of a job took.

    Attributes:
        ranks: Those that wrote something, in order.
        missing: The numbers of those that did not.
    """

    ranks: tuple[RankEnergy, ...]
    missing: tuple[int, ...]

    @property
    def counted(self) -> tuple[RankEnergy, ...]:
        """The ranks whose GPUs no other one has read for longer: each GPU counts once."""
        kept: list[RankEnergy] = []
        taken: set[str] = set()
        for one in sorted(self.ranks, key=lambda one: -one.time_s):
            own = {uuid for uuid in one.uuids if uuid}
            if not own or not own <= taken:
                kept.append(one)
            taken |= own
        return tuple(sorted(kept, key=lambda one: one.rank.number))

    @property
    def energy_j(self) -> float:
        """Energy of all GPUs, J; NaN where that of one is not known."""
        return sum(one.energy_j for one in self.counted)

    @property
    def interval_j(self) -> tuple[float, float]:
        """Its 95% interval, J, as if all errors went the same way."""
        low_j, high_j = (sum(one.interval_j[i] for one in self.counted) for i in (0, 1))
        return low_j, high_j

    @property
    def time_s(self) -> float:
        """How long the rank ran that ran longest, s."""
        return max(one.time_s for one in self.ranks)

    @property
    def units(self) -> dict[str, float]:
        """How many of each unit, such as tokens, the ranks counted in all."""
        found: dict[str, float] = {}
        for one in self.ranks:
            for unit, each in one.report.get("units", {}).items():
                found[unit] = found.get(unit, 0.0) + each["count"]
        return found

    @property
    def kernels(self) -> tuple[KernelOfRanks, ...]:
        """What each kernel took, the largest first, and those last of which it is not known."""
        by_name: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
        for one in self.counted:
            for name, row in _plain_rows(one.report["kernels"]):
                by_name.setdefault(name, []).append((one.rank.number, row))
        found = []
        for name, rows in by_name.items():
            by_rank_j: dict[int, float] = {}
            for rank, row in rows:
                by_rank_j[rank] = by_rank_j.get(rank, 0.0) + _joules(row["energy_j"])
            calls = [row["calls"] for _, row in rows]
            time_s = sum(row["time_s"] for _, row in rows)
            found.append(KernelOfRanks(name, by_rank_j, time_s, None if None in calls else sum(calls)))
        return tuple(sorted(found, key=lambda one: (math.isnan(one.energy_j), -one.energy_j)))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else to know, a sentence each."""
        said = []
        if self.missing:
            said.append(f"{_numbers(self.missing)} wrote nothing: what they took is not in the sum")
        early = [one.rank.number for one in self.ranks if not one.is_whole]
        if early:
            said.append(f"{_numbers(early)} did not end while they were measured: what is known counts")
        failed = [one.rank.number for one in self.ranks if one.report["exit_code"]]
        if failed:
            said.append(f"{_numbers(failed)} failed")
        shared = [one.rank.number for one in self.ranks if one not in self.counted]
        if shared:
            said.append(
                f"{_numbers(shared)} read GPUs that another rank read as well: each GPU counts once, and the"
                " kernels of both are in its energy"
            )
        unlike = [
            f"rank {one.rank.number} took {self.beside_middle(one):+.1%} beside the middle"
            for one in self.counted
            if len(self.counted) > 2 and abs(self.beside_middle(one)) > _UNLIKE
        ]
        return (*said, *unlike)

    @property
    def middle_j(self) -> float:
        """Energy of the rank in the middle, J; NaN where that of none is known."""
        known_j = [one.energy_j for one in self.counted if math.isfinite(one.energy_j)]
        return median(known_j) if known_j else math.nan

    def beside_middle(self, one: RankEnergy) -> float:
        """How much more a rank took than the one in the middle, a fraction; NaN where it is not known."""
        return _part(one.energy_j, self.middle_j) - 1

    @property
    def is_simulated(self) -> bool:
        """Whether a number is none of a GPU."""
        return any(one.report["simulated"] for one in self.ranks)


def load_job(folder: Path) -> Job | None:
    """Return what the ranks below a folder took; None where none of them wrote there.

    Raises:
        InputError: A file of a rank is damaged, or the ranks are of several jobs.
    """
    folders = rank_folders(folder)
    if not folders:
        return None
    found = [one for path in folders if (one := _load_rank(path)) is not None]
    if not found:
        raise InputError(f"{folder}: no rank below it wrote what can be read")
    sizes = {one.rank.size for one in found}
    if len(sizes) > 1:
        raise InputError(f"{folder} holds ranks of jobs of {' and '.join(map(str, sorted(sizes)))} ranks")
    numbers = {one.rank.number for one in found}
    return Job(tuple(found), tuple(n for n in range(sizes.pop()) if n not in numbers))


def _load_rank(path: Path) -> RankEnergy | None:
    """Return what a rank took; None where it did not begin."""
    is_whole = (path / RUN).exists()
    if not is_whole and not (path / BEGUN).exists():
        return None
    manifest = read_manifest(path / (RUN if is_whole else BEGUN), ProgramManifest, folder_kind.Kind.PROGRAM)
    rank = manifest.part.rank
    if rank is None:
        raise InputError(
            f"{path} is no rank of a job: name a folder of `ptxbench run --out` under a launcher"
        )
    if not 0 <= rank.number < rank.size <= _MOST_RANKS:
        raise InputError(f"{path}: rank {rank.number} of {rank.size} is none that a job has")
    if path.name != rank.folder:
        raise InputError(f"{path} holds rank {rank.number}: give the folder its name {rank.folder} again")
    try:
        report = _report(path, is_whole=is_whole)
    except InputError:
        if is_whole:
            raise
        return None
    found = RankEnergy(rank, tuple(board.uuid for board in manifest.part.boards), report, is_whole)
    try:
        document(Job((found,), ()))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path / _REPORT} is no energy.json of `ptxbench run --out`") from error
    return found


def _report(path: Path, *, is_whole: bool) -> dict[str, Any]:
    """Return the report of a rank, worked out where a ptxbench that was killed did not write it."""
    if is_whole and (path / _REPORT).exists():
        return read_energy(path / _REPORT)
    return program_document(energy_of(load(path) if is_whole else load_unfinished(path)))


def document(job: Job) -> dict[str, Any]:
    """Return everything that is known of a job, for JSON; what is not known is None."""
    return {
        "ranks": [
            {
                "rank": one.rank.number,
                "host": one.rank.host,
                "gpus": [gpu["gpu"] for gpu in one.report["gpus"]],
                "energy_j": finite(one.energy_j),
                "interval_j": [finite(end) for end in one.interval_j],
                "time_s": one.time_s,
                "in_kernels": finite(one.in_kernels),
                "is_whole": one.is_whole,
            }
            for one in job.ranks
        ],
        "simulated": job.is_simulated,
        "size": job.ranks[0].rank.size,
        "launcher": job.ranks[0].rank.launcher,
        "missing": list(job.missing),
        "energy_j": finite(job.energy_j),
        "interval_j": [finite(end) for end in job.interval_j],
        "time_s": job.time_s,
        "units": {unit: {"count": n, "energy_j": finite(job.energy_j / n)} for unit, n in job.units.items()},
        "kernels": [
            {
                "kernel": one.name,
                "energy_j": finite(one.energy_j),
                "by_rank_j": {str(number): finite(each_j) for number, each_j in one.by_rank_j.items()},
                "time_s": one.time_s,
                "calls": one.calls,
            }
            for one in job.kernels
        ],
        "remarks": list(job.remarks),
    }


def lines(job: Job, most: int = 25, width: int | None = None) -> list[str]:
    """Return a job for people, a line each.

    Args:
        job: The job.
        most: How many kernels are shown.
        width: Columns of the terminal, None where there is none.
    """
    first, hosts = job.ranks[0].rank, {one.rank.host for one in job.ranks}
    gpus = sum(len(one.uuids) for one in job.counted)
    said = ["SIMULATED: these numbers are no measurements"] if job.is_simulated else []
    said.append(
        f"{first.size} ranks by {first.launcher} on {_many(len(hosts), 'host')}, {_many(gpus, 'GPU')}:"
        f" {energy_text(job.energy_j, job.interval_j, job.time_s, digits=5)}"
    )
    for unit, n in job.units.items() if math.isfinite(job.energy_j) else ():
        said.append(
            f"{job.energy_j / n:.4g} J per {unit} ({n:,.6g} of them, which all ranks counted together)"
        )
    cells = [_rank_cells(one, job) for one in job.ranks]
    said += render_table(_RANK_HEAD, cells, width).split("\n")
    kernels = job.kernels
    if kernels:
        short = distinct_names(one.name for one in kernels)
        cells = [(short[one.name], *_kernel_cells(one, job)) for one in kernels[:most]]
        said += ["", *render_table(_KERNEL_HEAD, cells, width).split("\n")]
        left = len(kernels) - most
        said += [f"and {left} kernels more (`ptxbench report FOLDER --json` has all)"] if left > 0 else []
    return [printable(line) for line in (*said, *job.remarks)]


def _rank_cells(one: RankEnergy, job: Job) -> tuple[str, ...]:
    low_j, high_j = one.interval_j
    return (
        str(one.rank.number),
        one.rank.host,
        number(one.energy_j, ".4g", ""),
        f"{low_j:.4g} to {high_j:.4g}" if math.isfinite(high_j - low_j) else "",
        number(_part(one.energy_j, one.time_s), ".1f", ""),
        f"{one.time_s:.4g}",
        number(one.in_kernels, ".1%", ""),
        number(job.beside_middle(one), "+.1%", ""),
        ", ".join(gpu["gpu"] for gpu in one.report["gpus"]),
    )


def _kernel_cells(one: KernelOfRanks, job: Job) -> tuple[str, ...]:
    least_j, most_j = min(one.by_rank_j.values()), max(one.by_rank_j.values())
    return (
        number(one.energy_j, ".4g", ""),
        number(_part(one.energy_j, job.energy_j), ".1%", ""),
        f"{least_j:.4g} to {most_j:.4g}" if math.isfinite(one.energy_j) else "",
        f"{one.time_s:.4g}",
        "" if one.calls is None else str(one.calls),
        str(len(one.by_rank_j)),
    )


def _plain_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of single kernels; of a group the parts of its kernels."""
    for row in rows:
        for member in row["members"]:
            yield member["kernel"], member
        if not row["members"]:
            yield " | ".join(row["kernels"]), row


def _joules(value: float | None) -> float:
    """Return an energy of a report, J; NaN where it is not known."""
    return math.nan if value is None else float(value)


def _part(one: float, whole: float) -> float:
    """Return one number by another, NaN where that is none above 0."""
    return one / whole if whole > 0 else math.nan


def _numbers(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
