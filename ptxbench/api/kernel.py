"""Estimate the energy of a kernel that is in no table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from ptxbench.api.estimate_options import EstimateOptions, KernelOptions
from ptxbench.api.table import Table, load_table
from ptxbench.catalogue.occupancy import MAX_GRID, MAX_THREADS
from ptxbench.core.bounds import whole_within, within
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.option import takes
from ptxbench.model.baselines import baseline_answers
from ptxbench.model.clocks.law import PowerLaw, VoltageLaw, law_of_kind
from ptxbench.model.code_spread import reaching, widened
from ptxbench.model.default_table import default_table
from ptxbench.model.estimate import Conditions, KernelEstimate, estimate
from ptxbench.model.roofline.kernels import roofline_work
from ptxbench.model.work import Activity, KernelWork, Level, activity_between

if TYPE_CHECKING:
    from ptxbench.model.atlas import Atlas
    from ptxbench.model.code_work import CodeWork, KernelCode
    from ptxbench.model.estimate import Machine
    from ptxbench.model.terms import Terms

# Chosen; whole numbers are exact in a double so far.
_MAX_TRIPS = 1e15
# No GPU is known to run a kernel below a tenth of its highest clock; NVML's clocks are whole MHz.
_SLOWEST = 0.1
_ROUNDED_MHZ = 1.0
# A clock that is held meets the limit to less than this.
_MOST_OVER_LIMIT = 1.01

# What is only said of code that nobody counted.
OF_CODE = ("trips", "probability", "dram_bytes", "l2_bytes")

_BOUND = (
    "the time is modelled by the busiest pipe, as a lower bound: a kernel that waits for memory takes longer"
)

# The shortest kernel of a step of decoding (results/nvidia-h100/profiles/decode).
_SHORTEST_S = 1.18e-6
_SHORT = (
    "the modelled time is that of the work alone, and no kernel that was measured took less than"
    f" {_SHORTEST_S * 1e6:.2f} us: give the measured time (`time_s`), without which the energy is far too low"
)


@takes(KernelOptions)
def estimate_kernel(options: KernelOptions) -> KernelEstimate:
    """Estimate the energy of one launch from its code, or from what Nsight Compute counted.

        found = ptxbench.estimate_kernel("saxpy.ptx", grid=1056, block=256, trips={0: 4096})
        print(f"{found.energy_j:.3g} J ({found.low_j:.3g} to {found.high_j:.3g})")

    With `arguments`, or a specification as `tune kernel` takes it, the kernel is run in an emulator on some
    of its blocks, which tells what it executes, which bytes it moves and what its operands hold:

        x = numpy.random.default_rng(1).standard_normal(1 << 24, numpy.float32)
        ptxbench.estimate_kernel("scale.cubin", grid=65536, block=256, arguments=[x, numpy.float32(2)])

    From code alone the executed instructions are counted along its control flow, with the trip counts that
    the code shows or that `trips` gives; bytes beyond L1 are then not known. `notes` says what is left out or
    assumed. Grid and block are numbers, or numbers by dimension. `explain` adds what models that know less
    than the table say of the kernel (`answers`), with the error of each on judged kernels.

    Returns:
        Energy with its 95% interval (`energy_j`, `low_j`, `high_j`), power, time, where the joules go
        (`parts`), what stood in for opcodes that the table lacks (`fills`), and `notes`.

    Raises:
        InputError: An argument is out of range, a file does not fit, a trip count is not known, or the table
            has no models that know less (`explain`).
        ToolError: The assembler or disassembler is missing, or refused the code.
    """
    if isinstance(options.table, Table):
        return estimate_of(options.kernel, options.table, options)
    named, note = (options.table, "") if options.table is not None else default_table()
    found = estimate_of(options.kernel, load_table(named), options)
    return replace(found, notes=(note, *found.notes)) if note else found


def estimate_of(
    kernel: str | Path | bytes | None,
    table: Table,
    options: EstimateOptions,
    on_progress: Callable[[int], None] | None = None,
) -> KernelEstimate:
    """Estimate a kernel by a table that is open; `estimate_kernel` says what is raised.

    Args:
        kernel: The kernel.
        table: The table.
        options: Of `estimate_kernel`.
        on_progress: Called with the instructions that the emulator has carried out.
    """
    _check_together(options)
    known = table._atlas
    told = _told(kernel, options, known, on_progress)
    work, modelled, terms = told.work, told.modelled, known.machine.terms
    about_time = _time_notes(known, work) if modelled else _bandwidth_notes(known, work)
    notes = (*told.notes, *about_time)
    conditions, machine = _conditions(told, options, known), _machine(told, options, known)
    found = estimate(work, machine, conditions)
    _require_limit_met(found, machine.limit_w, options, told.modelled)
    if not work.bytes_moved or modelled:
        found = widened(found, work, terms, modelled_time=modelled)
    if told.sides is not None:
        sides = (estimate(one, machine, conditions).energy_j for one in told.sides)
        found = reaching(found, *sides)
    if told.code is not None:
        found = replace(found, missing=told.code.missing)
    if machine.set_law is not None:
        found = replace(found, notes=(f"the energy follows the clock by {machine.law.origin}", *found.notes))
    if options.explain:
        if told.activity is not None:
            found = _with_data(found, work, machine, conditions)
        found = _explained(found, known, work, told.code, machine, conditions, options)
    return replace(
        _without_best(found), notes=(*_calibration_notes(known, options.explain), *notes, *found.notes)
    )


@dataclass(frozen=True)
class _Told:
    """What is known of a kernel.

    Attributes:
        work: What it executes and moves, with its time.
        modelled: Whether its time is modelled.
        notes: What was taken for granted, a sentence each.
        sides: The least and the most that it may be; None: it is as it was counted.
        code: What its code told, where that alone was read.
        activity: How much its operands change, where it was run in the emulator.
    """

    work: KernelWork
    modelled: bool
    notes: tuple[str, ...]
    sides: tuple[KernelWork, KernelWork] | None = None
    code: CodeWork | None = None
    activity: Activity | None = None


def _told(
    kernel: str | Path | bytes | None,
    options: EstimateOptions,
    known: Atlas,
    on_progress: Callable[[int], None] | None,
) -> _Told:
    """Count what a kernel executes: in the emulator, by its code, or as ncu did."""
    from ptxbench.api.emulating import run_in_emulator

    run = run_in_emulator(kernel, options, known, on_progress)
    if run is not None:
        return _Told(run.work, run.modelled, run.notes, (run.work, run.cold), activity=run.activity)
    if options.ncu is not None:
        _require_untold(options, ("grid", "block"))
        return _Told(*_profiled(kernel, Path(options.ncu), options.time_s, known), ())
    require_shape(kernel, options.grid, options.block)
    assert kernel is not None  # noqa: S101
    code = _counted_in_code(kernel, options, known)
    return _Told(code.work, code.modelled, code.notes, (code.least, code.most), code)


def _conditions(told: _Told, options: EstimateOptions, known: Atlas) -> Conditions:
    terms, clock_mhz, full_mhz = known.machine.terms, options.clock_mhz, known.gpu.max_sm_clock_mhz
    by_kind = told.activity is None and not _is_number(options.operands)
    conditions = Conditions(
        activity=told.activity or _activity(terms, options),
        activity_range=terms.activity_range(_kind(options), options.integer_data) if by_kind else None,
        temperature_c=math.nan if options.temperature_c is None else options.temperature_c,
        clock_ratio=math.nan if clock_mhz is None else _clock_ratio(clock_mhz, full_mhz),
        steady_time=options.steady,
    )
    if options.set_clock_mhz is not None:
        set_ratio = _clock_ratio(options.set_clock_mhz, full_mhz, "set_clock_mhz")
        conditions = replace(conditions, set_ratio=set_ratio)
    if (options.set_clock_mhz, options.memory_ratio, options.limit_w) != (None, None, None):
        memory_s = _memory_s(told.work, known.gpu, options.memory_ratio or 1.0)
        conditions = replace(conditions, memory_s=memory_s)
    return conditions


def _machine(told: _Told, options: EstimateOptions, known: Atlas) -> Machine:
    machine = known.machine
    if told.activity is not None:
        from ptxbench.model.emulation import by_emulation, read_emulation

        machine = by_emulation(machine, read_emulation(known.path))
    if options.clock_samples is not None:
        full_mhz = known.gpu.max_sm_clock_mhz
        law = VoltageLaw.read(Path(options.clock_samples), machine.limit_w, full_mhz)
        machine = replace(machine, set_law=law)
    elif options.set_clock_mhz is not None:
        machine = replace(machine, set_law=_law_of_kind(told.work, known))
    return machine if options.limit_w is None else replace(machine, limit_w=options.limit_w)


def _law_of_kind(work: KernelWork, known: Atlas) -> PowerLaw | None:
    """Return the law of the clock of kernels that do mostly such flops; None where none is known."""
    flops = roofline_work(work).flops
    return law_of_kind(known.gpu.name, max(flops, key=lambda kind: flops[kind], default=""))


def _with_data(
    found: KernelEstimate, work: KernelWork, machine: Machine, conditions: Conditions
) -> KernelEstimate:
    """Return an estimate that says what its data cost, beside operands of random bits and still ones."""
    random_j, still_j = (
        estimate(work, machine, replace(conditions, activity=Activity(share, share, share))).energy_j
        for share in (1.0, 0.0)
    )
    data_pct = 100 * (found.energy_j - still_j) / found.energy_j
    note = (
        f"what its data cost: {data_pct:.0f}% of its energy, by the bits of its operands that change; the"
        f" same instructions on random bits alone: {100 * (random_j / found.energy_j - 1):+.0f}%"
    )
    return replace(found, notes=(*found.notes, note))


def _explained(
    found: KernelEstimate,
    known: Atlas,
    work: KernelWork,
    code: CodeWork | None,
    machine: Machine,
    conditions: Conditions,
    options: EstimateOptions,
) -> KernelEstimate:
    """Return an estimate with its source lines, and with what models that know less say."""
    if code is not None:
        found = _by_line(found, code, machine, conditions.activity)
    if known.calibration is not None:
        return found
    answers = baseline_answers(
        known.baselines,
        found,
        work,
        (known.opcode_energies, known.machine),
        conditions,
        _kind(options),
        lambda fitted: _activity(fitted, options),
    )
    return replace(found, answers=answers)


def _by_line(found: KernelEstimate, code: CodeWork, machine: Machine, activity: Activity) -> KernelEstimate:
    """Return an estimate with where its joules go by source line, or a note that the code has none."""
    from ptxbench.model.by_line import joules_by_line

    lines = code.code.lines()
    if not lines:
        note = "the code has no source lines: compile with -lineinfo to see where its joules go by line"
        return replace(found, notes=(*found.notes, note))
    parts = joules_by_line(found, code.work, machine, activity, code.placed, code.requested, lines)
    return replace(found, lines=parts)


def _calibration_notes(known: Atlas, explain: bool) -> tuple[str, ...]:
    """Return what must be said of a calibration, nothing where there is none."""
    if known.calibration is None:
        return ()
    own = (
        f"the terms are those of the calibration {known.name}, on the rows of {known.calibration.table}, and"
        " the interval is that of kernels that the terms before it were fitted to"
    )
    without = "models that know less are fitted to the table's GPU: name the table to see them"
    return (own, without) if explain else (own,)


def _without_best(found: KernelEstimate) -> KernelEstimate:
    """Return an estimate whose bytes are not known without a best value."""
    return replace(found, energy_j=math.nan, power_w=math.nan) if found.missing else found


def _require_untold(options: EstimateOptions, names: Sequence[str]) -> None:
    told = [name for name in names if (value := getattr(options, name)) or value == 0]
    if told:
        raise ArgumentError("ncu", f"has executed counts: leave out `{told[0]}`, which is said of code")


def _check_together(options: EstimateOptions) -> None:
    """Refuse trip counts out of range, and options that exclude each other."""
    for loop, count in (options.trips or {}).items():
        within(f"trips of loop {loop}", count, 0, _MAX_TRIPS)
    for place, share in (options.probability or {}).items():
        within(f"probability at {place}", share, 0, 1)
    if options.ncu is not None:
        _require_untold(options, OF_CODE)
    if options.steady and options.ncu is None and options.time_s is None:
        raise ArgumentError("steady", "is said of a measured time: give `time_s`")
    if options.clock_mhz is not None and options.set_clock_mhz is not None:
        raise ArgumentError(
            "clock_mhz", "is the clock that `time_s` is at, `set_clock_mhz` the one to predict at; not both"
        )
    if _is_number(options.operands) and options.integer_data:
        raise ArgumentError("operands", "must be a kind of data with `integer_data`, not a number")


def _require_limit_met(
    found: KernelEstimate, limit_w: float, options: EstimateOptions, is_modelled: bool
) -> None:
    """Refuse a limit, or a measured time, with which the kernel would draw more than any board allows."""
    if not (found.capped and found.power_w > _MOST_OVER_LIMIT * limit_w):
        return
    draws = f"the kernel would draw {found.power_w:.4g} W even at the lowest clock"
    if options.limit_w is not None:
        raise ArgumentError("limit_w", f"is {limit_w:g} W, but {draws}")
    if options.time_s is not None:
        raise ArgumentError(
            "time_s",
            f"is too short: in {options.time_s:g} s {draws}, of {limit_w:g} W; is it in seconds, and of this"
            " launch?",
        )
    if not is_modelled:
        raise InputError(
            f"the counts and their time do not fit: {draws}, of {limit_w:g} W; check units and the launch, or"
            " give `time_s`"
        )


def _is_number(operands: str | float | None) -> TypeGuard[float]:
    return operands is not None and not isinstance(operands, str)


def _kind(options: EstimateOptions) -> str:
    """Return the kind of data of the operands."""
    return options.operands if isinstance(options.operands, str) else "random"


def _activity(terms: Terms, options: EstimateOptions) -> Activity:
    if _is_number(options.operands):
        return activity_between(terms.zeros, terms.random, options.operands)
    return terms.activity_on(_kind(options), options.integer_data)


def _bandwidth_notes(known: Atlas, work: KernelWork) -> tuple[str, ...]:
    """Return what to say where a time that was given is shorter than the bytes from DRAM take."""
    least_s = _memory_s(work, known.gpu, 1.0)
    if not least_s > work.time_s:
        return ()
    return (
        f"its bytes from DRAM take {least_s:.3g} s at least, and its time is {work.time_s:.3g} s: one of the"
        " two is not of this launch, or L2 held some of them",
    )


def _memory_s(work: KernelWork, gpu: GpuInfo, ratio: float) -> float:
    """Return the time that the bytes from DRAM take at least, 0 where they were not counted."""
    from ptxbench.model.throughput import dram_time_s

    dram_bytes = dict(work.bytes_moved).get(Level.DRAM, 0.0)
    return dram_time_s(dram_bytes, gpu, ratio)


def _clock_ratio(clock_mhz: float, highest_mhz: float, name: str = "clock_mhz") -> float:
    if math.isnan(highest_mhz):
        raise ArgumentError(name, "cannot be used: the table does not say the GPU's highest clock")
    given_mhz = within(name, clock_mhz, _SLOWEST * highest_mhz, highest_mhz + _ROUNDED_MHZ)
    return min(given_mhz / highest_mhz, 1.0)


def require_shape(
    kernel: str | Path | bytes | None, grid: int | Sequence[int] | None, block: int | Sequence[int] | None
) -> None:
    """Refuse a launch without a kernel or a shape, and one that CUDA has not."""
    if kernel is None:
        raise InputError("give a kernel: a PTX or cubin file, or a part of its name with ncu")
    if grid is None or block is None:
        raise InputError("give the launch's shape with grid (blocks) and block (threads), or counts with ncu")
    _product("grid", grid, MAX_GRID[0])
    _product("block", block, MAX_THREADS)


def _product(name: str, sizes: int | Sequence[int], most: int) -> int:
    dimensions = sizes if isinstance(sizes, Sequence) else [sizes]
    whole = math.prod(whole_within(name, size, 1, most) for size in dimensions)
    return whole_within(name, whole, 1, most)


def _counted_in_code(kernel: str | Path | bytes, options: EstimateOptions, known: Atlas) -> CodeWork:
    from ptxbench.model.addresses import Launch
    from ptxbench.model.code_work import static_work
    from ptxbench.model.traffic import GivenBytes

    sass = read_code(kernel, options, known)
    trips, probabilities = (
        {str(place): float(number) for place, number in (given or {}).items()}
        for given in (options.trips, options.probability)
    )
    launch = Launch.of(options.grid or 1, options.block or 1, known.gpu.target)
    time_s, *moved = (
        math.nan if given is None else given
        for given in (options.time_s, options.dram_bytes, options.l2_bytes)
    )
    return static_work(sass, launch, trips, time_s, known, probabilities, GivenBytes(*moved))


def read_code(kernel: str | Path | bytes, options: EstimateOptions, known: Atlas) -> KernelCode:
    """Return a kernel's machine code."""
    from ptxbench.model.code_work import kernel_in, read_kernel

    level = OptLevel(options.opt_level)
    if isinstance(kernel, str) and ".entry" in kernel:
        kernel = kernel.encode()
    if isinstance(kernel, bytes):
        return kernel_in(kernel, "the code", options.entry, known, level)
    return read_kernel(Path(kernel), options.entry, known, level)


def _profiled(
    kernel: str | Path | bytes | None, ncu: Path, time_s: float | None, known: Atlas
) -> tuple[KernelWork, bool]:
    from ptxbench.model.inputs import profiled_work

    if kernel is not None and not isinstance(kernel, str):
        raise InputError("with ncu the kernel is a part of its name, not a file")
    return profiled_work(ncu, kernel, math.nan if time_s is None else time_s, known)


def _time_notes(known: Atlas, work: KernelWork) -> tuple[str, ...]:
    """Return what a modelled time is."""
    from ptxbench.model.inputs import slack_of

    time = known.machine.terms.time
    short = (_SHORT,) if work.time_s < _SHORTEST_S else ()
    if time is None or slack_of(work, time) == 1:
        return (_BOUND, *short)
    return (
        f"the time is modelled: {time.slack:.2f} times what its pipes take, as {time.kernels} measured"
        f" kernels did at the median (95%: {time.slack_low:.2f} to {time.slack_high:.2f} times), or what"
        " memory takes",
        *short,
    )
