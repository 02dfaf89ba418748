"""`ptxbench gpus`: what can be given to --gpu."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import JsonOptions
from ptxbench.cli.output import print_json, print_table, say
from ptxbench.core.errors import GpuError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.printable import number

if TYPE_CHECKING:
    from ptxbench.devices.select import ListedGpu

_NUMBERS = ("SMs", "limit W", "clock MHz")


@command_of(JsonOptions, "gpus")
def command(options: JsonOptions) -> None:
    """List the GPUs of this machine, and the simulated ones.

    The option --gpu takes the names in the first column. A GPU that cannot be used has a line that says why.
    """
    from ptxbench.devices.select import list_gpus

    real: tuple[ListedGpu, ...] = ()
    missing = ""
    try:
        real = list_gpus()
    except GpuError as error:
        missing = str(error).replace("`gpu`", "--gpu")
    if options.as_json:
        documents = [*map(_document, real), *({"gpu": spec, **asdict(info)} for spec, info in _simulated())]
        print_json({"gpus": documents, "no_real_gpu": missing})
        return
    print_table(
        ("gpu", "name", "target", "SMs", "limit W", "clock MHz", "driver", "board"),
        [*map(_real_cells, real), *(_cells(spec, info) for spec, info in _simulated())],
        _NUMBERS,
        ("board", "driver", "target", "clock MHz"),
    )
    for gpu in real:
        if gpu.fault:
            click.echo(f"GPU {gpu.index} cannot be used: {gpu.fault}")
    if missing:
        say(f"no real GPU: {missing}")


def _simulated() -> list[tuple[str, GpuInfo]]:
    from ptxbench.devices.simulated.gpu import SimulatedGpu
    from ptxbench.devices.simulated.load import find_profile, profile_names

    return [(f"simulated:{name}", SimulatedGpu(find_profile(name)).info) for name in profile_names()]


def _document(gpu: ListedGpu) -> dict[str, object]:
    if gpu.info is not None:
        return {"gpu": str(gpu.index), **asdict(gpu.info)}
    return {"gpu": str(gpu.index), "index": gpu.index, "kind": "real", "name": gpu.name, "fault": gpu.fault}


def _real_cells(gpu: ListedGpu) -> tuple[str, ...]:
    if gpu.info is not None:
        return _cells(str(gpu.index), gpu.info)
    return (str(gpu.index), gpu.name or "-", "-", "-", "-", "-", "-", "-")


def _cells(spec: str, info: GpuInfo) -> tuple[str, ...]:
    return (
        spec,
        info.name,
        info.target,
        str(info.sm_count),
        number(info.power_limit_w, "g"),
        number(info.max_sm_clock_mhz, "g"),
        info.driver,
        info.uuid_hash,
    )
