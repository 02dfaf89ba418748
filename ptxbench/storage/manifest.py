"""What a run is: tool, GPU, host, sensors, arguments and sessions (manifest.json)."""

from __future__ import annotations

import hashlib
import math
import platform
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path

from ptxbench.core.condition import Conditions
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.version import VERSION
from ptxbench.energy.gate.verdict import SourceVerdict
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import reading
from ptxbench.storage.folder_kind import why_no_table
from ptxbench.storage.schema import SCHEMA_VERSION

MANIFEST = "manifest.json"


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
        seed: Seed that was named, None for a fresh one (`Manifest.order_seed`).
        dynamic_window_s: Target duration of a kernel of the dynamic protocol, s; None: `window_s`.
        linearity: For which rows N copies are checked against 2N: "all", "sample" or "none".
        stop_on: Name of the stopping criterion.
    """

    instructions: tuple[str, ...]
    precision: float
    min_repeats: int
    max_repeats: int
    window_s: float
    source: SourceName | None
    seed: int | None
    # Manifests written before these fields existed lack them.
    dynamic_window_s: float | None = field(default=None, metadata={"optional": True})
    linearity: str = field(default="all", metadata={"optional": True})
    stop_on: str = field(default="precision", metadata={"optional": True})


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

    @classmethod
    def here(cls) -> Host:
        """Return this machine."""
        name_hash = hashlib.sha256(platform.node().encode()).hexdigest()[:12]
        return cls(name_hash, platform.python_version(), platform.platform())


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


@dataclass(frozen=True)
class Manifest:
    """What a run is (manifest.json).

    Attributes:
        schema_version: Version of all the files of the run.
        ptxbench_version: Version of this package.
        commit: Git commit of the checkout, "-dirty" appended where it was changed; None outside of one.
        run_id: Name of the run.
        created: When the run began, UTC.
        gpus: Every board that the run met, the first one first.
        host: The machine.
        sensors: What the power sources are like, best for steady power first.
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
    """

    schema_version: int
    ptxbench_version: str
    commit: str | None
    run_id: str
    created: datetime
    gpus: tuple[GpuInfo, ...]
    host: Host
    sensors: tuple[SensorDescription, ...]
    source: SourceName
    arguments: RunArguments
    order_seed: int
    sessions: tuple[Session, ...]
    cost: RunCost | None = field(default=None, metadata={"optional": True})
    recomputed: Recomputed | None = field(default=None, metadata={"optional": True})
    level_error: float | None = field(default=None, metadata={"optional": True})
    source_check: SourceVerdict | None = field(default=None, metadata={"optional": True})
    known_difference: float = field(default=0.0, metadata={"optional": True})

    @classmethod
    def new(
        cls,
        *,
        run_id: str,
        commit: str | None,
        gpu: GpuInfo,
        sensors: tuple[SensorDescription, ...],
        source: SourceName,
        arguments: RunArguments,
        order_seed: int,
        session: Session,
        known_difference: float = 0.0,
    ) -> Manifest:
        """Return the manifest of a run that begins now, on this host, with this version of ptxbench."""
        return cls(
            schema_version=SCHEMA_VERSION,
            ptxbench_version=VERSION,
            commit=commit,
            run_id=run_id,
            created=session.start,
            gpus=(gpu,),
            host=Host.here(),
            sensors=sensors,
            source=source,
            arguments=arguments,
            order_seed=order_seed,
            sessions=(session,),
            known_difference=known_difference,
        )

    @property
    def gpu(self) -> GpuInfo:
        """The first board."""
        return self.gpus[0]

    @property
    def scale_ci95(self) -> float | None:
        """Half-width of the 95% interval of a factor that all dynamic energies share, as a fraction.

        It holds the mean drift level, and what power source and energy counter may differ by. None: not kept.
        """
        if self.level_error is None:
            return None
        counted = self.source_check.scale_uncertainty if self.source_check is not None else 0.0
        return math.hypot(COVERAGE_FACTOR * self.level_error, counted)

    @property
    def kind(self) -> GpuKind:
        """Whether the run's numbers are measurements."""
        return self.gpu.kind

    def ended(self, now: datetime) -> Manifest:
        """Return this manifest with its last session ended."""
        return replace(self, sessions=(*self.sessions[:-1], replace(self.sessions[-1], end=now)))


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write manifest.json atomically."""
    write_text(path, codec.to_text(manifest))


def read_manifest(path: Path) -> Manifest:
    """Read manifest.json.

    Raises:
        InputError: The file cannot be read, is of another version, or a key is missing or does not fit.
    """
    plain = codec.read_json(path)
    place = Place(path)
    # The version comes first: all that is wrong below may be due to it.
    version = plain.get("schema_version") if isinstance(plain, dict) else None
    if version != SCHEMA_VERSION:
        raise place.at("schema_version").error(
            f"is {version!r}, but this ptxbench reads {SCHEMA_VERSION}; use the ptxbench that wrote the run"
        )
    manifest = codec.decode(Manifest, plain, place)
    for key in ("gpus", "sessions"):
        if not getattr(manifest, key):
            raise place.at(key).error("must not be empty")
    return manifest


def read_run_manifest(run: Path) -> Manifest:
    """Read the manifest of a run folder.

    Raises:
        InputError: The folder holds no run of `ptxbench table`, or its manifest does not fit.
    """
    with reading(run):
        why = why_no_table(run)
        if why:
            raise InputError(why)
    return read_manifest(run / MANIFEST)


def require_same(manifest: Manifest, path: Path, gpu: GpuInfo, arguments: RunArguments) -> None:
    """Refuse to resume a run under other conditions than those it began with.

    Raises:
        InputError: The tool, the GPU model, the driver, a board's settings or an argument differ.
    """
    require_equal("ptxbench", manifest.ptxbench_version, VERSION, path)
    board = manifest.gpu
    for key in ("kind", "name", "target", "sm_count", "driver"):
        require_equal(key, getattr(board, key), getattr(gpu, key), path)
    for known in manifest.gpus:
        if known.uuid_hash == gpu.uuid_hash:
            require_same_board(known, gpu, path)
    _require_equal_fields(manifest.arguments, arguments, path)


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
        raise InputError(
            f"{path} was measured with {key} {_words(old)}, this is {_words(new)}; start a new run"
        )


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
