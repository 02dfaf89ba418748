"""`ptxbench gpus`: what can be given to --gpu."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import json_option
from ptxbench.cli.output import print_json, print_table

if TYPE_CHECKING:
    from ptxbench.core.gpu_info import GpuInfo

_NUMBERS = ("SMs", "limit W", "clock MHz")


@click.command(name="gpus")
@json_option
def command(as_json: bool) -> None:
    """List the GPUs of this machine, and the simulated ones.

    The option --gpu takes the names in the first column.
    """
    from ptxbench.core.errors import GpuError
    from ptxbench.devices.select import list_gpus

    real: tuple[GpuInfo, ...] = ()
    missing = ""
    try:
        real = list_gpus()
    except GpuError as error:
        missing = str(error)
    listed = [(str(info.index), info) for info in real] + _simulated()
    if as_json:
        print_json({"gpus": [{"gpu": spec, **asdict(info)} for spec, info in listed], "no_real_gpu": missing})
        return
    print_table(
        ("gpu", "name", "target", "SMs", "limit W", "clock MHz", "driver", "board"),
        [_cells(spec, info) for spec, info in listed],
        _NUMBERS,
        ("board", "driver", "target", "clock MHz"),
    )
    if missing:
        click.echo(f"ptxbench: no real GPU: {missing}", err=True)


def _simulated() -> list[tuple[str, GpuInfo]]:
    from ptxbench.devices.simulated.gpu import SimulatedGpu
    from ptxbench.devices.simulated.profiles import PROFILES

    return [(f"simulated:{name}", SimulatedGpu(profile).info) for name, profile in PROFILES.items()]


def _cells(spec: str, info: GpuInfo) -> tuple[str, ...]:
    return (
        spec,
        info.name,
        info.target,
        str(info.sm_count),
        _number(info.power_limit_w),
        _number(info.max_sm_clock_mhz),
        info.driver,
        info.uuid_hash,
    )


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:g}"
