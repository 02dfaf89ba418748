"""A table of measured instructions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxbench.api.measurement import Measurement
from ptxbench.catalogue.operations import parse_operation
from ptxbench.catalogue.search import nothing_fits, search
from ptxbench.core.condition import lanes_key
from ptxbench.core.errors import InputError, NoSuchRowError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow, TrialRecord

if TYPE_CHECKING:
    import pandas as pd


_HEADINGS = ("instruction", "opt_level", "protocol", "operands", "SASS", "energy, pJ", "status")
_NAMES_SHOWN = 5


class Table:
    """Measured instructions with the GPU that they were measured on, in the order of table.csv.

        table = ptxbench.load_table("h200")
        fma, slow = table["fma.rn.f32"], table["div.rn.f32", "O0"]
        valid = [row for row in table if row.is_valid]

    Attributes:
        manifest: What the run was: GPU, driver, sensors, arguments, version.
        path: Folder that it was read from, or None.
    """

    def __init__(
        self,
        rows: Sequence[TableRow],
        manifest: TableManifest,
        trials: tuple[TrialRecord, ...] | None = None,
        path: Path | None = None,
    ) -> None:
        self.manifest = manifest
        self.path = path
        self._given_trials = trials
        self._rows = tuple(Measurement(row, lambda: self.trials) for row in rows)
        self._by_key = {one.row.key: one for one in self._rows}

    @property
    def gpu(self) -> GpuInfo:
        """The GPU that it was measured on."""
        return self.manifest.gpu

    @cached_property
    def trials(self) -> tuple[TrialRecord, ...]:
        """Every trial of the run.

        Raises:
            InputError: The trials cannot be read.
        """
        if self._given_trials is not None or self.path is None:
            return self._given_trials or ()
        with RunFolder.open(self.path) as folder:
            return tuple(folder.records())

    @cached_property
    def _atlas(self) -> Atlas:
        """All that is known beside the rows, read once."""
        if self.path is None:
            raise InputError("estimate from a table that is on disk: measure it with out=, or load it")
        return open_atlas(self.path)

    def find(
        self,
        instruction: str,
        *,
        opt_level: str = "O3",
        protocol: str = "dynamic",
        operands: str = "random",
        lanes: int = WARP,
    ) -> Measurement:
        """Return what was measured of an instruction under one condition.

        Args:
            instruction: Its name, or what `ptxbench cost` finds it by, such as its PTX or SASS, if that
                stands for one instruction of the table.
            opt_level: Optimization level.
            protocol: Measuring protocol.
            operands: Operand pattern.
            lanes: Active lanes of each warp.

        Raises:
            NoSuchRowError: The table has no such row, or several; a KeyError and an InputError.
        """
        name = self._name(instruction)
        found = self._by_key.get((name, opt_level, protocol, operands, *lanes_key(lanes)))
        if found is None:
            raise NoSuchRowError(self._missing(name, opt_level, protocol, operands, lanes))
        return found

    def to_dataframe(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, its columns those of table.csv; what is not known is NaN."""
        import pandas as pd

        frame = pd.DataFrame([asdict(one.row) for one in self._rows], columns=list(TableRow.__annotations__))
        words = ["opt_level", "protocol", "status"]
        return frame.assign(**{name: frame[name].map(str) for name in words})

    def __getitem__(self, key: str | tuple[str | int, ...]) -> Measurement:
        """Return the row of `"fma.rn.f32"` (at O3, dynamic, random), or of `"fma.rn.f32", "O0", ...`.

        Behind the instruction stand optimization level, protocol, operands and active lanes, or the first of
        these.
        """
        instruction, *condition = (key,) if isinstance(key, str) else key
        names = ("opt_level", "protocol", "operands", "lanes")
        named: dict[str, Any] = dict(zip(names, condition, strict=False))
        return self.find(str(instruction), **named)

    def __contains__(self, key: object) -> bool:
        """Return whether there is a row for what `table[key]` would look up."""
        try:
            self[key]  # type: ignore[index]
        except (NoSuchRowError, TypeError, ValueError):
            return False
        return True

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        valid = sum(one.is_valid for one in self._rows)
        return f"<Table {self.gpu.title}: {len(self)} rows, {valid} valid>"

    def _repr_html_(self) -> str:
        """Return the rows that the run reached for a notebook; every text is escaped."""
        head = "".join(f"<th>{name}</th>" for name in _HEADINGS)
        reached = [one for one in self._rows if one.status is not Status.NOT_REACHED]
        body = "".join(f"<tr>{_cells(one)}</tr>" for one in reached)
        missing = len(self) - len(reached)
        caption = escape(self.gpu.title) + (f"; not reached and not shown: {missing}" if missing else "")
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>"

    @cached_property
    def _names(self) -> dict[str, None]:
        """Every instruction of the table, in its order."""
        return dict.fromkeys(one.instruction for one in self._rows)

    def _name(self, typed: str) -> str:
        """Return the name of the table's instruction that was typed, or what was typed where it has none."""
        if typed in self._names:
            return typed
        selection = search((typed,))
        fitting = [name for name in self._names if selection.has(name)]
        if len(fitting) > 1:
            several = f"{', '.join(fitting[:_NAMES_SHOWN])}{', ...' * (len(fitting) > _NAMES_SHOWN)}"
            raise NoSuchRowError(f"{typed!r} stands for {len(fitting)} instructions; name one of {several}")
        return fitting[0] if fitting else typed

    def _missing(self, instruction: str, *condition: str | int) -> str:
        there = [one.row for one in self._rows if one.instruction == instruction]
        if there:
            names = "opt_level", "protocol", "operands", "lanes"
            asked = ", ".join(f"{name}={value!r}" for name, value in zip(names, condition, strict=True))
            keys = [
                (*map(str, (r.opt_level, r.protocol, r.operands)), r.lanes)[: 3 + (r.lanes != WARP)]
                for r in there
            ]
            return f"the table has {instruction} not with {asked}, but with {', '.join(map(str, keys))}"
        close = sorted({o.instruction for o in self._rows if o.instruction.startswith(instruction[:3])})
        hint = f"; it has {', '.join(close[:_NAMES_SHOWN])}" if close else ""
        return f"the table has no {instruction!r}{hint}"


def load_run(path: str | Path) -> Table:
    """Read the table of a run folder; its trials are read on first use.

        table = ptxbench.load_run("runs/mine")
        print(len(table["fma.rn.f32"].trials))

    Raises:
        InputError: The folder holds no run, or a file of it does not fit.
    """
    return load_table(Path(path))


def load_table(table: str | Path = "h200") -> Table:
    """Read a table that comes with ptxbench, or that of a run folder.

        table = ptxbench.load_table("h200")
        frame = table.to_dataframe()

    Rows that its run did not reach have the mean of other boards of this GPU, where the table knows them. So
    it has all rows that `ptxbench cost` shows.

    Args:
        table: "h100" or "h200", the tables that come with ptxbench, or a run folder.

    Raises:
        InputError: There is no such table, or a file of it does not fit.
    """
    atlas = open_atlas(table)
    loaded = Table(atlas.rows, atlas.manifest, path=atlas.path)
    loaded._atlas = atlas
    return loaded


def cost(
    instruction: str,
    *,
    table: str | Path = "h200",
    opt_level: str = "O3",
    protocol: str = "dynamic",
    operands: str = "random",
    lanes: int = WARP,
) -> Measurement:
    """Look up what an instruction costs; no GPU is needed, and only its rows are read.

        fma = ptxbench.cost("fma.rn.f32")
        print(fma.energy_pj, fma.interval_pj, ptxbench.cost("fma.rn.f32", table="h100").energy_pj)

    Args:
        instruction: Its name, or what `ptxbench cost` finds it by, such as its PTX or SASS, if that stands
            for one instruction of the table.
        table: "h100" or "h200", the tables that come with ptxbench, or a run folder.
        opt_level: Optimization level.
        protocol: Measuring protocol.
        operands: Operand pattern.
        lanes: Active lanes of each warp.

    Raises:
        NoSuchRowError: The table has no such row, or several; a KeyError and an InputError.
        InputError: There is no such table or instruction, or a file of it does not fit.
    """
    if parse_operation(instruction) is not None:
        raise InputError(f"{instruction!r} is an operation of a library: `ptxbench cost --json` looks it up")
    selection = search((instruction,))
    atlas = open_atlas(table, selection.has)
    atlas.require_own_rows()
    if not any(map(selection.has, atlas.names)):
        raise NoSuchRowError(nothing_fits(instruction, atlas.names))
    found = Table(atlas.rows, atlas.manifest, path=atlas.path)
    return found.find(instruction, opt_level=opt_level, protocol=protocol, operands=operands, lanes=lanes)


def _cells(one: Measurement) -> str:
    row = one.row
    energy = "" if math.isnan(one.energy_pj) else f"{one.energy_pj:.4g}"
    if energy and not math.isnan(one.half_width_pj):
        energy += f" ± {one.half_width_pj:.2g}"
    texts = (row.instruction, row.opt_level, row.protocol, row.operands_text, row.sass, energy, row.verdict)
    return "".join(f"<td>{escape(str(text))}</td>" for text in texts)
