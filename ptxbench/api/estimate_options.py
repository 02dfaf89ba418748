"""What an estimate of a kernel takes, from Python and from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ptxbench.codegen.containers import device_images, is_cubin, require_ptx
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import BY_DIMENSION, OneOptLevel
from ptxbench.storage.file_errors import NAME_CODE, read_bytes

if TYPE_CHECKING:
    from ptxbench.api.table import Table


@dataclass(frozen=True)
class EstimateOptions:
    """The launch that is estimated, and under which conditions.

    Attributes:
        kernel: Path of a file of PTX or machine code (a cubin, a fat binary, an object or a program with
            one) or of a folder of cubins, PTX text, or the bytes of such a file. With --ncu: part of the
            kernel's name, or None where the CSV holds one kernel. A specification (SPEC.toml, as `tune
            kernel` takes it): its kernel is run in an emulator on some of its blocks.
        table: Name or folder of a table, or a table that was loaded, which spares to read it each time
            (default: that of the GPU at hand, else h200).
        entry: Name of the entry, if the file has several.
        grid: Blocks of the launch (for code), in all along x or by dimension.
        block: Threads per block (for code), in all along x or by dimension.
        trips: Passes of a loop, named by its number or address (may be repeated).
        probability: How often, from 0 to 1, a branch is taken or a guarded instruction takes place, by its
            address; "all" names those that nothing else decides (may be repeated).
        dram_bytes: Bytes that DRAM reads and writes in the launch, where its code does not tell.
        l2_bytes: Bytes that the SMs read from and write to L2 in the launch, where its code does not tell.
        sizes: Give a size another value than the specification does, or an axis one of its own (may be
            repeated).
        ncu: CSV of `ncu --csv --page raw` with the executed counts.
        time_s: Time of one launch in seconds.
        steady: Take --time-s as the time in a steady state, with the power cap in effect if there is one.
        clock_mhz: SM clock during the launch.
        operands: Operand pattern: random (default), zeros, or another kind of data that the table's terms
            know, such as image, integers, sparse, text, weights or constant; or how much the operands
            toggle, a number from 0 (zeros) to 1 (random).
        integer_data: The kernel's integer instructions compute data, not addresses.
        temperature_c: GPU temperature (default: the run's).
        set_clock_mhz: Estimate for this SM clock; --time-s is then the time at the full clock.
        memory_ratio: Estimate for this memory clock over the full one.
        limit_w: Estimate for this power limit (default: the run's).
        clock_samples: CSV file of power at several clocks, as `ptxbench clocks ridge` takes it: its voltage
            curve stands in for the table's power law of the clock.
        explain: Show the error of each part, and what models that know less than the table say of the kernel.
    """

    kernel: Annotated[str | Path | bytes | None, Arg()] = None
    _: KW_ONLY
    # Quoted, so that it is not loaded for its name.
    table: Annotated["str | Path | Table | None", Opt()] = None  # noqa: UP037
    entry: str | None = None
    grid: Annotated[int | Sequence[int] | None, Opt(1, 2**31 - 1, metavar=BY_DIMENSION)] = None
    block: Annotated[int | Sequence[int] | None, Opt(1, 1024, metavar=BY_DIMENSION)] = None
    trips: Annotated[Mapping[int | str, float] | None, Opt(metavar="LOOP=N")] = None
    probability: Annotated[Mapping[str, float] | None, Opt(metavar="ADDRESS=P")] = None
    dram_bytes: Annotated[float | None, Opt(0, 1e18)] = None
    l2_bytes: Annotated[float | None, Opt(0, 1e18)] = None
    opt_level: OneOptLevel = "O3"
    sizes: Annotated[Mapping[int | str, float] | None, Opt(metavar="NAME=N", flag="--set")] = None
    ncu: Path | str | None = None
    time_s: Annotated[float | None, Opt(1e-9, 1e6)] = None
    steady: bool = False
    clock_mhz: Annotated[float | None, Opt(1, 10_000)] = None
    operands: Annotated[str | float | None, Opt(0, 1, metavar="KIND|0..1", former=("data", "activity"))] = (
        None
    )
    integer_data: bool = False
    temperature_c: Annotated[float | None, Opt(-40, 125)] = None
    set_clock_mhz: Annotated[float | None, Opt(1, 10_000)] = None
    memory_ratio: Annotated[float | None, Opt(0.1, 1)] = None
    limit_w: Annotated[float | None, Opt(1, 1e5, flag="--set-limit-w")] = None
    clock_samples: Path | str | None = None
    explain: bool = False


@dataclass(frozen=True)
class KernelOptions(EstimateOptions):
    """The same from Python, where there are arrays.

    Attributes:
        arguments: Arrays and numpy numbers, in the order of the kernel's parameters: the kernel is run in an
            emulator on some of its blocks, which tells what it executes and what its operands hold.
        shared_bytes: Dynamic shared memory of a block, with `arguments`.
    """

    _: KW_ONLY
    arguments: Sequence[Any] | None = None
    shared_bytes: Annotated[int, Opt(0, 1 << 20)] = 0


def is_specification(kernel: str | Path | bytes | None) -> bool:
    """Return whether a kernel is named by its specification."""
    return isinstance(kernel, str | Path) and str(kernel).endswith(".toml")


def require_code(path: Path) -> None:
    """Refuse a file that holds no kernel, before a table is read.

    Raises:
        InputError: It cannot be read, or has neither PTX nor machine code.
    """
    if path.is_dir():
        return
    code = read_bytes(path, NAME_CODE)
    # What is said of CUDA C++ names the table's GPU.
    if path.suffix != ".cu" and not is_cubin(code) and not device_images(code, str(path)):
        require_ptx(code, str(path))
