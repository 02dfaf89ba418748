"""Commands made from dataclasses of options (`ptxbench.core.option`), which their functions receive."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ptxbench.cli.parameters import BY_METAVAR, PAIRS, Number, one_of_each
from ptxbench.core.errors import ArgumentError
from ptxbench.core.option import Arg, Named, Opt, check, named_options

Options = TypeVar("Options")


def command_of(
    options: type[Options], name: str, group: click.Group | None = None, **settings: Any
) -> Callable[[Callable[[Options], Any]], click.Command]:
    """Return the decorator that makes a command of a function of one dataclass of options.

    Args:
        options: The dataclass.
        name: Name of the command.
        group: What it is a command of; None: of ptxbench.
        settings: Further ones of click.
    """
    known = named_options(options)

    def decorate(function: Callable[[Options], Any]) -> click.Command:
        def callback(**given: Any) -> Any:
            for one in known:
                _take_former(one, given)
            try:
                made = options(**given)
                check(made)
                return function(made)
            except ArgumentError as error:
                raise _of_flags(error, known) from error

        parameters = [made for one in known for made in (_parameter(one), *_former(one))]
        texts = (inspect.getdoc(function), *(one.said.help for one in known if isinstance(one.said, Arg)))
        found = click.Command(
            name, callback=callback, params=parameters, help="\n\n".join(filter(None, texts)), **settings
        )
        if group is not None:
            group.add_command(found)
        return found

    return decorate


def _of_flags(error: ArgumentError, known: Sequence[Named]) -> ArgumentError:
    """Return an error that speaks of options where it spoke of arguments."""
    flags = {one.name: one.flag for one in known if isinstance(one.said, Opt)}
    text = re.sub(r"`(\w+)`", lambda found: flags.get(found[1], found[0]), error.text)
    return ArgumentError(flags.get(error.argument, error.argument), text)


def _parameter(one: Named) -> click.Parameter:
    said = one.said
    # Where None is given, click takes an argument to have a default.
    default = {} if one.is_required or one.default in (None, (), {}) else {"default": one.default}
    if isinstance(said, Arg):
        return click.Argument(
            [one.name],
            type=_type(one),
            nargs=-1 if one.many else 1,
            required=one.is_required,
            metavar=said.metavar,
            **default,
        )
    if one.type is bool:
        return click.Option([one.flag, one.name], is_flag=True, help=one.help)
    return click.Option(
        [one.flag, one.name],
        type=_type(one),
        multiple=one.many,
        required=one.is_required,
        show_default=one.default != "" and "default" not in one.help,
        metavar=said.metavar,
        callback=one_of_each if said.metavar in PAIRS else None,
        help=one.help,
        **default,
    )


def _type(one: Named) -> Any:
    """Return the type of click that reads one value."""
    said = one.said
    if said.kind is not None:
        return said.kind
    if isinstance(said, Opt):
        if said.choices:
            return click.Choice(said.choices)
        if said.metavar in BY_METAVAR:
            return BY_METAVAR[said.metavar]
        if one.type is int and math.isfinite(said.low):
            return click.IntRange(int(said.low), int(said.high))
        if one.type is float:
            return Number(said.low, said.high, above=said.above)
    return click.Path(path_type=Path) if issubclass(one.type, Path) else one.type


def _former(one: Named) -> list[click.Option]:
    """Return the hidden options that an option was before."""
    return [
        click.Option(
            [f"--{old}", _hidden(old)], type=_type(one), multiple=one.many, hidden=True, help=one.help
        )
        for old in one.former
    ]


def _hidden(old: str) -> str:
    return f"former_{old}"


def _take_former(one: Named, given: dict[str, Any]) -> None:
    """Take the value of a former option as that of the present one, and say what it is called now.

    Raises:
        UsageError: Both are given.
    """
    for old in one.former:
        value = given.pop(_hidden(old))
        if value in (None, ()):
            continue
        now = f"--{old} is now called {one.flag}"
        if given[one.name] not in (one.default, ()):
            raise click.UsageError(f"{now}; give {one.flag} alone.")
        click.echo(f"ptxbench: {now}", err=True)
        given[one.name] = value
