"""The command line as data: each command with its arguments and options, for programs and for the site."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

import click

from ptxbench.core.version import VERSION

# What an exit code says, for every command.
EXIT_CODES = {
    0: "done",
    1: "done, but some rows are not valid, a limit was passed, or nothing was comparable",
    2: "bad usage or input",
    3: "no GPU, driver or permission",
    130: "stopped by Ctrl-C; what was measured is kept",
    141: "the reader of a pipe ended",
}
_TYPES: dict[type[click.ParamType[Any]], str] = {
    click.IntRange: "integer",
    click.FloatRange: "number",
    click.Choice: "choice",
    click.Path: "path",
}
_PLAIN = {"text": "string", "integer": "integer", "float": "number", "boolean": "boolean"}


def described(group: click.Group) -> dict[str, Any]:
    """Return all commands with their arguments and options, for JSON.

    Args:
        group: The whole command line.

    Returns:
        `program`, `version`, `exit_codes` by code, and `commands`: each with `name`, `summary`, `help`,
        `usage`, `arguments` and `options`. Of an option: `flags`, `type`, `choices`, `low` and `high` (the
        bounds of a number), `default`, `required`, `multiple`, `metavar` and `help`; what does not apply is
        missing. What is hidden, and the --help of each command, is left out.
    """
    return {
        "program": "ptxbench",
        "version": VERSION,
        "exit_codes": {str(code): text for code, text in EXIT_CODES.items()},
        "commands": list(_commands(group, click.Context(group, info_name="ptxbench"))),
    }


def _commands(command: click.Command, context: click.Context) -> Iterator[dict[str, Any]]:
    own = command.params if context.parent else command.get_params(context)
    parameters = [one for one in own if not getattr(one, "hidden", False)]
    yield {
        "name": context.command_path,
        "summary": command.get_short_help_str(limit=200),
        "help": _paragraphs(command.help or ""),
        "usage": " ".join((context.command_path, *command.collect_usage_pieces(context))),
        "arguments": [_argument(one, context) for one in parameters if isinstance(one, click.Argument)],
        "options": [_option(one, context) for one in parameters if isinstance(one, click.Option)],
    }
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands(found, click.Context(found, info_name=name, parent=context))


def _argument(one: click.Argument, context: click.Context) -> dict[str, Any]:
    return {
        "name": one.make_metavar(context).strip("[]."),
        "required": one.required,
        "multiple": one.nargs != 1,
        **_type(one.type),
    }


def _option(one: click.Option, context: click.Context) -> dict[str, Any]:
    found: dict[str, Any] = {"flags": [*one.opts, *one.secondary_opts], "help": _text(one.help or "")}
    if one.is_flag:
        return {**found, "type": "flag"}
    found |= {**_type(one.type), "metavar": one.make_metavar(context), "required": one.required}
    # Of click 8.4 and later an option without a default has a mark of its own.
    if isinstance(one.default, str | int | float) and one.default != "":
        found["default"] = one.default
    return {**found, "multiple": one.multiple or one.nargs != 1}


def _type(kind: click.ParamType[Any]) -> dict[str, Any]:
    named = next((name for cls, name in _TYPES.items() if isinstance(kind, cls)), None)
    found: dict[str, Any] = {"type": named or _PLAIN.get(kind.name, "string")}
    if isinstance(kind, click.Choice):
        found["choices"] = [str(choice) for choice in kind.choices]
    if isinstance(kind, click.IntRange | click.FloatRange):
        found |= {"low": kind.min, "high": kind.max}
    return {key: value for key, value in found.items() if not _is_nothing(value)}


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _paragraphs(text: str) -> str:
    """Return a help with one line a paragraph; lines after a backspace keep their own."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(b[1:].strip("\n") if b.startswith("\b") else _text(b) for b in blocks)


def _text(text: str) -> str:
    return " ".join(text.split())
