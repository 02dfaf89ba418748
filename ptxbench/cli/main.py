"""The `ptxbench` command: every expected error becomes one line and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from signal import SIGINT, SIGPIPE
from typing import TYPE_CHECKING, Any

import click

from ptxbench.catalogue.own_files import own_instructions
from ptxbench.cli.terminal import harmless_streams
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Help is printed from here, so that it loads no subcommand.
_GROUPS = {
    "Look up": {
        "cost": "Look up what an instruction costs, and list them all.",
        "show": "Print an instruction's PTX, its SASS and the loop check.",
        "verify": "Check the loops of the whole catalogue, without a GPU.",
        "report": "Print or draw tables of runs, opcodes or boards.",
        "diff": "Compare the tables of two or more runs.",
    },
    "Measure a GPU": {
        "gpus": "List the GPUs of this machine and the simulated ones.",
        "doctor": "Find out what can be measured here, and how sensors behave.",
        "table": "Measure the energy of instructions, on one GPU or many.",
        "pack": "Write a finished table as one file to hand on.",
        "roofline": "Find what a flop, a byte and a second cost.",
    },
    "Kernels and programs": {
        "run": "Measure the energy of any program, by kernel.",
        "bench": "Measure a call of a function, and compare it with another.",
        "compare": "Run commands in random order, and say which takes less energy.",
        "estimate": "Estimate the energy of a kernel from a measured table.",
        "calibrate": "Measure the terms of an estimate on this GPU, in 5 minutes.",
        "occupancy": "Show how full a kernel makes an SM, by block size.",
    },
    "Tune": {
        "tune": "Find the variant of a kernel that takes the least energy or time.",
    },
    "Clocks": {
        "clocks": "Find the clock of least energy; show and set the clocks.",
    },
    "Meters and files": {
        "meter": "Check recorded power readings against an external meter.",
        "audit": "Say which numbers of other tools are right, and why not.",
    },
}
_SUBCOMMANDS = {name: text for commands in _GROUPS.values() for name, text in commands.items()}
# What a command was called up to 0.2: it works for one more release.
_FORMER: dict[tuple[str, ...], tuple[str, ...]] = {
    ("list",): ("cost", "--list"),
    ("solve",): ("report", "--opcodes"),
    ("fleet",): ("table",),
    ("fleet", "run"): ("table", "--cluster", "local"),
    ("fleet", "report"): ("report", "--boards"),
    ("sensor",): ("doctor", "sensor"),
    ("methods",): ("doctor", "methods"),
    ("tune", "strategies"): ("tune", "study", "strategies"),
    ("tune", "difficulty"): ("tune", "study", "difficulty"),
    ("ridge",): ("clocks", "ridge"),
    ("settings",): ("clocks",),
    ("burst",): ("meter", "sync"),
    ("validate",): ("meter", "validate"),
}

# textwrap does not break here.
_HYPHEN = "\N{NON-BREAKING HYPHEN}"
# As of a shell (`core.exit_code`, which --help need not load).
_INTERRUPTED, _READER_GONE = 128 + SIGINT, 128 + SIGPIPE
# Packages that extras of pyproject.toml have, and no message of their own is about.
_OPTIONAL = ("scipy", "pandas")


class _ReaderGoneError(Exception):
    """The reader of our output has closed it, as `head` does; click would call that a failure."""


@contextmanager
def _noticing_readers() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGoneError from error


class _HelpFormatter(click.HelpFormatter):
    """Help that is not wrapped at the hyphens of options."""

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write a list of names and texts."""
        super().write_dl([(name, text.replace("-", _HYPHEN)) for name, text in rows], col_max, col_spacing)

    def write(self, string: str) -> None:
        """Write text that is wrapped."""
        super().write(string.replace(_HYPHEN, "-"))


click.Context.formatter_class = _HelpFormatter


class _LazyGroup(click.Group):
    """Subcommands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help."""
        return list(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one subcommand."""
        if cmd_name not in _SUBCOMMANDS:
            return None
        command = import_module(f"ptxbench.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand that the words name; where it is near to one, the message names that."""
        if args and args[0] not in _SUBCOMMANDS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], _SUBCOMMANDS, n=1, cutoff=0.7)
            if near:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the subcommands and options that begin so; this imports none of them."""
        from click.shell_completion import CompletionItem

        commands = (CompletionItem(name, help=text) for name, text in _SUBCOMMANDS.items())
        found = [one for one in commands if one.value.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the subcommands and their one-line helps, by what they are for."""
        width = max(map(len, _SUBCOMMANDS))
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line; this prints the help."""
        with _noticing_readers():
            words = args if extra.get("resilient_parsing") else _present(args)
            return super().make_context(info_name, words, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand."""
        with _noticing_readers():
            return super().invoke(ctx)


def _present(words: list[str]) -> list[str]:
    """Return a command line in which a former command has its present name, and say that one."""
    for count in (2, 1):
        now = _FORMER.get(tuple(words[:count]))
        if now:
            click.echo(
                f"ptxbench: `ptxbench {' '.join(words[:count])}` is now `ptxbench {' '.join(now)}`", err=True
            )
            rest = words[count:]
            # Options of `table` stood behind --.
            if now[:2] == ("table", "--cluster") and "--" in rest:
                rest.remove("--")
            return [*now, *rest]
    return words


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="ptxbench")
@click.option(
    "--help-json", is_flag=True, help="Print all commands, options, types and exit codes as JSON, and exit."
)
@click.pass_context
def group(context: click.Context, help_json: bool) -> None:
    """Measure what every PTX instruction costs in energy on an NVIDIA GPU.

    Exit codes: 0 done; 1 done, but some rows are not valid or a limit was passed; 2 bad usage or
    input; 3 no GPU, driver or permission; 130 stopped by Ctrl-C; 141 the reader of a pipe ended
    (as `head` does).
    """
    if help_json:
        from ptxbench.cli.described import described
        from ptxbench.cli.output import print_json

        print_json(described(group))
        context.exit()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command line and exit."""
    _buffer_output()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command line.

    Args:
        arguments: The words after "ptxbench".

    Returns:
        The exit code.
    """
    _open_missing_streams()
    with harmless_streams(), own_instructions():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        code = group.main(list(arguments), prog_name="ptxbench", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as stop:
        return _as_code(stop.code)
    except click.ClickException as error:
        # Of click 8.2 and later: its message is the help, which has lines of its own.
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            click.echo(error.format_message(), err=True)
            return error.exit_code
        return _fail(_usage_text(error), error.exit_code)
    except PtxbenchError as error:
        return _fail(str(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", _INTERRUPTED, label="")
    except (_ReaderGoneError, BrokenPipeError):
        return _drop_output()
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _OPTIONAL:
            raise
        return _fail(f"this needs {name}, which a plain installation lacks; run {_pip_install(name)}", 2)
    except OSError as error:
        return _fail_on_file(error)
    return _as_code(code)


def _pip_install(name: str) -> str:
    return f"'{sys.executable} -m pip install {name}'"


def _buffer_output() -> None:
    """Buffer an unbuffered output (PYTHONUNBUFFERED), where Python loses the end of a short write."""
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.FileIO):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=sys.stdout.encoding, write_through=True
        )


def _open_missing_streams() -> None:
    """Send output nowhere where the shell closed it (`>&-`), lest a file takes its place."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_WRONLY)
            if null != descriptor:
                os.dup2(null, descriptor)
            setattr(sys, name, open(descriptor, "w", closefd=False, encoding="utf-8"))  # noqa: SIM115


def _fail_on_file(error: OSError) -> int:
    """Say which file an error of the system is about; one without a name is about the output."""
    cause = error.strerror or str(error)
    if error.filename is not None:
        return _fail(f"cannot use {os.fsdecode(error.filename)}: {cause}", 2)
    if error.errno == errno.ENOENT and _working_folder_is_gone():
        return _fail("the working directory was deleted; change to a folder that exists", 2)
    _send_output_nowhere()
    return _fail(f"cannot write the standard output: {cause}", 2)


def _working_folder_is_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _as_code(value: object) -> int:
    """Return what a command returned as an exit code; most return nothing."""
    return value if isinstance(value, int) else 0


def _usage_text(error: click.ClickException) -> str:
    text = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{text} Try '{context.command_path} --help'." if context else text


def _fail(text: str, code: int, label: str = "error: ") -> int:
    """Print one line, whatever the text."""
    click.echo(f"ptxbench: {label}{' '.join(text.split())}", err=True)
    return code


def _drop_output() -> int:
    _send_output_nowhere()
    return _READER_GONE


def _send_output_nowhere() -> None:
    """Drop what is still buffered, so that the interpreter does not complain at its end."""
    # A caller in the same process, such as a test, may have put something else in the place of the file.
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
