"""The stopping criteria: one file each, found by being in this folder.

A file defines `CRITERION`, a `ptxbench.experiment.criterion.StoppingCriterion`; its name is the file's.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from ptxbench.core.errors import InputError

if TYPE_CHECKING:
    from ptxbench.experiment.criterion import StoppingCriterion
    from ptxbench.storage.manifest import RunArguments


def criterion_names() -> tuple[str, ...]:
    """Return the names of all stopping criteria; nothing is imported."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def criterion_for(arguments: RunArguments) -> StoppingCriterion:
    """Return the stopping criterion that a run's arguments name.

    Raises:
        InputError: There is none of that name.
    """
    from ptxbench.experiment.criterion import StoppingCriterion

    names = criterion_names()
    if arguments.stop_on not in names:
        known = ", ".join(names)
        raise InputError(f"unknown stopping criterion {arguments.stop_on!r}; known: {known}")
    criterion = import_module(f"{__name__}.{arguments.stop_on}").CRITERION.from_arguments(arguments)
    assert isinstance(criterion, StoppingCriterion)  # noqa: S101
    return criterion
