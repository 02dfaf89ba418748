"""Estimate the energy of a kernel that is in no table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.api.table import Table, load_table
from ptxbench.core.bounds import one_of, whole_within, within
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.model.code_spread import widened
from ptxbench.model.estimate import Conditions, KernelEstimate, Machine, estimate
from ptxbench.model.kept_nulls import null_answers
from ptxbench.model.work import Activity, KernelWork, Level, activity_between

if TYPE_CHECKING:
    from ptxbench.model.atlas import Atlas
    from ptxbench.model.terms import Terms

_MAX_BLOCKS = 2**31 - 1
_MAX_THREADS = 1024
_MAX_TRIPS = 1e15
_SHORTEST_S, _LONGEST_S = 1e-9, 1e6
_COLDEST_C, _HOTTEST_C = -40.0, 125.0
# No GPU is known to run a kernel below a tenth of its highest clock; NVML's clocks are whole MHz.
_SLOWEST = 0.1
_ROUNDED_MHZ = 1.0
_MOST_W = 1e5
# A clock that is held meets the limit to less than this.
_MOST_OVER_LIMIT = 1.01

_BOUND = (
    "the time is modelled by the busiest pipe, as a lower bound: a kernel that waits for memory takes longer"
)


def estimate_kernel(
    kernel: str | Path | bytes | None = None,
    *,
    table: str | Path | Table = "h200",
    ncu: str | Path | None = None,
    entry: str | None = None,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    trips: Mapping[int | str, float] | None = None,
    opt_level: str = "O3",
    time_s: float | None = None,
    steady: bool = False,
    clock_mhz: float | None = None,
    activity: float | None = None,
    data: str | None = None,
    integer_data: bool = False,
    temperature_c: float | None = None,
    set_clock_mhz: float | None = None,
    memory_ratio: float | None = None,
    limit_w: float | None = None,
    clock_samples: str | Path | None = None,
    explain: bool = False,
) -> KernelEstimate:
    """Estimate the energy of one launch from its code, or from what Nsight Compute counted.

        found = ptxbench.estimate_kernel("saxpy.ptx", grid=1056, block=256, trips={0: 4096})
        print(f"{found.energy_j:.3g} J ({found.low_j:.3g} to {found.high_j:.3g})")

    From code the executed instructions are counted along its control flow, with the trip counts that the code
    shows or that `trips` gives; bytes beyond L1 are then not known. `notes` says what is left out or assumed.

    Args:
        kernel: Path of a PTX or cubin file, PTX text, or the bytes of either. With `ncu`: part of the
            kernel's name, or None where the CSV holds one kernel.
        table: Name or folder of a table, or a table that was loaded, which spares to read it each time.
        ncu: CSV of `ncu --csv --page raw` with the executed counts (docs/model.md lists the metrics).
        entry: Name of the entry, where the code has several.
        grid: Blocks of the launch, as a number or by dimension (from code only, as the next three).
        block: Threads of a block, as a number or by dimension.
        trips: Passes of a loop by its number or address, such as `{0: 128}`.
        opt_level: Optimization level to assemble PTX at: "O0" or "O3".
        time_s: Time of one launch, s; None: as in the CSV, or modelled from the code.
        steady: Whether the time is that of a steady state, under the power cap if any.
        clock_mhz: SM clock that the time is at; None: the highest at which the power limit is kept.
        activity: How much the operands toggle, from 0 (zeros) to 1 (random); None: as `data` says.
        data: Kind of data: "random" (where nothing is said), "zeros", or one that the table's terms were
            fitted to, such as "image", "integers", "sparse", "text", "weights" or "constant".
        integer_data: Whether the kernel's integer instructions compute data, not addresses.
        temperature_c: GPU temperature, degrees Celsius; None: that of the run's sleeping kernels.
        set_clock_mhz: SM clock to predict energy and time at; `time_s` is then the time at the full clock.
        memory_ratio: Memory clock to predict them at, over the full one.
        limit_w: Power limit to predict them under, W; None: that of the table's GPU.
        clock_samples: CSV file of power at several clocks, as `ptxbench ridge` takes it, whose voltage curve
            stands in for the table's power law of the clock.

        explain: Whether to add what models that know less than the table say of the kernel (`answers`), with
            the error of each on judged kernels.

    Returns:
        Energy with its 95% interval (`energy_j`, `low_j`, `high_j`), power, time, where the joules go
        (`parts`), what stood in for opcodes that the table lacks (`fills`), and `notes`.

    Raises:
        InputError: An argument is out of range, a file does not fit, a trip count is not known, or the table
            has no models that know less (`explain`).
        ToolError: The assembler or disassembler is missing, or refused the code.
    """
    _check_numbers(trips or {}, time_s, activity, temperature_c)
    if clock_mhz is not None and set_clock_mhz is not None:
        raise InputError(
            "give clock_mhz (the time is at that clock) or set_clock_mhz (predict at it), not both"
        )
    if activity is not None and (data is not None or integer_data):
        raise InputError("give activity, or data and integer_data, not both")
    level = one_of("opt_level", opt_level, OptLevel)
    loaded = table if isinstance(table, Table) else load_table(table)
    clock_ratio = math.nan if clock_mhz is None else _clock_ratio(clock_mhz, loaded.gpu.max_sm_clock_mhz)
    if ncu is None:
        shape = _shape(kernel, grid, block)
        known = loaded._atlas
        assert kernel is not None  # noqa: S101
        work, notes = _counted_in_code(kernel, entry, shape, trips or {}, level, time_s, known)
    else:
        known = loaded._atlas
        work, notes = _profiled(kernel, Path(ncu), time_s, known)
    terms = known.machine.terms
    conditions = Conditions(
        activity=_activity(terms, activity, data, integer_data),
        activity_range=None if activity is not None else terms.activity_range(data or "random", integer_data),
        temperature_c=math.nan if temperature_c is None else temperature_c,
        clock_ratio=clock_ratio,
        steady_time=steady,
    )
    machine = known.machine
    if clock_samples is not None:
        machine = _with_voltage(machine, Path(clock_samples), loaded.gpu.max_sm_clock_mhz)
    if limit_w is not None:
        machine = replace(machine, limit_w=within("limit_w", limit_w, 1.0, _MOST_W))
    if set_clock_mhz is not None:
        set_ratio = _clock_ratio(set_clock_mhz, loaded.gpu.max_sm_clock_mhz, "set_clock_mhz")
        conditions = replace(conditions, set_ratio=set_ratio)
    if set_clock_mhz is not None or memory_ratio is not None or limit_w is not None:
        memory_s = _memory_s(work, loaded.gpu, 1.0 if memory_ratio is None else memory_ratio)
        conditions = replace(conditions, memory_s=memory_s)
    found = estimate(work, machine, conditions)
    _require_limit_met(found, limit_w)
    if not work.bytes_moved or notes:
        found = widened(found, work, terms, modelled_time=bool(notes))
    if explain:
        answers = null_answers(
            known.nulls,
            found,
            work,
            (known.opcode_energies, known.machine),
            conditions,
            data or "random",
            lambda fitted: _activity(fitted, activity, data, integer_data),
        )
        found = replace(found, answers=answers)
    return replace(found, notes=(*notes, *found.notes))


def _require_limit_met(found: KernelEstimate, limit_w: float | None) -> None:
    if limit_w is not None and found.capped and found.power_w > _MOST_OVER_LIMIT * limit_w:
        raise InputError(
            f"limit_w is {limit_w:g} W, but the kernel draws {found.power_w:.0f} W even at the lowest clock"
        )


def _check_numbers(
    trips: Mapping[int | str, float],
    time_s: float | None,
    activity: float | None,
    temperature_c: float | None,
) -> None:
    for loop, count in trips.items():
        within(f"trips of loop {loop}", count, 0, _MAX_TRIPS)
    if time_s is not None:
        within("time_s", time_s, _SHORTEST_S, _LONGEST_S)
    if temperature_c is not None:
        within("temperature_c", temperature_c, _COLDEST_C, _HOTTEST_C)
    if activity is not None:
        within("activity", activity, 0.0, 1.0)


def _activity(terms: Terms, activity: float | None, data: str | None, integer_data: bool) -> Activity:
    if activity is None:
        return terms.activity_on(data or "random", integer_data)
    return activity_between(terms.zeros, terms.random, activity)


def _with_voltage(machine: Machine, samples: Path, full_mhz: float) -> Machine:
    from ptxbench.model.clock_law import VoltageLaw
    from ptxbench.model.power_samples import read_power_samples
    from ptxbench.model.ridge import fit_ridge

    limit_w = math.inf if math.isnan(machine.limit_w) else machine.limit_w
    return replace(machine, voltage=VoltageLaw(fit_ridge(read_power_samples(samples), limit_w), full_mhz))


def _memory_s(work: KernelWork, gpu: GpuInfo, ratio: float) -> float:
    """Return the time that the bytes from DRAM take at least, 0 where they were not counted."""
    from ptxbench.model.throughput import dram_time_s

    dram_bytes = dict(work.bytes_moved).get(Level.DRAM, 0.0)
    return dram_time_s(dram_bytes, gpu, within("memory_ratio", ratio, _SLOWEST, 1.0))


def _clock_ratio(clock_mhz: float, highest_mhz: float, name: str = "clock_mhz") -> float:
    if math.isnan(highest_mhz):
        raise InputError(f"the table does not say the GPU's highest clock, so that {name} cannot be used")
    given_mhz = within(name, clock_mhz, _SLOWEST * highest_mhz, highest_mhz + _ROUNDED_MHZ)
    return min(given_mhz / highest_mhz, 1.0)


def _shape(
    kernel: str | Path | bytes | None, grid: int | Sequence[int] | None, block: int | Sequence[int] | None
) -> tuple[int, int]:
    """Return blocks and threads a block."""
    if kernel is None:
        raise InputError("give a kernel: a PTX or cubin file, or a part of its name with ncu")
    if grid is None or block is None:
        raise InputError("give the launch's shape with grid (blocks) and block (threads), or counts with ncu")
    return _product("grid", grid, _MAX_BLOCKS), _product("block", block, _MAX_THREADS)


def _product(name: str, sizes: int | Sequence[int], most: int) -> int:
    dimensions = sizes if isinstance(sizes, Sequence) else [sizes]
    whole = math.prod(whole_within(name, size, 1, most) for size in dimensions)
    return whole_within(name, whole, 1, most)


def _counted_in_code(
    kernel: str | Path | bytes,
    entry: str | None,
    shape: tuple[int, int],
    trips: Mapping[int | str, float],
    level: OptLevel,
    time_s: float | None,
    known: Atlas,
) -> tuple[KernelWork, tuple[str, ...]]:
    from ptxbench.model.inputs import Shape, kernel_in, read_kernel, static_work

    if isinstance(kernel, str) and ".entry" in kernel:
        kernel = kernel.encode()
    if isinstance(kernel, bytes):
        sass = kernel_in(kernel, "the code", entry, known, level)
    else:
        sass = read_kernel(Path(kernel), entry, known, level)
    by_name = {str(loop): float(count) for loop, count in trips.items()}
    work, modelled = static_work(sass, Shape(*shape), by_name, math.nan if time_s is None else time_s, known)
    return work, _time_notes(known, work) if modelled else ()


def _profiled(
    kernel: str | Path | bytes | None, ncu: Path, time_s: float | None, known: Atlas
) -> tuple[KernelWork, tuple[str, ...]]:
    from ptxbench.model.inputs import profiled_work

    if kernel is not None and not isinstance(kernel, str):
        raise InputError("with ncu the kernel is a part of its name, not a file")
    work, modelled = profiled_work(ncu, kernel, math.nan if time_s is None else time_s, known)
    return work, _time_notes(known, work) if modelled else ()


def _time_notes(known: Atlas, work: KernelWork) -> tuple[str, ...]:
    """Return what a modelled time is."""
    from ptxbench.model.inputs import slack_of

    time = known.machine.terms.time
    if time is None or slack_of(work, time) == 1:
        return (_BOUND,)
    return (
        f"the time is modelled: {time.slack:.2f} times what its pipes take, as {time.kernels} measured"
        f" kernels did at the median (95%: {time.slack_low:.2f} to {time.slack_high:.2f} times), or what"
        " memory takes",
    )
