"""`ptxbench tune kernel`: tune any kernel that a specification describes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.output import say
from ptxbench.cli.tuning import Place, SettingOptions, TuneOptions, search_and_print
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import GpuSpec
from ptxbench.storage.atomic import write_text
from ptxbench.tune.blocks.guerreiro import HIGH_OCCUPANCY
from ptxbench.tune.search_options import (
    VARIANT_TIMEOUT_S,
    SampleOptions,
    SearchOptions,
    SeedOptions,
    VariantTimeout,
)


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    """The kernel that is tuned."""

    specification: Annotated[Path, Arg()]
    spec: GpuSpec = None


@dataclass(frozen=True, kw_only=True)
class _Trying:
    """How its variants are tried.

    Attributes:
        sizes: Give a size another value than the specification does (may be repeated).
        high_occupancy: Try block sizes over this occupancy, which is the paper's (for --strategy guerreiro).
        in_process: Measure in this process: a variant that hangs then hangs the search.
        t1: Write the specification into this file (.json) of the T1 format of Kernel Tuner, and tune nothing.
    """

    sizes: Annotated[Mapping[int | str, float] | None, Opt(metavar="NAME=N", flag="--set")] = None
    limit_s: VariantTimeout = VARIANT_TIMEOUT_S
    high_occupancy: Annotated[float, Opt(0, 1)] = HIGH_OCCUPANCY
    in_process: bool = False
    t1: Path | None = None


@dataclass(frozen=True, kw_only=True)
class _KernelOptions(
    TuneOptions, Place, SeedOptions, _Trying, SampleOptions, SettingOptions, SearchOptions, _Kernel
):
    """Options of `ptxbench tune kernel`."""

    sample: Annotated[int, Opt(0, 100_000)] = 5


@command_of(_KernelOptions, "kernel", short_help="Tune a kernel of your own.")
def kernel(options: _KernelOptions) -> int:
    """Tune the kernel that SPECIFICATION (a TOML file, or a T1 file of Kernel Tuner) describes.

    It names the source (.cu, .ptx, .cubin, or a Jinja template of the first two). It also names the
    arguments, the axes of the search space, and a reference. Every variant is compared with the reference
    before it is timed. Each trial is saved before the next begins; --resume continues a search that was
    stopped. On a real GPU the search runs in a separate process, which is ended if a variant hangs, and
    continues without it. The exit code is 1 if no variant is valid.
    """
    from ptxbench.tune.spec_file import load_spec
    from ptxbench.tune.t1_file import t1_text
    from ptxbench.tune.user_kernel import UserKernel

    described = load_spec(
        options.specification, {str(name): value for name, value in (options.sizes or {}).items()}
    )
    if options.t1 is not None:
        write_text(options.t1, t1_text(described))
        say(f"wrote {options.t1}")
        return 0
    tuning = options.tuning_at_settings(described, high_occupancy=options.high_occupancy)
    with closing(open_chosen_gpu(options.spec)) as gpu:
        info = gpu.info
        by_model = options.clocks is not None and options.clocks.by_model
        if options.in_process or by_model or info.kind is not GpuKind.REAL:
            return search_and_print(gpu, tuning, options)
        UserKernel(described).space(info.target)  # refused here where it holds nothing
    return _isolate(info, options)


def _isolate(info: GpuInfo, options: _KernelOptions) -> int:
    """Run this very command in another process, and again where a variant ended it; return the exit code."""
    from ptxbench.devices.select import restore_settings
    from ptxbench.experiment.supervise import own_command, supervise
    from ptxbench.storage.location import default_run_path
    from ptxbench.tune.isolate import search_work

    path = options.out or default_run_path(info, datetime.now(UTC), prefix="tune-")

    def command(begun: bool) -> list[str]:
        own = replace(options, in_process=True, out=path, resume=options.resume or begun)
        return own_command("tune kernel", own)

    try:
        (ended,) = supervise([search_work(command, path, options.limit_s)], say)
    finally:
        # A process that was killed may have left the GPU set.
        restore_settings(info.index)
    if ended.code < 0:
        say(f"signal {-ended.code} ended the search; continue it with --resume")
    return ended.shell_code
