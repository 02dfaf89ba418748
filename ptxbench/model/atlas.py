"""The atlas: what is known of a GPU model, the one place that commands, pages and the interface ask.

It is opened from the name of a table that comes with ptxbench or from the folder of a run. Rows of
instructions come from the run and from other boards; what is solved of its trials and fitted to whole kernels
is read on first use, so that looking a row up needs no numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.catalogue.load import load_named
from ptxbench.catalogue.model import is_sparse
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.status import Status
from ptxbench.model.rates import rates
from ptxbench.model.terms import Terms, read_terms
from ptxbench.storage.board_spread import BoardSpread, by_row, read_board_spread, with_other_boards
from ptxbench.storage.folder_kind import Kind, kind_of
from ptxbench.storage.known_rows import known_rows
from ptxbench.storage.manifest import TableManifest, read_run_manifest
from ptxbench.storage.schema import TableRow
from ptxbench.storage.shipped import SHIPPED, find_table
from ptxbench.storage.table import TABLE, read_rows

if TYPE_CHECKING:
    from ptxbench.analysis.static_power import StaticPower
    from ptxbench.model.baselines import Baselines
    from ptxbench.model.calibration import Calibration
    from ptxbench.model.estimate import Machine
    from ptxbench.model.opcode_energies import OpcodeEnergies
    from ptxbench.model.solution import JointSolution
    from ptxbench.model.solved import ClockExponent, Solved

# What a row of a sparse product says, and where that was seen.
_RAISES = "without the 8 to 16% by which a sparse product raises all that the GPU runs (docs/accuracy.md)"
_RAISED_ON = "sm_90"
# The instruction that stands for a kind of flop, and for a byte down to a memory level.
_FLOPS = {
    "f32": "fma.rn.f32",
    "f64": "fma.rn.f64",
    "f16x2": "fma.rn.f16x2",
    "mma-f16": "mma.m16n8k16.f32.f16.f16.f32",
    "mma-bf16": "mma.m16n8k16.f32.bf16.bf16.f32",
    "mma-tf32": "mma.m16n8k8.f32.tf32.tf32.f32",
    "mma-f64": "mma.m16n8k4.f64.f64.f64.f64",
}
_LOADS = {
    "dram": "ld.global.v4.b32:hbm",
    "l2": "ld.global.cg.v4.b32:l2",
    "l1": "ld.global.ca.v4.b32:l1",
    "shared": "ld.shared.v4.b32:shared",
}
# Instructions whose rows tell what a flop or a byte costs.
UNIT_ROWS = frozenset((*_FLOPS.values(), *_LOADS.values()))
FITTED_INCLUDES = (
    "a marginal flop or byte of the run's own kernels, which load and compute at once; neither the loop nor "
    "the power of DRAM at work is in it"
)
FLOP_INCLUDES = "an instruction of its own, in a loop of nothing else"
JOINT_INCLUDES = "an opcode by all loops of the run together; direct: its instruction alone, as in cost"
LOAD_INCLUDES = (
    "a whole load: its instruction, its address and every memory level down to the one named, DRAM at work "
    "included"
)


@dataclass(frozen=True)
class UnitEnergy:
    """The energy of one flop or one byte.

    Attributes:
        what: What it is the energy of, such as "ld.global.v4.b32:hbm".
        value_pj: Energy, pJ.
        ci95_pj: Half-width of its 95% interval.
        boards: How many boards it rests on.
        run: Run whose board it is stated for.
        includes: What the number includes.
        reason: What is odd about it, "" for nothing.
    """

    what: str
    value_pj: float
    ci95_pj: float
    boards: int
    run: str
    includes: str
    reason: str = ""

    @property
    def note(self) -> str:
        """What it is of and includes, and what is odd about it."""
        return "; ".join(filter(None, (f"{self.what}, {self.includes}", self.reason)))


@dataclass(frozen=True)
class Atlas:
    """What is known of a GPU model.

    Attributes:
        name: What the user calls it: a folder, or a name such as "h200".
        path: Its folder.
        manifest: What the run is whose board it is stated for: GPU, sensors, driver, commit.
        rows: Rows by instruction, optimization level, protocol and operands, or those that were wanted; what
            the run lacks is the mean of other boards, and what is known to be wrong has no energy.
        spread: How boards of this GPU differ, None where one board was measured.
        names: Every instruction that it has.
        calibration: What a board's own kernels say of its terms, None where it is that of a table alone.
    """

    name: str
    path: Path
    manifest: TableManifest
    rows: tuple[TableRow, ...]
    spread: BoardSpread | None
    names: frozenset[str]
    calibration: Calibration | None = None

    @property
    def gpu(self) -> GpuInfo:
        """The board that it is stated for."""
        return self.calibration.gpu if self.calibration else self.manifest.gpu

    @property
    def table_name(self) -> str:
        """By what its table is found again, from any folder."""
        return next((name for name, path in SHIPPED.items() if path == self.path), str(self.path.resolve()))

    @property
    def static_power(self) -> StaticPower:
        """Static power, by sleeping kernels.

        Raises:
            InputError: It is neither kept nor can be worked out.
        """
        return self.calibration.static_power if self.calibration else self.solved.static

    @property
    def run(self) -> str:
        """The run that it is stated for."""
        return self.spread.reference if self.spread else self.manifest.part.run_id

    @cached_property
    def solved(self) -> Solved:
        """What is solved of the run's trials: opcodes, static power, clock exponent, issue intervals.

        Raises:
            InputError: They are neither kept nor can be worked out.
        """
        from ptxbench.model.solved import read_solved

        return read_solved(self.path)

    @property
    def solution(self) -> JointSolution:
        """The joint solution of the run's trials beside its rows."""
        return self.solved.solution(self.rows)

    @cached_property
    def terms(self) -> Terms:
        """What was fitted to whole kernels: bytes, accesses, tensor cores, clock, activity.

        Raises:
            InputError: They do not fit.
        """
        return self.calibration.terms if self.calibration else read_terms(self.path)

    @cached_property
    def opcode_energies(self) -> OpcodeEnergies:
        """Opcode energies as they were measured.

        An opcode has the energy of the rows that isolate it, of all boards on one scale; else what rows say
        that have it with others; else what loops of the run tell. What this GPU's rows lack is that of
        another whose table comes with ptxbench, and which runs the same machine code.

        Raises:
            InputError: The run has no valid dynamic trial on random operands, or cannot be read.
        """
        from ptxbench.model.opcode_energies import OpcodeEnergies, Rule
        from ptxbench.model.row_energies import measured_opcodes, row_energies, warp_shares

        rows, kin = self.rows, [one.rows for one in self._kin]
        found = row_energies(rows, kin)
        loops = self.solved.opcode_energies
        # What rows do not tell apart has the energies of one solve: their sum is right.
        together = {op: known for op, known in found.together.items() if known.sure or op not in loops.random}
        return OpcodeEnergies(
            {**loops.random, **together, **found.isolated},
            {**loops.zeros, **found.zeros},
            rules=dict.fromkeys(together, Rule.TOGETHER) | dict.fromkeys(found.isolated, Rule.ROW),
            warp_shares=dict(chain.from_iterable(warp_shares(one).items() for one in (*reversed(kin), rows))),
            own_rows=measured_opcodes(chain(rows, *kin)),
        )

    @property
    def _kin(self) -> tuple[Atlas, ...]:
        """Tables that come with ptxbench of GPUs that run the same machine code, this GPU's first."""
        if self.gpu.kind is not GpuKind.REAL:
            return ()
        others = [open_shipped(name) for name in SHIPPED if SHIPPED[name] != self.path]
        alike = [one for one in others if one.gpu.target == self.gpu.target]
        return tuple(sorted(alike, key=lambda one: one.gpu.name != self.gpu.name))

    @cached_property
    def machine(self) -> Machine:
        """The GPU as an estimate sees it: opcode energies, fitted terms, static power, limit.

        Raises:
            InputError: The run has no valid dynamic trial on random operands, or cannot be read.
        """
        from ptxbench.model.estimate import Machine

        terms = self.terms
        if self.solved.clock is not None:
            terms = _with_clock(terms, self.solved.clock)
        energies = self.opcode_energies.drawn(terms.opcode_share).scaled(terms.opcode_scale)
        return Machine(energies, terms, self.static_power, self.gpu.power_limit_w)

    @cached_property
    def baselines(self) -> Baselines:
        """The baselines beside the run: models that know less.

        Raises:
            InputError: It has none, or they cannot be read.
        """
        from ptxbench.model.baselines import read_baselines

        return read_baselines(self.path)

    @property
    def cycles(self) -> Mapping[str, float]:
        """Issue interval of opcodes, SM cycles a warp instruction.

        Raises:
            InputError: The run cannot be read.
        """
        return self.solved.cycles

    def require_own_rows(self) -> None:
        """Refuse a calibration: rows are of the board of its table.

        Raises:
            InputError: It is one.
        """
        if self.calibration is not None:
            raise InputError(f"{self.name} is a calibration: rows are in its table, {self.calibration.table}")

    def with_terms(self, terms: Terms) -> Atlas:
        """Return the atlas as if other terms had been fitted to whole kernels."""
        other = replace(self)
        other.__dict__.update(solved=self.solved, terms=terms, opcode_energies=self.opcode_energies)
        return other

    def unit_energy(self, name: str, operands: str = "random") -> UnitEnergy | None:
        """Return the energy of a flop, or of a byte that a load brings; None where it is not known.

        Args:
            name: Kind of flop, such as "f32" or "mma-f16", or the level that the byte comes from: "dram",
                "l2", "l1" or "shared".
            operands: Operand pattern.
        """
        if name in _FLOPS:
            return self._rate(_FLOPS[name], operands, "pj_per_flop", FLOP_INCLUDES)
        return self._rate(_LOADS.get(name, ""), operands, "pj_per_byte", LOAD_INCLUDES)

    def _rate(self, instruction: str, operands: str, rate: str, includes: str) -> UnitEnergy | None:
        """Return what the -O3 row of an instruction is for one flop or byte."""
        key = (instruction, OptLevel.O3, DYNAMIC, operands)
        row = next((row for row in self.rows if row.key == key and row.status.has_number), None)
        value_pj = getattr(rates((row,))[0], rate) if row else math.nan
        if row is None or math.isnan(value_pj):
            return None
        spread = by_row((row,), self.spread).get(key)
        ci95_pj = row.dynamic_ci95_pj / row.dynamic_pj * value_pj
        boards = spread.boards if spread else 1
        return UnitEnergy(instruction, value_pj, ci95_pj, boards, self.run, includes, row.reason)


def _every(_: str) -> bool:
    return True


def open_atlas(table: str | Path, wanted: Callable[[str], bool] = _every, name: str | None = None) -> Atlas:
    """Open the atlas of a GPU model, or of a board that was calibrated.

    Args:
        table: The folder of a run or of a calibration, or the name of a table that comes with ptxbench, such
            as "h200".
        wanted: Whether the rows of an instruction are wanted, by its name.
        name: What the user calls it, where `table` is another path.

    Raises:
        InputError: It is neither, or a file of it does not fit.
    """
    path = find_table(table)
    named = name or str(table)
    if wanted is _every and (path / TABLE).exists():
        # A link that leads nowhere, such as an editor's lock, is no file of the table.
        found = [(one.name, one.stat()) for one in sorted(path.iterdir()) if one.exists()]
        return _open_once(path, named, tuple((n, at.st_mtime_ns, at.st_size) for n, at in found))
    return _open(path, wanted, named)


@lru_cache(maxsize=4)
def _open_once(path: Path, name: str, _files: tuple[tuple[str, int, int], ...]) -> Atlas:
    """Open a whole table, once for all that ask while its files stay as they are."""
    return _open(path, _every, name)


def _open(path: Path, wanted: Callable[[str], bool], name: str, level: OptLevel | None = None) -> Atlas:
    if kind_of(path)[0] is Kind.CALIBRATION:
        return _calibrated(path, wanted, name)
    manifest, spread = read_run_manifest(path), read_board_spread(path, wanted, level)
    rows, names = _rows(path, wanted, level)
    # Who looks a number of several boards up has another one.
    known = with_other_boards(known_rows(rows, manifest, other_boards=spread is not None), spread)
    known = tuple(_noted(row, manifest.gpu) for row in _with_refusals(known, manifest.gpu))
    # Other boards may have measured instructions that are newer than the table.
    reached = names.union(row.instruction for row in known)
    return Atlas(name, path, manifest, known, spread, reached)


def _calibrated(path: Path, wanted: Callable[[str], bool], name: str) -> Atlas:
    """Return the atlas of a calibration: its table, with the board's own terms."""
    from ptxbench.model.calibration import FILE, Calibration
    from ptxbench.storage.document import read_document

    if not (path / FILE).exists():
        raise InputError(f"{path} is a calibration that was not finished: continue it with `resume`")
    found = read_document(path / FILE, Calibration, "")
    try:
        table = open_atlas(found.table, wanted)
    except InputError as error:
        raise InputError(f"{path} is a calibration of the table {found.table}: {error}") from error
    return replace(table, name=name, calibration=found)


def _with_refusals(rows: Sequence[TableRow], gpu: GpuInfo) -> Iterable[TableRow]:
    """Return rows; one that nobody measured says why, where it cannot be measured."""
    catalogue = load_named(frozenset(row.instruction for row in rows if row.status is Status.NOT_REACHED))
    for row in rows:
        one = catalogue.get(row.instruction) if row.status is Status.NOT_REACHED else None
        reason = one.refusal(row.opt_level, gpu.target, one.forms(row.opt_level)[-1]) if one else ""
        yield replace(row, status=Status.NOT_SUPPORTED, reason=reason) if reason else row


def _noted(row: TableRow, gpu: GpuInfo) -> TableRow:
    """Return a row; that of a sparse product says what its energy is without (docs/accuracy.md)."""
    raises = is_sparse(row.instruction) and gpu.kind is GpuKind.REAL and gpu.target.startswith(_RAISED_ON)
    if not raises or not row.status.has_number:
        return row
    return replace(row, reason="; ".join(filter(None, (row.reason, _RAISES))))


@lru_cache
def open_shipped(name: str) -> Atlas:
    """Open a table that comes with ptxbench, once for all that ask, without its rows at -O0.

    Args:
        name: Such as "h200".
    """
    return _open(find_table(name), _every, name, OptLevel.O3)


def _rows(
    path: Path, wanted: Callable[[str], bool], level: OptLevel | None
) -> tuple[tuple[TableRow, ...], frozenset[str]]:
    if (path / TABLE).exists():
        rows, names = read_rows(path / TABLE, wanted, level)
        if names:
            return rows, names
    from ptxbench.storage.run_folder import RunFolder

    with RunFolder.open(path) as folder:
        rows = folder.rows()
    return rows, frozenset(row.instruction for row in rows)


def _with_clock(terms: Terms, exponent: ClockExponent) -> Terms:
    """Return terms with what the run's own throttled rows say of the clock, where nothing else does."""
    if math.isnan(terms.lowest_clock_ratio):
        terms = replace(terms, lowest_clock_ratio=exponent.lowest_ratio)
    return terms if terms.kernels else replace(terms, gamma=exponent.gamma, gamma_error=exponent.error)
