"""The rows of a run folder; column names are an interface that other people's scripts rely on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from typing import Any, TypedDict

from ptxbench.catalogue.model import Unit
from ptxbench.core.condition import ARAFA, DYNAMIC, Condition, OptLevel, lanes_key, operands_text
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.storage.codec import formerly

PJ_PER_NJ = 1000.0
PJ_PER_J = 1e12
J_PER_PJ = 1e-12
# What the reason of a row says whose loops ran at unlike clocks, or at another than its energy is stated at.
OVERHEAD_AT = "its overhead loop at"
COUNTS_AS_AT = "and count as at"
_UNITS = frozenset(Unit)


def ran_at_other_clock(reason: str) -> bool:
    """Return whether a row's reason says that its two loops ran at unlike clocks."""
    return OVERHEAD_AT in reason


class Role(StrEnum):
    """Which kernel of a row a trial ran; the value is the kernel's entry name."""

    TARGET = "target"
    OVERHEAD = "overhead"
    TARGET_2N = "target_2n"
    OVERHEAD_2N = "overhead_2n"
    STATIC = "static"


@dataclass(frozen=True)
class TrialRecord:
    """One trial: one launch of one kernel, with its window, energies and state (records.parquet).

    Attributes:
        trial_id: Identity within the run, `instruction/opt_level/protocol/operands/role/repeat`.
        order: Position in which the trial ran, from 0.
        instruction: Catalogue name, or "static" for the sleeping kernel.
        opt_level: Optimization level of the assembler.
        protocol: Measuring protocol.
        operands: Operand pattern; `pattern` in runs of before 0.3.0.
        role: Which kernel.
        repeat: Repeat number, from 0; negative for the short trials that find the loop count.
        gpu: Hash of the board's UUID.
        cubin_sha256: Which machine code ran.
        kernel: Entry name in that cubin.
        grid: Blocks.
        block: Threads a block.
        iterations: Loop count.
        copies: Copies of the instruction in the loop body.
        start_ns: Kernel start, host time.
        end_ns: Kernel end, host time.
        elapsed_s: Kernel duration by the GPU's events.
        cycles: SM cycles of block 0, or -1.
        globaltimer_ns: The same by %globaltimer, or -1.
        record_begin_ns: Begin of the recording, host time.
        record_end_ns: End of the recording, host time.
        sma_j: Energy by SMA; NaN where the method could not answer (so for all energies).
        papi_j: Energy PAPI-style.
        mtsm_j: Energy by MTSM, Eq. 2.
        counter_j: Energy by the energy counter.
        steady_power_w: Mean power over the settled part of the window.
        source: Source of `steady_power_w` and of SMA, PAPI-style and MTSM.
        temperature_c: Mean GPU temperature over the settled part of the window.
        temperature_before_c: GPU temperature before the launch.
        temperature_after_c: GPU temperature after the end.
        sm_clock_mhz: SM clock: cycles over %globaltimer, or NVML's reading where the kernel gives none.
        memory_clock_mhz: Memory clock after the end.
        throttle_reasons: Bitwise or of the reasons polled in the window.
        other_processes: Foreign compute processes seen.
        status: Validity.
        reason: One sentence where status is not ok, or what is odd about a trial that is.
        compared_s: Time over which the source stands beside the energy counter; NaN where nothing could be
            compared, and in runs of before this was kept (so for the next three).
        compared_counter_j: Energy of that time by the counter.
        compared_source_j: The same by the source; by the best other one where the source is the counter.
        compared_error_j: Standard error of their difference.
        lanes: Active lanes of each warp; 32 in runs of before this was kept.
    """

    trial_id: str
    order: int
    instruction: str
    opt_level: OptLevel
    protocol: str
    operands: str = field(metadata=formerly("pattern"))
    role: Role
    repeat: int
    gpu: str
    cubin_sha256: str
    kernel: str
    grid: int
    block: int
    iterations: int
    copies: int
    start_ns: int
    end_ns: int
    elapsed_s: float
    cycles: int
    globaltimer_ns: int
    record_begin_ns: int
    record_end_ns: int
    sma_j: float
    papi_j: float
    mtsm_j: float
    counter_j: float
    steady_power_w: float
    source: str
    temperature_c: float
    temperature_before_c: float
    temperature_after_c: float
    sm_clock_mhz: float
    memory_clock_mhz: float
    throttle_reasons: int
    other_processes: int
    status: Status
    reason: str
    compared_s: float = math.nan
    compared_counter_j: float = math.nan
    compared_source_j: float = math.nan
    compared_error_j: float = math.nan
    lanes: int = WARP

    def fault(self) -> str:
        """Return what a valid trial cannot hold, for the reader of a file; "" where all is well."""
        if self.status is not Status.OK:
            return ""
        counts = {"grid": self.grid, "block": self.block, "iterations": self.iterations, "lanes": self.lanes}
        for name, count in counts.items():
            if count < 1:
                return f"is a valid trial with {name} {count}"
        if not 0 < self.elapsed_s < math.inf or self.end_ns < self.start_ns:
            return f"is a valid trial of {self.elapsed_s:g} s"
        powers = (self.sma_j, self.papi_j, self.mtsm_j, self.counter_j, self.steady_power_w)
        return "is a valid trial with an endless energy or power" if any(map(math.isinf, powers)) else ""

    @property
    def threads(self) -> int:
        """Active threads of the launch."""
        return self.grid * self.block * self.lanes // WARP

    @property
    def subject(self) -> str:
        """Name of what is measured: the trial's id without role and repeat."""
        return self.trial_id.rsplit("/", 2)[0]


@dataclass(frozen=True)
class TableRow:
    """One row of table.csv: an instruction under one condition.

    NaN is an empty cell: what the protocol does not give, or what was not valid (see `status`).

    Attributes:
        instruction: Catalogue name.
        category: The PTX ISA's category.
        opt_level: Optimization level of the assembler.
        protocol: Measuring protocol.
        operands: Operand pattern.
        sass: What one copy became, such as "FFMA" or "IADD3*0.5 IMAD.IADD*0.5".
        sass_per_ptx: SASS instructions for one copy.
        executions: Copies that one thread executed in one target kernel.
        threads: Active threads of the launch.
        sma_pj: Eq. 1 with SMA, pJ an instruction.
        papi_pj: Eq. 1 with the PAPI-style reading.
        mtsm_pj: Eq. 1 with MTSM.
        counter_pj: Eq. 1 with the energy counter.
        dynamic_pj: Energy that the instruction itself adds, pJ an execution by one `unit`.
        dynamic_ci95_pj: Half-width of its 95% confidence interval.
        latency_cycles: Cycles from one instruction of a dependent chain to the next; under `arafa` alone.
        issue_cycles: Cycles of one SM from one instruction of a warp to the next; under `dynamic` alone.
        power_w: Mean power of the target kernel.
        static_w: Static power that was subtracted, W.
        clock_mhz: Mean SM clock of the target kernel.
        temperature_c: Mean GPU temperature of the target kernel.
        repeats: Valid repeats.
        status: Validity.
        reason: One sentence where status is not ok, or what is odd about a row that is.
        unit: What executes one instruction: thread, warp or warpgroup; energies are per execution.
        mtsm_ci95_pj: Half-width of the 95% confidence interval of `mtsm_pj`.
        lanes: Active lanes of each warp; 32 in tables of before this was kept. Energies are those of one
            active thread.
    """

    instruction: str
    category: str
    opt_level: OptLevel
    protocol: str
    operands: str
    sass: str
    sass_per_ptx: float
    executions: int
    threads: int
    sma_pj: float
    papi_pj: float
    mtsm_pj: float
    counter_pj: float
    dynamic_pj: float
    dynamic_ci95_pj: float
    latency_cycles: float
    issue_cycles: float
    power_w: float
    static_w: float
    clock_mhz: float
    temperature_c: float
    repeats: int
    status: Status
    reason: str
    unit: str
    mtsm_ci95_pj: float = math.nan
    lanes: int = WARP

    @classmethod
    def without_numbers(cls, **known: object) -> TableRow:
        """Return a row of which only some columns are known; of the others numbers are NaN, counts 0."""
        return cls(**_unknown_columns() | known)

    def fault(self) -> str:
        """Return what a valid row cannot hold, for the reader of a file; "" where all is well."""
        if self.dynamic_ci95_pj < 0:
            return f"has an interval of {self.dynamic_ci95_pj:g} pJ"
        if self.mtsm_ci95_pj < 0:
            return f"has an interval of {self.mtsm_ci95_pj:g} pJ"
        if min(self.executions, self.threads, self.repeats) < 0 or not 1 <= self.lanes <= WARP:
            return f"has a negative count, or not 1 to {WARP} lanes"
        if self.unit not in _UNITS:
            return f"is per {self.unit!r}, which is no {', '.join(Unit)}"
        if not self.status.has_number:
            return ""
        energies = {
            name: float(getattr(self, name))
            for name in ("sma_pj", "papi_pj", "mtsm_pj", "counter_pj", "dynamic_pj")
        }
        if self.protocol in (ARAFA, DYNAMIC) and all(map(math.isnan, energies.values())):
            return "is valid without an energy"
        intervals = (self.dynamic_ci95_pj, self.mtsm_ci95_pj)
        others = (*intervals, self.power_w, self.static_w, self.clock_mhz, self.temperature_c)
        if any(map(math.isinf, (*energies.values(), *others, self.latency_cycles, self.issue_cycles))):
            return "is valid with an endless number"
        if self.dynamic_pj < 0 or self.power_w < 0 or self.static_w < 0:
            return "is valid with a negative energy or power"
        if math.isfinite(self.dynamic_pj) and math.isnan(self.dynamic_ci95_pj):
            return "is valid without an interval of its energy"
        return ""

    @property
    def energy_pj(self) -> float:
        """Energy of one execution, pJ: Eq. 1 with MTSM under protocol `arafa`, else the dynamic energy."""
        return self.mtsm_pj if self.protocol == ARAFA else self.dynamic_pj

    @property
    def ci95_pj(self) -> float:
        """Half-width of the 95% interval of `energy_pj`, pJ; NaN where it is not known."""
        return self.mtsm_ci95_pj if self.protocol == ARAFA else self.dynamic_ci95_pj

    @property
    def relative_ci95(self) -> float:
        """Half-width of the dynamic energy's 95% interval over the energy; NaN where there is none."""
        return self.dynamic_ci95_pj / self.dynamic_pj if self.dynamic_pj else math.nan

    @property
    def clock_corrected(self) -> bool:
        """Whether the energy was brought from one SM clock to another, as the reason says."""
        return ran_at_other_clock(self.reason) or COUNTS_AS_AT in self.reason

    def wider(self, ci95: float) -> TableRow:
        """Return the row with a relative half-width added to its dynamic energy's interval, in quadrature."""
        if not ci95 or not self.status.has_number or math.isnan(self.dynamic_pj):
            return self
        half_pj = math.hypot(self.dynamic_ci95_pj, ci95 * self.dynamic_pj)
        return replace(self, dynamic_ci95_pj=half_pj)

    @property
    def key(self) -> tuple[str, ...]:
        """What the row is about; a table holds each once."""
        return self.instruction, self.opt_level, self.protocol, self.operands, *lanes_key(self.lanes)

    @property
    def operands_text(self) -> str:
        """Operands for a reader, with the active lanes where those are not whole warps."""
        return operands_text(self.operands, self.lanes)

    @property
    def verdict(self) -> str:
        """The status, and what is said of it: an energy with something odd about it is never plain "ok"."""
        return f"{self.status}: {self.reason}" if self.reason else str(self.status)

    @property
    def mark(self) -> str:
        """An asterisk beside the energy of a valid row that has something odd about it, else nothing."""
        return "*" if self.status is Status.OK and self.reason else ""

    @property
    def subject(self) -> str:
        """Name of what the row is about: the beginning of its trials' ids."""
        return "/".join(self.key)


@cache
def _unknown_columns() -> dict[str, Any]:
    unknown = {"float": math.nan, "int": 0}
    return {of.name: unknown[of.type] for of in fields(TableRow) if of.type in unknown}


class Axes(TypedDict):
    """The columns of a trial or row that name its condition."""

    opt_level: OptLevel
    protocol: str
    operands: str
    lanes: int


def axes_of(condition: Condition) -> Axes:
    """Return the columns of a trial or row that name its condition."""
    return {
        "opt_level": condition.opt_level,
        "protocol": condition.protocol,
        "operands": condition.pattern,
        "lanes": condition.lanes,
    }
