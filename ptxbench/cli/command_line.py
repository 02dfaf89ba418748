"""A command line made again from what was read of it, for a process that does a part of the work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click


def words_of(context: click.Context, leave_out: Collection[str], own: Sequence[str]) -> list[str]:
    """Return the words after "ptxbench" of a command line, with what was given to it.

    Args:
        context: The command, as it was called.
        leave_out: Names of the parameters that are left out.
        own: Options that are added.
    """
    words = context.command_path.split()[1:]
    given: Mapping[str, Any] = context.params
    arguments: list[str] = []
    for parameter in context.command.params:
        value = given.get(str(parameter.name))
        if parameter.name in leave_out or value in (None, False, ()):
            continue
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(parameter, click.Argument):
            arguments += [str(one) for one in values]
        elif isinstance(parameter, click.Option):
            name = parameter.opts[0]
            words += [name] if value is True else [f"{name}={one}" for one in values if one != ""]
    return [*words, *own, *(["--", *arguments] if arguments else [])]
