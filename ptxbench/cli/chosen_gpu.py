"""The GPU that a command runs on, and the notice that one is simulated."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ptxbench.devices.base import Gpu


def open_chosen_gpu(spec: str | None) -> Gpu:
    """Open what --gpu names, or else the first GPU; where that is simulated, say so now and at the very end.

    Raises:
        GpuError: There is no such GPU, or the driver does not work.
        InputError: The profile or the run is unknown.
    """
    from ptxbench.devices.select import open_gpu_or_simulated

    def say(text: str) -> None:
        sys.stdout.flush()
        click.echo(f"ptxbench: {text}", err=True)

    def say_twice(text: str) -> None:
        say(text)
        click.get_current_context().find_root().call_on_close(lambda: say(text))

    return open_gpu_or_simulated(spec, say_twice)
