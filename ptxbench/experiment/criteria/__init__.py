"""Stopping criteria: when a row has been measured often enough.

To add one, write a file here with a class of three methods and list it in `CRITERIA`.
"""

from __future__ import annotations

from ptxbench.core.errors import InputError
from ptxbench.experiment.criteria.base import StoppingCriterion
from ptxbench.experiment.criteria.precision import Precision
from ptxbench.experiment.criteria.repeats import FixedRepeats
from ptxbench.storage.manifest import RunArguments

CRITERIA: dict[str, type[StoppingCriterion]] = {kind.name: kind for kind in (Precision, FixedRepeats)}


def criterion_for(arguments: RunArguments) -> StoppingCriterion:
    """Return the stopping criterion that a run's arguments name.

    Raises:
        InputError: There is none of that name.
    """
    if arguments.stop_on not in CRITERIA:
        known = ", ".join(CRITERIA)
        raise InputError(f"unknown stopping criterion {arguments.stop_on!r}; known: {known}")
    return CRITERIA[arguments.stop_on].from_arguments(arguments)
