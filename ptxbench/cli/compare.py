"""`ptxbench compare`: which of several commands takes less energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click

from ptxbench.cli.bench import print_comparison
from ptxbench.cli.command import command_of
from ptxbench.cli.progress import progress_bar
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json, Seed


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench compare`.

    Attributes:
        repeats: Runs of each command that count.
        warm_up: Runs of each command before, which do not count.
        spec: The GPU: all, or a list such as 0,1 (default: all visible).
    """

    commands: Annotated[tuple[str, ...], Arg(metavar="COMMAND...")]
    repeats: Annotated[int, Opt(3, 1000)] = 10
    warm_up: Annotated[int, Opt(0, 100)] = 1
    spec: Annotated[str | None, Opt(metavar="GPU", flag="--gpu")] = None
    seed: Seed = 0
    as_json: Json = False


@command_of(_Options, "compare")
def command(options: _Options) -> int:
    """Run whole commands in random order, and say whether they take less energy than the first one.

    Put each COMMAND into quotes. Its words are split as by a shell, but no shell is run; its output is
    dropped. The energy is that of the whole boards from its start to its end, idle power included. The
    verdict is yes, no, or undecided at 95%; the exit code is 1 if one takes more energy than the first.
    """
    from ptxbench.api.comparing_commands import compare_commands, words_of
    from ptxbench.api.monitor import EnergyMonitor
    from ptxbench.devices.select import named_gpus

    if len(options.commands) < 2:
        raise click.UsageError("give two commands or more, each in quotes: 'python a.py' 'python b.py'.")
    if options.spec is not None and "simulated" in options.spec:
        raise click.UsageError("no program runs on a simulated GPU; leave --gpu out, or name a real GPU.")
    words_of(options.commands)
    gpus = None if options.spec is None else [gpu.spec for gpu in named_gpus(options.spec)]
    with EnergyMonitor(gpus, sync=lambda: None) as monitor, progress_bar() as show:
        compared = compare_commands(
            options.commands, options.repeats, monitor, options.seed or 0, options.warm_up, show=show
        )
    return print_comparison(compared, as_json=options.as_json)
