"""Measure instructions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from ptxbench.api.gpu import Gpu, open_gpu
from ptxbench.api.measurement import Measurement
from ptxbench.api.table import Table
from ptxbench.catalogue.load import find_instruction
from ptxbench.core.bounds import one_of, within
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import InputError
from ptxbench.experiment import run
from ptxbench.experiment.protocols import protocol_names
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import start_run

Words = str | Iterable[str]


def measure(
    gpu: Gpu | int | str,
    instruction: str,
    *,
    opt_level: str = "O3",
    protocol: str = "dynamic",
    operands: str = "random",
    precision: float = 0.005,
    out: str | Path | None = None,
) -> Measurement:
    """Measure the energy of one instruction.

        with ptxbench.open_gpu() as gpu:
            found = ptxbench.measure(gpu, "fma.rn.f32")
        low_pj, high_pj = found.interval_pj

    An instruction that cannot be measured validly is no error: its `status` and `reason` say why.

    Args:
        gpu: An open GPU, or what `open_gpu` takes.
        instruction: Name in the catalogue (`ptxbench list`).
        opt_level: Optimization level of the assembler: "O0" or "O3".
        protocol: "dynamic" (the whole chip) or "arafa" (one thread).
        operands: What the operands hold: "random" or "zeros".
        precision: Half-width of the 95% interval to stop at, as a fraction of the energy.
        out: Folder to keep the run in, with every reading; None: no folder is left behind.

    Raises:
        GpuError: There is no such GPU, or it stopped answering.
        InputError: An argument is not known, or `out` cannot be written.
        ToolError: The assembler or disassembler is missing.
    """
    table = measure_table(
        gpu,
        [instruction],
        opt_levels=opt_level,
        protocols=protocol,
        operands=operands,
        precision=precision,
        out=out,
    )
    return next(iter(table))


def measure_table(
    gpu: Gpu | int | str,
    instructions: Words,
    *,
    opt_levels: Words = ("O0", "O3"),
    protocols: Words = "dynamic",
    operands: Words = "random",
    precision: float = 0.005,
    out: str | Path | None = None,
) -> Table:
    """Measure several instructions together, which takes less time and is more accurate than one by one.

        with ptxbench.open_gpu() as gpu:
            table = ptxbench.measure_table(gpu, ["fma.rn.f32", "add.f32"], opt_levels="O3")
        print(table["add.f32"].energy_pj)

    Args:
        gpu: An open GPU, or what `open_gpu` takes.
        instructions: Names in the catalogue.
        opt_levels: One or several of "O0" and "O3".
        protocols: One or several of "dynamic" and "arafa".
        operands: One or several of "random" and "zeros".
        precision: As in `measure`.
        out: As in `measure`.

    Returns:
        A row for each instruction and condition, in the requested order.

    Raises:
        GpuError: There is no such GPU, or it stopped answering.
        InputError: An argument is not known, or `out` cannot be written.
        ToolError: The assembler or disassembler is missing.
    """
    names = _listed(instructions)
    if not names:
        raise InputError("instructions must name at least one instruction")
    for name in names:
        find_instruction(name)
    options = RunOptions(
        instructions=names,
        opt_levels=tuple(one_of("opt_level", level, OptLevel) for level in _listed(opt_levels)),
        protocols=tuple(one_of("protocol", protocol, protocol_names()) for protocol in _listed(protocols)),
        patterns=tuple(one_of("operands", pattern, Pattern) for pattern in _listed(operands)),
        precision=within("precision", precision, 1e-5, 1.0),
    )
    with ExitStack() as stack:
        opened = gpu if isinstance(gpu, Gpu) else stack.enter_context(open_gpu(gpu))
        place = Path(out) if out is not None else Path(stack.enter_context(TemporaryDirectory())) / "run"
        folder = stack.enter_context(start_run(opened._device, options, place))
        rows = run.measure_table(opened._device, folder)
        return Table(rows, folder.manifest, tuple(folder.records()))


def _listed(words: Words) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)
