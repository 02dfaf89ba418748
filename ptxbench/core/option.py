"""What a command or a public function takes, said once: type, default, help and bounds of each option.

A frozen dataclass has a field for each, such as

    precision: Annotated[float | None, Opt(1e-5, 1)] = None

What the option does, its help, is what the docstring of the dataclass says of the field.

`ptxbench.cli.command` makes the command line from it, `takes` the signature of a public function, `words_of`
the words that give a command these very options.
"""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, partial, wraps
from types import UnionType
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin

from ptxbench.core.bounds import one_of, whole_within, within
from ptxbench.core.errors import ArgumentError

P = ParamSpec("P")
Options = TypeVar("Options")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Opt:
    """What is said of an option beside its name, type and default.

    Attributes:
        low: Least value of a number.
        high: Greatest value.
        above: Whether the number must be greater than `low`.
        help: What it does; "": as the dataclass documents it.
        choices: The words that are taken; none: any.
        flag: The option of the command line; "": as the field is called.
        metavar: What stands for its value in the help.
        kind: How the command line reads it, a type of click; None: by the type of the field. Its method
            `word`, where it has one, returns the word of a value.
        former: Names that it had before, which still work.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    help: str = ""
    choices: Sequence[str] = ()
    flag: str = ""
    metavar: str | None = None
    kind: Any = None
    former: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arg:
    """What a command takes by its place.

    Attributes:
        metavar: What stands for it in the usage line.
        kind: As in `Opt`.
        help: What it may be: the last paragraph of the help.
    """

    metavar: str | None = None
    kind: Any = None
    help: str = ""


@dataclass(frozen=True)
class Named:
    """A field of a dataclass of options.

    Attributes:
        name: Of the field.
        help: What it does.
        said: Its `Opt` or `Arg`.
        hint: Its type, as it is annotated.
        type: Type of one value, without None.
        many: Whether the option may be repeated.
        default: Value where none is given; `dataclasses.MISSING` where it must be.
    """

    name: str
    help: str
    said: Opt | Arg
    hint: Any
    type: Any
    many: bool
    default: Any

    @property
    def flag(self) -> str:
        """The option of the command line."""
        own = self.said.flag if isinstance(self.said, Opt) else ""
        return own or f"--{self.name.replace('_', '-')}"

    @property
    def former(self) -> tuple[str, ...]:
        """Its former names."""
        return self.said.former if isinstance(self.said, Opt) else ()

    @property
    def is_required(self) -> bool:
        """Whether a value must be given."""
        return self.default is MISSING


def named_options(options: Any) -> tuple[Named, ...]:
    """Return what the fields of a dataclass of options are, in order."""
    return _named_options(options)


@cache
def _named_options(options: Any) -> tuple[Named, ...]:
    hints: dict[str, Any] = {}
    helps: dict[str, str] = {}
    for base in reversed(options.__mro__[:-1]):
        hints |= inspect.get_annotations(base, eval_str=True)
        helps |= _documented(base.__doc__ or "")
    found = []
    for field in fields(options):
        hint, *others = _parts(hints[field.name])
        said = next((one for one in others if isinstance(one, Opt | Arg)), Opt())
        text = said.help or helps.get(field.name, "")
        found.append(Named(field.name, text, said, hint, *_one(hint), field.default))
    return tuple(found)


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return a type and what is said of it."""
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


def _documented(text: str) -> dict[str, str]:
    """Return what a docstring says of each attribute."""
    _, _, section = inspect.cleandoc(text).partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in entries}


def _one(hint: Any) -> tuple[Any, bool]:
    """Return the type of one value, of a union the first, and whether the option may be repeated."""
    if get_origin(hint) in (Union, UnionType):
        first = next(one for one in get_args(hint) if one is not type(None))
        return first, get_origin(first) is Mapping
    if get_origin(hint) is tuple:
        return get_args(hint)[0], True
    return hint, get_origin(hint) is Mapping


def words_of(options: object) -> list[str]:
    """Return the words of a command line that give a command these options, without those of the default.

    Arguments stand at the end behind --, so that none is taken for an option.
    """
    words: list[str] = []
    arguments: list[str] = []
    for one in named_options(type(options)):
        value = getattr(options, one.name)
        if isinstance(one.said, Arg):
            arguments += _words(one, value)
        elif value is True:
            words.append(one.flag)
        elif value != one.default:
            words += [f"{one.flag}={word}" for word in _words(one, value)]
    return [*words, *(["--", *arguments] if arguments else [])]


def _words(one: Named, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [f"{name}={part}" for name, part in value.items()]
    word = getattr(one.said.kind, "word", _word)
    return [word(single) for single in value] if one.many else [word(value)]


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def check(options: object) -> None:
    """Refuse values out of their bounds.

    Raises:
        ArgumentError: A value is; it names the field.
    """
    for one in named_options(type(options)):
        _check_all(one, getattr(options, one.name))


def _check_all(one: Named, value: Any) -> None:
    if isinstance(one.said, Opt):
        for single in value if isinstance(value, tuple) else (value,):
            if single is not None:
                _check(one.name, single, one.said, one.type)


def _check(name: str, value: Any, said: Opt, kind: Any) -> None:
    if said.choices:
        one_of(name, value, said.choices)
        return
    # A word, where it may be a number or a word; sizes by dimension, which the function multiplies.
    is_other = isinstance(value, str) if kind is str else isinstance(value, tuple | list)
    if math.isfinite(said.low) and not is_other:
        number: Any = whole_within if kind is int else partial(within, above=said.above)
        number(name, value, said.low, said.high)


def takes(options: Callable[P, Options]) -> Callable[[Callable[[Options], Result]], Callable[P, Result]]:
    """Return the decorator of a function that takes a dataclass of options: its callers give the fields.

    The values are checked, former names are taken with a warning, and the fields are added to the docstring.
    """
    assert isinstance(options, type)  # noqa: S101
    known = named_options(options)
    now = {old: one.name for one in known for old in one.former}

    def decorate(function: Callable[[Options], Result]) -> Callable[P, Result]:
        @wraps(function)
        def wrapped(*args: P.args, **given: P.kwargs) -> Result:
            for old in now.keys() & given.keys():
                warnings.warn(f"{old} is now called {now[old]}", FutureWarning, stacklevel=2)
                if now[old] in given:
                    raise ArgumentError(old, f"is now called {now[old]}; give that alone")
                given[now[old]] = given.pop(old)
            try:
                made = options(*args, **given)
            except TypeError as error:
                text = str(error).replace(f"{options.__name__}.__init__()", f"{function.__name__}()")
                raise TypeError(text) from None
            check(made)
            return function(made)

        wrapped.__signature__ = _signature(options, known, function)  # type: ignore[attr-defined]
        wrapped.__doc__ = _with_arguments(inspect.getdoc(function) or "", known)
        return wrapped

    return decorate


def checked(function: Callable[P, Result]) -> Callable[P, Result]:
    """Return a function that refuses arguments out of the bounds of the `Opt` that they are annotated with.

    It is for what no dataclass can take, any number of arguments by place. The options are added to the
    docstring.
    """
    signature = inspect.signature(function, eval_str=True)
    known = {}
    for name, parameter in signature.parameters.items():
        hint, *others = _parts(parameter.annotation)
        for said in others:
            known[name] = Named(name, said.help, said, hint, *_one(hint), parameter.default)

    @wraps(function)
    def wrapped(*args: P.args, **given: P.kwargs) -> Result:
        for name, value in signature.bind(*args, **given).arguments.items():
            if name in known:
                _check_all(known[name], value)
        return function(*args, **given)

    plain = [
        one.replace(annotation=known[name].hint if name in known else one.annotation)
        for name, one in signature.parameters.items()
    ]
    wrapped.__signature__ = signature.replace(parameters=plain)  # type: ignore[attr-defined]
    wrapped.__doc__ = _with_arguments(inspect.getdoc(function) or "", list(known.values()))
    return wrapped


def _signature(
    options: Callable[..., Any], known: Sequence[Named], function: Callable[..., Any]
) -> inspect.Signature:
    """Return the signature of a function that takes the fields."""
    hints = {one.name: getattr(one.hint, "__forward_arg__", one.hint) for one in known}
    own = inspect.signature(options).parameters.values()
    return inspect.Signature(
        [one.replace(annotation=hints[one.name]) for one in own],
        return_annotation=inspect.signature(function).return_annotation,
    )


def _with_arguments(text: str, known: Sequence[Named]) -> str:
    """Add the arguments to a docstring, before what it says of results and errors."""
    flags = {one.flag: one.name for one in known}
    lines = []
    for one in known:
        said = re.sub(r"--[a-z][a-z-]*", lambda found: flags.get(found[0], found[0]), one.help)
        lines.append(f"    {one.name}: {said}")
    place = re.search(r"^(Returns|Raises):$", text, re.MULTILINE)
    end = place.start() if place else len(text)
    head = text[:end].rstrip() + ("" if "\nArgs:\n" in text else "\n\nArgs:")
    return "\n".join([head, *lines, "", text[end:]])
