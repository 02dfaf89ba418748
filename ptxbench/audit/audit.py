"""Files of other tools, audited: every number with what it should have been, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from ptxbench.audit.boards import KnownBoard, board_named, measured_board
from ptxbench.audit.claim import Before, State, Verdict
from ptxbench.audit.judge import judge
from ptxbench.audit.logs import claims_of
from ptxbench.audit.readers import read_contents
from ptxbench.core.errors import InputError
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import SensorPath
from ptxbench.meter.readers.mapping import read_mapping
from ptxbench.meter.readers.nvml import read_windows


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Options of an audit.

    Attributes:
        windows: CSV of the kernels' windows (start_us,end_us), of a log.
        mapping: TOML that says what the columns of a log are.
        gpu_name: Name of the GPU, where a file does not say it, such as H100.
        before: What the board did before each window (default: as the kind of file has it, else any load).
        period_s: Seconds between two readings of a log without times.
        tolerance: From which part on a bias matters.
    """

    sensor_path: SensorPath = None
    windows: Path | None = None
    mapping: Path | None = None
    gpu_name: str = ""
    before: Annotated[str | None, Opt(choices=tuple(one.value for one in Before))] = None
    period_s: Annotated[float, Opt(0, 3600, above=True)] = 1.0
    tolerance: Annotated[float, Opt(0, 1, above=True)] = 0.03


@dataclass(frozen=True)
class AuditedFile:
    """One file.

    Attributes:
        path: The file.
        form: What kind of file it is.
        origin: Where what is known of the sensor comes from, one text a board.
        verdicts: What is to be thought of each number.
        notes: What was assumed or left out.
    """

    path: str
    form: str
    origin: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]

    @property
    def count(self) -> Counter[State]:
        """How many numbers are of each state."""
        return Counter(one.state for one in self.verdicts)


def audit(paths: Sequence[Path], options: AuditOptions = AuditOptions()) -> tuple[AuditedFile, ...]:
    """Return what is to be thought of the numbers of files that other tools wrote.

    Args:
        paths: The files.
        options: What is known beside them.

    Raises:
        InputError: A file is none that is known, or damaged; windows are given for what is no log.
    """
    known = measured_board(options.sensor_path) if options.sensor_path is not None else None
    return tuple(_audited(path, known, options) for path in paths)


def _audited(path: Path, known: KnownBoard | None, options: AuditOptions) -> AuditedFile:
    mapping = None
    if options.mapping is not None:
        mapping = read_mapping(options.mapping)
        mapping = mapping.nvml or mapping
    contents = read_contents(path, mapping, options.period_s)
    if options.windows is not None and not contents.logs:
        raise InputError(f"{path} is no log of readings, so that it has no windows; leave out `windows`")
    windows = read_windows(options.windows) if options.windows is not None else ()
    boards: dict[str, KnownBoard] = {}

    def board_of(gpu: str) -> KnownBoard:
        name = gpu or options.gpu_name
        if name not in boards:
            boards[name] = known or board_named(name)
        return boards[name]

    before = Before(options.before) if options.before else None
    claims = [*contents.claims]
    for log in contents.logs:
        claims += claims_of(log, board_of(log.gpu), windows)
    if not claims:
        raise InputError(f"{path} holds no number of power or energy that can be judged")
    verdicts = tuple(
        judge(replace(one, gpu=one.gpu or options.gpu_name), board_of(one.gpu), options.tolerance, before)
        for one in claims
    )
    origin = tuple(f"{board.name or 'unknown GPU'}: {board.origin}" for board in boards.values())
    return AuditedFile(str(path), contents.form, origin, verdicts, contents.notes)
