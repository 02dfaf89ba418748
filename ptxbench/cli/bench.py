"""`ptxbench bench`: what a call of a function takes, and whether it takes less energy than another."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from ptxbench.api.call_options import Budget, MaxDifference
from ptxbench.cli.command import command_of
from ptxbench.cli.output import print_json, print_table, say
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import L2, WARM, Json, Seed

if TYPE_CHECKING:
    from ptxbench.experiment.calls.result import Comparison

_HEADINGS = ("", "energy (95%)", "power", "time", "clock", "counted")
# What a file may call the function that makes the arguments.
_INPUTS = ("inputs", "get_inputs")


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench bench`.

    Attributes:
        against: Another kernel to set beside it: a function that must compute the same.
        check: End with 1 where the results cannot be compared; else that is a note.
    """

    function: Annotated[str, Arg(metavar="FILE.py::FUNCTION")]
    against: Annotated[str | None, Opt(metavar="FILE.py::FUNCTION")] = None
    budget: Budget = 10.0
    check: bool = False
    l2: L2 = WARM
    max_difference: MaxDifference = None
    seed: Seed = 0
    as_json: Json = False


@command_of(_Options, "bench")
def command(options: _Options) -> int:
    """Measure energy, power, time and clock of a call of a Python function, with 95% intervals.

    FILE.py is run, and FUNCTION of it is called again and again, in this process: by PyTorch, Triton, CuPy or
    anything else that launches in the default stream. If it takes arguments, FILE.py must have a function
    `inputs(seed)` or `get_inputs()` that returns them.

    With --against both are called in rounds, in random order. Their results are compared on fresh inputs
    first. The verdict is whether FUNCTION takes less energy: yes, no, or undecided at 95%; refused where the
    SM clock moved. The exit code is 1 if it takes more energy, or if its results are wrong.
    """
    from ptxbench.api.benching import bench, compare

    given = {"--check": options.check, "--max-difference": options.max_difference is not None}
    comparing = next((name for name, is_given in given.items() if is_given), "")
    if comparing and options.against is None:
        raise click.UsageError(
            f"{comparing} compares results with those of --against FILE.py::FUNCTION; give it."
        )
    function, inputs = _loaded(options.function)
    seed = options.seed or 0
    if options.against is None:
        with _said_in_a_line(options.function):
            found = bench(function, budget=options.budget, inputs=inputs, l2=options.l2, seed=seed)
        if options.as_json:
            print_json({"gpu": found.gpu, "simulated": found.is_simulated, **found.document()})
        else:
            print_table(_HEADINGS, [found.cells()])
            for note in filter(None, (found.reason, *found.notes)):
                say(note)
        return int(bool(found.reason))
    reference, other_inputs = _loaded(options.against)
    with _said_in_a_line(f"{options.against} or {options.function}"):
        compared = compare(
            reference,
            function,
            budget=options.budget,
            inputs=inputs or other_inputs,
            check=options.check or None,
            max_difference=options.max_difference,
            names=(options.against, options.function),
            l2=options.l2,
            seed=seed,
        )
    return print_comparison(compared, as_json=options.as_json)


def print_comparison(compared: Comparison, *, as_json: bool) -> int:
    """Print a comparison and return the exit code: 1 where one takes more energy, or is wrong."""
    if as_json:
        print_json(compared.document())
    else:
        print_table(_HEADINGS, [one.cells() for one in compared.benches])
        for other in compared.others:
            click.echo(str(other))
        for note in compared.notes:
            say(note)
    return int(compared.takes_more)


def _loaded(named: str) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Return a function of a file, and what makes its arguments where it takes any.

    Raises:
        InputError: There is no such file or function, or running the file failed.
    """
    from ptxbench.experiment.calls.outputs import takes_one

    path, _, name = named.rpartition("::")
    if not path or not name.isidentifier():
        raise InputError(f"{named!r} must be FILE.py::FUNCTION")
    module = _module(Path(path))
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{path} has no function {name!r}")
    if not takes_one(function):
        return function, None
    inputs = next((found for own in _INPUTS if callable(found := getattr(module, own, None))), None)
    if inputs is None:
        raise InputError(f"{named} takes arguments, which a function inputs(seed) of {path} must return")
    return function, inputs


def _module(path: Path) -> Any:
    """Run a file once, and return what it defines."""
    if not path.is_file():
        raise InputError(f"{path} is no file; name the one that has the function, as FILE.py::FUNCTION")
    name = f"ptxbench_benched_{path.resolve().as_posix().encode().hex()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # As where Python runs the file: its functions may import what is beside it when they are called.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with _said_in_a_line(str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _said_in_a_line(what: str) -> Iterator[None]:
    """Say in a line what failed in code of the user, with file and line."""
    try:
        yield
    except PtxbenchError:
        raise
    # Code that ends the program with 0 would be taken for a check that went well.
    except (Exception, SystemExit) as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        file, line, cause = at.filename, at.lineno, str(error)
        if isinstance(error, SyntaxError):
            file, line, cause = error.filename or file, error.lineno or line, error.msg
        cause = f"{type(error).__name__}: {cause}".rstrip(": ")
        raise InputError(f"{what} failed at {file}:{line}: {cause}") from error
