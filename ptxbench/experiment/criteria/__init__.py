"""The stopping criteria: one file each, found by being in this folder.

A file defines `CRITERION`, a `ptxbench.experiment.criterion.StoppingCriterion`; its name is the file's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxbench.core.plugins import load_plugin, plugin_names

if TYPE_CHECKING:
    from ptxbench.experiment.criterion import StoppingCriterion
    from ptxbench.storage.manifest import RunArguments


def criterion_names() -> tuple[str, ...]:
    """Return the names of all stopping criteria; nothing is imported."""
    return plugin_names(__path__)


def criterion_for(arguments: RunArguments) -> StoppingCriterion:
    """Return the stopping criterion that a run's arguments name.

    Raises:
        InputError: There is none of that name.
    """
    from ptxbench.experiment.criterion import StoppingCriterion

    module = load_plugin(__name__, __path__, arguments.stop_on, "stopping criterion")
    criterion = module.CRITERION.from_arguments(arguments)
    assert isinstance(criterion, StoppingCriterion)  # noqa: S101
    return criterion
