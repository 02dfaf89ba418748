"""`ptxbench tune`: find the variant of a kernel that takes the least energy or time."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.parameters import SizeList
from ptxbench.cli.tune_concurrent import concurrent
from ptxbench.cli.tune_kernel import kernel
from ptxbench.cli.tune_report import report
from ptxbench.cli.tune_study_difficulty import difficulty
from ptxbench.cli.tune_study_strategies import strategies
from ptxbench.cli.tuning import Place, SettingOptions, TuneOptions, search_and_print, sweep_and_print
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import GpuSpec
from ptxbench.tune.search_options import SampleOptions, SearchOptions, SeedOptions

# As in ptxbench.tune, which would load numpy.
_DTYPES = ("f32", "f64", "f16", "c64", "c128")
# At most, a matrix of f64 is then 2 GiB.
_SIZE = (16, 16384)
_OP = ("n", "t", "c")


@click.group(name="tune")
def command() -> None:
    """Find the variant of a kernel that takes the least energy or time."""


@dataclass(frozen=True, kw_only=True)
class _Product:
    """The product that is tuned.

    Attributes:
        dtype: Element type.
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A, rows of B.
        sizes: Tune for each of these sizes, such as 512,1024: m, n and k at once, a folder each.
        op_a: A as it is, transposed, conjugated.
        op_b: B as it is, transposed, conjugated.
        beta: Update C: add beta times what it holds.
        core: Ordinary cores, or tensor cores by mma.sync or wgmma (default: mma for f16, else simt).
    """

    spec: GpuSpec = None
    dtype: Annotated[str, Opt(choices=_DTYPES)] = "f32"
    m: Annotated[int, Opt(*_SIZE)] = 4096
    n: Annotated[int, Opt(*_SIZE)] = 4096
    k: Annotated[int, Opt(*_SIZE)] = 4096
    sizes: Annotated[tuple[int, ...] | None, Opt(kind=SizeList(*_SIZE))] = None
    op_a: Annotated[str, Opt(choices=_OP)] = "n"
    op_b: Annotated[str, Opt(choices=_OP)] = "n"
    beta: Annotated[float, Opt(-1e6, 1e6)] = 0.0
    core: Annotated[str | None, Opt(choices=("simt", "mma", "wgmma"))] = None


@dataclass(frozen=True, kw_only=True)
class _Space:
    """The variants of a product.

    Attributes:
        space: TOML file of the search space, or beast or beast-kepler: the space of Anzt et al. (2015) by the
            limits of today's GPUs, or of theirs.
        variants: Try this variant, and none that is not named (may be repeated).
        beside: Measure this library's product, too, before and after the search (needs PyTorch or CuPy).
    """

    space: Path | None = None
    variants: Annotated[tuple[str, ...], Opt(flag="--variant")] = ()
    beside: Annotated[str | None, Opt(choices=("cublas",))] = None


@dataclass(frozen=True, kw_only=True)
class _GemmOptions(
    TuneOptions, Place, SeedOptions, _Space, SampleOptions, SettingOptions, SearchOptions, _Product
):
    """Options of `ptxbench tune gemm`."""


@command_of(_GemmOptions, "gemm", group=command, short_help="Tune the matrix product C = A B.")
def gemm(options: _GemmOptions) -> int:
    """Tune C = op(A) op(B) + beta C: try variants of a tiled kernel, show the best and the front.

    Every variant's results are checked against numpy before it is timed. Each trial is saved before the
    next begins; --resume continues a search that was stopped. The exit code is 1 if no variant is valid.
    """
    from ptxbench.tune.variant import Core, DType, Op, Problem

    shape = (options.m, options.n, options.k)
    if options.sizes and shape != (_Product.m, _Product.n, _Product.k):
        raise click.UsageError("--sizes gives m, n and k at once; leave out --m, --n and --k.")
    if options.sizes and options.clocks is not None and options.clocks.by_model:
        raise click.UsageError("--clocks model ranks the variants of one size; leave out --sizes.")
    if options.sizes and options.plot is not None:
        raise click.UsageError("--plot draws one size, and --sizes draws each in its folder; leave one out.")
    operations = (Op(options.op_a), Op(options.op_b))
    tuning = options.tuning_at_settings(
        Problem(DType(options.dtype), *shape, *operations, options.beta),
        space=options.space,
        core=Core(options.core) if options.core else None,
        variants=options.variants,
        beside=options.beside or "",
    )
    with closing(open_chosen_gpu(options.spec)) as gpu:
        if options.sizes:
            return sweep_and_print(gpu, tuning, options.sizes, options)
        return search_and_print(gpu, tuning, options)


@command.group(name="study")
def study() -> None:
    """Repeat analyses of published studies on a search."""


command.add_command(kernel)
command.add_command(concurrent)
command.add_command(report)
study.add_command(difficulty)
study.add_command(strategies)
