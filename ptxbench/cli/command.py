"""Commands made from dataclasses of options (`ptxbench.core.option`), which their functions receive."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import click

from ptxbench.cli.completion import complete
from ptxbench.cli.parameters import BY_METAVAR, PAIRS, Duration, NamedPath, Number, Whole, one_of_each
from ptxbench.core.errors import ArgumentError, PtxbenchError
from ptxbench.core.option import Arg, Named, Opt, check, named_options
from ptxbench.core.shared_options import TIME

Options = TypeVar("Options")


class OptionsCommand(click.Command, Generic[Options]):
    """A command of a function of one dataclass of options.

    Args:
        name: Its name.
        options: The dataclass.
        function: What it does.
        settings: Further ones of click.

    Attributes:
        options: The dataclass.
    """

    def __init__(
        self, name: str, options: type[Options], function: Callable[[Options], Any], **settings: Any
    ) -> None:
        self.options = options
        self._known = named_options(options)
        self._function = function
        parameters = [made for one in self._known for made in (_parameter(one), *_former(one))]
        arguments = (one.said.help for one in self._known if isinstance(one.said, Arg))
        texts = filter(None, (inspect.getdoc(function), *arguments))
        super().__init__(name, params=parameters, help="\n\n".join(texts), **settings)

    def read(self, words: Sequence[str]) -> Options:
        """Return the options that the words behind the command's name give; nothing runs.

        Raises:
            UsageError: They do not parse.
            ArgumentError: A value is out of its bounds.
        """
        context = self.make_context(self.name, list(words))
        with context, self._speaking_of_flags():
            return self._made(context)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function with the options."""
        with ctx, self._speaking_of_flags():
            return self._function(self._made(ctx))

    def _made(self, context: click.Context) -> Options:
        given = dict(context.params)
        for one in self._known:
            _take_former(one, given)
        made = self.options(**given)
        check(made)
        return made

    @contextmanager
    def _speaking_of_flags(self) -> Iterator[None]:
        try:
            yield
        except PtxbenchError as error:
            error.args = (_of_flags(error, self._known),)
            raise


class OptionsGroup(OptionsCommand[Options], click.Group):
    """A command that has commands below it, and a function of its own for where none of them is named.

    Args:
        name: Its name.
        options: The dataclass.
        function: What it does.
        settings: Further ones of click.
    """

    def __init__(
        self, name: str, options: type[Options], function: Callable[[Options], Any], **settings: Any
    ) -> None:
        super().__init__(name, options, function, invoke_without_command=True, **settings)
        self.callback = self._alone

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command that is named, or else the function."""
        return click.Group.invoke(self, ctx)

    def _alone(self, **given: Any) -> Any:
        context = click.get_current_context()
        below = context.invoked_subcommand
        if below is None:
            return super().invoke(context)
        for name in given:
            if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                flag = next(one.flag for one in self._known if one.name == name)
                raise click.UsageError(f"give {flag} after {below!r}.")
        return None


def command_of(
    options: type[Options], name: str, group: click.Group | None = None, **settings: Any
) -> Callable[[Callable[[Options], Any]], OptionsCommand[Options]]:
    """Return the decorator that makes a command of a function of one dataclass of options.

    Args:
        options: The dataclass.
        name: Name of the command.
        group: What it is a command of; None: of ptxbench.
        settings: Further ones of click.
    """

    def decorate(function: Callable[[Options], Any]) -> OptionsCommand[Options]:
        found = OptionsCommand(name, options, function, **settings)
        if group is not None:
            group.add_command(found)
        return found

    return decorate


def group_of(
    options: type[Options], name: str
) -> Callable[[Callable[[Options], Any]], OptionsGroup[Options]]:
    """Return the decorator that makes a group of a function of one dataclass of options."""
    return lambda function: OptionsGroup(name, options, function)


def _of_flags(error: PtxbenchError, known: Sequence[Named]) -> str:
    """Return the text of an error, with options where it names arguments, by field or by flag."""
    flags, text = _flags(known), str(error)
    if isinstance(error, ArgumentError):
        text = f"{flags.get(error.argument, error.argument)} {error.text}"
    return _with_flags(text, flags)


def of_flags(text: str) -> str:
    """Return a text with options of the running command where it names arguments in backticks."""
    command = click.get_current_context().command
    return _with_flags(text, _flags(command._known)) if isinstance(command, OptionsCommand) else text


def _flags(known: Sequence[Named]) -> dict[str, str]:
    options = [one for one in known if isinstance(one.said, Opt)]
    flags = {one.flag[2:].replace("-", "_"): one.flag for one in options}
    return flags | {one.name: one.flag for one in options}


def _with_flags(text: str, flags: Mapping[str, str]) -> str:
    return re.sub(r"`(\w+)`", lambda found: flags.get(found[1], found[0]), text)


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
            shell_complete=complete(said.metavar),
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
        shell_complete=complete(said.metavar),
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
            return Whole(int(said.low), int(said.high))
        if one.type is float:
            of_number = Duration if said.metavar == TIME else Number
            return of_number(said.low, said.high, above=said.above)
    return NamedPath() if issubclass(one.type, Path) else one.type


def _former(one: Named) -> list[click.Option]:
    """Return the hidden options that an option was before."""
    how: dict[str, Any] = (
        {"is_flag": True} if one.type is bool else {"type": _type(one), "multiple": one.many}
    )
    return [click.Option([f"--{old}", _hidden(old)], hidden=True, help=one.help, **how) for old in one.former]


def _hidden(old: str) -> str:
    return f"former_{old}"


def _take_former(one: Named, given: dict[str, Any]) -> None:
    """Take the value of a former option as that of the present one, and say what it is called now.

    Raises:
        UsageError: Both are given.
    """
    for old in one.former:
        value = given.pop(_hidden(old))
        if value is None or value is False or value == ():
            continue
        now = f"--{old} is now called {one.flag}"
        if one.many and one.said.metavar not in PAIRS:
            value = (*value, *given[one.name])
        elif given[one.name] != one.default:
            raise click.UsageError(f"{now}; give {one.flag} alone.")
        click.echo(f"ptxbench: {now}", err=True)
        given[one.name] = value
