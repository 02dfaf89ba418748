"""`ptxbench clocks`: clocks and power limit of a GPU, shown, set for one command, and restored."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.clocks_ridge import ridge
from ptxbench.cli.command import command_of
from ptxbench.cli.options import AllowSettings, JsonOptions
from ptxbench.cli.output import print_json, print_table, say
from ptxbench.core.exit_code import NOT_FOUND, shell_code
from ptxbench.core.gpu_settings import CLOCKS_MHZ, GpuSettings, SettingChoices
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json
from ptxbench.storage.codec import encode

if TYPE_CHECKING:
    from ptxbench.sensors.nvml import SettableDevice


@click.group(name="clocks")
def command() -> None:
    """Find the clock of least energy; show, set and restore clocks and power limit.

    A GPU is set only by `run --allow-settings`, and restored when that command ends in any way. If
    ptxbench itself is killed, its next start on that GPU restores it, or `restore` does.
    """


@command_of(JsonOptions, "show", group=command, short_help="Show what is set and what can be set.")
def show(options: JsonOptions) -> None:
    """Show what is set on every GPU, what can be set, and whether a killed command left it set."""
    from ptxbench.storage.settings_journal import SettingsJournal

    documents, rows = [], []
    for device in _every_device():
        now, choices = device.settings(), device.choices()
        note = SettingsJournal(device.uuid_hash).read()
        documents.append(
            {
                "gpu": device.index,
                "name": device.name,
                "settings": encode(now),
                "choices": encode(choices),
                "set_by_ptxbench": encode(note),
            }
        )
        rows.append(
            (
                str(device.index),
                device.name,
                str(now),
                _clocks(choices),
                _limits(choices),
                "no" if note is None else str(note.during),
            )
        )
    if options.as_json:
        print_json({"gpus": documents})
    else:
        print_table(("gpu", "name", "set now", "SM clocks", "power limits", "set by ptxbench"), rows)


@command_of(JsonOptions, "restore", group=command, short_help="Restore what a killed command left set.")
def restore(options: JsonOptions) -> None:
    """Restore what a killed `ptxbench clocks run` left set, on every GPU."""
    from ptxbench.devices.settings import restore_leftover

    said: list[str] = []
    for device in _every_device():
        restore_leftover(device, said.append)
    if options.as_json:
        print_json({"restored": said})
    else:
        click.echo("\n".join(said) or "nothing to restore")


@dataclass(frozen=True, kw_only=True)
class _RunOptions:
    """Options of `ptxbench clocks run`.

    Attributes:
        board: The GPU: index or UUID (default: 0).
        sm_clock_mhz: SM clock to set, MHz.
        memory_clock_mhz: Memory clock to set, MHz.
        limit_w: Power limit to set, W.
    """

    board: Annotated[str, Opt(metavar="GPU", flag="--gpu", former=("board",))] = "0"
    sm_clock_mhz: Annotated[int | None, Opt(*CLOCKS_MHZ)] = None
    memory_clock_mhz: Annotated[int | None, Opt(*CLOCKS_MHZ)] = None
    limit_w: Annotated[float | None, Opt(1, 1e5)] = None
    allow_settings: AllowSettings = False
    as_json: Json = False
    words: Annotated[tuple[str, ...], Arg(kind=click.UNPROCESSED)]


@command_of(
    _RunOptions,
    "run",
    group=command,
    short_help="Run a command at other settings.",
    context_settings={"allow_interspersed_args": False},
)
def run(options: _RunOptions) -> int:
    """Run the command WORDS while the GPU is set, then restore what was set before.

    This changes the GPU for everyone who uses it, so it needs --allow-settings and permission (root). It
    refuses with exit code 3, and changes nothing, if another process is on the GPU or NVML refuses. Else
    the exit code is that of the command. --json prints the settings and the exit code at the end.
    """
    from ptxbench.devices.settings import applied

    wanted = GpuSettings(
        options.sm_clock_mhz,
        options.memory_clock_mhz,
        None if options.limit_w is None else round(1000 * options.limit_w),
    )
    with _opened(options.board) as device, applied(device, wanted, say, allowed=options.allow_settings):
        code = _exit_code(options.words)
    if options.as_json:
        print_json({"set": encode(wanted), "exit_code": code})
    return code


def _exit_code(words: Sequence[str]) -> int:
    """Run a command; it ends when an exception ends this function."""
    try:
        process = subprocess.Popen(words)
    except OSError as error:
        say(f"cannot run {words[0]}: {error.strerror}")
        return NOT_FOUND
    try:
        return shell_code(process.wait())
    except BaseException:
        process.terminate()
        process.wait()
        raise


def open_device(which: int | str) -> SettableDevice:
    """Open one GPU by its index or UUID."""
    from ptxbench.sensors.nvml import SettableDevice

    return SettableDevice(which)


@contextmanager
def _opened(board: str) -> Iterator[SettableDevice]:
    if not board.isdecimal() and not board.startswith("GPU-"):
        raise click.UsageError(f"--gpu {board!r} is no index or UUID of a GPU.")
    device = open_device(int(board) if board.isdecimal() else board)
    try:
        yield device
    finally:
        device.close()


def _every_device() -> Iterator[SettableDevice]:
    from ptxbench.devices.visible import Machine

    machine = Machine()
    # A board in MIG mode has settings too.
    answering = [board.uuid for board in machine.boards if board.uuid]
    machine.say_left_out(answering)
    for uuid in answering:
        with _opened(uuid) as device:
            yield device


def _clocks(choices: SettingChoices) -> str:
    if not choices.clocks:
        return "cannot be set"
    clocks = choices.clocks[-1].sm_clocks_mhz
    return f"{len(clocks)} from {clocks[0]} to {clocks[-1]} MHz"


def _limits(choices: SettingChoices) -> str:
    if choices.power_limits_mw is None:
        return "cannot be set"
    low, high = choices.power_limits_mw
    return f"{low / 1000:g} to {high / 1000:g} W"


command.add_command(ridge)
