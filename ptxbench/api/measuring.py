"""Measure instructions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from ptxbench.api.gpu import Gpu, closed, open_gpu
from ptxbench.api.measurement import Measurement
from ptxbench.api.table import Table
from ptxbench.catalogue.load import find_instruction
from ptxbench.core.bounds import one_of, whole_within
from ptxbench.core.condition import DYNAMIC, OptLevel, Pattern
from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.core.option import Opt, takes
from ptxbench.core.shared_options import OPT_LEVELS, OneLanes, OneOptLevel, Precision
from ptxbench.core.threads import WARP
from ptxbench.experiment import run
from ptxbench.experiment.isolate import table_work
from ptxbench.experiment.protocols import protocol_names
from ptxbench.experiment.session import start_run
from ptxbench.experiment.supervise import supervise
from ptxbench.experiment.table_options import TableOptions
from ptxbench.storage.known_rows import known_rows
from ptxbench.storage.location import require_no_run
from ptxbench.storage.run_folder import RunFolder

Words = str | Iterable[str]


@dataclass(frozen=True)
class _Measuring:
    """How instructions are measured.

    Attributes:
        gpu: An open GPU, or what `open_gpu` takes.
        out: Folder to keep the run in, with every reading; None: no folder is left behind.
        isolate: Measure in a separate process; if a kernel breaks it, continue without that kernel. `gpu` is
            then none that is open.
    """

    gpu: Gpu | int | str
    _: KW_ONLY
    precision: Precision = None
    out: str | Path | None = None
    isolate: bool = False


@dataclass(frozen=True)
class MeasureOptions(_Measuring):
    """What is measured of one instruction.

    Attributes:
        instruction: Name in the catalogue (`ptxbench cost --list`).
        protocol: Protocol: dynamic (the whole chip) or arafa (one thread).
        operands: What the operands hold: random, zeros, uniform (random, the same in all lanes of a warp),
            halves (random, the same in lanes i and i + 16), hamming:N (N of 32 bits of these differ), still
            (the same in all copies of a thread), or still: before one of the last two.
    """

    instruction: str
    _: KW_ONLY
    opt_level: OneOptLevel = "O3"
    protocol: Annotated[str, Opt(choices=protocol_names())] = DYNAMIC
    operands: Annotated[str, Opt(choices=tuple(Pattern))] = Pattern.RANDOM.value
    lanes: OneLanes = WARP


@dataclass(frozen=True)
class MeasureTableOptions(_Measuring):
    """What is measured of several instructions.

    Attributes:
        instructions: Names in the catalogue.
        opt_levels: One or several of O0 and O3.
        protocols: One or several of dynamic and arafa.
        operands: One or several patterns, as in `measure`.
        lanes: Active lanes of each warp, one number or several; energies stay those of one active thread.
    """

    instructions: Words
    _: KW_ONLY
    opt_levels: Words = OPT_LEVELS
    protocols: Words = DYNAMIC
    operands: Words = Pattern.RANDOM.value
    lanes: int | Iterable[int] = WARP


@takes(MeasureOptions)
def measure(options: MeasureOptions) -> Measurement:
    """Measure the energy of one instruction.

        with ptxbench.open_gpu() as gpu:
            found = ptxbench.measure(gpu, "fma.rn.f32")
        low_pj, high_pj = found.interval_pj

    An instruction that cannot be measured validly is no error: its `status` and `reason` say why.

    Raises:
        GpuError: There is no such GPU, or it stopped answering.
        InputError: An argument is not known, or `out` cannot be written.
        ToolError: The assembler or disassembler is missing.
    """
    names = _listed(options.instruction)
    if len(names) != 1:
        raise ArgumentError("instruction", "must be one name; `measure_table` takes several")
    table = measure_table(
        options.gpu,
        names,
        opt_levels=options.opt_level,
        protocols=options.protocol,
        operands=options.operands,
        lanes=options.lanes,
        precision=options.precision,
        out=options.out,
        isolate=options.isolate,
    )
    return next(iter(table))


@takes(MeasureTableOptions)
def measure_table(options: MeasureTableOptions) -> Table:
    """Measure several instructions together, which takes less time and is more accurate than one by one.

        with ptxbench.open_gpu() as gpu:
            table = ptxbench.measure_table(gpu, ["fma.rn.f32", "add.f32"], opt_levels="O3")
        print(table["add.f32"].energy_pj)

    Returns:
        A row for each instruction and condition, in the requested order.

    Raises:
        GpuError: There is no such GPU, or it stopped answering.
        InputError: An argument is not known, or `out` cannot be written.
        ToolError: The assembler or disassembler is missing.
    """
    names = _listed(options.instructions)
    if not names:
        raise InputError("instructions must name at least one instruction")
    for name in names:
        find_instruction(name)
    wanted = TableOptions(
        instructions=names,
        opt_levels=tuple(one_of("opt_levels", level, OptLevel) for level in _listed(options.opt_levels)),
        protocols=tuple(one_of("protocols", name, protocol_names()) for name in _listed(options.protocols)),
        operands=tuple(one_of("operands", pattern, Pattern) for pattern in _listed(options.operands)),
        lanes=tuple(whole_within("lanes", lanes, 1, WARP) for lanes in _numbers(options.lanes)),
        precision=options.precision,
        isolate=options.isolate,
    )
    with ExitStack() as stack:
        out = options.out
        place = Path(stack.enter_context(TemporaryDirectory()), "run") if out is None else Path(out)
        if options.isolate:
            folder = stack.enter_context(_isolated(replace(wanted, spec=closed(options.gpu)), place))
            return Table(folder.known_rows(), folder.manifest, tuple(folder.records()))
        opened = options.gpu if isinstance(options.gpu, Gpu) else stack.enter_context(open_gpu(options.gpu))
        folder = stack.enter_context(start_run(opened._device, wanted.wanted(), place))
        rows = known_rows(run.measure_table(opened._device, folder), folder.manifest)
        return Table(rows, folder.manifest, tuple(folder.records()))


def _isolated(options: TableOptions, place: Path) -> RunFolder:
    """Return the run that another process measured."""
    require_no_run(place)
    with TemporaryDirectory() as scratch:
        (ended,) = supervise([replace(table_work(options, place), log=Path(scratch, "log"))])
        ended.require_done()
    return RunFolder.open(place)


def _numbers(numbers: int | Iterable[int]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)


def _listed(words: Words) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)
