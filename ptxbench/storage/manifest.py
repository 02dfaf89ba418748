"""What a run of any kind is: tool, GPU, host, sensors, command, and the part of its kind (manifest.json)."""

from __future__ import annotations

import hashlib
import math
import platform
import sys
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from ptxbench.catalogue.own import add_own
from ptxbench.catalogue.own_files import OwnFile
from ptxbench.core.condition import Conditions
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.threads import WARP
from ptxbench.core.version import CHECKOUT, VERSION
from ptxbench.core.wrap import first_of
from ptxbench.energy.gate.verdict import SourceVerdict
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place
from ptxbench.storage.commit import git_commit
from ptxbench.storage.document import SCHEMA, read_plain
from ptxbench.storage.folder_kind import MANIFEST, Kind, require_kind
from ptxbench.storage.location import make_place
from ptxbench.storage.migration import migrated

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = TypeVar("P", bound="DataclassInstance")
# Of many words, such as the instructions of a run, a message has so many.
_SHOWN = 6


@dataclass(frozen=True)
class Host:
    """The machine that the runner ran on.

    Attributes:
        name_hash: First 12 hex digits of the host name's SHA-256.
        python: Python version.
        os: Operating system and its version.
    """

    name_hash: str
    python: str
    os: str


@dataclass(frozen=True, kw_only=True)
class Manifest(Generic[P]):
    """What a run is.

    Attributes:
        schema: Schema of the run's files, "major.minor"; older files are read as this one.
        kind: What it was made for.
        ptxbench_version: Version of this package; "" where it is not known.
        commit: Git commit of the checkout, "-dirty" appended where it was changed; None outside of one.
        created: When the run began, UTC; None where it is not known.
        gpus: Every board that the run met, the first one first; a table that began with 0.3.0 has one.
        part: What only runs of this kind have.
        host: The machine, None where it is not known.
        sensors: What the power sources are like, best for steady power first.
        command: The words of the command that began the run; () where it is not known.
    """

    schema: str = SCHEMA
    kind: Kind
    ptxbench_version: str
    commit: str | None
    created: datetime | None
    gpus: tuple[GpuInfo, ...]
    host: Host | None = None
    sensors: tuple[SensorDescription, ...] = ()
    command: tuple[str, ...] = ()
    part: P

    @property
    def gpu(self) -> GpuInfo:
        """The first board."""
        return self.gpus[0]

    @property
    def day(self) -> str:
        """When the run began, such as "2026-11-21"; "" where it is not known."""
        return f"{self.created:%Y-%m-%d}" if self.created else ""


def new_manifest(
    kind: Kind,
    part: P,
    gpus: tuple[GpuInfo, ...],
    sensors: tuple[SensorDescription, ...] = (),
    created: datetime | None = None,
) -> Manifest[P]:
    """Return the manifest of a run that begins on this host, with this version of ptxbench.

    Args:
        kind: What it is made for.
        part: What only runs of this kind have.
        gpus: The boards.
        sensors: Power sources of the first one.
        created: When it begins; None for now.
    """
    name_hash = hashlib.sha256(platform.node().encode()).hexdigest()[:12]
    return Manifest(
        kind=kind,
        ptxbench_version=VERSION,
        commit=git_commit(CHECKOUT),
        created=created or datetime.now(UTC),
        gpus=gpus,
        host=Host(name_hash, platform.python_version(), platform.platform()),
        sensors=sensors,
        command=(Path(sys.argv[0]).name, *sys.argv[1:]),
        part=part,
    )


def with_part(manifest: Manifest[P], **changes: object) -> Manifest[P]:
    """Return a manifest with fields of its part changed."""
    return replace(manifest, part=replace(manifest.part, **changes))


def write_manifest(path: Path, manifest: Manifest[P]) -> None:
    """Write a manifest atomically."""
    write_text(path, codec.to_text(manifest))


def begin_run(path: Path, manifest: Manifest[P]) -> None:
    """Make the folder of a run, or use an empty one, and put the manifest into it.

    Raises:
        InputError: The folder holds something, cannot be written, or is not for this kind of GPU.
    """
    make_place(path, manifest.gpu.kind)
    write_manifest(path / MANIFEST, manifest)


def require_unchanged(path: Path, there: Manifest[P], now: Manifest[P], *keys: str) -> None:
    """Refuse to resume a run on another board or driver, or with another value in its part.

    Args:
        path: The folder.
        there: Its manifest.
        now: What a new folder would say.
        keys: Fields of the part that must be the same.

    Raises:
        InputError: Something differs.
    """
    require_equal("board", there.gpu.uuid_hash, now.gpu.uuid_hash, path)
    require_equal("driver", there.gpu.driver, now.gpu.driver, path)
    for key in keys:
        require_equal(key, getattr(there.part, key), getattr(now.part, key), path)


def read_manifest(path: Path, as_kind: type[Manifest[P]], *kinds: Kind) -> Manifest[P]:
    """Read a manifest of any age; an older one is migrated as it is read.

    Args:
        path: The file.
        as_kind: The manifest with the part that its kind has, such as `Manifest[TablePart]`.
        kinds: Kinds that have this part.

    Raises:
        InputError: The file cannot be read, is of another kind or a newer major schema, or a key is missing
            or does not fit.
    """
    require_kind(path.parent, *kinds)
    place = Place(path)
    manifest = codec.decode(as_kind, migrated(read_plain(path), place), place)
    if manifest.kind in (Kind.PROGRAM, Kind.KERNELS):
        return manifest
    # Older runs of other kinds do not always say by which sensors.
    has_readings = manifest.kind in (Kind.TABLE, Kind.RECORDING, Kind.PROFILE, Kind.CALIBRATION)
    needed = ("gpus", "sensors") if has_readings else ("gpus",)
    for key in needed:
        if not getattr(manifest, key):
            raise place.at(key).error("must not be empty")
    for index, gpu in enumerate(manifest.gpus):
        if not gpu.target:
            raise place.at("gpus").item(index).at("target").error("must be that of a GPU, such as sm_90a")
    return manifest


@dataclass(frozen=True, kw_only=True)
class RunArguments(Conditions):
    """What a run measures and how; a resumed run has the same arguments.

    Attributes:
        instructions: Catalogue names, in the table's order.
        precision: 95% confidence half-width to stop at, as a fraction of the energy.
        min_repeats: Repeats that every row gets in any case.
        max_repeats: Repeats that a row gets at most.
        window_s: Target duration of a kernel, s.
        source: Power source that was named, None to choose it by the sensor descriptions.
        seed: Seed that was named, None for a fresh one (`TablePart.order_seed`).
        dynamic_window_s: Target duration of a kernel of the dynamic protocol, s; None: `window_s`.
        linearity: For which rows N copies are checked against 2N: "all", "sample" or "none".
        stop_on: Name of the stopping criterion.
        lanes: Active lanes of each warp.
    """

    instructions: tuple[str, ...]
    precision: float
    min_repeats: int
    max_repeats: int
    window_s: float
    source: SourceName | None
    seed: int | None
    # Manifests written before these fields existed lack them.
    dynamic_window_s: float | None = None
    linearity: str = "all"
    stop_on: str = "precision"
    lanes: tuple[int, ...] = (WARP,)


@dataclass(frozen=True)
class RunCost:
    """What a row of the dynamic protocol cost, shared kernels spread evenly over the rows.

    Attributes:
        rows: Rows that were measured.
        kernel_s: Time in kernels, median row.
        wall_s: Time from the begin of the row's recordings to their ends, median row.
        total_kernel_s: Time in kernels, all rows.
        total_wall_s: Time in recordings, all rows.
    """

    rows: int
    kernel_s: float
    wall_s: float
    total_kernel_s: float
    total_wall_s: float


@dataclass(frozen=True)
class Session:
    """One process that wrote into the run.

    Attributes:
        start: When it began, UTC.
        end: When it ended, UTC; None where it was killed, or still runs.
        epoch_offset_ns: UTC less host time at the start, ns; sets the run's windows beside an external meter.
    """

    start: datetime
    end: datetime | None
    epoch_offset_ns: int


@dataclass(frozen=True)
class Recomputed:
    """Who worked the records and the table out from the traces again, after the run.

    Attributes:
        at: When, UTC.
        ptxbench_version: Version of the package that did.
        commit: Its git commit, as in `Manifest`.
    """

    at: datetime
    ptxbench_version: str
    commit: str | None


@dataclass(frozen=True, kw_only=True)
class TablePart:
    """What only a table of instructions has.

    Attributes:
        run_id: Name of the run.
        source: Power source of the table's numbers.
        arguments: What the command requested.
        order_seed: Seed that the order of the trials was drawn from.
        sessions: Every process that wrote into the run, in order.
        cost: What a row cost, None as long as the run is not finished, or where no row is dynamic.
        recomputed: Who made the records and the table that stand here, None: the run itself.
        level_error: Standard error of the mean drift level, at which all dynamic energies are, as a
            fraction: a factor that the rows share, beside their intervals. None: it is in those intervals.
        source_check: What the energy counter says of the power source; None in runs that are not finished, or
            ended before this was kept.
        known_difference: By how much the two are known to differ on the first board, as a fraction, by
            `ptxbench doctor`.
        catalogue: Files of instructions that do not come with ptxbench, and their templates: name and text.
    """

    run_id: str
    source: SourceName
    arguments: RunArguments
    order_seed: int
    sessions: tuple[Session, ...]
    cost: RunCost | None = None
    recomputed: Recomputed | None = None
    level_error: float | None = None
    source_check: SourceVerdict | None = None
    known_difference: float = 0.0
    catalogue: tuple[OwnFile, ...] = ()

    def fault(self) -> str:
        """Return what is wrong with it, for the reader of a file; "" where all is well."""
        return "" if self.sessions else "has no session, and every run has one"

    @property
    def scale_ci95(self) -> float | None:
        """Half-width of the 95% interval of a factor that all dynamic energies share, as a fraction.

        It holds the mean drift level, and what power source and energy counter may differ by. None: not kept.
        """
        if self.level_error is None:
            return None
        counted = self.source_check.scale_uncertainty if self.source_check is not None else 0.0
        return math.hypot(COVERAGE_FACTOR * self.level_error, counted)


TableManifest = Manifest[TablePart]


def read_run_manifest(run: Path) -> TableManifest:
    """Read the manifest of a run of `ptxbench table`; instructions of its own join the catalogue.

    Raises:
        InputError: The folder holds no run of `ptxbench table`, or its manifest does not fit.
    """
    manifest = read_manifest(run / MANIFEST, TableManifest, Kind.TABLE)
    add_own(manifest.part.catalogue)
    return manifest


def require_same(manifest: TableManifest, path: Path, gpu: GpuInfo, arguments: RunArguments) -> None:
    """Refuse to resume a run under other conditions than those it began with.

    Raises:
        InputError: The tool, the board, its driver or settings, or an argument differ.
    """
    require_equal("ptxbench", manifest.ptxbench_version, VERSION, path)
    known = next((board for board in manifest.gpus if board.uuid_hash == gpu.uuid_hash), manifest.gpu)
    for key in ("kind", "name", "target", "sm_count", "driver"):
        require_equal(key, getattr(known, key), getattr(gpu, key), path)
    require_equal("board", known.uuid_hash, gpu.uuid_hash, path)
    require_same_board(known, gpu, path)
    _require_equal_fields(manifest.part.arguments, arguments, path)


def require_same_board(known: GpuInfo, gpu: GpuInfo, path: Path) -> None:
    """Refuse to resume a folder on another board, or on one with other settings.

    Args:
        known: The board as the folder has it.
        gpu: The board now; its index may differ.
        path: The folder.

    Raises:
        InputError: The two differ.
    """
    _require_equal_fields(known, replace(gpu, index=known.index), path)


def _require_equal_fields(old: GpuInfo | RunArguments, new: GpuInfo | RunArguments, path: Path) -> None:
    for each in fields(old):
        require_equal(each.name, getattr(old, each.name), getattr(new, each.name), path)


def require_equal(key: str, old: object, new: object, path: Path) -> None:
    """Refuse to resume a folder where something has changed.

    Args:
        key: What it is.
        old: As it was.
        new: As it is now.
        path: The folder.

    Raises:
        InputError: The two differ.
    """
    # Encoded, NaN equals NaN.
    if codec.encode(old) != codec.encode(new):
        if is_dataclass(old) and type(old) is type(new):
            for one in fields(old):
                require_equal(f"{key} {one.name}", getattr(old, one.name), getattr(new, one.name), path)
        raise InputError(
            f"{path} was measured with {key} {_words(old)}, this is {_words(new)}; start a new run"
        )


def _words(value: object) -> str:
    return first_of([str(one) for one in value], _SHOWN) if isinstance(value, tuple) else str(value)
